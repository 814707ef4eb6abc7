"""Rows taken from inputs to one batch in total order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import Columns, EventBatch, constant_kind, frozen, identity, known_identity
from mainstem.gate.kernels import grouped_in_order, merge_order, sort_order
from mainstem.gate.piece import Chunk, Part
from mainstem.gate.spans import cut_arrays


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


Merged = tuple[np.ndarray, np.ndarray]
"""Times of rows in total order, and their places in the inputs put one behind the other."""


def assemble(
    taken: Sequence[Sequence[Slice]], kinds: int, position: tuple[int, ...], merged: Merged | None = None
) -> EventBatch:
    """A batch of the rows taken, given per input (in input order, and in the order of offsets); `merged` says their
    order where it is known."""
    if len(taken) == 1 and len(taken[0]) == 1 and taken[0][0].chunk.in_order:
        return _view(taken[0][0], kinds, position)
    in_order = all(part.chunk.in_order for part in chain.from_iterable(taken))
    stack = _Stack(kinds)
    for part in chain.from_iterable(taken):
        stack.add(part)
    if not in_order:
        # Inputs stand in their order and rows in that of their offsets, so a stable sort by ts gives the total order.
        ts, order = sort_order(_concat_ts(list(chain.from_iterable(taken))))
        kind, columns = stack.reordered(order)
    elif len(taken) == 1:
        ts, kind, columns = _concat_ts(taken[0]), stack.kind(), stack.columns()
    else:
        # Each input is sorted and inputs stand in their order, so the first of equal ts is first in total order.
        ts, order = merged or merge_order([_concat_ts(slices) for slices in taken])
        kind, columns = stack.reordered(order)
    return EventBatch(frozen(kind), frozen(ts), columns, position)


def _view(part: Slice, kinds: int, position: tuple[int, ...]) -> EventBatch:
    """Consecutive rows of one chunk: columns are views of what was read."""
    columns: list[Columns | None] = [None] * kinds
    for of_type in part.chunk.parts:
        found = _cut(of_type, part)
        if len(found.pos):
            columns[of_type.kind] = found
    return EventBatch(frozen(_kind_of(part)), frozen(part.ts), columns, position)


class _Stack:
    """Slices on top of each other, with the columns of each event type."""

    def __init__(self, kinds: int) -> None:
        self._slices: list[Slice] = []
        self._pos: list[list[tuple[np.ndarray, int]]] = [[] for _ in range(kinds)]  # with the height below
        self._dense = [True] * kinds
        self._arrays: list[list[Mapping[str, pa.Array]]] = [[] for _ in range(kinds)]
        self._height = [0] * kinds

    def add(self, part: Slice) -> None:
        self._slices.append(part)
        for of_type in part.chunk.parts:
            found = _cut(of_type, part)
            if len(found.pos):
                height = found.height
                self._pos[of_type.kind].append((found.pos, self._height[of_type.kind]))
                self._arrays[of_type.kind].append(found.arrays)
                self._height[of_type.kind] += height
                self._dense[of_type.kind] &= height == len(found.pos) and known_identity(found.pos)

    def kind(self) -> np.ndarray:
        return np.concatenate([_kind_of(part) for part in self._slices])

    def columns(self) -> list[Columns | None]:
        joined: dict[tuple[int, ...], pa.Array] = {}  # event types in one table share its columns

        def join(arrays: list[pa.Array]) -> pa.Array:
            same = tuple(map(id, arrays))
            if same not in joined:
                joined[same] = arrays[0] if len(arrays) == 1 else pa.concat_arrays(arrays)
            return joined[same]

        return [
            Columns(self._rows(kind), {name: join([a[name] for a in arrays]) for name in arrays[0]}) if arrays else None
            for kind, arrays in enumerate(self._arrays)
        ]

    def _rows(self, kind: int) -> np.ndarray:
        if self._dense[kind]:
            return identity(self._height[kind])
        return frozen(np.concatenate([pos + height for pos, height in self._pos[kind]]))

    def reordered(self, order: np.ndarray) -> tuple[np.ndarray, list[Columns | None]]:
        """Kinds and columns, with row `order[i]` of the stack as row i."""
        kind, columns = self.kind(), self.columns()
        present = [found for found in columns if found is not None]
        if len(present) == 1:
            present[0].pos = frozen(order if known_identity(present[0].pos) else present[0].pos[order])
            return kind, columns
        starts = np.cumsum([0, *(0 if found is None else len(found.pos) for found in columns)])
        kind, pos = grouped_in_order(kind, order, np.concatenate([found.pos for found in present]), starts[:-1])
        for number, found in enumerate(columns):
            if found is not None:
                found.pos = frozen(pos[starts[number] : starts[number + 1]])
        return kind, columns


def _cut(part: Part, taken: Slice) -> Columns:
    """The rows of a type in a slice of its chunk, with a span of the columns that holds them."""
    if len(taken) == len(taken.chunk):
        own = len(taken) if part.rows is None else len(part.rows)
        return Columns(identity(own) if part.pos is None else frozen(part.pos), part.arrays)
    first, last = taken.start, taken.stop
    if part.rows is not None:
        first, last = np.searchsorted(part.rows, (first, last)).tolist()
    pos = (identity(last) if part.pos is None else part.pos)[first:last]
    if first == last:
        return Columns(frozen(pos), part.arrays)
    low, high = int(pos[0]), int(pos[-1]) + 1
    pos = identity(len(pos)) if high - low == len(pos) else pos - low
    return Columns(frozen(pos), cut_arrays(part.arrays, low, high - low))


def _kind_of(part: Slice) -> np.ndarray:
    kind = part.chunk.kind
    return constant_kind(kind, len(part)) if isinstance(kind, int) else kind[part.start : part.stop]


def _concat_ts(slices: Sequence[Slice]) -> np.ndarray:
    return slices[0].ts if len(slices) == 1 else np.concatenate([part.ts for part in slices])
