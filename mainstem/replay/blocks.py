"""Blocks as batches: the items of a stage's shard, or the events of a range at home, in calls of a good size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstem.gate import Columns, EventBatch
from mainstem.gate.batch import frozen, identity

CALL_ITEMS = 1 << 17  # per kernel call: some hundred microseconds of Python amortised, columns still in the cache


@dataclass(frozen=True)
class Part:
    """Some consecutive items of a block."""

    batch: EventBatch
    first: int  # item
    first_of: np.ndarray  # per event type: how many items came before
    counts: np.ndarray  # per event type: how many are here


def parts(kind: np.ndarray, ts: np.ndarray, columns: list[dict[str, pa.Array]]) -> Iterator[Part]:
    """Cuts a block. `columns[k]` are those of its items of event type k, in order."""
    first_of = np.zeros(len(columns), np.int64)
    for first, end in cuts(len(kind), CALL_ITEMS):
        own = kind[first:end]
        counts = tallied(own, len(columns))
        here = [_columns(arrays, int(f), int(n)) for arrays, f, n in zip(columns, first_of, counts, strict=True)]
        yield Part(EventBatch(frozen(own), frozen(ts[first:end]), here, ()), first, first_of.copy(), counts)
        first_of += counts


def tallied(kind: np.ndarray, kinds: int) -> np.ndarray:
    """How many of each event type there are."""
    counts = [np.count_nonzero(kind == k) for k in range(kinds - 1)]
    return np.array([*counts, len(kind) - sum(counts)])


def cuts(count: int, size: int) -> Iterator[tuple[int, int]]:
    """Equal parts of about `size`; at most one and a half times as long."""
    number = max(1, round(count / size)) if count else 0
    for n in range(number):
        yield count * n // number, count * (n + 1) // number


def _columns(arrays: dict[str, pa.Array], first: int, count: int) -> Columns | None:
    if not count:
        return None
    return Columns(identity(count), {name: array.slice(first, count) for name, array in arrays.items()})
