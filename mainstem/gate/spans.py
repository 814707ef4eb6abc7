"""Columns as they were read, and spans of their rows: many batches are cut from one record batch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa


class ReadColumns:
    """The used columns of one record batch. What is found out about a column holds for every span of its rows."""

    def __init__(self, arrays: dict[str, pa.Array]) -> None:
        self.arrays = arrays
        self._values: dict[str, np.ndarray | None] = {}
        self._lists: dict[str, tuple[np.ndarray, np.ndarray] | None] = {}

    def values(self, name: str) -> np.ndarray | None:
        """A column of 8-byte numbers as a read-only view, null places holding anything; None for other types."""
        if name not in self._values:
            self._values[name] = _numbers(self.arrays[name])
        return self._values[name]

    def lists(self, name: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Offsets and items of a column of lists of such numbers; None for other types."""
        if name not in self._lists:
            self._lists[name] = _list_parts(self.arrays[name])
        return self._lists[name]


class Span(Mapping[str, pa.Array]):
    """Consecutive rows of the columns of one event type.

    An Arrow array is cut out when it is asked for, because making one costs more than reading a small batch does.
    Event types that share a column get the same object, through the `made` that their spans share.
    """

    __slots__ = ("_made", "names", "source", "start", "stop")

    def __init__(
        self, source: ReadColumns, names: tuple[str, ...], start: int, stop: int, made: dict[str, pa.Array]
    ) -> None:
        self.source, self.names, self.start, self.stop, self._made = source, names, start, stop, made

    def __getitem__(self, name: str) -> pa.Array:
        if name not in self.names:
            raise KeyError(name)
        array = self._made.get(name)
        if array is None:
            array = self._made[name] = self.source.arrays[name].slice(self.start, self.height)
        return array

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def height(self) -> int:
        """How many rows."""
        return self.stop - self.start

    def cut(self, start: int, count: int) -> Span:
        first = self.start + start
        return Span(self.source, self.names, first, first + count, {})


def cut_arrays(arrays: Mapping[str, pa.Array], start: int, count: int) -> Mapping[str, pa.Array]:
    if isinstance(arrays, Span):
        return arrays.cut(start, count)
    return {name: array.slice(start, count) for name, array in arrays.items()}


def _numbers(array: pa.Array) -> np.ndarray | None:
    """The values of 8-byte numbers as a read-only view, if kernels can read them where they are."""
    if array.type == pa.float64():
        dtype: Any = np.float64
    elif array.type == pa.int64() or pa.types.is_timestamp(array.type):
        dtype = np.int64
    else:
        return None
    buffer = array.buffers()[1]
    if buffer is None:
        return None
    return _readable(np.frombuffer(buffer, dtype, len(array), array.offset * 8))


def _list_parts(array: pa.Array) -> tuple[np.ndarray, np.ndarray] | None:
    if not pa.types.is_list(array.type) or array.buffers()[1] is None:
        return None
    offsets = _readable(np.frombuffer(array.buffers()[1], np.int32, len(array) + 1, array.offset * 4))
    items = _numbers(array.values)
    return None if offsets is None or items is None else (offsets, items)


def _readable(view: np.ndarray) -> np.ndarray | None:
    if not view.flags.aligned:
        return None
    view.flags.writeable = False
    return view
