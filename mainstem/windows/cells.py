"""Cells: what each key has in each pane, numbered in order of their first events."""

from __future__ import annotations

import numpy as np

from mainstem.windows.kernels import NONE
from mainstem.windows.values import grown

_ROOM = 1024


class Cells:
    """Columns of all cells, and by key its newest cell."""

    def __init__(self) -> None:
        self.count = 0
        self.pane, self.key = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64)
        self.before, self.after = np.empty(_ROOM, np.int64), np.empty(_ROOM, np.int64)
        self.newest = np.full(_ROOM, NONE, np.int64)

    @property
    def room(self) -> int:
        return len(self.pane)

    def reserve(self, cells: int, keys: int) -> None:
        """Room for so many more cells, and for so many keys in all."""
        size = self.count + cells
        if size > self.room:
            for name in ("pane", "key", "before", "after"):
                setattr(self, name, grown(getattr(self, name), size))
        self.newest = grown(self.newest, keys, NONE)

    def put(self, pane: np.ndarray, key: np.ndarray, keys: int) -> None:
        """Cells of an earlier run, in their order."""
        self.reserve(len(pane), keys)
        self.count = len(pane)
        self.pane[: self.count], self.key[: self.count] = pane, key
        order = np.argsort(key, kind="stable")
        same = key[order][1:] == key[order][:-1]
        before, after = self.before[: self.count], self.after[: self.count]
        before[:] = after[:] = NONE
        before[order[1:][same]] = order[:-1][same]
        after[order[:-1][same]] = order[1:][same]
        last = np.ones(self.count, np.bool_)
        last[:-1] = ~same
        self.newest[key[order[last]]] = order[last]
