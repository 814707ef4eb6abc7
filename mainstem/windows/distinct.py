"""distinct: exact, without a set per window.

A value that a key has in a pane is one **pair-cell**, however often it occurs there. As the windows of a key go on,
pair-cells enter and leave; a value counts while its newest pair-cell that has entered has not left.
"""

from __future__ import annotations

import numpy as np

from mainstem.jit import kernel
from mainstem.state.index import KeyIndex
from mainstem.windows.cells import CellTable
from mainstem.windows.folds import Kept, Rows
from mainstem.windows.kernels import NONE
from mainstem.windows.values import grown


class Distinct:
    """Pair-cells in order of their first events, linked by key."""

    def __init__(self, panes: int) -> None:
        self.panes, self.count = panes, 0
        self.pairs = KeyIndex(2)
        empty = np.empty(0, np.int64)
        self.cell = self.pair = self.after = empty  # of pair-cells
        self.newest_of_pair = self.inside = empty  # by pair: its newest pair-cell, and the newest in the window
        self.newest = self.entering = self.leaving = self.number = empty  # by key

    def add(self, cells: CellTable, cell: np.ndarray, values: np.ndarray) -> None:
        self._append(cells, cell, _bits(values))

    def _append(self, cells: CellTable, cell: np.ndarray, values: np.ndarray) -> None:
        used = np.flatnonzero(cell >= 0)
        if len(used) < len(cell):
            cell, values = cell[used], values[used]
        pair = self.pairs.resolve([cells.key[cell], values])
        for name in ("cell", "pair", "after"):
            setattr(self, name, grown(getattr(self, name), self.count + len(cell)))
        for name in ("newest_of_pair", "inside"):
            setattr(self, name, grown(getattr(self, name), self.pairs.count, NONE))
        for name in ("newest", "entering", "leaving"):
            setattr(self, name, grown(getattr(self, name), len(cells.newest), NONE))
        self.number = grown(self.number, len(cells.newest))
        self.count = _add_pairs(
            cell, pair, cells.arrays.key, self.cell, self.pair, self.after, self.newest_of_pair, self.newest,
            self.entering, self.leaving, self.count,
        )  # fmt: skip

    def results(self, cells: CellTable, rows: Rows) -> np.ndarray:
        out = np.empty(len(rows), np.int64)
        _slide_pairs(
            rows.starts, rows.key, self.panes, cells.arrays.pane, self.cell, self.pair, self.after, self.inside,
            self.entering, self.leaving, self.number, out,
        )  # fmt: skip
        return out

    def kept(self, cells: CellTable, keep: np.ndarray) -> Kept:
        place = np.full(cells.count, NONE, np.int64)
        place[keep] = np.arange(len(keep))
        cell = place[self.cell[: self.count]]
        own = np.flatnonzero(cell >= 0)
        return {"cell": cell[own], "value": self.pairs.keys[self.pair[own], 1]}

    def restore(self, cells: CellTable, kept: Kept) -> None:
        self._append(cells, kept["cell"], kept["value"])


def _bits(values: np.ndarray) -> np.ndarray:
    """Values that are equal as equal integers: 0.0 is -0.0, and any nan is like any other."""
    if values.dtype == np.float64:
        return np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return values.astype(np.int64, copy=False)


@kernel
def _add_pairs(
    cell: np.ndarray, pair: np.ndarray, key_of: np.ndarray, cell_of: np.ndarray, pair_of: np.ndarray, after: np.ndarray,
    newest_of_pair: np.ndarray, newest: np.ndarray, entering: np.ndarray, leaving: np.ndarray, count: int,
) -> int:  # fmt: skip
    for row in range(len(cell)):
        known = newest_of_pair[pair[row]]
        if known >= 0 and cell_of[known] == cell[row]:
            continue
        key = key_of[cell[row]]
        cell_of[count], pair_of[count], after[count] = cell[row], pair[row], NONE
        newest_of_pair[pair[row]] = count
        if newest[key] >= 0:
            after[newest[key]] = count
        newest[key] = count
        if entering[key] < 0:
            entering[key] = count
        if leaving[key] < 0:
            leaving[key] = count
        count += 1
    return count


@kernel
def _slide_pairs(
    starts: np.ndarray, keys: np.ndarray, panes: int, pane_of: np.ndarray, cell_of: np.ndarray, pair_of: np.ndarray,
    after: np.ndarray, inside: np.ndarray, entering: np.ndarray, leaving: np.ndarray, number: np.ndarray,
    out: np.ndarray,
) -> None:  # fmt: skip
    """Windows in order; those of one key never go back."""
    for row in range(len(starts)):
        key, start = keys[row], starts[row]
        at = entering[key]
        while at >= 0 and pane_of[cell_of[at]] < start + panes:
            if inside[pair_of[at]] < 0:
                number[key] += 1
            inside[pair_of[at]] = at
            at = after[at]
        entering[key] = at
        at = leaving[key]
        while at >= 0 and at != entering[key] and pane_of[cell_of[at]] < start:
            if inside[pair_of[at]] == at:
                inside[pair_of[at]] = NONE
                number[key] -= 1
            at = after[at]
        leaving[key] = at
        out[row] = number[key]
