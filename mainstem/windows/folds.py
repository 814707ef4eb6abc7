"""Aggregates over cells: each keeps arrays with one value per cell, and makes windows of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mainstem.errors import InputError
from mainstem.schema import INT64_MAX, INT64_MIN
from mainstem.windows.aggregates import Aggregate
from mainstem.windows.cells import Cells
from mainstem.windows.kernels import (
    ADD,
    MAX,
    MIN,
    count_cells,
    first_of_cells,
    fold_cells,
    join_sides,
    last_of_cells,
    scan_left,
    scan_right,
    sum_words,
)
from mainstem.windows.values import dtype_of, grown
from mainstem.windows.window import Window

Kept = dict[str, np.ndarray]


@dataclass(frozen=True)
class Rows:
    """Windows to be told about: the pane in which each starts, its key, its first and its last cell."""

    starts: np.ndarray
    key: np.ndarray
    first: np.ndarray
    last: np.ndarray

    def __len__(self) -> int:
        return len(self.starts)


class Fold(Protocol):
    """What the operator asks of an aggregate."""

    def add(self, cells: Cells, new: int, cell: np.ndarray, values: np.ndarray) -> None:
        """Events with their cells and values; cells from `new` on have had none before."""

    def complete(self, cells: Cells, full: np.ndarray, ends: np.ndarray) -> None:
        """These cells get no more events, in order of time; the blocks of `ends` neither, back in time."""

    def results(self, cells: Cells, rows: Rows) -> np.ndarray: ...

    def kept(self, cells: Cells, keep: np.ndarray) -> Kept:
        """What to keep of the cells to keep."""

    def restore(self, cells: Cells, kept: Kept) -> None: ...


class Track:
    """One number per cell, and its folds to both ends of a block."""

    def __init__(self, op: int, dtype: Any, panes: int) -> None:
        self.op, self.panes = op, panes
        self.empty = _empty(op, np.dtype(dtype))
        self.values = np.full(0, self.empty, dtype)
        self.left = self.right = np.empty(0, dtype)

    def reserve(self, cells: Cells) -> None:
        self.values = grown(self.values, cells.room, self.empty)
        if self.panes > 1:
            self.left, self.right = grown(self.left, cells.room), grown(self.right, cells.room)

    def complete(self, cells: Cells, full: np.ndarray, ends: np.ndarray) -> None:
        if self.panes > 1:
            scan_right(self.op, full, cells.before, cells.pane, self.panes, self.values, self.right)
            scan_left(self.op, ends, cells.after, cells.pane, self.panes, self.values, self.left)

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        if self.panes == 1:
            return self.values[rows.last]
        out = np.empty(len(rows), self.values.dtype)
        join_sides(self.op, rows.first, rows.last, rows.starts, cells.pane, self.panes, self.left, self.right, out)
        return out

    def restore(self, cells: Cells, values: np.ndarray) -> None:
        self.reserve(cells)
        self.values[: len(values)] = values


def _empty(op: int, dtype: np.dtype) -> Any:
    """What any value is combined with first."""
    if op == ADD:
        return 0
    if dtype.kind == "f":
        return np.inf if op == MIN else -np.inf
    if dtype == np.uint8:
        return 1 if op == MIN else 0
    return INT64_MAX if op == MIN else INT64_MIN


class Tracked(ABC):
    """An aggregate that is made of tracks."""

    def __init__(self, tracks: dict[str, Track]) -> None:
        self.tracks = tracks

    def add(self, cells: Cells, new: int, cell: np.ndarray, values: np.ndarray) -> None:
        for track in self.tracks.values():
            track.reserve(cells)
        self.fold(cell, values)

    @abstractmethod
    def fold(self, cell: np.ndarray, values: np.ndarray) -> None:
        """Adds values to the tracks, each at its cell."""

    def complete(self, cells: Cells, full: np.ndarray, ends: np.ndarray) -> None:
        for track in self.tracks.values():
            track.complete(cells, full, ends)

    def kept(self, cells: Cells, keep: np.ndarray) -> Kept:
        return {name: track.values[keep] for name, track in self.tracks.items()}

    def restore(self, cells: Cells, kept: Kept) -> None:
        for name, track in self.tracks.items():
            track.restore(cells, kept[name])


class Counted(Tracked):
    """count"""

    def __init__(self, panes: int) -> None:
        super().__init__({"n": Track(ADD, np.int64, panes)})

    def fold(self, cell: np.ndarray, values: np.ndarray) -> None:
        count_cells(cell, self.tracks["n"].values)

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        return self.tracks["n"].results(cells, rows)


class Extreme(Tracked):
    """min, max, any, all"""

    def __init__(self, op: int, base: str, panes: int) -> None:
        super().__init__({"best": Track(op, dtype_of(base), panes)})

    def fold(self, cell: np.ndarray, values: np.ndarray) -> None:
        track = self.tracks["best"]
        fold_cells(track.op, cell, values, track.values)

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        return self.tracks["best"].results(cells, rows)


class FloatSum(Tracked):
    """sum of floats, in the order that `plain.py` defines"""

    def __init__(self, panes: int) -> None:
        super().__init__({"sum": Track(ADD, np.float64, panes)})

    def fold(self, cell: np.ndarray, values: np.ndarray) -> None:
        fold_cells(ADD, cell, values, self.tracks["sum"].values)

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        return self.tracks["sum"].results(cells, rows)


class IntSum(Tracked):
    """sum of integers; `error` says that one does not fit"""

    def __init__(self, window: Window, aggregate: Aggregate) -> None:
        self.window, self.aggregate = window, aggregate
        super().__init__({name: Track(ADD, np.int64, window.panes) for name in ("high", "low")})

    def fold(self, cell: np.ndarray, values: np.ndarray) -> None:
        sum_words(cell, values, self.tracks["high"].values, self.tracks["low"].values)

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        high, low = (self.tracks[name].results(cells, rows) for name in ("high", "low"))
        high, low = high + (low >> 32), low & 0xFFFFFFFF
        wrong = np.flatnonzero((high < -(2**31)) | (high >= 2**31))
        if len(wrong):
            raise self._error(int(rows.starts[wrong[0]]), (int(high[wrong[0]]) << 32) + int(low[wrong[0]]))
        return (high << 32) | low

    def _error(self, start: int, total: int) -> InputError:
        return self.window.too_large(self.aggregate, start * self.window.pane, total)


class Mean:
    """avg"""

    def __init__(self, total: IntSum | FloatSum, panes: int) -> None:
        self.total, self.counted = total, Counted(panes)

    def add(self, cells: Cells, new: int, cell: np.ndarray, values: np.ndarray) -> None:
        self.total.add(cells, new, cell, values)
        self.counted.add(cells, new, cell, values)

    def complete(self, cells: Cells, full: np.ndarray, ends: np.ndarray) -> None:
        self.total.complete(cells, full, ends)
        self.counted.complete(cells, full, ends)

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        total, count = self.total.results(cells, rows), self.counted.results(cells, rows)
        return total.astype(np.float64) / count.astype(np.float64)

    def kept(self, cells: Cells, keep: np.ndarray) -> Kept:
        return self.total.kept(cells, keep) | self.counted.kept(cells, keep)

    def restore(self, cells: Cells, kept: Kept) -> None:
        self.total.restore(cells, kept)
        self.counted.restore(cells, kept)


class Ending:
    """first, last: what the first or last cell of the window has"""

    def __init__(self, first: bool, base: str) -> None:
        self.first, self.values = first, np.empty(0, dtype_of(base))

    def add(self, cells: Cells, new: int, cell: np.ndarray, values: np.ndarray) -> None:
        self.values = grown(self.values, cells.room)
        if self.first:
            first_of_cells(cell, values, new, self.values)
        else:
            last_of_cells(cell, values, self.values)

    def complete(self, cells: Cells, full: np.ndarray, ends: np.ndarray) -> None:
        pass

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        return self.values[rows.first if self.first else rows.last]

    def kept(self, cells: Cells, keep: np.ndarray) -> Kept:
        return {"value": self.values[keep]}

    def restore(self, cells: Cells, kept: Kept) -> None:
        self.values = grown(self.values, cells.room)
        self.values[: len(kept["value"])] = kept["value"]


def simple_fold(window: Window, aggregate: Aggregate, base: str) -> Fold:
    """The fold of an aggregate other than `distinct` and `fold`."""
    panes = window.panes
    if aggregate.op == "count":
        return Counted(panes)
    if aggregate.op in ("first", "last"):
        return Ending(aggregate.op == "first", base)
    if aggregate.op in ("sum", "avg"):
        total = FloatSum(panes) if base == "float" else IntSum(window, aggregate)
        return total if aggregate.op == "sum" else Mean(total, panes)
    return Extreme(MIN if aggregate.op in ("min", "all") else MAX, base, panes)
