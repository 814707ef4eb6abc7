"""Rows taken from inputs to one batch in total order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import Columns, EventBatch, constant_kind, frozen, identity
from mainstem.gate.kernels import merge_order
from mainstem.gate.piece import Chunk, Part


@dataclass(frozen=True)
class Slice:
    """Some consecutive rows of a chunk."""

    chunk: Chunk
    start: int
    stop: int

    def __len__(self) -> int:
        return self.stop - self.start

    @property
    def ts(self) -> np.ndarray:
        return self.chunk.ts[self.start : self.stop]


def assemble(taken: Sequence[Sequence[Slice]], kinds: int, position: tuple[int, ...]) -> EventBatch:
    """A batch of the rows taken, given per input (in input order)."""
    if len(taken) == 1 and len(taken[0]) == 1:
        return _view(taken[0][0], kinds, position)
    stack = _Stack(sum(len(part) for slices in taken for part in slices), kinds)
    for part in chain.from_iterable(taken):
        stack.add(part)
    # Each input is sorted and inputs stand in their order, so the first of equal ts is first in total order.
    runs = [_concat_ts(slices) for slices in taken]
    ts = runs[0]
    if len(runs) > 1:
        ts, order = merge_order(runs)
        stack.reorder(order)
    return EventBatch(frozen(stack.kind), frozen(ts), stack.columns(), position)


def _view(part: Slice, kinds: int, position: tuple[int, ...]) -> EventBatch:
    """Consecutive rows of one chunk: columns are views of what was read."""
    columns: list[Columns | None] = [None] * kinds
    for of_type in part.chunk.parts:
        _, pos, low, high = _cut(of_type, part.start, part.stop)
        if low < high:
            columns[of_type.kind] = Columns(pos, _span(of_type.arrays, low, high))
    kind = part.chunk.kind
    kind = constant_kind(kind, len(part)) if isinstance(kind, int) else frozen(kind[part.start : part.stop])
    return EventBatch(kind, frozen(part.ts), columns, position)


class _Stack:
    """Columns of slices on top of each other, per event type."""

    def __init__(self, rows: int, kinds: int) -> None:
        self.kind = np.empty(rows, dtype=np.uint8)
        self._place = np.empty(rows, dtype=np.int64)  # of each row, in the columns of its type
        self._filled = 0
        self._arrays: list[list[dict[str, pa.Array]]] = [[] for _ in range(kinds)]
        self._height = [0] * kinds

    def add(self, part: Slice) -> None:
        stop = self._filled + len(part)
        kind, place = self.kind[self._filled : stop], self._place[self._filled : stop]
        for of_type in part.chunk.parts:
            rows, pos, low, high = _cut(of_type, part.start, part.stop)
            if high == low:
                continue
            kind[rows] = of_type.kind
            place[rows] = pos + self._height[of_type.kind]
            self._arrays[of_type.kind].append(_span(of_type.arrays, low, high))
            self._height[of_type.kind] += high - low
        self._filled = stop

    def reorder(self, order: np.ndarray) -> None:
        self.kind, self._place = self.kind[order], self._place[order]

    def columns(self) -> list[Columns | None]:
        present = sum(1 for arrays in self._arrays if arrays)
        result: list[Columns | None] = []
        for kind, arrays in enumerate(self._arrays):
            if not arrays:
                result.append(None)
                continue
            pos = self._place if present == 1 else self._place[self.kind == kind]
            result.append(Columns(frozen(pos), {name: _concat([a[name] for a in arrays]) for name in arrays[0]}))
        return result


def _cut(part: Part, start: int, stop: int) -> tuple[np.ndarray | slice, np.ndarray, int, int]:
    """The rows of a type between two rows of its chunk: counted from `start`, their places
    in a span of the columns, and this span."""
    rows: np.ndarray | slice
    if part.rows is None:
        first, last, rows = start, stop, slice(None)
    else:
        first, last = np.searchsorted(part.rows, (start, stop)).tolist()
        rows = part.rows[first:last] - start
    if first == last:
        return rows, identity(0), 0, 0
    if part.pos is None:
        return rows, identity(last - first), first, last
    pos = part.pos[first:last]
    low, high = int(pos[0]), int(pos[-1]) + 1
    return rows, frozen(pos - low) if low else frozen(pos), low, high


def _span(arrays: dict[str, pa.Array], low: int, high: int) -> dict[str, pa.Array]:
    return {name: array.slice(low, high - low) for name, array in arrays.items()}


def _concat(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)


def _concat_ts(slices: Sequence[Slice]) -> np.ndarray:
    return slices[0].ts if len(slices) == 1 else np.concatenate([part.ts for part in slices])
