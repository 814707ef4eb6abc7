"""The store as requests see it: single rows at once, everything else at leisure, each from one version.

Two databases follow the writer. One belongs to the event loop alone, which reads single rows from it without waiting
for anybody, and decides when it goes on to the next version. The other is opened by the first query, and its tables
are copied to Arrow for DuckDB under a lock, which may take longer than a single row should.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import QueryError
from mainstem.query import Change, Database, open_db
from mainstem.query.follow import Identity, identity
from mainstem.query.scan import scan_query
from mainstem.query.sql import Sql
from mainstem.query.watch import watch
from mainstem.schema import TableSchema
from mainstem.serve.ask import Scan, Statement, Version
from mainstem.serve.keys import parse_key
from mainstem.serve.limits import Limits
from mainstem.serve.message import Problem
from mainstem.serve.pool import Turn
from mainstem.store.layout import Layout


@dataclass(slots=True)
class Row:
    epoch: int
    schema: TableSchema
    key: Any
    fields: dict[str, Any] | None

    def columns(self) -> dict[str, Any]:
        """Key columns and fields, as a table has them."""
        key = (self.key,) if self.schema.scalar_key else self.key
        return {**dict(zip(self.schema.key_columns, key, strict=True)), **(self.fields or {})}


@dataclass(frozen=True)
class Rows:
    epoch: int
    table: pa.Table
    truncated: bool


@dataclass(frozen=True)
class _Contents:
    """Tables of one version that never change."""

    epoch: int
    schemas: dict[str, pa.Schema]
    tables: dict[str, pa.Table]


class Reader:
    def __init__(self, path: Path, limits: Limits) -> None:
        self._path, self._layout, self._limits = path, Layout(path), limits
        self._live = open_db(path, follow=False)
        self._epoch = self._live.epoch
        self._guard = threading.Lock()  # of what queries share
        self._loading = threading.Lock()  # of older versions, which may take long
        self._bulk: Database | None = None
        self._bulk_schemas: dict[str, pa.Schema] = {}
        self._older: OrderedDict[tuple[Version, Identity], Database] = OrderedDict()
        self._sql = Sql(limits.memory_mb)

    # For the event loop.

    def epoch(self) -> int:
        """Takes in all commits up to now. What the live database gives stays at this epoch until the next call."""
        self._live.follow = True
        try:
            self._epoch = self._live.epoch
        finally:
            self._live.follow = False
        return self._epoch

    def refresh(self) -> None:
        """The same, and looks whether the directory is still the one that was opened."""
        self._live.refresh()

    def row(self, name: str, parts: Sequence[bytes]) -> Row:
        epoch = self.epoch()
        schema = self.schema(name)
        key = parse_key(schema, parts)
        return Row(epoch, schema, key, self._live.get(schema.name, key))

    def status(self) -> dict[str, Any]:
        """The last version, and how many rows its tables have."""
        epoch, db = self.epoch(), self._live
        rows = {name: db.count(name) for name in db.tables}
        return {"epoch": epoch, "ts": db.meta.get("ts"), "seq": db.meta.get("seq"), "tables": rows}

    def tables(self) -> tuple[int, list[TableSchema]]:
        epoch = self.epoch()
        return epoch, [self.schema(name) for name in self._live.tables]

    def schema(self, name: str) -> TableSchema:
        """The table of a name, whatever its case."""
        return _table(self._live, name)

    # For threads.

    def words(self, error: Exception) -> str:
        """What an error says, without where the store is on this machine."""
        return str(error).replace(str(self._path), "the store")

    def changes(self, since: int, timeout: float, stop: threading.Event) -> Iterator[Change]:
        """Every commit behind an epoch; ends when none came for `timeout` seconds, or at `stop`."""
        return watch(self._layout, None, since, timeout, stop)

    def row_at(self, name: str, parts: Sequence[bytes], version: Version) -> Row:
        db = self._at(version)
        schema = _table(db, name)
        key = parse_key(schema, parts)
        return Row(db.epoch, schema, key, db.get(schema.name, key))

    def scan(self, name: str, scan: Scan, version: Version, turn: Turn) -> Rows:
        schema = self._schema_at(name, version)
        query = scan_query(schema.name, schema.arrow, scan.where, scan.columns, None, scan.limit + 1)
        return self.sql(Statement(query, None, scan.limit), version, turn)

    def sql(self, statement: Statement, version: Version, turn: Turn) -> Rows:
        found = self._contents(statement.query, version)
        answer = self._sql.run(
            statement.query,
            found.schemas,
            found.tables,
            statement.params,
            timeout=turn.seconds,
            limit=statement.limit + 1,
            stop=turn.stop,
        )
        return Rows(found.epoch, answer.slice(0, statement.limit), answer.num_rows > statement.limit)

    def close(self) -> None:
        for db in (self._live, self._bulk, *self._older.values()):
            if db is not None:
                db.close()
        self._sql.close()

    def _contents(self, query: str, version: Version) -> _Contents:
        """The tables that a query may mean, all of one version. A name that is not in its text can't be meant."""
        older = None if version.last else self._at(version)
        with self._guard:
            self._sql.check(query)
            db = older or self._refreshed()
            text = query.lower()
            schemas = {name: db.schema(name).arrow for name in db.tables}
            if schemas != self._bulk_schemas:  # DuckDB's sessions know tables by this very object
                self._bulk_schemas = schemas
            tables = {name: db.table(name) for name in schemas if name.lower() in text}
            return _Contents(db.epoch, self._bulk_schemas, tables)

    def _schema_at(self, name: str, version: Version) -> TableSchema:
        if not version.last:
            return _table(self._at(version), name)
        with self._guard:
            return _table(self._refreshed(), name)

    def _refreshed(self) -> Database:
        """The database for queries, with all commits up to now."""
        if self._bulk is None:
            self._bulk = open_db(self._path, follow=False)
        self._bulk.refresh()
        return self._bulk

    def _at(self, version: Version) -> Database:
        """The state after an earlier commit; the last few are kept, as clients ask for one repeatedly."""
        with self._loading:
            name = (version, identity(self._layout))
            if name in self._older:
                self._older.move_to_end(name)
                return self._older[name]
            try:
                db = self._live.as_of(batch=version.batch, ts=version.ts)
            except QueryError as error:
                raise Problem(404, self.words(error)) from error
            # The last commit at or before a time is known only when there is a later one.
            if version.ts is None or db.epoch < self._epoch:
                self._older[name] = db
            while len(self._older) > self._limits.versions:
                self._older.popitem(last=False)
            return db


def _table(db: Database, name: str) -> TableSchema:
    try:
        return db.schema(name)
    except QueryError:
        known = ", ".join(db.tables) or "none"
        raise Problem(404, f"there is no table {name[:60]!r}; there are: {known}") from None
