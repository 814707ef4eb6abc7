"""Queries on the last committed state, from any process, beside the writer and without its lock."""

from __future__ import annotations

import os
import threading
import time
import warnings
from pathlib import Path
from types import TracebackType
from typing import Any

import duckdb
import pyarrow as pa

from mainstem.errors import CorruptError, StoreError
from mainstem.state import State
from mainstem.store.disk import store_error
from mainstem.store.format import Format, read_format
from mainstem.store.layout import Layout
from mainstem.store.log import Commit, LogCursor
from mainstem.store.recovery import StoreWarning, recover, replay
from mainstem.store.shards import ShardMap, files_from_json, read_shard_files

# The writer may drop files while they are being read; real damage gives the same answer again and again.
_LOAD_SECONDS = 30
_SAME_ANSWERS = 3
_RETRY_SECONDS = 0.01


def open_db(path: str | Path, *, follow: bool = True) -> Database:
    """Open a store's directory for queries.

    Every query first takes in new commits and sees whole commits only. With `follow=False` the state stays as it is
    until `refresh`, so that several queries see the same version.
    """
    return Database(Path(path), follow=follow)


class Database:
    """Committed tables, read-only. May be used from several threads."""

    def __init__(self, path: Path, *, follow: bool) -> None:
        """Use `open_db`."""
        self.path, self.follow = path, follow
        self._layout = Layout(path)
        self._guard = threading.RLock()
        self._duckdb = duckdb.connect(":memory:", config={"python_enable_replacements": False})
        self.warnings: list[str] = []
        self._view: _View | None = self._load()

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 for the empty state."""
        with self._guard:
            return self._current().epoch

    @property
    def meta(self) -> dict[str, Any]:
        """What the last commit said about itself."""
        with self._guard:
            return self._current().meta

    @property
    def tables(self) -> list[str]:
        with self._guard:
            return sorted(self._opened().state.tables)

    def get(self, table: str, key: Any) -> dict[str, Any] | None:
        """The fields of one row; None when it is missing."""
        with self._guard:
            view = self._current()
            return view.state.tables[view.resolve(table)].get(key)

    def table(self, name: str) -> pa.Table:
        """All rows of one table, sorted by key."""
        with self._guard:
            view = self._current()
            return view.export(view.resolve(name))

    def sql(self, query: str) -> pa.Table:
        """The answer of one SQL statement (DuckDB's dialect) on one version of the tables. Names ignore case."""
        with self._guard:
            view = self._current()
            tables = {name: view.export(name) for name in self._mentioned(view, query)}
            session = self._duckdb.cursor()
        try:
            for name, table in tables.items():
                session.register(name, table)
            answer = session.sql(query)
            return pa.table({}) if answer is None else answer.to_arrow_table()
        except duckdb.Error as error:
            raise StoreError(f"the query failed: {error}\n  {view.known_tables()}") from error
        finally:
            session.close()

    def refresh(self) -> int:
        """Take in all commits up to now; the epoch reached."""
        with self._guard:
            view = self._opened()
            if view.outdated() or (view.cursor.grown() and not self._advance(view)):
                view.broken = True  # should loading fail now, then nobody must go on from here later
                self._view = self._load()
                view.cursor.close()
            return self._opened().epoch

    def close(self) -> None:
        with self._guard:
            if self._view is not None:
                self._view.cursor.close()
                self._duckdb.close()
            self._view = None

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Mainstem database {self.path}>"

    def _opened(self) -> _View:
        if self._view is None:
            raise StoreError(f"{self.path} is closed\n  open it again with ms.open")
        return self._view

    def _current(self) -> _View:
        if self.follow:
            self.refresh()
        return self._opened()

    def _advance(self, view: _View) -> bool:
        """Take in new commits one by one; False when the state must be loaded anew."""
        try:
            return view.advance()
        except (CorruptError, OSError):
            return False  # files that the writer dropped meanwhile, or damage: loading tells which

    def _load(self) -> _View:
        view, found = _load(self._layout)
        self.warnings += found
        for text in found:
            warnings.warn(text, StoreWarning, stacklevel=4)
        return view

    def _mentioned(self, view: _View, query: str) -> list[str]:
        """The tables that a query needs, so that the others are not exported; all when that can't be told."""
        try:
            names = {name.lower() for name in self._duckdb.get_table_names(query)}
        except duckdb.Error:
            names = set()
        return [name for name in view.state.tables if not names or name.lower() in names]


class _View:
    """The state after one epoch, and what is needed to go on from there."""

    def __init__(self, layout: Layout, stored: Format, identity: tuple[int, ...], cursor: LogCursor) -> None:
        self.layout, self.stored, self.identity, self.cursor = layout, stored, identity, cursor
        self.state = State({schema.name: schema for schema in stored.schemas})
        self.shards = ShardMap()
        self.epoch = 0
        self.meta: dict[str, Any] = {}
        self.broken = False
        self._exports: dict[str, pa.Table] = {}

    def apply(self, name: str, table: pa.Table) -> None:
        self.state.apply(name, table)
        self._exports.pop(name, None)

    def export(self, name: str) -> pa.Table:
        if name not in self._exports:
            self._exports[name] = self.state.tables[name].export()
        return self._exports[name]

    def resolve(self, name: str) -> str:
        """The table of a name, whatever its case."""
        for known in (name, *self.state.tables):
            if known in self.state.tables and known.lower() == name.lower():
                return known
        raise StoreError(f"unknown table {name}\n  {self.known_tables()}")

    def known_tables(self) -> str:
        return f"tables of {self.layout.path}: {', '.join(sorted(self.state.tables)) or 'none'}"

    def outdated(self) -> bool:
        """Whether this can't be continued, or the directory was removed or made anew since: one system call."""
        return self.broken or _identity(self.layout) != self.identity

    def advance(self) -> bool:
        """Apply new commits; False when a commit replaced shard files, whose old rows can't be taken out again."""
        commits = list(self.cursor.read())
        self.cursor.sync()
        return all(self._apply_commit(commit) for commit in commits)

    def _apply_commit(self, commit: Commit) -> bool:
        files = files_from_json(commit.content.head["files"])
        rows = [*read_shard_files(self.layout.path, files), *commit.content.tables()]
        if self.shards.add(files):
            return False
        for name, table in rows:
            self.apply(name, table)
        self.epoch, self.meta = commit.epoch, commit.content.head["meta"]
        return True


def _load(layout: Layout) -> tuple[_View, list[str]]:
    """The current state from the files, however often the writer drops some of them meanwhile; and warnings."""
    answers: list[object] = []
    deadline = time.monotonic() + _LOAD_SECONDS
    while time.monotonic() < deadline:
        try:
            return _load_once(layout)
        except (CorruptError, FileNotFoundError) as error:
            answers.append((str(error), layout.listing()))
            if answers[-_SAME_ANSWERS:] == answers[-1:] * _SAME_ANSWERS:
                if isinstance(error, CorruptError):
                    raise
                raise store_error("read", layout.path, error) from error
        except OSError as error:
            raise store_error("read", layout.path, error) from error
        time.sleep(_RETRY_SECONDS)
    raise StoreError(f"{layout.path} changes faster than it can be read\n  try again, or take fewer snapshots")


def _load_once(layout: Layout) -> tuple[_View, list[str]]:
    stored, identity = read_format(layout), _identity(layout)
    found = recover(layout, stored.store, spares=False)
    try:
        found.cursor.sync()
        view = _View(layout, stored, identity, found.cursor)
        for name, table in replay(layout, stored.store, found.base, found.shards, found.epoch):
            view.apply(name, table)
    except BaseException:
        found.cursor.close()
        raise
    view.epoch, view.meta, view.shards = found.epoch, found.meta, found.shards
    return view, found.warnings


def _identity(layout: Layout) -> tuple[int, ...]:
    """Tells one format file from another under the same name; it is written once in a store's life."""
    try:
        status = os.stat(layout.format)
    except FileNotFoundError:
        return ()
    return status.st_dev, status.st_ino, status.st_mtime_ns
