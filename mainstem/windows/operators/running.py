"""Runs an operator: the caller's thread closes windows, other threads bring events to it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mainstem.gate.live.kernels.tgate import create
from mainstem.team import STOP_WORD, default_threads, team
from mainstem.windows.choice import AUTO, PANES, unknown
from mainstem.windows.operators.kernels.arrays import FULL, NOTHING, Feed, Out
from mainstem.windows.operators.kernels.clock import now
from mainstem.windows.operators.kernels.passing import windows_of_hive
from mainstem.windows.operators.kernels.queues import feed_queues, windows_of_queues
from mainstem.windows.operators.kernels.tuml import feed_gate, update_from_gate, windows_of_gate
from mainstem.windows.operators.kernels.wiml import feed_hive
from mainstem.windows.operators.memory import QUEUE_LENGTH, new_hive, new_out, new_queues, new_winsets, words
from mainstem.windows.operators.prepare import (
    Prepared,
    check_inputs,
    prepare,
    refusal,
    results,
    wrong_operator,
)
from mainstem.windows.operators.tables import aggregate_panes, why_panes
from mainstem.windows.window import Window

Closing = Callable[[Out], int]
"""What the caller's thread does: it fills the results until FINISHED, FULL or STOPPED."""
Threads = Sequence[Callable[[], None]]
"""What the other threads do."""


@dataclass
class Timing:
    """When events come and winsets close, in ticks of the processor from the beginning."""

    due: np.ndarray | None = None  # per row of all inputs, one behind the other; None: all are there at the beginning
    number: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))  # of the winsets that were closed
    closed: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class Operator:
    start: Callable[[Prepared, Feed, np.ndarray], tuple[Closing, Threads]]
    in_order: bool  # whether it sees events in the total order


def aggregate(
    window: Window, inputs: Sequence[pa.Table], operator: str = AUTO, *, threads: int | None = None
) -> pa.Table:
    """All windows of events from inputs that are each sorted by `ts`: the `by` columns, `start`, `end`, the aggregates.

    The result is that of the sorted events, whatever the timing. `auto` takes `panes` (`choice` says why), with up to
    `threads` threads; in the others `threads` bring the events and the caller's thread closes windows. By default there
    is a thread per core.
    """
    operator, _ = choice(window, operator)
    check_inputs(window, inputs)
    if operator == PANES:
        return aggregate_panes(window, inputs, default_threads() if threads is None else threads)
    return run(prepare(window, inputs), operator, threads=threads)


def choice(window: Window, operator: str = AUTO) -> tuple[str, str]:
    """The operator that will run, and why."""
    if operator in (PANES, AUTO):
        return PANES, why_panes(window)
    if operator not in OPERATORS:
        raise unknown(operator)
    why = refusal(window, in_order=OPERATORS[operator].in_order)
    if why:
        raise wrong_operator(operator, why)
    return operator, "it was asked for"


def run(prepared: Prepared, operator: str, *, threads: int | None = None, timing: Timing | None = None) -> pa.Table:
    """`aggregate` over prepared inputs; `timing` says when events come, and gets when winsets were closed."""
    return results(prepared, *run_threads(prepared, operator, threads=threads, timing=timing))


