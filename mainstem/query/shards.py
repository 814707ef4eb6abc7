"""Changes of tables that live in shard files. A *base* holds all rows of a shard: what it changed must be found out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from mainstem.state import State, TableState
from mainstem.store.format import Format
from mainstem.store.layout import Layout
from mainstem.store.shards import ShardFile, ShardMap, read_shard_files


class ShardRows:
    """The rows of every shard, in memory."""

    def __init__(self, layout: Layout, stored: Format, files: ShardMap) -> None:
        self._layout, self._stored = layout, stored
        self._states: dict[int, State] = {}
        for file in files:
            for name, rows in read_shard_files(layout.path, [file]):
                self._state(file.shard).apply(name, rows)

    def changes(self, files: Iterable[ShardFile]) -> Iterator[tuple[str, pa.Table]]:
        """(table name, changed rows with `_deleted`) of the files of one commit."""
        for file in files:
            state = self._state(file.shard)
            given: dict[str, list[pa.Table]] = {name: [] for name in state.tables} if file.base else {}
            for name, rows in read_shard_files(self._layout.path, [file]):
                given.setdefault(name, []).append(rows)
            for name, parts in given.items():
                table = state.tables[name]
                rows = pa.concat_tables(parts) if parts else table.schema.arrow.empty_table()
                yield name, table.delta(_changed(table, rows, whole=file.base))

    def _state(self, shard: int) -> State:
        if shard not in self._states:
            self._states[shard] = State({schema.name: schema for schema in self._stored.schemas})
        return self._states[shard]


def _changed(table: TableState, rows: pa.Table, *, whole: bool) -> np.ndarray:
    """Apply rows to a table, `whole`: in place of all that are there; the row numbers whose content that changed."""
    touched = np.unique(table.resolve([rows[name] for name in table.schema.key_columns]))
    before = _bytes(table.rows[touched])
    table.apply(rows)
    changed = touched[np.any(before != _bytes(table.rows[touched]), axis=1)]
    if not whole:
        return changed
    alive = np.flatnonzero(table.rows["_alive"][: table.index.count])
    gone = np.setdiff1d(alive, touched)
    table.rows[gone] = table.default_row[0]
    return np.concatenate([changed, gone])


def _bytes(records: np.ndarray) -> np.ndarray:
    return records.view(np.uint8).reshape(len(records), records.dtype.itemsize)
