"""A batch of events in total order: what the engine reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.gate.spans import Span


@dataclass
class Columns:
    """The events of one type inside one batch.

    `pos[j]` is the row of the j-th event of this type (in total order) in `arrays`. Rows of `arrays` outside `pos`
    belong to other types or were rejected, and may hold nulls anywhere.
    """

    pos: np.ndarray
    arrays: Mapping[str, pa.Array]

    @property
    def height(self) -> int:
        """Rows of `arrays`; without arrays, as many as `pos` needs."""
        if isinstance(self.arrays, Span):
            return self.arrays.height
        return len(next(iter(self.arrays.values()))) if self.arrays else int(self.pos.max(initial=-1)) + 1

    @property
    def dense(self) -> bool:
        """Whether `pos` is 0, 1, 2, … and so every row of `arrays` is an event, in order."""
        return len(self.pos) == self.height and is_identity(self.pos)


@dataclass
class EventBatch:
    """Events in total order `(ts, input, offset)`.

    All NumPy arrays are read-only, whether they are views of the user's Arrow memory or not: kernels see one array
    type only, and nothing can write into what the user handed over.
    """

    kind: np.ndarray
    ts: np.ndarray
    columns: list[Columns | None]
    position: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ts)


_identity_cache = np.arange(65_536, dtype=np.int64)
_identity_cache.flags.writeable = False
_kind_cache: dict[int, np.ndarray] = {}
_SMALL_BYTES = 2**15  # less than what `malloc` maps anew each time


def identity(length: int) -> np.ndarray:
    """0, 1, … length-1, read-only and shared: a clean batch of one type needs no memory of its own."""
    global _identity_cache
    if length > len(_identity_cache):
        _identity_cache = frozen(np.arange(length, dtype=np.int64))
    return _identity_cache[:length]


def is_identity(rows: np.ndarray) -> bool:
    return known_identity(rows) or bool(np.array_equal(rows, identity(len(rows))))


def known_identity(rows: np.ndarray) -> bool:
    """Whether it is what `identity` gives: no look at the rows."""
    return rows.base is _identity_cache and (not len(rows) or bool(rows[0] == 0))


def constant_kind(kind: int, length: int) -> np.ndarray:
    """`kind` repeated, read-only and shared."""
    cached = _kind_cache.get(kind)
    if cached is None or len(cached) < length:
        cached = _kind_cache[kind] = frozen(np.full(max(length, 65_536), kind, dtype=np.uint8))
    return cached[:length]


def fresh(count: int, dtype: Any) -> np.ndarray:
    """An array of undefined content for results. Arrow's allocator keeps freed memory, where NumPy's gives large arrays
    back, and touching new pages costs more than most kernels."""
    kind = np.dtype(dtype)
    if count * kind.itemsize < _SMALL_BYTES:
        return np.empty(count, kind)
    return np.frombuffer(pa.allocate_buffer(count * kind.itemsize), kind, count)


def frozen(array: np.ndarray) -> np.ndarray:
    array.flags.writeable = False
    return array
