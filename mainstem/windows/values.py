"""Columns of events as arrays that kernels read, and back: text as codes, bools as bytes, times as integers. And memory
for results, which is used again."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import EventBatch
from mainstem.schema import Type
from mainstem.state.pool import StringPool

_POOLED: dict[str, type] = {"str": str, "bytes": bytes}


class Pools:
    """The texts that an operator has met."""

    def __init__(self) -> None:
        self._pools: dict[str, StringPool] = {}

    def array(self, column: pa.Array, base: str) -> np.ndarray:
        """A column without nulls."""
        if base in _POOLED:
            return self._pool(base).intern(column)
        if base == "bool":
            return column.to_numpy(zero_copy_only=False).view(np.uint8)
        if base == "datetime":
            column = column.cast(pa.int64())
        return column.to_numpy(zero_copy_only=False)

    def arrow(self, values: np.ndarray, base: str) -> pa.Array:
        if base in _POOLED:
            return self._pool(base).decode(values)
        if base == "bool":
            return pa.array(values.astype(np.bool_))
        if base == "datetime":
            return pa.array(values).cast(Type("datetime").arrow)
        return pa.array(values)

    def _pool(self, base: str) -> StringPool:
        if base not in self._pools:
            self._pools[base] = StringPool(_POOLED[base])
        return self._pools[base]


def dtype_of(base: str) -> Any:
    return {"float": np.float64, "bool": np.uint8}.get(base, np.int64)


class OwnEvents:
    """The events of one type in a batch: where they stand, when, and their columns, each read once."""

    def __init__(self, batch: EventBatch, kind: int) -> None:
        found = batch.columns[kind]
        self.count = 0 if found is None else len(found.pos)
        self._columns, self._take = found, None if found is None or found.dense else pa.array(found.pos)
        self.places = np.flatnonzero(batch.kind == kind) if self.count < len(batch) else None
        self.ts = batch.ts if self.places is None else batch.ts[self.places]

    def column(self, name: str) -> pa.Array:
        assert self._columns is not None
        array = self._columns.arrays[name]
        return array if self._take is None else array.take(self._take)

    def place(self, rows: np.ndarray) -> np.ndarray:
        """The places in the batch of some of these events."""
        return rows if self.places is None else self.places[rows]


def grown(array: np.ndarray, size: int, fill: Any = 0) -> np.ndarray:
    """The array, or a copy with room for `size` and more values; `fill` where there was none."""
    if len(array) >= size:
        return array
    larger = np.full(max(size, 2 * len(array)), fill, array.dtype)
    larger[: len(array)] = array
    return larger


_SPARE_BYTES_MAX = 2**23  # of one block
_spare: deque[np.ndarray] = deque(maxlen=12)


class _Lent:
    """Memory of results, which is used again when nothing refers to it any more."""

    def __init__(self, memory: np.ndarray) -> None:
        self._memory, self._spare = memory, _spare
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        if self._memory.nbytes <= _SPARE_BYTES_MAX:
            self._spare.append(self._memory)


def lent(lines: int, rows: int) -> np.ndarray:
    """Lines of int64 of undefined content, for results. It costs more to touch new pages than to compute what goes
    there, so some blocks are kept when results are dropped, and lent again to those that need most of one."""
    size = lines * rows
    for _ in range(len(_spare)):
        try:
            memory = _spare.pop()
        except IndexError:  # other threads have taken what there was
            break
        if size <= len(memory) <= 2 * size:
            return np.asarray(_Lent(memory))[:size].reshape(lines, rows)
        _spare.appendleft(memory)
    return np.asarray(_Lent(np.empty(size, np.int64))).reshape(lines, rows)
