"""Inputs that can't be cut (text, Arrow files, Parquet without statistics or order) as Parquet that can.

The gate reads such an input once, from its start: it converts, checks and sets rows aside, with their places in the
original. What it accepts is written with statistics, so that ranges are cut from it like from any other Parquet.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import InputError
from mainstem.gate import EventBatch, Rejects
from mainstem.gate.assemble import Slice, assemble
from mainstem.gate.piece import Chunk
from mainstem.gate.raw import Input, Request
from mainstem.gate.validate import OnBad, Validator
from mainstem.lang import Program
from mainstem.replay.footers import read_footers
from mainstem.replay.ranges import RANGE_ROWS, Between, LogInput, fields_read
from mainstem.schema import INT64_MIN, EventSchema

BATCH_ROWS = 1 << 16


@dataclass(frozen=True)
class Spooled:
    """An input as Parquet, and the rows of the original that were set aside on the way."""

    path: Path
    rejects: pa.Table


def why_not_spooled(program: Program) -> str:
    """Empty when inputs of this program can be spooled: a column of a file has one type."""
    types: dict[str, tuple[str, Any]] = {}
    for event, fields in zip(program.events, fields_read(program), strict=True):
        for field in fields:
            first, type = types.setdefault(field.name, (event.name, field.type.arrow))
            if type != field.type.arrow:
                return f"{first}.{field.name} is {type}, but {event.name}.{field.name} is {field.type.arrow}"
    return ""


def spool(
    source: Input, number: int, program: Program, folder: Path, *, on_bad: OnBad, between: Between = (None, None),
    row_group: int = RANGE_ROWS,
) -> Spooled:  # fmt: skip
    """Convert input `number`. With `between` the rows before it are read and checked, but not kept."""
    request = Request(program.events, fields_read(program), BATCH_ROWS, source.event)
    rejects = Rejects()
    validator = Validator(number, source, request, on_bad, rejects, "error")
    window = _Window(between)
    writer = SpoolWriter(folder, number, request, row_group)
    reader = source.read(request)
    try:
        for raw in reader:
            chunk = validator.accept(raw)
            for part in window.slices(chunk):
                writer.write(assemble([[part]], len(program.events), ()))
            if window.ended:
                break
    finally:
        close = getattr(reader, "close", None)
        if close is not None:
            close()
    return Spooled(writer.close(), window.inside(rejects.table))


def log_input(spooled: Path, what: str, event: str | None) -> LogInput:
    """A spooled input as ranges see it."""
    groups = read_footers(str(spooled))
    assert groups is not None
    return LogInput(what, event, groups)


class _Window:
    """Accepted rows with `from <= ts < to`; rejected rows count as the accepted row after them does."""

    def __init__(self, between: Between) -> None:
        first, self._to = between
        self._from = INT64_MIN if first is None else first
        self._first_row: int | None = 0 if first is None else None
        self._end_row: int | None = None

    @property
    def ended(self) -> bool:
        return self._end_row is not None

    def slices(self, chunk: Chunk) -> list[Slice]:
        start = int(np.searchsorted(chunk.ts, self._from))
        end = len(chunk) if self._to is None else int(np.searchsorted(chunk.ts, self._to))
        if self._first_row is None and start < len(chunk):
            self._first_row = chunk.consumed(start + 1) - 1
        if end < len(chunk):
            self._end_row = chunk.consumed(end + 1) - 1
        return [Slice(chunk, at, min(at + BATCH_ROWS, end)) for at in range(start, end, BATCH_ROWS)]

    def inside(self, rejects: pa.Table) -> pa.Table:
        offsets = rejects["offset"].to_numpy()
        keep = np.full(len(offsets), self._first_row is not None)
        if self._first_row is not None:
            keep &= offsets >= self._first_row
        if self._end_row is not None:
            keep &= offsets < self._end_row
        return rejects.filter(pa.array(keep))


class SpoolWriter:
    """Writes batches of events of one input as one Parquet file, under a name that no other attempt has."""

    def __init__(self, folder: Path, number: int, request: Request, row_group: int = RANGE_ROWS) -> None:
        self._kinds, self._row_group = request.kinds, row_group
        self._schemas, self._named = request.schemas, request.by_column
        self._fields = {f.name: f.type.arrow for kind in request.kinds for f in request.fields[kind]}
        columns: list[tuple[str, pa.DataType]] = [("ts", pa.int64())]
        if self._named:
            columns.append(("event", pa.dictionary(pa.int8(), pa.string())))
        self._schema = pa.schema([*columns, *self._fields.items()])
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f"input-{number:04d}-{secrets.token_hex(8)}.parquet"
        self._waiting: list[pa.RecordBatch] = []
        self._rows = 0
        self._writer = pq.ParquetWriter(
            self.path, self._schema, compression="lz4", use_dictionary=["event"] if self._named else False,
            write_statistics=["ts"],
        )  # fmt: skip

    def write(self, batch: EventBatch) -> None:
        if not len(batch):
            return
        self._waiting.append(as_rows(batch, self._schema, self._schemas))
        self._rows += len(batch)
        if self._rows >= self._row_group:
            self._flush()

    def close(self) -> Path:
        self._flush()
        self._writer.close()
        return self.path

    def _flush(self) -> None:
        if self._rows:
            table = pa.Table.from_batches(self._waiting, self._schema)
            self._writer.write_table(table, row_group_size=self._row_group)
        self._waiting, self._rows = [], 0


def as_rows(batch: EventBatch, schema: pa.Schema, events: Sequence[EventSchema]) -> pa.RecordBatch:
    """The events as one row each: columns that a type does not have are null in its rows."""
    columns = []
    for field in schema:
        if field.name == "ts":
            columns.append(pa.array(batch.ts))
        elif field.name == "event" and events_are_named(schema):
            names = pa.array([event.name for event in events], pa.string())
            columns.append(pa.DictionaryArray.from_arrays(pa.array(batch.kind.astype(np.int8)), names))
        else:
            columns.append(_column(batch, field))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def events_are_named(schema: pa.Schema) -> bool:
    at = schema.get_field_index("event")
    return at >= 0 and pa.types.is_dictionary(schema.types[at])


def _column(batch: EventBatch, field: pa.Field) -> pa.Array:
    at = np.full(len(batch), -1, np.int64)
    arrays, height = [], 0
    for kind, columns in enumerate(batch.columns):
        if columns is not None and field.name in columns.arrays:
            array = columns.arrays[field.name]
            at[batch.kind == kind] = columns.pos + height
            arrays.append(array)
            height += len(array)
    if not arrays:
        return pa.nulls(len(batch), field.type)
    return pa.concat_arrays(arrays).take(pa.array(at, mask=at < 0))


def spool_error(number: int, what: str, why: str) -> InputError:
    return InputError(
        f"input {number} ({what}) has to be converted to Parquet with statistics, which can't hold it: {why}\n"
        "  give one input per event type as {EventType: input}, or use another plan"
    )
