"""Changes as they are committed, from any process: the log, told commit by commit."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import CorruptError, QueryError
from mainstem.query.asof import find_version
from mainstem.query.follow import identity
from mainstem.query.load import beside_a_writer
from mainstem.query.shards import ShardRows
from mainstem.schema import TableSchema
from mainstem.state import DELETED, State
from mainstem.store.format import Format, read_format
from mainstem.store.layout import Layout
from mainstem.store.log import Commit, LogCursor
from mainstem.store.shards import MissingShardFile, files_from_json

# A commit takes a few milliseconds where it is synced; asking more often than that finds nothing more.
_WAIT_SECONDS_MIN = 0.001
_WAIT_SECONDS_MAX = 0.05
_AT_ONCE = 64  # commits that are read ahead: bounds the memory of a watcher that begins far back


@dataclass(frozen=True)
class Change:
    """What one commit changed."""

    epoch: int
    ts: int | None  # of its last event
    tables: Mapping[str, pa.Table]  # by name: whole rows by key, `_deleted` true for those that it removed

    def __getitem__(self, table: str) -> pa.Table:
        return self.tables[table]


def watch(
    layout: Layout, table: str | None, since: int, timeout: float | None, stop: threading.Event | None = None
) -> Iterator[Change]:
    """The commits after epoch `since`, in order; see `Database.watch`."""
    stored = read_format(layout)
    beside_a_writer(layout, lambda: _check_since(layout, stored, since))
    return _Watcher(layout, stored, table, since).changes(timeout, stop or threading.Event())


def _check_since(layout: Layout, stored: Format, since: int) -> None:
    first = min(layout.segment_epochs(), default=1)
    if isinstance(since, bool) or not isinstance(since, int) or since < first - 1:
        raise QueryError(
            f"{layout.path} keeps changes since epoch {first - 1}, not since {since!r}\n"
            "  begin with db.table(…) and go on from db.epoch; a run with a larger keep= keeps more"
        )
    find_version(layout, stored, batch=since)  # refuses the future


class _Watcher:
    """Reads the log from one epoch on."""

    def __init__(self, layout: Layout, stored: Format, table: str | None, since: int) -> None:
        self._layout, self._stored, self._table, self._epoch = layout, stored, table, since
        self._identity = identity(layout)
        self._shards: ShardRows | None = None  # only if there are any

    def changes(self, timeout: float | None, stop: threading.Event) -> Iterator[Change]:
        with closing(self._open()) as cursor:
            while commits := self._wait(cursor, timeout, stop):
                for commit in commits:
                    change = self._change(commit)
                    self._epoch = commit.epoch
                    if change.tables or self._table is None:
                        yield change

    def _open(self) -> LogCursor:
        try:
            return LogCursor(self._layout, self._stored.store, self._epoch)
        except CorruptError as error:
            raise self._fallen_behind(error) from error

    def _wait(self, cursor: LogCursor, timeout: float | None, stop: threading.Event) -> list[Commit]:
        """The next commits, which are durable; empty when none came in time, or when nobody waits any more."""
        deadline = None if timeout is None else time.monotonic() + timeout
        pause = _WAIT_SECONDS_MIN
        while True:
            try:
                commits = list(islice(cursor.read(), _AT_ONCE))
            except CorruptError as error:
                raise self._fallen_behind(error) from error
            if commits:
                cursor.sync()
                self._check_identity()
                return commits
            self._check_identity()
            left = _WAIT_SECONDS_MAX if deadline is None else deadline - time.monotonic()
            if left <= 0 or stop.wait(min(pause, left)):
                return []
            pause = min(2 * pause, _WAIT_SECONDS_MAX)

    def _check_identity(self) -> None:
        """Follow new tables and fields; stop when the directory is not the same any more."""
        known = identity(self._layout)
        if known == self._identity:
            return
        stored = read_format(self._layout)
        if stored.store != self._stored.store:
            raise QueryError(f"{self._layout.path} was made anew\n  watch it again, from its beginning with since=0")
        self._stored, self._identity, self._shards = stored, known, None

    def _change(self, commit: Commit) -> Change:
        head = commit.content.head
        found: dict[str, list[pa.Table]] = {}
        for name, rows in self._stored.tables(commit.content.tables()):
            found.setdefault(name, []).append(_with_deleted(rows, self._schema(name)))
        files = files_from_json(head["files"])
        if files:
            for name, rows in self._shard_rows().changes(files):
                found.setdefault(name, []).append(rows)
        wanted = {name: parts for name, parts in found.items() if self._table in (None, name)}
        tables = {name: parts[0] if len(parts) == 1 else self._net(name, parts) for name, parts in wanted.items()}
        return Change(commit.epoch, head["meta"].get("ts"), {name: rows for name, rows in tables.items() if len(rows)})

    def _net(self, name: str, parts: list[pa.Table]) -> pa.Table:
        """One version per key: a row that left one shard for another, or for the log, was not deleted."""
        table = State({name: self._schema(name)}).tables[name]
        rows = pa.concat_tables(parts)
        deleted = rows[DELETED]
        for part in (rows.filter(deleted), rows.filter(pc.invert(deleted))):
            table.apply(part)
        return table.delta(np.arange(table.index.count))

    def _schema(self, name: str) -> TableSchema:
        schema = self._stored.schema(name)
        assert schema is not None  # else its rows would have been refused
        return schema

    def _shard_rows(self) -> ShardRows:
        """The rows in shard files before the commit that is being told; kept up to date from then on."""
        if self._shards is None:
            try:
                self._shards = beside_a_writer(self._layout, self._shards_before)
            except MissingShardFile as error:
                raise QueryError(
                    f"{self._layout.path} keeps no changes of its shard files since epoch {self._epoch}: "
                    f"{str(error).splitlines()[0]}\n  begin with db.table(…) and go on from db.epoch"
                ) from error
        return self._shards

    def _shards_before(self) -> ShardRows:
        version = find_version(self._layout, self._stored, batch=self._epoch)
        return ShardRows(self._layout, self._stored, version.shards)

    def _fallen_behind(self, error: CorruptError) -> Exception:
        """Damage, or a log that was trimmed while nobody asked for the next change."""
        first = min(self._layout.segment_epochs(), default=1)
        if first <= self._epoch + 1:
            return error
        return QueryError(
            f"{self._layout.path} keeps changes since epoch {first - 1}, this watch has seen them up to {self._epoch}\n"
            "  begin again with db.table(…) and db.epoch, and take changes in faster; a larger keep= keeps more"
        )


def _with_deleted(rows: pa.Table, schema: TableSchema) -> pa.Table:
    """Rows with the column `_deleted`, which commits leave out when they delete nothing."""
    if DELETED not in rows.column_names:
        rows = rows.append_column(DELETED, pa.repeat(pa.scalar(False), rows.num_rows))
    return rows.cast(schema.arrow.append(pa.field(DELETED, pa.bool_(), nullable=False)))
