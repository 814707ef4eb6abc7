"""A declared window, as plain data: which events it takes, how long it is, what it tells about them."""

from __future__ import annotations

import builtins
import keyword
from collections.abc import Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, Literal

import pyarrow as pa

from mainstem.errors import InputError, ProgramError
from mainstem.schema import KEY_PARTS_MAX, EventSchema, Field, TableSchema, Type
from mainstem.windows.aggregates import Aggregate

Unit = Literal["time", "events"]

TS_MAX = 2**62
"""Windows take events with a ts up to here, before and after 0; so no end of a window leaves 64 bits."""
SIZE_MAX = 2**61
BY_BASES = ("int", "str", "bool")
KEPT = "_kept"  # the table in the source of the function that keeps it: no window has such a name
OWN_FIELDS = ("start", "end")
_KEYS = ("key", *(f"key_{part}" for part in range(KEY_PARTS_MAX)))
_TAKEN = ("ts", "seq", "event", "function", "status", "reason", *_KEYS, *OWN_FIELDS)


@dataclass(frozen=True)
class Window:
    """`[start, start + size)` every `advance`, for each value of the `by` columns; of times, or of events of a key.

    A window is made of `panes` panes of `pane` units each, and the next one begins `step` panes later. Events are
    folded into panes once; windows that overlap share them. Windows that don't overlap are one pane each, and with
    gaps between them a pane covers only the first `size` units of `pane`.
    """

    name: str
    event: EventSchema
    kind: int
    size: int
    advance: int
    unit: Unit
    by: tuple[Field, ...]
    where: str | None
    aggregates: tuple[tuple[str, Aggregate], ...]

    @property
    def pane(self) -> int:
        return gcd(self.size, self.advance) if self.advance < self.size else self.advance

    @property
    def panes(self) -> int:
        return self.size // self.pane if self.advance < self.size else 1

    @property
    def step(self) -> int:
        return self.advance // self.pane

    @property
    def gaps(self) -> bool:
        """Whether events between two windows belong to none."""
        return self.advance > self.size

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the event that it reads."""
        named = [f.name for f in self.by] + [a.column for _, a in self.aggregates if a.column is not None]
        return tuple(dict.fromkeys([*named, *([self.where] if self.where else [])]))

    def column_type(self, name: str | None) -> Type | None:
        field = None if name is None else self.event.field(name)
        return None if field is None else field.type

    @property
    def results(self) -> tuple[Field, ...]:
        """The aggregates as fields."""
        return tuple(Field(name, a.type(self.column_type(a.column))) for name, a in self.aggregates)

    @property
    def closed(self) -> EventSchema:
        """The internal event that a closed window is."""
        own = tuple(Field(name, Type("int")) for name in OWN_FIELDS)
        return EventSchema(self.name, (*self.by, *own, *self.results))

    @property
    def table(self) -> TableSchema:
        """The last closed window of every key; without `by` the key is 0."""
        key = tuple(Type("int") if f.type.base == "bool" else f.type for f in self.by) or (Type("int"),)
        own = tuple(Field(name, Type("int")) for name in OWN_FIELDS)
        return TableSchema(self.name, key, len(key) == 1, (*own, *self.results))

    @property
    def source(self) -> str:
        """The function that keeps the table; its results are the columns of the output."""
        key = ", ".join(f"int(e.{f.name})" if f.type.base == "bool" else f"e.{f.name}" for f in self.by) or "0"
        fields = [f.name for f in self.table.fields]
        stores = [f"    {KEPT}[{key}].{name} = e.{name}" for name in fields]
        columns = ", ".join(f'"{name}": e.{name}' for name in [*(f.name for f in self.by), *fields])
        return "\n".join([f"def {self.name}(e):", *stores, f"    return {{{columns}}}"]) + "\n"

    @property
    def signature(self) -> str:
        """What pane state of an earlier run must have been kept for."""
        parts = [f"{name}={a.declared(self.column_type(a.column))}" for name, a in self.aggregates]
        by = ", ".join(f"{f.name}: {f.type}" for f in self.by)
        return (
            f"{self.name}: {self.event.name}, size={self.size}, advance={self.advance}, unit={self.unit}, by=({by}), "
            f"where={self.where}, {', '.join(parts)}"
        )

    def check_ts(self, first: int, last: int) -> None:
        if first < -TS_MAX or last > TS_MAX:
            wrong = first if first < -TS_MAX else last
            raise InputError(
                f"an event {self.event.name} has ts {wrong}, and window {self.name} takes ts from -2**62 to 2**62\n"
                "  give ts in a coarser unit"
            )

    def too_large(self, aggregate: Aggregate, start: int, total: int) -> InputError:
        return InputError(
            f"{aggregate} of window {self.name} that starts at {start} is {total}, more than 64 bits hold\n"
            "  derive a float column and sum that, or make the window smaller"
        )


def window_of(
    event: EventSchema, kind: int, name: Any, size: Any, advance: Any, by: Any, unit: Any, where: Any,
    aggregates: Mapping[str, Any],
) -> Window:  # fmt: skip
    """The window, checked; errors name what is wrong and the remedy, not the place."""
    if not _can_be_named(name) or hasattr(builtins, name):
        raise ProgramError(
            f"a window named {name!r}",
            remedy='pass name="usage" or another Python name that Python does not use itself',
        )
    if unit not in ("time", "events"):
        raise ProgramError(f"window {name} has unit={unit!r}", remedy='use unit="time" or unit="events"')
    advance = size if advance is None else advance
    for what, value in (("size", size), ("advance", advance)):
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= SIZE_MAX:
            raise ProgramError(f"window {name} has {what}={value!r}", remedy=f"give a positive int for {what}")
    if by is not None and not isinstance(by, str | list | tuple):
        raise ProgramError(f"window {name} has by={by!r}", remedy='name a column, or several: by=["meter", "place"]')
    columns = tuple(_by(event, name, column) for column in ((by,) if isinstance(by, str) else by or ()))
    _check_names(name, [f.name for f in columns], aggregates)
    for label, aggregate in aggregates.items():
        _check_aggregate(event, name, label, aggregate)
    if where is not None and _field(event, name, where, "where=").type != Type("bool"):
        raise ProgramError(
            f"window {name}: where={where!r} is a column of {event.name} of type {_field(event, name, where, '').type}",
            remedy="name a bool column without null; @app.derive can add one",
        )
    return Window(name, event, kind, size, advance, unit, columns, where, tuple(aggregates.items()))


def _can_be_named(name: Any) -> bool:
    """Whether it can be a name in source text, and is none of Mainstem's own."""
    return isinstance(name, str) and name.isidentifier() and not keyword.iskeyword(name) and not name.startswith("_")


