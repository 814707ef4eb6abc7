"""What is wrong with a row, in words."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mainstem.schema import EventSchema, Field

_VALUE_CHARS_MAX = 80
SET_ASIDE = 'pass on_bad="reject" to set such rows aside'


class Flaw(NamedTuple):
    reason: str
    remedy: str


class Flaws:
    """The bad rows of a piece. A row keeps the first flaw that is found; checks run in a fixed order."""

    def __init__(self) -> None:
        self.by_row: dict[int, Flaw] = {}

    def __bool__(self) -> bool:
        return bool(self.by_row)

    def add(self, row: int, flaw: Flaw) -> None:
        self.by_row.setdefault(row, flaw)

    def rows(self) -> np.ndarray:
        """The bad rows, ascending."""
        return np.array(sorted(self.by_row), dtype=np.int64)


def shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _VALUE_CHARS_MAX else f"{text[:_VALUE_CHARS_MAX]}…"


def null_value(schema: EventSchema, field: Field) -> Flaw:
    return Flaw(
        f"column '{field.name}' is null, but {schema.name}.{field.name} is {field.type}",
        f"give a value, declare the field as `{field.name}: {field.type} | None`, or {SET_ASIDE}",
    )


def null_item(schema: EventSchema, field: Field) -> Flaw:
    return Flaw(
        f"column '{field.name}' has a null inside its list, but {schema.name}.{field.name} is {field.type}",
        f"leave nulls out of the list, or {SET_ASIDE}",
    )


def wrong_value(schema: EventSchema, field: Field, value: Any) -> Flaw:
    return Flaw(
        f"column '{field.name}' holds {shown(value)}, but {schema.name}.{field.name} is {field.type}",
        f"convert the value, change the field's type, or {SET_ASIDE}",
    )


def wrong_type(schema: EventSchema, field: Field, found: str) -> Flaw:
    return Flaw(
        f"column '{field.name}' has the Arrow type {found}, but {schema.name}.{field.name} is {field.type}",
        f"cast the column to {field.type.arrow} before the run, or change the field's type",
    )


def null_ts() -> Flaw:
    return Flaw("column 'ts' is null, but every event has a time", f"give a time, or {SET_ASIDE}")


def wrong_ts(value: Any) -> Flaw:
    return Flaw(
        f"column 'ts' holds {shown(value)}, which is not a 64-bit integer or a time",
        f"give `ts` as an integer or a timestamp, or {SET_ASIDE}",
    )


def unsorted(ts: int, predecessor: int) -> Flaw:
    return Flaw(
        f"column 'ts' goes back: {ts} comes after {predecessor}",
        f"sort the input by ts, or {SET_ASIDE}",
    )


def late(ts: int, released: int) -> Flaw:
    return Flaw(
        f"column 'ts' is {ts}, which is late: an earlier batch has released events up to ts {released}",
        f"pass a larger batch= so that both fall into one batch, sort the input by ts, or {SET_ASIDE}",
    )


def after_heartbeat(ts: int, promised: int) -> Flaw:
    return Flaw(
        f"column 'ts' is {ts}, which is late: a heartbeat said that nothing before {promised} would come",
        f"send heartbeats only for what is certain, or {SET_ASIDE}",
    )


def after_silence(ts: int, reached: int) -> Flaw:
    return Flaw(
        f"column 'ts' is {ts}, which is late: the input was silent for too long, others went on to {reached}",
        f"pass a larger idle=, send heartbeats, or {SET_ASIDE}",
    )


def unknown_event(name: Any, known: list[str]) -> Flaw:
    named = "column 'event' is null" if name is None else f"column 'event' names {shown(name)}"
    return Flaw(
        f"{named}, which is no event type of this app; it has {', '.join(known)}",
        "declare the event type, give the input by type as {EventType: input}, or " + SET_ASIDE,
    )


def malformed(reason: str) -> Flaw:
    return Flaw(reason, f"repair the line, or {SET_ASIDE}")
