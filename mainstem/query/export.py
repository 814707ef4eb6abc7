"""An Arrow copy of a table that queries read, brought up to date instead of made anew.

Most commits change fields of rows that are there already. Then the order by key stays, and so do all columns whose
values did not change; sorting and encoding text, the two expensive steps, are done again only when they must.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mainstem.schema import Field
from mainstem.state import TableState, key_order

_MERGED_SHARE = 1 / 64  # finding one place among text keys costs what sorting some 50 of them costs


class Export:
    """All alive rows of a table by key. What it has handed out never changes."""

    def __init__(self, table: TableState) -> None:
        self.outdated = True
        self._table = table
        self._alive = np.empty(0, np.uint8)  # per row, when `_order` was made
        self._order = np.empty(0, np.int64)  # alive rows, by key
        self._stored: dict[str, np.ndarray] = {}  # columns as records hold them, in that order
        self._columns: dict[str, pa.Array] = {}  # the same as Arrow
        self._arrow = table.schema.arrow.empty_table()

    def arrow(self) -> pa.Table:
        """The table as it is now."""
        if self.outdated:
            self._put_in_order()
            for field in self._table.schema.fields:
                self._update(field)
            names = self._table.schema.arrow.names
            self._arrow = pa.table([self._columns[name] for name in names], schema=self._table.schema.arrow)
            self.outdated = False
        return self._arrow

    def _put_in_order(self) -> None:
        table = self._table
        alive = table.rows["_alive"][: table.index.count].copy()
        if np.array_equal(alive, self._alive) and self._columns:
            return
        self._columns = {}  # should an interrupt end this half-way, then the next call does all of it again
        self._order, self._alive = self._reordered(alive), alive
        self._stored = {}
        self._columns = dict(zip(table.schema.key_columns, table.keys_of(self._order), strict=True))

    def _reordered(self, alive: np.ndarray) -> np.ndarray:
        """Alive rows by key; a few new ones are merged into the order before, which is far cheaper than sorting all."""
        table = self._table
        kept = self._order[alive[self._order] != 0]
        fresh = alive.astype(bool)
        fresh[kept] = False
        added = np.flatnonzero(fresh)
        if len(added) > _MERGED_SHARE * len(kept):
            rows = np.flatnonzero(alive)
            return rows[key_order(table.keys_of(rows))]
        added = added[key_order(table.keys_of(added))]
        return np.insert(kept, self._places(kept, added), added)

    def _places(self, kept: np.ndarray, added: np.ndarray) -> Sequence[int] | np.ndarray:
        """Where rows belong among those that are in order."""
        table = self._table
        if len(table.schema.key) == 1 and not table.schema.key[0].pooled:
            keys = table.index.keys[:, 0]
            return np.searchsorted(keys[kept], keys[added])
        return [bisect_left(kept, table.key_of(row), key=table.key_of) for row in added]

    def _update(self, field: Field) -> None:
        now = self._table.rows[field.name][self._order]
        before = self._stored.get(field.name)
        if before is None or not np.array_equal(_bits(before), _bits(now)):
            self._columns[field.name] = self._table.encoded(field, now)
            self._stored[field.name] = now  # only now: an interrupt in between costs a comparison, and no change


def _bits(values: np.ndarray) -> np.ndarray:
    """Numbers that are equal exactly if their bits are: 0.0 and -0.0 are not the same state, NaN and NaN are."""
    return values.view(f"u{values.itemsize}") if values.dtype.kind == "f" else values
