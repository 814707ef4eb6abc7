"""Windows of a slice of time that have sums of integers only, over few keys: a matrix of panes and keys.

It is taken when it is no larger than the events. Then an event costs one addition, a window two additions per key, and
neither needs a list of the keys that are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from mainstem.windows.kernels import COUNT
from mainstem.windows.operators.kernels.matrix import add_to_panes, count_matrix, write_bounds, write_matrix
from mainstem.windows.slide import Out
from mainstem.windows.tracks import TrackTable
from mainstem.windows.window import Window

MATRIX_SHARE = 1  # elements of a matrix per event, at most
_NOTHING = np.empty(0, np.int64)


@dataclass(frozen=True)
class Events:
    """Rows of one input in the slice, sorted by time; keys count from `base`."""

    ts: np.ndarray
    key: np.ndarray
    columns: Mapping[str, np.ndarray]


@dataclass(frozen=True)
class Extent:
    """The panes from `first` to `last` have all events of a slice; its windows start in panes from `start` on."""

    first: int
    last: int
    start: int
    windows: int

    @property
    def panes(self) -> int:
        return self.last - self.first + 1


def extent(window: Window, low: int, high: int, first: int, latest: int) -> Extent:
    """Of windows that start in panes from `first` to `latest`, with events from time `low` to `high`."""
    low, high = low // window.pane, high // window.pane
    start = -(-max(first, low - window.panes + 1) // window.step) * window.step
    return Extent(low, high, start, max(0, (min(latest, high) - start) // window.step + 1))


class SumMatrix:
    """What a thread needs; its memory serves one slice after the other."""

    def __init__(self, window: Window, tracks: TrackTable, keys: int, base: int) -> None:
        self.window, self.tracks, self.keys, self.base = window, tracks, keys, base
        self.memory = _NOTHING

    def fits(self, of: Extent, events: int) -> bool:
        """Whether it does not have too many elements for so many events."""
        return of.panes * self.keys <= MATRIX_SHARE * events

    def windows(self, of: Extent, parts: Sequence[Events]) -> tuple[Out, int]:
        """The rows of all windows of a slice, and how many."""
        matrix, counted = self._filled(of, parts)
        window, rows, running = self.window, np.empty(of.windows, np.int64), np.zeros(matrix.shape[::2], np.int64)
        shape = of.start - of.first, window.panes, window.step
        count_matrix(matrix[counted], *shape, running[counted], rows)
        running[counted] = 0
        out, total = self._room(of, rows)
        write_matrix(matrix, counted, *shape, rows, running, out.key, out.words)
        return out, total

    def _filled(self, of: Extent, parts: Sequence[Events]) -> tuple[np.ndarray, int]:
        """A matrix for each sum, one of which counts events: that number."""
        window, sums = self.window, self.tracks.folds.sums
        counted = self.tracks.counted if self.tracks.counted >= 0 else len(sums.op)
        kinds = [*sums.part.tolist(), *([COUNT] if counted == len(sums.op) else [])]
        names = [None if part == COUNT else self.tracks.ints[sums.column[t]] for t, part in enumerate(kinds)]
        size = len(kinds) * of.panes * self.keys
        if len(self.memory) < size:
            self.memory = np.empty(size, np.int64)
        matrix = self.memory[:size].reshape(len(kinds), of.panes, self.keys)
        matrix[:] = 0
        covered = window.size if window.gaps else window.pane
        for part in parts:
            for line, (kind, name) in enumerate(zip(kinds, names, strict=True)):
                values = _NOTHING if name is None else part.columns[name]
                add_to_panes(
                    part.ts, part.key, self.base, values, kind, of.first, window.pane, covered, matrix[line]
                )  # fmt: skip
        return matrix, counted

    def _room(self, of: Extent, rows: np.ndarray) -> tuple[Out, int]:
        """For so many rows of each window, and one more; `start` and `end` are there already."""
        window, total = self.window, int(rows.sum())
        lines = np.empty((3 + len(self.tracks.folds.sums.op), total + 1), np.int64)
        write_bounds(rows, of.start * window.pane, window.advance, window.size, lines[1], lines[2])
        out = Out(lines[0], lines[1], lines[2], lines[3:], np.empty((0, 0)), *(_NOTHING for _ in range(4)))
        return out, total