def run_threads(
    prepared: Prepared, operator: str, *, threads: int | None = None, timing: Timing | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The part of `run` that the operator does: number, key code and words of every window, in no order."""
    timing = Timing() if timing is None else timing
    feeders = min(prepared.inputs, default_threads() if threads is None else threads)
    at = words(prepared.inputs)
    at[:: len(at) // prepared.inputs] = prepared.events.lo[:-1]
    due = np.empty(0, np.int64) if timing.due is None else timing.due
    control = np.zeros(STOP_WORD + 1, np.int64)
    begin = now()
    closing, others = OPERATORS[operator].start(prepared, Feed(at, due, begin, feeders), control)
    found = _Found(new_out(prepared))
    tasks = [lambda: found.collect(closing), *others]
    team(len(tasks)).run(lambda worker: tasks[worker](), control)
    timing.number, timing.closed = found.sets[:, 0], found.sets[:, 1] - begin
    return found.rows()


class _Found:
    """Results on their way out of the buffer that the output thread fills."""

    def __init__(self, out: Out) -> None:
        self._out = out
        self._parts: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self._sets: list[np.ndarray] = []

    def collect(self, closing: Closing) -> None:
        state = FULL
        while state == FULL:  # STOPPED: the thread that failed says why
            state = closing(self._out)
            self._take()

    def _take(self) -> None:
        out = self._out
        rows, sets = (int(filled) for filled in out.filled)
        number = np.repeat(out.set_number[:sets], np.diff(out.set_end[:sets], prepend=0))
        self._parts.append((number, out.key[:rows].copy(), out.cell[:rows].copy()))
        self._sets.append(np.stack([out.set_number[:sets], out.set_ticks[:sets]], axis=1))
        out.filled[:] = 0

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        number, key, cell = (np.concatenate(columns) for columns in zip(*self._parts, strict=True))
        return number, key, cell

    @property
    def sets(self) -> np.ndarray:
        return np.concatenate(self._sets)


def _multi_queue(prepared: Prepared, feed: Feed, control: np.ndarray, *, locked: bool) -> tuple[Closing, Threads]:
    events, shape = prepared.events, prepared.shape
    queues, winsets = new_queues(prepared, locked=locked), new_winsets(prepared)
    feeding = [lambda w=w: feed_queues(events, feed, queues, control, w) for w in range(feed.threads)]
    return lambda out: windows_of_queues(events, queues, winsets, shape, out, control), feeding


def _wiml(prepared: Prepared, feed: Feed, control: np.ndarray) -> tuple[Closing, Threads]:
    events, shape = prepared.events, prepared.shape
    hive = new_hive(prepared, writers=prepared.inputs, threads=feed.threads)
    feeding = [lambda w=w: feed_hive(events, feed, hive, shape, control, w) for w in range(feed.threads)]
    return lambda out: windows_of_hive(hive, shape, out, control), feeding


def _one_consumer(prepared: Prepared, feed: Feed, control: np.ndarray) -> tuple[Closing, Threads]:
    events, shape = prepared.events, prepared.shape
    gate, winsets = create(prepared.inputs, QUEUE_LENGTH), new_winsets(prepared)
    pending = np.full(1, NOTHING, np.int64)
    feeding = [lambda w=w: feed_gate(events, feed, gate, control, w) for w in range(feed.threads)]
    return lambda out: windows_of_gate(events, gate, winsets, shape, pending, out, control), feeding


def _many_consumers(prepared: Prepared, feed: Feed, control: np.ndarray) -> tuple[Closing, Threads]:
    """As many update threads as there are input threads."""
    events, shape, updaters = prepared.events, prepared.shape, feed.threads
    gate = create(prepared.inputs, QUEUE_LENGTH, readers=updaters)
    hive = new_hive(prepared, writers=updaters, threads=updaters)
    feeding = [lambda w=w: feed_gate(events, feed, gate, control, w) for w in range(feed.threads)]
    updating = [lambda w=w: update_from_gate(events, gate, hive, shape, control, w) for w in range(updaters)]
    return lambda out: windows_of_hive(hive, shape, out, control), feeding + updating


OPERATORS = {
    "mq": Operator(lambda *run: _multi_queue(*run, locked=True), in_order=True),
    "mq_lf": Operator(lambda *run: _multi_queue(*run, locked=False), in_order=True),
    "tuml_sc": Operator(_one_consumer, in_order=True),
    "tuml_mc": Operator(_many_consumers, in_order=True),
    "wiml": Operator(_wiml, in_order=False),
}
"""The operators of the literature by name; all add every event to each of its windows."""
