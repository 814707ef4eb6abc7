"""Cells: what each key has in each pane, numbered in order of time."""

from __future__ import annotations

import numpy as np

from mainstem.windows.kernels import NONE, Cells
from mainstem.windows.values import grown

_ROOM = 1024


class CellTable:
    """Columns of all cells, and by key its newest cell."""

    def __init__(self) -> None:
        self.count = 0
        self.arrays = Cells(*(np.empty(_ROOM, np.int64) for _ in Cells._fields))
        self.newest = np.full(_ROOM, NONE, np.int64)

    @property
    def room(self) -> int:
        return len(self.arrays.pane)

    @property
    def pane(self) -> np.ndarray:
        return self.arrays.pane[: self.count]

    @property
    def key(self) -> np.ndarray:
        return self.arrays.key[: self.count]

    def reserve(self, cells: int, keys: int) -> None:
        """Room for so many more cells, and for so many keys in all."""
        size = self.count + cells
        if size > self.room:
            self.arrays = Cells(*(_roomier(array, self.count, max(size, 2 * self.room)) for array in self.arrays))
        self.newest = grown(self.newest, keys, NONE)

    def put(self, pane: np.ndarray, key: np.ndarray, keys: int) -> None:
        """Cells of an earlier run, in their order."""
        self.reserve(len(pane), keys)
        self.count = len(pane)
        self.pane[:], self.key[:] = pane, key
        order = np.argsort(key, kind="stable")
        same = key[order][1:] == key[order][:-1]
        before, after = self.arrays.before[: self.count], self.arrays.after[: self.count]
        before[:] = after[:] = NONE
        before[order[1:][same]] = order[:-1][same]
        after[order[:-1][same]] = order[1:][same]
        last = np.ones(self.count, np.bool_)
        last[:-1] = ~same
        self.newest[key[order[last]]] = order[last]


def _roomier(array: np.ndarray, used: int, size: int) -> np.ndarray:
    """A copy with room for `size` values. Memory that no cell uses is not touched."""
    larger = np.empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger
