"""Histories: tables whose rows keep their newest entries, and what their rows do in plain Python.

A row is a ring. `_count` entries were ever appended; entry number i (from 0) stands in slot i % keep of `_ts` and of
one array per field. `_lost` is the time of the newest entry that was overwritten, so whether a window is complete is
known exactly. To whatever keeps, copies or ships it a history is a table like any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang import arith
from mainstem.lang.runtime import Abort, Int64, Row, Table, coerce, current, now, wrap
from mainstem.schema import MISSING, RING_COUNT, RING_LOST, RING_TS, Field, TableSchema, Type

COUNT, LOST, TS = RING_COUNT, RING_LOST, RING_TS
KEEP_MAX = 4096  # a transaction that appends copies its row, so rows must stay small
EVERYTHING: Any = object()  # `last` left out: all that is kept

READS = ("count", "sum", "mean", "min", "max", "distinct", "top", "last")
MAYBE_NONE = frozenset({"mean", "min", "max", "top", "last"})  # None when there is no entry
APPEND = "append"
_BASES = {  # what a field must be for a method to make sense
    "sum": ("int", "float", "bool"),
    "mean": ("int", "float", "bool"),
    "min": ("int", "float", "datetime"),
    "max": ("int", "float", "datetime"),
}


def full_reason(schema: TableSchema) -> str:
    """Of an abort: a window reaches back to entries that are gone."""
    return f"history of {schema.name} is full: keep more than {keep_of(schema)} entries"


def ahead_reason(schema: TableSchema) -> str:
    """Of an abort: the history has seen later events than this one, in an earlier run on the same state."""
    return f"history of {schema.name} is ahead of this event"


def history_schema(
    name: str, key: tuple[Type, ...], scalar: bool, fields: Sequence[Field], checks: Sequence[str], keep: int
) -> TableSchema:
    """The table behind a declared history; refuses what a history can't be."""
    if type(keep) is not int or not 1 <= keep <= KEEP_MAX:
        raise ProgramError(f"history {name} can't keep {keep!r} entries", remedy=f"keep an int from 1 to {KEEP_MAX}")
    if checks:
        remedy = "write ms.require(condition, reason) after the append, in the function"
        raise ProgramError(f"history {name} has a check {checks[0]!r}", remedy=remedy)
    for field in fields:
        _check_entry_field(name, field)
    arrays = [Field(f.name, Type(f.type.base, length=keep)) for f in fields]
    own = [Field(COUNT, Type("int")), Field(LOST, Type("int")), Field(TS, Type("int", length=keep))]
    return TableSchema(name, key, scalar, (*own, *arrays))


def _check_entry_field(history: str, field: Field) -> None:
    where = f"field {history}.{field.name}"
    if field.type.nullable or field.type.is_list or field.type.length:
        raise ProgramError(f"{where} is {field.type}", remedy="entries of a history have plain values")
    if field.name == "ts":
        raise ProgramError(f"{where} is there already", remedy="leave it out: every entry has the ts of its event")
    if field.default is not MISSING:
        raise ProgramError(f"{where} has a default", remedy="leave it out: append gives every field a value")


def keep_of(schema: TableSchema) -> int:
    """How many entries a row keeps; 0 when the table is no history."""
    stamps = schema.field(TS)
    return stamps.type.length if stamps is not None else 0


def entry_fields(schema: TableSchema) -> tuple[Field, ...]:
    """The fields that an entry was declared with."""
    return tuple(Field(f.name, Type(f.type.base)) for f in schema.fields if not f.name.startswith("_"))


def read_field(schema: TableSchema, name: str) -> Field | None:
    """The array behind a field of entries; their time is one of them."""
    return schema.field(TS) if name == "ts" else schema.field(name) if not name.startswith("_") else None


def refusal_of(method: str, field: Field, name: str) -> tuple[str, str] | None:
    """Why this method makes no sense for a field, and the remedy; None when it does."""
    base, bases = field.type.base, _BASES.get(method, (field.type.base,))
    if base in bases:
        return None
    return f"{method} of field {name!r}, which is {base}", f"{method} takes fields of {', '.join(bases)}"


def unknown_field(schema: TableSchema, name: Any) -> tuple[str, str]:
    names = ", ".join(["ts", *(f.name for f in entry_fields(schema))])
    return f"entries of history {schema.name} have no field {name!r}", f"their fields are: {names}"


def no_attribute(schema: TableSchema, name: str) -> tuple[str, str]:
    """Why `row.name` is nothing that can be read or assigned."""
    row = f"{schema.name}[key]"
    fields = entry_fields(schema)
    shown = name if any(f.name == name for f in fields) else fields[0].name
    remedy = f'write {row}.last("{shown}"), {row}.append({shown}=…) or another of its methods: {", ".join(READS)}'
    return f"{schema.name} is a history: {name!r} is no value of its rows", remedy