def _field(event: EventSchema, window: str, name: Any, what: str) -> Field:
    found = event.field(name)
    if found is None:
        known = ", ".join(f.name for f in event.fields + event.derived)
        raise ProgramError(
            f"window {window}: {what}{name!r} names no column of {event.name}", remedy=f"its columns are: {known}"
        )
    return found


def _by(event: EventSchema, window: str, name: Any) -> Field:
    field = _field(event, window, name, "by=")
    if field.type.base not in BY_BASES or field.type.nullable or field.type.is_list:
        raise ProgramError(
            f"window {window}: by={name!r} is a column of type {field.type}",
            remedy=f"group by columns of {', '.join(BY_BASES)} without null; @app.derive can add one",
        )
    return Field(field.name, field.type)


def _check_names(window: str, by: list[str], aggregates: Mapping[str, Any]) -> None:
    if len(by) > KEY_PARTS_MAX or len(set(by)) < len(by):
        raise ProgramError(
            f"window {window} groups by {', '.join(by)}", remedy=f"use up to {KEY_PARTS_MAX} columns, each once"
        )
    if not aggregates:
        raise ProgramError(f"window {window} has no aggregate", remedy="name one or more: n=ms.count()")
    for name in [*by, *aggregates]:
        if name in _TAKEN or not _can_be_named(name):
            raise ProgramError(
                f"window {window} would have a column {name!r}, which is one of Mainstem's own or of Python's",
                remedy="choose another name; @app.derive can add a column under another name",
            )
    for name in by:
        if name in aggregates:
            raise ProgramError(
                f"window {window} has {name!r} as a column of by= and as an aggregate", remedy="rename the aggregate"
            )


def _check_aggregate(event: EventSchema, window: str, label: str, aggregate: Any) -> None:
    if not isinstance(aggregate, Aggregate):
        raise ProgramError(
            f"window {window}: {label}={aggregate!r} is no aggregate", remedy=f"write {label}=ms.count() or another"
        )
    if aggregate.column is None:
        return
    refusal = aggregate.refusal(_field(event, window, aggregate.column, f"{label}={aggregate}: ").type)
    if refusal:
        raise ProgramError(f"window {window}: {label}: {refusal}", remedy="use another column; @app.derive can add one")


@dataclass
class Closed:
    """Closed windows, in the order in which they become events: columns of `Window.closed`, and where they belong.

    `before[j]` is the place among the events at hand that row j comes right before; `ts` never decreases.
    """

    before: Any  # int64
    ts: Any  # int64
    columns: dict[str, pa.Array]

    def __len__(self) -> int:
        return len(self.ts)
