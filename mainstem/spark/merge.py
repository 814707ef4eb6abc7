"""Merges the chunks of many partitions into the total order, while they stream.

Chunks arrive sorted by (smallest ts, input, partition, chunk). The first timestamp of the next chunk bounds everything
that is still to come, so all held events below it are ready. Memory holds the chunks that overlap in time, no more.
Every event is sorted once, and not at all where partitions do not overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import EventBatch, frozen
from mainstem.spark.blobs import Chunk, as_columns, rows_by_type

Key = tuple[int, int, int]
"""(input, partition, chunk): what decides between equal timestamps."""


@dataclass
class Ordered:
    """A batch in total order. `seq[j]` is the position of its j-th event; None when they are `first`, `first + 1`, …

    For a shard, `batch` holds only its own events of the `total` ones from `first` on, up to `last_ts`.
    """

    batch: EventBatch
    first: int
    seq: np.ndarray | None
    total: int
    last_ts: int


@dataclass
class _Held:
    """A chunk of which some events may have been released: cursors to the rest."""

    key: Key
    chunk: Chunk
    row: int = 0
    own: int = 0
    by_type: list[int] = field(default_factory=list)

    def ready(self, bound_ts: int, bound: Key) -> int:
        """Rows of the chunk that come before (bound_ts, bound)."""
        return int(np.searchsorted(self.chunk.ts, bound_ts, "right" if self.key < bound else "left"))


@dataclass
class _Piece:
    """The next rows of one chunk, cut off for release."""

    ts: np.ndarray
    own: np.ndarray | None  # rows of `ts` whose events are here
    kind: np.ndarray
    columns: list[dict[str, pa.Array]]


def merge(arriving: Iterable[tuple[int, Key, Chunk]], *, batch_rows: int, first: int = 0) -> Iterator[Ordered]:
    """`arriving` yields (smallest ts, key, chunk) in that order; batches hold about `batch_rows` events or more."""
    held: list[_Held] = []
    for min_ts, key, chunk in arriving:
        cuts = [h.ready(min_ts, key) for h in held]
        ready = sum(cut - h.row for cut, h in zip(cuts, held, strict=True))
        if ready >= batch_rows:
            yield _release(held, cuts, first)
            first += ready
            held = [h for h in held if h.row < len(h.chunk.ts)]
        held.append(_Held(key, chunk, by_type=[0] * len(chunk.columns)))
    if held:
        yield _release(held, [len(h.chunk.ts) for h in held], first)


def _release(held: list[_Held], cuts: list[int], first: int) -> Ordered:
    in_order = sorted(range(len(held)), key=lambda i: held[i].key)
    pieces = [_cut(held[i], cuts[i]) for i in in_order if cuts[i] > held[i].row]
    return _order(pieces, first)


def _cut(held: _Held, end: int) -> _Piece:
    chunk, row = held.chunk, held.row
    if chunk.mine is None:
        own, own_end = None, end
    else:
        own_end = int(np.searchsorted(chunk.mine, end))
        own = chunk.mine[held.own : own_end] - row
    kind = chunk.kind[held.own : own_end]
    counts = np.bincount(kind, minlength=len(chunk.columns))
    columns = []
    for k, arrays in enumerate(chunk.columns):
        columns.append({name: a.slice(held.by_type[k], int(counts[k])) for name, a in arrays.items()})
        held.by_type[k] += int(counts[k])
    held.row, held.own = end, own_end
    return _Piece(chunk.ts[row:end], own, kind, columns)


def _order(pieces: list[_Piece], first: int) -> Ordered:
    """One batch from pieces that stand in key order: a stable sort by ts then gives (ts, key, row)."""
    ts = _joined([p.ts for p in pieces])
    kind = _joined([p.kind for p in pieces])
    types = len(pieces[0].columns)
    row = rows_by_type(kind, types)
    order = None if bool(np.all(ts[1:] >= ts[:-1])) else np.argsort(ts, kind="stable")
    ts = ts if order is None else ts[order]
    total, last_ts = len(ts), int(ts[-1])
    seq = None
    if pieces[0].own is not None:
        starts = np.cumsum([0] + [len(p.ts) for p in pieces[:-1]])
        own = _joined([p.own + start for p, start in zip(pieces, starts, strict=True)])
        if order is not None:
            rank = np.empty(len(order), np.int64)
            rank[order] = np.arange(len(order))
            own = rank[own]
            order = np.argsort(own)  # of the own events; all ranks differ
            own = own[order]
        seq, ts = own + first, ts[own]
    if order is not None:
        kind, row = kind[order], row[order]
    columns = []
    for k in range(types):
        arrays = {
            name: _concat([p.columns[k][name] for p in pieces if name in p.columns[k]]) for name in _names(pieces, k)
        }
        columns.append(as_columns(arrays, row[kind == k]))
    return Ordered(
        EventBatch(kind=frozen(kind), ts=frozen(ts), columns=columns, position=()), first, seq, total, last_ts
    )


def _names(pieces: list[_Piece], k: int) -> list[str]:
    """Chunks without an event of a type may lack its columns."""
    return max((list(p.columns[k]) for p in pieces), key=len)


def _joined(arrays: list[np.ndarray]) -> np.ndarray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays)


def _concat(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
