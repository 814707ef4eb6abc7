"""Arrow columns as read to columns of the exact types of the schema."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import InputError
from mainstem.gate import flaws as flaw
from mainstem.gate.batch import frozen
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


class _Own:
    """The rows of one event type, among those of others."""

    def __init__(self, flags: np.ndarray) -> None:
        self._flags = flags
        self.rows = frozen(np.flatnonzero(flags))

    @cached_property
    def _bits(self) -> np.ndarray:
        return np.packbits(self._flags, bitorder="little")

    def surely_valid(self, array: pa.Array) -> bool:
        """Whether a look at eight rows at once finds no null in these rows. A column that only some types have is null
        in all other rows, so this is what a clean batch meets."""
        if array.offset % 8:  # bits of the column and of the rows do not lie side by side
            return False
        validity = np.frombuffer(array.buffers()[0], dtype=np.uint8)[array.offset // 8 :]
        return not (self._bits & ~validity[: len(self._bits)]).any()


class _Reader:
    """Fields of one record batch."""

    def __init__(self, raw: RawBatch, request: Request, label: str) -> None:
        self.batch, self.format, self.request, self.label = raw.batch, raw.format, request, label
        self.names = raw.batch.schema.names
        self.columns = raw.batch.columns  # once: event types that share a column get the same object
        self.all_names = raw.all_names or self.names
        self.flaws = Flaws()

    def ts(self) -> pa.Array:
        if "ts" not in self.names:
            raise self._missing("ts", "every event has a time: add an integer or timestamp column 'ts'")
        array = self.columns[self.names.index("ts")]
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
        events = self.columns[self.names.index("event")]
        kind = kinds_of(events, known)
        if len(known) == 1 and events.null_count:  # nothing else can be meant
            kind[events.is_null().to_numpy(zero_copy_only=False)] = 0
        for row in np.flatnonzero(kind >= len(known)).tolist():
            self.flaws.add(row, flaw.unknown_event(_value_at(events, row), known))
        parts = []
        for number in range(len(known)):
            own = _Own(kind == number)
            if len(own.rows) == len(kind) > 0:
                return number, [Part(number, None, None, self.fields_of(number, None))]
            if len(own.rows):
                parts.append(Part(number, own.rows, own.rows, self.fields_of(number, own)))
        return kind, parts

    def fields_of(self, kind: int, own: _Own | None) -> dict[str, pa.Array]:
        """The used fields of an event type, checked at its own rows (None: all)."""
        schema = self.request.schemas[kind]
        return {field.name: self._field(schema, field, own) for field in self.request.fields[kind]}

    def _field(self, schema: EventSchema, field: Field, own: _Own | None) -> pa.Array:
        if field.name not in self.names:
            return self._default(schema, field)
        array = self.columns[self.names.index(field.name)]
        if array.type != field.type.arrow:
            array = self._cast(array, schema, field, None if own is None else own.rows)
        if array.null_count:
            array = self._nulls(array, schema, field, own)
        if field.type.is_list:
            self._null_items(array, schema, field, own)
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

    def _nulls(self, array: pa.Array, schema: EventSchema, field: Field, own: _Own | None) -> pa.Array:
        missing = self._stand_in(field)
        if missing is not None:
            array = filled(array, missing)
        elif not field.type.nullable and not (own and own.surely_valid(array)):
            for row in rows_where(array.is_null(), own):
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

    def _null_items(self, array: pa.Array, schema: EventSchema, field: Field, own: _Own | None) -> None:
        items = array.flatten()
        if not items.null_count:
            return
        holes = np.zeros(len(array), dtype=bool)
        holes[pc.list_parent_indices(array).filter(items.is_null()).to_numpy()] = True
        for row in rows_where(pa.array(holes), own):
            self.flaws.add(row, flaw.null_item(schema, field))


def _cast_flaw(cast: Cast, schema: EventSchema, field: Field, array: pa.Array, row: int) -> flaw.Flaw:
    if cast.wrong_type:
        return flaw.wrong_type(schema, field, str(array.type))
    return flaw.wrong_value(schema, field, _value_at(array, row))


def _value_at(array: pa.Array, row: int) -> Any:
    return values_of(array.slice(row, 1))[0]


def rows_where(mask: pa.Array, own: _Own | None) -> list[int]:
    """The rows (of those of a type) where the mask holds."""
    flags = mask.to_numpy(zero_copy_only=False)
    if own is None:
        return np.flatnonzero(flags).tolist()
    return own.rows[flags[own.rows]].tolist()


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
    """Names of event types to their numbers; a name that is not known, or null, is UNKNOWN.

    Where an array without nulls holds these numbers already, the result is a view of it.
    """
    if pa.types.is_dictionary(events.type):
        return _kinds_of_codes(events, {name: number for number, name in enumerate(known)})
    if not is_text(events.type):
        return np.full(len(events), UNKNOWN, dtype=np.uint8)
    found = pc.index_in(events, value_set=_name_set(tuple(known), events.type))
    return pc.fill_null(found, UNKNOWN).to_numpy().astype(np.uint8)


def _kinds_of_codes(events: pa.DictionaryArray, numbers: dict[str, int]) -> np.ndarray:
    # In Python: a dictionary has few names, and calling Arrow for them costs more than all rows together.
    dictionary = events.dictionary
    names: list[Any] = dictionary.to_pylist() if is_text(dictionary.type) else [None] * len(dictionary)
    kinds = [numbers.get(name, UNKNOWN) for name in names]
    indices = events.indices
    if indices.null_count:
        indices = pc.fill_null(indices.cast(pa.int64()), len(kinds))
    codes = indices.to_numpy()
    if codes.itemsize == 1 and kinds == list(range(len(kinds))):
        return codes.view(np.uint8)
    return np.array([*kinds, UNKNOWN], dtype=np.uint8).take(codes.astype(np.int64, copy=False), mode="clip")


@lru_cache(maxsize=64)
def _name_set(known: tuple[str, ...], type: pa.DataType) -> pa.Array:
    return pa.array(known, type)
