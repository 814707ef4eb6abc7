"""The short way through the gate: record batches whose used columns have exactly the types of their fields.

What can be known from a schema is found out once per schema, what can be known from a record batch once per record
batch; the rows of one batch of events then cost a few compiled loops. Where anything is left to convert, to fill in or
to complain about, there is no short way: `columns.py` reads such rows and names what is wrong with them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import frozen
from mainstem.gate.cast import is_text
from mainstem.gate.kernels import all_valid, all_valid_at, ascending, rows_by_kind
from mainstem.gate.piece import UNKNOWN, Part
from mainstem.gate.raw import RawBatch, Request
from mainstem.gate.spans import ReadColumns, Span
from mainstem.schema import Field


@dataclass
class CleanRows:
    """Rows that need no further look, sorted by ts."""

    ts: np.ndarray
    kind: int | np.ndarray
    parts: list[Part]


@dataclass(frozen=True)
class _Plan:
    """Where the columns of a schema are."""

    ts: int
    event: int | None  # the column that names each row's type
    kinds: tuple[int, ...]  # the event types that rows can have
    at: dict[str, int]  # columns of fields
    names: tuple[tuple[str, ...], ...]  # fields per event type
    required: tuple[tuple[str, ...], ...]  # those that are never null


class CleanReader:
    """Reads the record batches of one input."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._known: list[str] = [schema.name for schema in request.schemas]
        self._schema: pa.Schema | None = None
        self._plan: _Plan | None = None
        self._source: pa.RecordBatch | None = None
        self._open: _OpenBatch | None = None

    def read(self, raw: RawBatch, clock: int) -> CleanRows | None:
        """The rows if nothing is wrong with them and none has a ts below `clock` or its predecessor's."""
        if raw.source is not self._source:
            self._source, self._open = raw.source, self._opened(raw)
        if self._open is None or not raw.count:
            return None
        return self._open.rows(raw.start, raw.start + raw.count, clock)

    def _opened(self, raw: RawBatch) -> _OpenBatch | None:
        schema = raw.source.schema
        if self._schema is None or not schema.equals(self._schema):
            self._schema, self._plan = schema, _plan(schema, self._request)
        return None if self._plan is None else _open_batch(raw, self._plan, self._known)


def _plan(schema: pa.Schema, request: Request) -> _Plan | None:
    """None when a column is missing or has another type than its field."""
    places = {name: at for at, name in reversed(list(enumerate(schema.names)))}
    ts, event = places.get("ts"), places.get("event") if request.by_column else None
    if ts is None or schema.types[ts] != pa.int64() or (event is None and request.by_column and len(request.kinds) > 1):
        return None
    if event is not None and not _names_types(schema.types[event]):
        return None
    kinds = tuple(range(len(request.schemas))) if event is not None else request.kinds[:1]
    fields = [request.fields[kind] if kind in kinds else () for kind in range(len(request.schemas))]
    used = {field.name: field for of_kind in fields for field in of_kind}
    if not all(_fits(schema, places.get(field.name), field) for of_kind in fields for field in of_kind):
        return None
    return _Plan(
        ts,
        event,
        kinds,
        {name: places[name] for name in used},
        tuple(tuple(field.name for field in of_kind) for of_kind in fields),
        tuple(tuple(field.name for field in of_kind if not field.type.nullable) for of_kind in fields),
    )


def _names_types(type: pa.DataType) -> bool:
    return bool(pa.types.is_dictionary(type) and is_text(type.value_type))


def _fits(schema: pa.Schema, at: int | None, field: Field) -> bool:
    return at is not None and schema.types[at] == field.type.arrow


def _open_batch(raw: RawBatch, plan: _Plan, known: list[str]) -> _OpenBatch | None:
    """None when a row may need more than a look: a null without a meaning, or one that stands for a default."""
    batch = raw.source
    ts = batch.column(plan.ts)
    arrays = {name: batch.column(at) for name, at in plan.at.items()}
    events = None if plan.event is None else batch.column(plan.event)
    if ts.null_count or (events is not None and events.null_count):
        return None
    if any(pa.types.is_list(array.type) and array.values.null_count for array in arrays.values()):
        return None
    if raw.format != "typed" and any(array.null_count for array in arrays.values()):
        return None
    return _OpenBatch(ts, events, arrays, plan, known)


