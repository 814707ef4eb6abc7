"""Arrow columns as read to columns of the exact types of the schema."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import InputError
from mainstem.gate import flaws as flaw
from mainstem.gate.cast import Cast, is_text, to_ts, to_type
from mainstem.gate.flaws import Flaws
from mainstem.gate.piece import UNKNOWN, Part, Piece
from mainstem.gate.raw import RawBatch, Request
from mainstem.gate.rejects import batch_as_json, values_of
from mainstem.schema import MISSING, EventSchema, Field


def piece_of_batch(raw: RawBatch, request: Request, label: str) -> Piece:
    """The rows of a record batch; a batch with several event types keeps its own columns, types share them."""
    reader = _Reader(raw, request, label)
    batch, flaws = raw.batch, reader.flaws
    ts = reader.ts()
    kind, parts = reader.by_event_column() if reader.is_mixed() else reader.of_one_type()
    return Piece(len(raw), ts, kind, parts, flaws, lambda rows: batch_as_json(batch, rows))


class _Reader:
    """Fields of one record batch."""

    def __init__(self, raw: RawBatch, request: Request, label: str) -> None:
        self.batch, self.format, self.request, self.label = raw.batch, raw.format, request, label
        self.names = raw.batch.schema.names
        self.all_names = raw.all_names or self.names
        self.flaws = Flaws()

    def ts(self) -> pa.Array:
        if "ts" not in self.names:
            raise self._missing("ts", "every event has a time: add an integer or timestamp column 'ts'")
        array = self.batch.column(self.names.index("ts"))
        cast = to_ts(array, self.format)
        for row in cast.bad.tolist():
            self.flaws.add(row, flaw.wrong_ts(_value_at(array, row)))
        return cast.array

    def is_mixed(self) -> bool:
        """Whether each row names its event type."""
        if not self.request.by_column:
            return False
        if "event" in self.names:
            return True
        if len(self.request.schemas) == 1:
            return False
        known = ", ".join(schema.name for schema in self.request.schemas)
        raise self._missing(
            "event",
            f"this app has several event types ({known}): add a column with the type's name to the input, "
            "or give inputs by type as {EventType: input}",
        )

    def _missing(self, column: str, remedy: str) -> InputError:
        there = ", ".join(self.all_names) or "no columns"
        return InputError(f"{self.label}: column '{column}' is missing; the input has {there}\n  {remedy}")

    def of_one_type(self) -> tuple[int, list[Part]]:
        kind = self.request.kinds[0]
        return kind, [Part(kind, None, None, self.fields_of(kind, None))]

    def by_event_column(self) -> tuple[int | np.ndarray, list[Part]]:
        known = [schema.name for schema in self.request.schemas]
        events = self.batch.column(self.names.index("event"))
        kind = kinds_of(events, known)
        if len(known) == 1 and events.null_count:  # nothing else can be meant
            kind[events.is_null().to_numpy(zero_copy_only=False)] = 0
        for row in np.flatnonzero(kind == UNKNOWN).tolist():
            self.flaws.add(row, flaw.unknown_event(_value_at(events, row), known))
        parts = []
        for number in range(len(known)):
            rows = np.flatnonzero(kind == number)
            if len(rows) == len(kind) > 0:
                return number, [Part(number, None, None, self.fields_of(number, None))]
            if len(rows):
                parts.append(Part(number, rows, rows, self.fields_of(number, rows)))
        return kind, parts

    def fields_of(self, kind: int, rows: np.ndarray | None) -> dict[str, pa.Array]:
        """The used fields of an event type, checked at `rows` (None: all)."""
        schema = self.request.schemas[kind]
        return {field.name: self._field(schema, field, rows) for field in self.request.fields[kind]}

    def _field(self, schema: EventSchema, field: Field, rows: np.ndarray | None) -> pa.Array:
        if field.name not in self.names:
            return self._default(schema, field)
        array = self.batch.column(self.names.index(field.name))
        if array.type != field.type.arrow:
            array = self._cast(array, schema, field, rows)
        if array.null_count:
            array = self._nulls(array, schema, field, rows)
        if field.type.is_list:
            self._null_items(array, schema, field, rows)
        return array

    def _default(self, schema: EventSchema, field: Field) -> pa.Array:
        if field.default is MISSING:
            raise self._missing(
                field.name,
                f"{schema.name}.{field.name} is {field.type} and has no default: "
                f"add the column, or declare `{field.name}: {field.type} = …`",
            )
        return default_array(field).take(pa.array(np.zeros(self.batch.num_rows, dtype=np.int32)))

    def _cast(self, array: pa.Array, schema: EventSchema, field: Field, rows: np.ndarray | None) -> pa.Array:
        """Only rows of the type are cast: another type may use the same column with another meaning."""
        own = array if rows is None else array.take(pa.array(rows))
        cast = to_type(own, field.type, self.format)
        for at in cast.bad.tolist():
            self.flaws.add(at if rows is None else int(rows[at]), _cast_flaw(cast, schema, field, own, at))
        if rows is None:
            return cast.array
        spread = np.full(len(array), len(rows), dtype=np.int64)
        spread[rows] = np.arange(len(rows))
        return cast.array.take(pa.array(spread, mask=spread == len(rows)))

    def _nulls(self, array: pa.Array, schema: EventSchema, field: Field, rows: np.ndarray | None) -> pa.Array:
        missing = self._stand_in(field)
        if missing is not None:
            array = filled(array, missing)
        elif not field.type.nullable:
            for row in rows_where(array.is_null(), rows):
                self.flaws.add(row, flaw.null_value(schema, field))
        return array

    def _stand_in(self, field: Field) -> pa.Array | None:
        """What a missing value means: a row of a text format leaves a column out by leaving it empty."""
        if self.format == "typed":
            return None
        if field.default is not MISSING:
            return default_array(field)
        if self.format == "csv" and field.type.pooled and not field.type.nullable and not field.type.is_list:
            return pa.array([field.type.zero], field.type.arrow)
        return None

    def _null_items(self, array: pa.Array, schema: EventSchema, field: Field, rows: np.ndarray | None) -> None:
        items = array.flatten()
        if not items.null_count:
            return
        holes = np.zeros(len(array), dtype=bool)
        holes[pc.list_parent_indices(array).filter(items.is_null()).to_numpy()] = True
        for row in rows_where(pa.array(holes), rows):
            self.flaws.add(row, flaw.null_item(schema, field))


def _cast_flaw(cast: Cast, schema: EventSchema, field: Field, array: pa.Array, row: int) -> flaw.Flaw:
    if cast.wrong_type:
        return flaw.wrong_type(schema, field, str(array.type))
    return flaw.wrong_value(schema, field, _value_at(array, row))


def _value_at(array: pa.Array, row: int) -> Any:
    return values_of(array.slice(row, 1))[0]


def rows_where(mask: pa.Array, rows: np.ndarray | None) -> list[int]:
    """The rows (of those given) where the mask holds."""
    flags = mask.to_numpy(zero_copy_only=False)
    if rows is None:
        return np.flatnonzero(flags).tolist()
    return rows[flags[rows]].tolist()


def default_array(field: Field) -> pa.Array:
    """The default as an array of one value."""
    default = list(field.default) if field.type.is_list and field.default is not None else field.default
    return pa.array([default], field.type.arrow)


def filled(array: pa.Array, value: pa.Array) -> pa.Array:
    """`array` with its nulls replaced by the only value of `value`; works for lists too."""
    at = np.arange(len(array), dtype=np.int64)
    at[array.is_null().to_numpy(zero_copy_only=False)] = len(array)
    return pa.concat_arrays([array, value]).take(pa.array(at))


def kinds_of(events: pa.Array, known: list[str]) -> np.ndarray:
    """Names of event types to their numbers; a name that is not known, or null, is UNKNOWN."""
    if pa.types.is_dictionary(events.type):
        codes = pc.fill_null(events.indices.cast(pa.int64()), len(events.dictionary)).to_numpy()
        return np.append(kinds_of(events.dictionary, known), np.uint8(UNKNOWN))[codes]
    if not is_text(events.type):
        return np.full(len(events), UNKNOWN, dtype=np.uint8)
    found = pc.index_in(events, value_set=_name_set(tuple(known), events.type))
    return pc.fill_null(found, UNKNOWN).to_numpy().astype(np.uint8)


@lru_cache(maxsize=64)
def _name_set(known: tuple[str, ...], type: pa.DataType) -> pa.Array:
    return pa.array(known, type)
