"""Arrow blobs: thousands of events in one binary cell, so that Spark shuffles columns and never rows.

A blob holds one chunk of one partition: its timestamps, its event types and the columns that the functions use. In a
keyed plan the chunk is cut into one blob per shard. Each of them keeps the timestamps of the *whole* chunk (narrow
differences, about one byte per event), so that every shard can work out the position of its own events in the total
order without a second pass over the data.

The bytes are one Arrow IPC stream with one record batch of one row, in which every column is a list: lists may differ
in length, and columns of different event types do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem import errors
from mainstem.errors import MainstemError
from mainstem.gate.batch import Columns, EventBatch, frozen
from mainstem.schema import INT64_MIN, EventSchema

EVENTS, REJECTS, ERROR, COUNTS = 0, 1, 2, 3
"""What a blob row carries (column `role`)."""

FIRST = INT64_MIN
"""`min_ts` of rejects and errors: they are not part of the order, and sort before all events."""

ROW_SCHEMA = "role int, shard int, min_ts long, input int, part int, chunk int, data binary"
ROW_ARROW = pa.schema(
    [
        pa.field("role", pa.int32()),
        pa.field("shard", pa.int32()),
        pa.field("min_ts", pa.int64()),
        pa.field("input", pa.int32()),
        pa.field("part", pa.int32()),
        pa.field("chunk", pa.int32()),
        pa.field("data", pa.binary()),
    ]
)
ORDER = ("min_ts", "input", "part", "chunk")
"""Blobs sorted by these columns can be merged while they stream."""


@dataclass
class Chunk:
    """Events of one chunk. `mine` are the rows of `ts` whose events are here; None when all are."""

    ts: np.ndarray  # int64[n], non-decreasing, of all events of the chunk
    kind: np.ndarray  # uint8[m], of the events that are here
    columns: list[dict[str, pa.Array]]  # per event type, compact: the j-th event of the type is row j
    mine: np.ndarray | None = None  # int64[m]


def compact(batch: EventBatch) -> Chunk:
    """The batch with the columns of each type cut to its own events, in order."""
    columns: list[dict[str, pa.Array]] = []
    for columns_of_type in batch.columns:
        if columns_of_type is None:
            columns.append({})
            continue
        pos, arrays = columns_of_type.pos, columns_of_type.arrays
        columns.append({name: _at(array, pos) for name, array in arrays.items()})
    return Chunk(batch.ts, batch.kind, columns)


def split(chunk: Chunk, shard_of: np.ndarray, shards: int) -> list[Chunk]:
    """The chunk cut by `shard_of[event]`; every piece keeps all timestamps."""
    row_of_type = rows_by_type(chunk.kind, len(chunk.columns))
    pieces = []
    for shard in range(shards):
        mine = np.flatnonzero(shard_of == shard)
        kind = chunk.kind[mine]
        columns = [
            {name: array.take(pa.array(row_of_type[mine[kind == k]])) for name, array in arrays.items()}
            for k, arrays in enumerate(chunk.columns)
        ]
        pieces.append(Chunk(chunk.ts, kind, columns, mine))
    return pieces


def rows_by_type(kind: np.ndarray, types: int) -> np.ndarray:
    """For every event, how many events of its own type come before it: its row in the compact columns."""
    rows = np.empty(len(kind), np.int64)
    for k in range(types):
        own = np.flatnonzero(kind == k)
        rows[own] = np.arange(len(own))
    return rows


def pack(chunk: Chunk) -> bytes:
    steps = np.diff(chunk.ts, prepend=chunk.ts[:1])
    parts: dict[str, pa.Array] = {
        "first": pa.array(chunk.ts[:1]),
        "step": _narrow(pa.array(steps)),
        "kind": pa.array(chunk.kind),
    }
    if chunk.mine is not None:
        parts["mine"] = _narrow(pa.array(chunk.mine))
    for k, arrays in enumerate(chunk.columns):
        for name, array in arrays.items():
            parts[f"{k}.{name}"] = _narrow(array)
    cells = [pa.ListArray.from_arrays(pa.array([0, len(a)], pa.int32()), a) for a in parts.values()]
    return pack_table(pa.Table.from_arrays(cells, names=list(parts)))


def unpack(data: bytes | pa.Buffer, events: Sequence[EventSchema]) -> Chunk:
    """The chunk of a blob, with the Arrow types of the schema."""
    row = pa.ipc.open_stream(data).read_next_batch()
    parts = {name: row.column(i).flatten() for i, name in enumerate(row.schema.names)}
    steps = parts.pop("step").to_numpy().astype(np.int64)
    first = parts.pop("first").to_numpy()
    kind = parts.pop("kind").to_numpy()
    mine = parts.pop("mine", None)
    columns: list[dict[str, pa.Array]] = [{} for _ in events]
    for name, array in parts.items():
        k, _, column = name.partition(".")
        columns[int(k)][column] = _widen(array, events[int(k)], column)
    ts = np.cumsum(steps, out=steps)
    if len(ts):
        ts += first[0]
    return Chunk(ts, kind, columns, None if mine is None else mine.to_numpy().astype(np.int64))


def blob_row(
    data: bytes, *, min_ts: int, input: int, part: int, chunk: int, shard: int = 0, role: int = EVENTS
) -> pa.RecordBatch:
    cells = [role, shard, min_ts, input, part, chunk, data]
    return pa.record_batch(
        [pa.array([cell], f.type) for cell, f in zip(cells, ROW_ARROW, strict=True)], schema=ROW_ARROW
    )


def pack_table(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def unpack_table(data: bytes | pa.Buffer) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


def pack_error(error: MainstemError) -> bytes:
    return json.dumps([type(error).__name__, str(error)]).encode()


def raise_error(data: bytes | pa.Buffer) -> NoReturn:
    """Raise an error that another task has met, with its own class and message."""
    name, message = json.loads(bytes(memoryview(data)))
    raise getattr(errors, name, MainstemError)(message)


@dataclass
class BlobRow:
    role: int
    shard: int
    min_ts: int
    key: tuple[int, int, int]  # (input, partition, chunk)
    data: pa.Buffer


def blob_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[BlobRow]:
    """The rows of a stream of blob batches, one by one and without copying their data."""
    for batch in batches:
        columns = (batch.column(name).to_pylist() for name in ("role", "shard", "min_ts", "input", "part", "chunk"))
        data = batch.column("data")
        for i, (role, shard, min_ts, *key) in enumerate(zip(*columns, strict=True)):
            yield BlobRow(role, shard, min_ts, (key[0], key[1], key[2]), data[i].as_buffer())


def _at(array: pa.Array, pos: np.ndarray) -> pa.Array:
    """`array[pos]`, as a slice when the positions are consecutive."""
    if len(pos) and pos[-1] - pos[0] == len(pos) - 1 and (len(pos) < 2 or bool(np.all(np.diff(pos) == 1))):
        return array.slice(int(pos[0]), len(pos))
    return array.take(pa.array(pos))


_NARROW = ((pa.int8(), 2**7), (pa.int16(), 2**15), (pa.int32(), 2**31))


def _narrow(array: pa.Array) -> pa.Array:
    """Integers in the fewest bytes that hold them: the shuffle's speed is bytes."""
    if not pa.types.is_int64(array.type) or not len(array):
        return array
    extent = pc.min_max(array)
    low, high = extent["min"].as_py(), extent["max"].as_py()
    if low is None:
        return array.cast(pa.int8())
    for narrow, bound in _NARROW:
        if -bound <= low and high < bound:
            return array.cast(narrow, safe=False)
    return array


def _widen(array: pa.Array, event: EventSchema, column: str) -> pa.Array:
    field = event.field(column)
    return array if field is None or array.type == field.type.arrow else array.cast(field.type.arrow)


def as_columns(arrays: dict[str, pa.Array], pos: np.ndarray) -> Columns | None:
    return Columns(pos=frozen(pos), arrays=arrays) if len(pos) else None
