"""Batches of events to batches of events and closed windows: what stands between the gate and an engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.gate import EventBatch, Rejects, open_events
from mainstem.schema import EventSchema, Type
from mainstem.windows import keep
from mainstem.windows.merge import with_closed
from mainstem.windows.panes import Panes
from mainstem.windows.plain import PlainEvent, Result, closed_windows
from mainstem.windows.values import OwnEvents
from mainstem.windows.window import Closed, Window

WINDOWS = "windows"
"""Key of a commit's meta: what open windows need to know of the events so far (`Operators.kept`)."""


def open_windowed(
    events: Any, inputs: Sequence[EventSchema], operators: Operators | PlainOperators, *, complete: bool = True,
    before: Iterable[EventBatch] = (), **reading: Any,
) -> tuple[Iterator[EventBatch], Rejects]:  # fmt: skip
    """`open_events` (which says what `reading` is) with closed windows among the events.

    If the log is `complete`, windows of time that are open at its end close there. `before`: checked events that come
    before those of the log.
    """
    stream, rejects = open_events(events, inputs, **reading)
    stream = chain(before, stream) if before else stream
    return operators.follow(stream, len(inputs), complete=complete) if operators.windows else stream, rejects


class Operators:
    """The windows of an app over one stream. `events` counts the events that came in, without closed windows."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows, self.operators = windows, [Panes(window) for window in windows]
        self.events = 0

    @staticmethod
    def of(windows: Sequence[Window], meta: Mapping[str, Any]) -> Operators:
        """As a commit with this meta has left them; new ones when nothing was kept."""
        operators = Operators(windows)
        operators.restore(meta.get(WINDOWS, {"events": int(meta.get("seq", 0)), "open": {}}))
        return operators

    def follow(self, stream: Iterator[EventBatch], inputs: int, *, complete: bool) -> Iterator[EventBatch]:
        """Each batch with the windows that it closes; at the end, if the log is `complete`, those that are open."""
        last: EventBatch | None = None
        for batch in stream:
            last = batch
            yield self.step(batch, inputs)
        if complete:
            yield from _final([operator.finish() for operator in self.operators], last, inputs)

    def step(self, batch: EventBatch, inputs: int) -> EventBatch:
        """The batch with the windows that it closes."""
        self.events += len(batch)
        return with_closed(batch, [operator.push(batch) for operator in self.operators], inputs)

    def kept(self) -> dict[str, Any]:
        """As a commit keeps it, between two batches."""
        return {"events": self.events, "open": {o.window.name: keep.text_of(o) for o in self.operators}}

    def restore(self, kept: Mapping[str, Any]) -> None:
        """Goes on from what `kept` gave; a window that is new begins empty."""
        self.events = int(kept["events"])
        for operator in self.operators:
            if operator.window.name in kept["open"]:
                keep.restore(operator, kept["open"][operator.window.name])


def _final(closed: Sequence[Closed], last: EventBatch | None, inputs: int) -> Iterator[EventBatch]:
    empty = np.empty(0, np.int64)
    position = () if last is None else last.position
    batch = EventBatch(empty.astype(np.uint8), empty, [None] * inputs, position)
    merged = with_closed(batch, closed, inputs)
    if len(merged):
        yield merged


class PlainOperators:
    """All events are read, then windows are computed one by one: this defines what is right."""

    def __init__(self, windows: Sequence[Window]) -> None:
        self.windows = windows

    def follow(self, stream: Iterator[EventBatch], inputs: int, *, complete: bool) -> Iterator[EventBatch]:
        batches = list(stream)
        waiting = [closed_windows(window, list(_events(window, batches))) for window in self.windows]
        first = 0
        for batch in batches:
            last, end = int(batch.ts[-1]), first + len(batch)
            closed = []
            for number, window in enumerate(self.windows):
                results = waiting[number]
                ready = [r for r in results if (r.end <= last if window.unit == "time" else r.after < end)]
                waiting[number] = results[len(ready) :]
                closed.append(_rows(window, ready, batch.ts, first))
            yield with_closed(batch, closed, inputs)
            first = end
        if complete:
            empty = np.empty(0, np.int64)
            rest = [_rows(window, results, empty, first) for window, results in zip(self.windows, waiting, strict=True)]
            yield from _final(rest, batches[-1] if batches else None, inputs)


def _events(window: Window, batches: Sequence[EventBatch]) -> Iterator[PlainEvent]:
    first = 0
    for batch in batches:
        own = OwnEvents(batch, window.kind)
        if own.count:
            places = own.place(np.arange(own.count)) + first
            columns = [_values(own.column(name), window.column_type(name)) for name in window.columns]
            rows = zip(*columns, strict=True) if columns else iter([()] * own.count)
            for at, ts, row in zip(places.tolist(), own.ts.tolist(), rows, strict=True):
                yield PlainEvent(at, ts, dict(zip(window.columns, row, strict=True)))
        first += len(batch)


def _values(column: pa.Array, type_: Type | None) -> list[Any]:
    return (column.cast(pa.int64()) if type_ == Type("datetime") else column).to_pylist()


def _rows(window: Window, results: Sequence[Result], ts: np.ndarray, first: int) -> Closed:
    timed = window.unit == "time"
    ends = np.array([r.end for r in results], np.int64)
    before = np.searchsorted(ts, ends) if timed else np.array([r.after + 1 - first for r in results], np.int64)
    columns: dict[str, list[Any]] = {f.name: [r.key[n] for r in results] for n, f in enumerate(window.by)}
    columns |= {"start": [r.start for r in results], "end": [r.end for r in results]}
    columns |= {name: [r.values[name] for r in results] for name, _ in window.aggregates}
    fields = window.closed.fields
    return Closed(before, ends, {f.name: pa.array(columns[f.name], f.type.arrow) for f in fields})
