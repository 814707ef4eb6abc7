"""What the `panes` operator asks of an aggregate that it can't hold in tracks: `distinct`, and folds of the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from mainstem.windows.cells import CellTable

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
    def add(self, cells: CellTable, cell: np.ndarray, values: np.ndarray) -> None:
        """Events with their cells and values."""

    def results(self, cells: CellTable, rows: Rows) -> np.ndarray: ...

    def kept(self, cells: CellTable, keep: np.ndarray) -> Kept:
        """What to keep of the cells to keep."""

    def restore(self, cells: CellTable, kept: Kept) -> None: ...
