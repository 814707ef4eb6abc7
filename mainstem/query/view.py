"""The state after one commit, in memory."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from mainstem.errors import QueryError
from mainstem.query.export import Export
from mainstem.state import State, TableState
from mainstem.store.format import Format
from mainstem.store.layout import Layout
from mainstem.store.log import Commit
from mainstem.store.shards import ShardMap, files_from_json, read_shard_files


class View:
    """Tables after one epoch. One thread uses it at a time."""

    def __init__(self, layout: Layout, stored: Format) -> None:
        self.layout, self.stored = layout, stored
        self.state = State({schema.name: schema for schema in stored.schemas})
        self.schemas = {schema.name: schema.arrow for schema in stored.schemas}
        self.shards = ShardMap()
        self.epoch = 0
        self.meta: dict[str, Any] = {}
        self._exports = {name: Export(table) for name, table in self.state.tables.items()}
        self._names = {name.lower(): name for name in self.state.tables} | {name: name for name in self.state.tables}

    def apply(self, name: str, rows: pa.Table) -> None:
        self.state.apply(name, rows)
        self._exports[name].outdated = True

    def apply_commit(self, commit: Commit) -> bool:
        """Go on to the next epoch; False when it replaced shard files, whose old rows can't be taken out again."""
        files = files_from_json(commit.content.head["files"])
        rows = list(self.stored.tables(commit.content.tables()))
        if files:
            rows += read_shard_files(self.layout.path, files)
        if self.shards.add(files):
            return False
        for name, table in rows:
            self.apply(name, table)
        self.epoch, self.meta = commit.epoch, commit.content.head["meta"]
        return True

    def export(self, name: str) -> pa.Table:
        """All rows of a table by key, as a table that never changes; made anew only after a change."""
        return self._exports[name].arrow()

    def table(self, name: str) -> TableState:
        """The table of a name, whatever its case."""
        return self.state.tables[self.resolve(name)]

    def resolve(self, name: str) -> str:
        """How the program spells the name of a table."""
        found = self._names.get(name) or self._names.get(name.lower())
        if found is None:
            raise QueryError(f"unknown table {name}\n  {self.known_tables()}")
        return found

    def known_tables(self) -> str:
        return f"tables of {self.layout.path}: {', '.join(sorted(self.state.tables)) or 'none'}"