def unpack(record: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The kept entries of a row, oldest first, each with its `ts`."""
    keep = len(record[TS])
    fields = [name for name in record if not name.startswith("_")]
    kept = range(max(0, record[COUNT] - keep), record[COUNT])
    return [{"ts": record[TS][i % keep], **{f: record[f][i % keep] for f in fields}} for i in kept]


class HistoryRow(Row):
    """A row of a history inside the running transaction. Windows end with the event and reach back less than `last`."""

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)  # Python asks rows what they are able to
        what, remedy = no_attribute(self._schema, name)
        raise ProgramError(what, remedy=remedy)

    def __setattr__(self, name: str, value: Any) -> None:
        what, remedy = no_attribute(self._schema, name)
        raise ProgramError(what, remedy=remedy)

    def append(self, **values: Any) -> None:
        """Adds an entry with the time of the event."""
        schema = self._schema
        fields = entry_fields(schema)
        if set(values) != {f.name for f in fields}:
            given = ", ".join(f"{f.name}=…" for f in fields)
            raise ProgramError(f"append to history {schema.name} names {sorted(values)}", remedy=f"append({given})")
        record = self._record()
        slot = record[COUNT] % keep_of(schema)
        if record[COUNT] >= keep_of(schema):
            self._write(LOST, record[TS][slot])
        for field in fields:
            self._put(record, field.name, slot, coerce(field.type, values[field.name], f"{schema.name}.{field.name}"))
        self._put(record, TS, slot, int(now()))
        self._write(COUNT, record[COUNT] + 1)

    def count(self, *, last: Any = EVERYTHING) -> Int64:
        """How many entries there are."""
        return Int64(len(self._window(last)))

    def sum(self, field: str, *, last: Any = EVERYTHING) -> Any:
        """The sum, oldest first; 0 when there is no entry."""
        values = self._values("sum", field, last)
        # Not the built-in: it adds floats with more digits than a loop has.
        total: Any = 0.0 if self._base(field) == "float" else Int64(0)
        for value in values:
            total = total + (Int64(value) if isinstance(value, bool) else value)
        return total

    def mean(self, field: str, *, last: Any = EVERYTHING) -> Any:
        values = self._values("mean", field, last)
        return self.sum(field, last=last) / Int64(len(values)) if values else None

    def min(self, field: str, *, last: Any = EVERYTHING) -> Any:
        return min(self._values("min", field, last), default=None)

    def max(self, field: str, *, last: Any = EVERYTHING) -> Any:
        return max(self._values("max", field, last), default=None)

    def distinct(self, field: str, *, last: Any = EVERYTHING) -> Int64:
        """The number of different values."""
        return Int64(len(_frequencies(self._values("distinct", field, last))))

    def top(self, field: str, rank: int = 1, *, last: Any = EVERYTHING) -> Any:
        """The most frequent value, or the second, third …; of equally frequent ones the one seen first comes first."""
        if rank < 1:
            raise ProgramError(f"there is no rank {int(rank)}", remedy="the most frequent value has rank 1")
        ranked = sorted(_frequencies(self._values("top", field, last)), key=lambda pair: -pair[1])
        return ranked[rank - 1][0] if rank <= len(ranked) else None

    def last(self, field: str) -> Any:
        """The newest value."""
        values = self._values("last", field, EVERYTHING)
        return values[-1] if values else None

    # -- the ring -----------------------------------------------------------------------------------------------

    def _window(self, last: Any) -> list[dict[str, Any]]:
        if last is None:
            raise Abort(arith.BUILTIN_REASONS[arith.NULL])
        if last is not EVERYTHING and (isinstance(last, bool) or not isinstance(last, int)):
            raise ProgramError(f"last={last!r} is no int", remedy="give it in the unit of ts, e.g. last=3600")
        after = None if last is EVERYTHING else Int64(now()) - last
        record = self._record()
        entries = unpack(record)
        if after is None:
            return entries
        if record[COUNT] > len(entries) and record[LOST] > after:
            raise Abort(full_reason(self._schema))
        return [entry for entry in entries if entry["ts"] > after]

    def _values(self, method: str, field: str, last: Any) -> list[Any]:
        found = read_field(self._schema, field)
        problem = unknown_field(self._schema, field) if found is None else refusal_of(method, found, field)
        if problem is not None:
            raise ProgramError(problem[0], remedy=problem[1])
        return [wrap(entry[field]) for entry in self._window(last)]

    def _base(self, field: str) -> str:
        found = read_field(self._schema, field)
        return found.type.base if found is not None else ""

    def _record(self) -> dict[str, Any]:
        """All fields of the row; aborts when the event comes before the newest entry."""
        name = self._schema.name
        record = {f.name: current(name).read(name, self._key, f.name) for f in self._schema.fields}
        newest = record[TS][(record[COUNT] - 1) % len(record[TS])]
        if record[COUNT] and newest > now():
            raise Abort(ahead_reason(self._schema))
        return record

    def _put(self, record: Mapping[str, Any], field: str, slot: int, value: Any) -> None:
        values = record[field]
        self._write(field, (*values[:slot], value, *values[slot + 1 :]))

    def _write(self, field: str, value: Any) -> None:
        current(self._schema.name).write(self._schema.name, self._key, field, value)


def _frequencies(values: list[Any]) -> list[tuple[Any, int]]:
    """Different values and how often they occur, in the order in which they were first seen."""
    found: list[tuple[Any, int]] = []
    for value in values:
        known = next((i for i, (other, _) in enumerate(found) if other == value), None)
        if known is None:
            found.append((value, 1))
        else:
            found[known] = (found[known][0], found[known][1] + 1)
    return found


class History(Table):
    """What `@app.history` leaves in place of the class."""

    def _row(self, key: Any) -> HistoryRow:
        return HistoryRow(self.schema, key)

    def __repr__(self) -> str:
        return f"<history {self.schema.name}, keeps {keep_of(self.schema)}>"
