"""Windows of time: events into cells, cells into windows. What `panes` does, for keys that are numbers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mainstem.schema import INT64_MIN
from mainstem.windows.cells import CellTable
from mainstem.windows.kernels import NONE, assign_times
from mainstem.windows.slide import (
    BLOCK,
    ENTERED,
    EXPIRED,
    LIVE,
    NEXT,
    NO_BLOCK,
    PLACES,
    ROWS,
    SPARE,
    WINDOWS,
    WORD,
    Keys,
    Out,
    Shape,
    drop_cells,
    relist,
    slide,
)
from mainstem.windows.tracks import Columns, TrackTable
from mainstem.windows.values import grown, lent
from mainstem.windows.window import Window

ROWS_ROOM = 2**17
"""Rows of closed windows that are written at a time: NumPy asks for large pages from 4 MiB on, which halves the cost of
memory that is touched for the first time."""
_ROOMS_MAX = 2  # windows that surely fit into so many are written at once: a second portion would be a small one
_OF_ROWS = ("key", "start", "end", "words", "floats", "first", "last")
_HANDED_OVER = 4  # rows that fill this part of the room leave with it; fewer are copied


class TimeWindows:
    """Cells, and the window that slides over them."""

    def __init__(self, window: Window, tracks: TrackTable, *, linked: bool = False) -> None:
        """`linked`: whether more than the tracks needs the first and last cells of windows."""
        self.window, self.tracks, self.cells = window, tracks, CellTable()
        self.shape = Shape(window.size, window.pane, window.panes, window.step, linked or tracks.sided, tracks.counted)
        empty = np.empty(0, np.int64)
        self.keys = Keys(*(empty for _ in Keys._fields))
        self.at = np.zeros(PLACES, np.int64)
        self.out: Out | None = None
        self.restart(INT64_MIN // 2)

    def restart(self, first: int) -> None:
        """Forgets all events; the first window starts in pane `first` or later."""
        self.at[:] = 0
        self.at[NEXT], self.at[BLOCK] = first, NO_BLOCK
        if not self.cells.count:
            return
        self.cells.count = 0
        self.cells.newest[:] = self.keys.head[:] = self.keys.tail[:] = NONE
        self.keys.cells[:] = self.keys.live[:] = self.keys.words_used[:] = 0
        self.tracks.folds.sums.running[:] = 0

    @property
    def next(self) -> int:
        """The pane in which the next window may start."""
        return int(self.at[NEXT])

    @property
    def gone(self) -> int:
        """Cells that no window needs any more: the first ones."""
        return int(self.at[EXPIRED])

    @property
    def keys_used_max(self) -> int:
        """No more keys than this have cells that are needed."""
        return int(self.at[LIVE]) + self.cells.count - int(self.at[ENTERED])

    def rank(self, rank: np.ndarray, of_rank: np.ndarray) -> None:
        """The order of the keys, when there are new ones; keys that are their own ranks need no way back."""
        count, old = len(rank), self.keys
        words = -(-count // WORD)
        uncounted, linked = count if self.shape.counted < 0 else 0, count if self.shape.linked else 0
        self.keys = Keys(
            grown(old.cells, uncounted), grown(old.head, linked, NONE), grown(old.tail, linked, NONE), rank, of_rank,
            grown(old.live, words), grown(old.words_used, -(-words // WORD)),
        )  # fmt: skip
        self.cells.reserve(0, count)
        self.tracks.reserve(0, count, self.cells.count)
        relist(self.keys, len(old.rank), self.shape.counted, self.tracks.folds.sums)

    def reserve(self, cells: int, keys: int) -> None:
        """Room for so many more cells, and for so many keys in all."""
        self.cells.reserve(cells, keys)
        self.tracks.reserve(self.cells.room, keys, self.cells.count)

    def add(self, keys: np.ndarray, base: int, runs: tuple[np.ndarray, np.ndarray], columns: Columns) -> np.ndarray:
        """Takes events of some runs, which are sorted each (see `assign_times`); gives their cells."""
        window, cells = self.window, self.cells
        cell, new, (first, end) = np.empty(len(keys), np.int64), cells.count, runs
        cells.count = assign_times(
            columns.ts, keys, base, first, end, window.pane, window.size if window.gaps else window.pane,
            self.shape.linked, cells.arrays, cells.newest, new, cell,
        )  # fmt: skip
        self.tracks.add(cell, columns, new, cells.count)
        return cell

    def close(self, latest: int) -> Iterator[tuple[Out, int]]:
        """The windows that start up to pane `latest`, in some portions of rows."""
        done = False
        while not done:
            self.at[ROWS] = self.at[WINDOWS] = 0
            out = self._room()
            done = slide(
                self.at, latest, self.cells.count, self.shape, self.cells.arrays, self.keys, self.tracks.folds, out
            )  # fmt: skip
            rows = int(self.at[ROWS])
            if rows or not done:
                yield self._taken(out, rows), rows

    def _room(self) -> Out:
        """At least for one window of all keys; for all windows of all cells, if they take no more than some rooms."""
        all_rows = (self.cells.count - self.gone) * -(-self.shape.panes // self.shape.step)
        rows = all_rows if ROWS_ROOM < all_rows <= _ROOMS_MAX * ROWS_ROOM else ROWS_ROOM
        needed = max(rows, len(self.keys.rank)) + SPARE
        if self.out is None or len(self.out.key) < needed:
            self.out = new_out(self.tracks, needed, cells=self.shape.linked)
        return self.out

    def _taken(self, out: Out, rows: int) -> Out:
        """Rows that stay as they are while more are written."""
        windows = int(self.at[WINDOWS])
        if rows * _HANDED_OVER < len(out.key):
            copies = {name: getattr(out, name)[..., :rows].copy() for name in _OF_ROWS}
            out = out._replace(**copies)
        else:
            self.out = None
        return out._replace(window_end=out.window_end[:windows].copy(), window_rows=out.window_rows[:windows].copy())

    def drop_gone(self) -> None:
        """Frees the cells that are gone."""
        gone, cells = self.gone, self.cells
        drop_cells(
            gone, cells.count, cells.arrays, cells.newest, self.keys, len(self.keys.rank), self.tracks.folds
        )  # fmt: skip
        cells.count -= gone
        self.at[EXPIRED], self.at[ENTERED] = 0, self.at[ENTERED] - gone


def new_out(tracks: TrackTable, rows: int, *, cells: bool) -> Out:
    sums, ints, floats, ends = tracks.groups
    columns = lent(3 + len(sums) + len(ints) + len(ends), rows)
    first, last = (np.empty(rows if cells else 0, np.int64) for _ in range(2))
    window_end, window_rows = (np.empty(rows, np.int64) for _ in range(2))
    return Out(
        columns[0], columns[1], columns[2], columns[3:], np.empty((len(floats), rows)), first, last, window_end,
        window_rows,
    )  # fmt: skip
