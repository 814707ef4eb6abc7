"""`Database`: what `ms.open` gives. Read-only transactions, each on the state after one commit."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from mainstem.errors import QueryError, StoreError
from mainstem.query.asof import load_at
from mainstem.query.follow import Follower
from mainstem.query.load import load
from mainstem.query.scan import scan_query
from mainstem.query.sql import Parameters, Sql
from mainstem.query.view import View
from mainstem.query.watch import Change, watch
from mainstem.schema import TableSchema
from mainstem.store.layout import Layout
from mainstem.store.recovery import StoreWarning


def open_db(path: str | Path, *, follow: bool = True) -> Database:
    """Open a store's directory for queries.

    Every query first takes in new commits and sees whole commits only. With `follow=False` the state stays as it is
    until `refresh`, so that several queries see the same version.
    """
    layout = Layout(Path(path))
    follower, found = load(layout)
    return Database(layout, follower.view, follower, follow=follow, warned=found)


class Database:
    """Committed tables, read-only. May be used from several threads."""

    def __init__(
        self, layout: Layout, view: View, follower: Follower | None, *, follow: bool, warned: list[str]
    ) -> None:
        """Use `open_db`. Without a `follower` the version never changes."""
        self.path, self.follow = layout.path, follow
        self.warnings: list[str] = []
        self._layout, self._follower = layout, follower
        self._view: View | None = view
        self._guard = threading.RLock()
        self._sql: Sql | None = None  # started by the first query that needs it
        self._warn(warned)

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
            return sorted(self._current().state.tables)

    def schema(self, table: str) -> TableSchema:
        """Name, key and fields of a table; its `arrow` has the columns that `table` gives."""
        with self._guard:
            return self._current().table(table).schema

    def count(self, table: str) -> int:
        """How many rows a table has."""
        with self._guard:
            return len(self._current().table(table))

    def get(self, table: str, key: Any) -> dict[str, Any] | None:
        """The fields of one row; None when it is missing."""
        with self._guard:
            return self._current().table(table).get(key)

    def get_many(self, table: str, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """`get` of several keys in their order, all of the same version."""
        with self._guard:
            return self._current().table(table).get_many(keys)

    def table(self, name: str) -> pa.Table:
        """All rows of one table, sorted by key."""
        with self._guard:
            view = self._current()
            return view.export(view.resolve(name))

    def scan(
        self,
        table: str,
        where: str | None = None,
        *,
        columns: Sequence[str] | None = None,
        order_by: str | None = None,
        limit: int | None = None,
        params: Parameters | None = None,
        timeout: float | None = None,
    ) -> pa.Table:
        """The rows of one table for which a SQL condition holds, sorted by key unless `order_by` says otherwise.

        `where` and `order_by` are written as in SQL: `where="balance < ?"`, `params=[0]`, `order_by="balance desc"`.
        """
        with self._guard:
            view = self._current()
            name = view.resolve(table)
            query = scan_query(name, view.schemas[name], where, columns, order_by, limit)
            if where is None and order_by is None:
                return view.export(name).select(columns or view.schemas[name].names).slice(0, limit)
        return self.sql(query, params, timeout=timeout)

    def sql(self, query: str, params: Parameters | None = None, *, timeout: float | None = None) -> pa.Table:
        """The answer of one SQL statement (DuckDB's dialect) on one version of the tables. Names ignore case.

        Only statements that read are let through. `params`: values for `?` (a list) or `$name` (a dict). `timeout`: in
        seconds; a query that takes longer is stopped with an error.
        """
        with self._guard:
            view = self._current()
            if self._sql is None:
                self._sql = Sql()
            sql = self._sql
            try:
                sql.check(query)
            except QueryError as error:
                raise QueryError(f"{error}\n  {view.known_tables()}") from error
            text = query.lower()
            tables = {name: view.export(name) for name in view.schemas if name.lower() in text}
        try:
            return sql.run(query, view.schemas, tables, params, timeout)
        except QueryError as error:
            raise QueryError(f"{error}\n  {view.known_tables()}") from error

    def interrupt(self) -> None:
        """End the SQL queries that run now in other threads, each with an error."""
        sql = self._sql
        if sql is not None:
            sql.interrupt()

    def as_of(self, *, batch: int | None = None, ts: int | None = None) -> Database:
        """The state after an earlier commit, as a database that stays there.

        `batch`: the commit's number (`epoch`). `ts`: the last commit whose events are all at or before this time.
        """
        self._opened()
        return Database(self._layout, load_at(self._layout, batch=batch, ts=ts), None, follow=False, warned=[])

    def watch(
        self,
        table: str | None = None,
        *,
        since: int | None = None,
        timeout: float | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Change]:
        """Follow the commits after epoch `since` (those from now on when left out), in order, from any process.

        With `table`, commits that do not touch it are left out. Waits for new commits; ends when none has come for
        `timeout` seconds, never when it is left out. Another thread may end the waiting by setting `stop`.
        """
        with self._guard:
            view = self._current()
            name = None if table is None else view.resolve(table)
            return watch(self._layout, name, view.epoch if since is None else since, timeout, stop)

    def refresh(self) -> int:
        """Take in all commits up to now; the epoch reached."""
        with self._guard:
            self._catch_up()
            return self._opened().epoch

    def close(self) -> None:
        with self._guard:
            if self._follower is not None:
                self._follower.close()
            if self._sql is not None:
                self._sql.close()
            self._view = self._follower = self._sql = None

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Mainstem database {self.path}>"

    def _opened(self) -> View:
        if self._view is None:
            raise StoreError(f"{self.path} is closed\n  open it again with ms.open")
        return self._view

    def _current(self) -> View:
        if self.follow and self._follower is not None and self._follower.stale():
            self._catch_up()
        return self._opened()

    def _catch_up(self) -> None:
        follower = self._follower
        if follower is None or follower.advance():
            return
        follower.broken = True  # should loading fail now, then nobody must go on from here later
        loaded, found = load(self._layout)
        self._follower, self._view = loaded, loaded.view
        follower.close()
        self._warn(found)

    def _warn(self, found: list[str]) -> None:
        self.warnings += found
        for text in found:
            warnings.warn(text, StoreWarning, stacklevel=4)