class _OpenBatch:
    """One record batch. `_checks` say per event type which rows have all values that the type asks for, as validity
    bits and the place of the first row's; there are none where no column with nulls matters."""

    def __init__(
        self, ts: pa.Array, events: pa.DictionaryArray | None, arrays: dict[str, pa.Array], plan: _Plan,
        known: list[str],
    ) -> None:  # fmt: skip
        self._plan, self._types = plan, len(known)
        self._ts = frozen(ts.to_numpy())
        self._codes: np.ndarray | None = None
        self._kind_of_code: np.ndarray | None = None
        if events is not None:
            self._codes, self._kind_of_code = _kinds(events, known)
        self._columns = ReadColumns(arrays)
        self._checks = [_complete_rows([arrays[name] for name in names]) for names in plan.required]

    def rows(self, start: int, stop: int, clock: int) -> CleanRows | None:
        ts = self._ts[start:stop]
        if not ascending(ts, clock):
            return None
        if self._codes is None:
            return self._of_one(self._plan.kinds[0], ts, start, stop)
        kind = self._codes[start:stop]
        if self._kind_of_code is not None:
            kind = frozen(self._kind_of_code.take(kind))
        rows, ends = np.empty(len(kind) + 1, np.int64), np.empty(self._types, np.int64)
        if rows_by_kind(kind, rows, ends) < len(kind):  # an event type that is not known
            return None
        return self._of_several(frozen(rows), ends.tolist(), kind, ts, start)

    def _of_one(self, kind: int, ts: np.ndarray, start: int, stop: int) -> CleanRows | None:
        for bits, offset in self._checks[kind]:
            if not all_valid(bits, offset + start, stop - start):
                return None
        span = Span(self._columns, self._plan.names[kind], start, stop, {})
        return CleanRows(ts, kind, [Part(kind, None, None, span)])

    def _of_several(
        self, rows: np.ndarray, ends: list[int], kind: np.ndarray, ts: np.ndarray, start: int
    ) -> CleanRows | None:
        stop, first = start + len(kind), 0
        parts: list[Part] = []
        made: dict[str, pa.Array] = {}
        for number, end in enumerate(ends):
            if end - first == len(kind):
                return self._of_one(number, ts, start, stop)
            if end > first:
                own = rows[first:end]
                for bits, offset in self._checks[number]:
                    if not all_valid_at(bits, offset + start, own):
                        return None
                parts.append(Part(number, own, own, Span(self._columns, self._plan.names[number], start, stop, made)))
            first = end
        return CleanRows(ts, kind, parts)


def _kinds(events: pa.DictionaryArray, known: list[str]) -> tuple[np.ndarray, np.ndarray | None]:
    """Codes of event types, and the type of each code unless they are the same."""
    numbers = {name: number for number, name in enumerate(known)}
    kinds = [numbers.get(name, UNKNOWN) for name in events.dictionary.to_pylist()]
    codes = events.indices.to_numpy()
    if codes.itemsize == 1 and kinds == list(range(len(kinds))):
        return frozen(codes.view(np.uint8)), None
    return frozen(codes), np.array([*kinds, UNKNOWN], np.uint8)


def _complete_rows(columns: list[pa.Array]) -> list[tuple[np.ndarray, int]]:
    """Where all columns have a value. Columns of a batch start at the same bit, but for rare ones, so it is one check
    for all of them."""
    found: dict[int, np.ndarray] = {}
    for column in columns:
        if column.null_count:
            bits = np.frombuffer(column.buffers()[0], np.uint8)[: (column.offset + len(column) + 7) // 8]
            found[column.offset] = found[column.offset] & bits if column.offset in found else bits
    return [(frozen(bits), offset) for offset, bits in found.items()]
