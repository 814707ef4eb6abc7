"""Blobs and their merge: the total order survives cutting, packing, sharding and streaming."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mainstem.gate.batch import Columns, EventBatch
from mainstem.schema import EventSchema, Field, Type
from mainstem.spark.blobs import Chunk, compact, pack, split, unpack
from mainstem.spark.merge import merge

A = EventSchema("A", (Field("x", Type("int")), Field("name", Type("str", nullable=True))))
B = EventSchema("B", (Field("ys", Type("int", is_list=True)),))
EVENTS = (A, B)


def make_batch(ts: list[int], kind: list[int], first_id: int, *, scattered: bool = False) -> EventBatch:
    """Events whose fields encode their id, so that a mix-up shows; `scattered` leaves holes in the arrays."""
    kinds = np.array(kind, np.uint8)
    ids = first_id + np.arange(len(ts))
    columns: list[Columns | None] = []
    for k, make in enumerate((_columns_a, _columns_b)):
        own = ids[kinds == k]
        rows = np.repeat(own, 2) if scattered else own
        pos = np.arange(len(own)) * (2 if scattered else 1)
        columns.append(Columns(pos=pos, arrays=make(rows.tolist())) if len(own) else None)
    return EventBatch(kind=kinds, ts=np.array(ts, np.int64), columns=columns, position=())


def _columns_a(ids: list[int]) -> dict[str, pa.Array]:
    return {"x": pa.array(ids, pa.int64()), "name": _names(ids)}


def _names(ids: list[int]) -> pa.Array:
    return pa.array([None if i % 3 == 0 else f"n{i}" for i in ids], pa.string())


def _columns_b(ids: list[int]) -> dict[str, pa.Array]:
    return {"ys": pa.array([[i, -i][: i % 3] + [i] for i in ids], pa.list_(pa.int64()))}


def ids_of(batch: EventBatch) -> list[int]:
    """The ids of a batch in its order; also checks that all fields of an event belong together."""
    found: list[int] = [0] * len(batch)
    for k, columns in enumerate(batch.columns):
        events = np.flatnonzero(batch.kind == k).tolist()
        assert (columns is None) == (not events)
        if columns is None:
            continue
        rows = {name: array.take(pa.array(columns.pos)).to_pylist() for name, array in columns.arrays.items()}
        ids = rows["x"] if k == 0 else [ys[-1] for ys in rows["ys"]]
        again = (_columns_a, _columns_b)[k](ids)
        assert {name: array.to_pylist() for name, array in again.items()} == rows
        for event, id in zip(events, ids, strict=True):
            found[event] = id
    return found


@pytest.mark.parametrize("scattered", [False, True])
@pytest.mark.parametrize("ts", [[5], [-9, -9, 0, 7], [-(2**63), 0, 2**63 - 1]])
def test_a_blob_gives_back_what_was_packed(ts: list[int], scattered: bool) -> None:
    batch = make_batch(ts, [i % 2 for i in range(len(ts))], 100, scattered=scattered)
    chunk = unpack(pack(compact(batch)), EVENTS)
    assert chunk.ts.tolist() == ts
    (ordered,) = merge([(ts[0], (0, 0, 0), chunk)], batch_rows=10)
    assert ids_of(ordered.batch) == ids_of(batch)
    for columns, event in zip(ordered.batch.columns, EVENTS, strict=True):
        if columns is not None:
            assert {n: a.type for n, a in columns.arrays.items()} == {f.name: f.type.arrow for f in event.fields}


def random_parts(rng: np.random.Generator, parts: int, spread: int) -> list[tuple[tuple[int, int, int], EventBatch]]:
    """Chunks of several partitions, sorted inside; small ids first in their partition."""
    chunks = []
    next_id = 0
    for part in range(parts):
        ts = np.sort(rng.integers(0, spread, int(rng.integers(0, 40)))) + part * int(rng.integers(0, spread))
        cuts = np.sort(rng.integers(0, len(ts) + 1, 3)).tolist()
        for number, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(ts)], strict=True)):
            if a < b:
                kinds = rng.integers(0, 2, b - a).tolist()
                chunks.append(((part % 2, part, number), make_batch(ts[a:b].tolist(), kinds, next_id)))
                next_id += b - a
    return chunks


def arriving(chunks: list[tuple[tuple[int, int, int], Chunk]]) -> list[tuple[int, tuple[int, int, int], Chunk]]:
    return sorted(((int(c.ts[0]), key, c) for key, c in chunks), key=lambda row: row[:2])


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("batch_rows", [1, 7, 1000])
def test_merged_order_is_ts_then_input_then_partition_then_row(seed: int, batch_rows: int) -> None:
    rng = np.random.default_rng(seed)
    parts = random_parts(rng, parts=5, spread=int(rng.integers(1, 60)))
    expected = sorted(
        (int(t), *key, row, id)
        for key, batch in parts
        for row, (t, id) in enumerate(zip(batch.ts, ids_of(batch), strict=True))
    )
    found, next_seq = [], 11
    for ordered in merge(arriving([(k, compact(b)) for k, b in parts]), batch_rows=batch_rows, first=11):
        assert ordered.first == next_seq and ordered.seq is None
        next_seq += len(ordered.batch)
        found += list(zip(ordered.batch.ts.tolist(), ids_of(ordered.batch), strict=True))
    assert found == [(row[0], row[-1]) for row in expected]


@pytest.mark.parametrize("seed", range(20))
def test_every_shard_knows_the_position_of_its_events(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shards = int(rng.integers(1, 5))
    parts = random_parts(rng, parts=4, spread=int(rng.integers(1, 60)))
    whole = [id for o in merge(arriving([(k, compact(b)) for k, b in parts]), batch_rows=9) for id in ids_of(o.batch)]
    pieces: list[list[tuple[tuple[int, int, int], Chunk]]] = [[] for _ in range(shards)]
    for key, batch in parts:
        chunk = compact(batch)
        for shard, piece in enumerate(split(chunk, rng.integers(0, shards, len(batch)), shards)):
            pieces[shard].append((key, unpack(pack(piece), EVENTS)))
    found = {}
    for chunks in pieces:
        for ordered in merge(arriving(chunks), batch_rows=int(rng.integers(1, 30))):
            assert ordered.seq is not None
            found |= dict(zip(ordered.seq.tolist(), ids_of(ordered.batch), strict=True))
    assert [found[seq] for seq in range(len(whole))] == whole and len(found) == len(whole)


def test_memory_holds_only_chunks_that_overlap() -> None:
    """A long log in order is passed on chunk by chunk, whatever its length."""
    taken = 0

    def chunks():
        nonlocal taken
        for number in range(100):
            taken += 1
            yield 10 * number, (0, 0, number), compact(make_batch([10 * number, 10 * number + 5], [0, 1], 0))

    for passed_on, _ in enumerate(merge(chunks(), batch_rows=1), 1):
        assert taken <= passed_on + 1
