"""Keys of windows: numbered as they come, and ranked, since windows of one time come in the order of their keys."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.schema import Field
from mainstem.state.index import KeyIndex
from mainstem.windows.values import Pools


class RankedKeys:
    """The values of the `by` columns that an operator has met. `rank[key]`, and `of_rank`, which leads back."""

    def __init__(self, by: Sequence[Field], pools: Pools) -> None:
        self.by, self.pools = by, pools
        self.index = KeyIndex(max(1, len(by)))
        self.rank = self.of_rank = self._sorted = np.empty(0, np.int64)

    @property
    def count(self) -> int:
        return self.index.count

    def number(self, columns: Sequence[np.ndarray], ok: np.ndarray | None, rows: int) -> np.ndarray:
        """The number of each row's key; -1 where `ok` is 0."""
        if not self.by:
            self.index.resolve([np.zeros(1, np.int64)])
            return np.zeros(rows, np.int64) if ok is None else ok.astype(np.int64) - 1
        return self.index.resolve([column.astype(np.int64, copy=False) for column in columns], ok)

    def update(self) -> bool:
        """Ranks the keys that are new; says whether there are any."""
        known, count = len(self.rank), self.index.count
        if count == known:
            return False
        if len(self.by) <= 1 and all(field.type.base != "str" for field in self.by):
            self._insert(self.index.keys[known:count, 0], known)
        else:
            names = [str(number) for number in range(len(self.by))]
            table = pa.table(self.columns(np.arange(count)), names)
            self.of_rank = pc.sort_indices(table, [(name, "ascending") for name in names]).to_numpy().astype(np.int64)
        self.rank = np.empty(count, np.int64)
        self.rank[self.of_rank] = np.arange(count)
        return True

    def _insert(self, new: np.ndarray, known: int) -> None:
        """Integers find their places among those that are sorted already."""
        order = np.argsort(new)
        places = np.searchsorted(self._sorted, new[order])
        self._sorted = np.insert(self._sorted, places, new[order])
        self.of_rank = np.insert(self.of_rank, places, known + order)

    def columns(self, key: np.ndarray) -> list[pa.Array]:
        """The `by` columns of these keys."""
        return [self.pools.arrow(self.index.keys[key, n], f.type.base) for n, f in enumerate(self.by)]
