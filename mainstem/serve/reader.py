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
        self._bulk: Database | None = None
        self._bulk_schemas: dict[str, pa.Schema] = {}
        self._older: OrderedDict[tuple[Version, Identity], Database] = OrderedDict()
        self._keeping = threading.Lock()  # of those, never for long
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

    def changes(self, since: int, stop: threading.Event) -> Iterator[Change]:
        """Every commit behind an epoch, until `stop`."""
        return watch(self._layout, None, since, None, stop)

    def known(self, version: Version) -> Database | None:
        """The state after an earlier commit, if it is loaded; the last few are kept, as clients ask for one again."""
        name = (version, identity(self._layout))
        with self._keeping:
            if name in self._older:
                self._older.move_to_end(name)
            return self._older.get(name)

    def load(self, version: Version) -> Database:
        """The same, loaded if need be. One thread does it for all requests, so that none is loaded twice at once."""
        known = self.known(version)
        if known is not None:
            return known
        name = (version, identity(self._layout))
        try:
            db = self._live.as_of(batch=version.batch, ts=version.ts)
        except QueryError as error:
            raise Problem(404, self.words(error)) from error
        # The last commit at or before a time is known only when there is a later one.
        if version.ts is None or db.epoch < self._epoch:
            with self._keeping:
                self._older[name] = db
                while len(self._older) > self._limits.versions:
                    self._older.popitem(last=False)
        return db

    def row_at(self, name: str, parts: Sequence[bytes], older: Database | None) -> Row:
        """`row` of a version that was loaded."""
        assert older is not None  # rows of the last one are read by the event loop
        db = older
        schema = _table(db, name)
        key = parse_key(schema, parts)
        return Row(db.epoch, schema, key, db.get(schema.name, key))

    def scan(self, name: str, scan: Scan, older: Database | None, turn: Turn) -> Rows:
        schema = self._schema_at(name, older)
        query = scan_query(schema.name, schema.arrow, scan.where, scan.columns, None, scan.limit + 1)
        return self.sql(Statement(query, None, scan.limit), older, turn)

    def sql(self, statement: Statement, older: Database | None, turn: Turn) -> Rows:
        """The answer from an older version that was loaded, else from the last one."""
        found = self._contents(statement.query, older)
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

    def _contents(self, query: str, older: Database | None) -> _Contents:
        """The tables that a query may mean, all of one version. A name that is not in its text can't be meant."""
        self._sql.check(query)
        with self._guard:
            db = older or self._refreshed()
            text = query.lower()
            schemas = {name: db.schema(name).arrow for name in db.tables}
            if schemas != self._bulk_schemas:  # DuckDB's sessions know tables by this very object
                self._bulk_schemas = schemas
            tables = {name: db.table(name) for name in schemas if name.lower() in text}
            return _Contents(db.epoch, self._bulk_schemas, tables)

    def _schema_at(self, name: str, older: Database | None) -> TableSchema:
        if older is not None:
            return _table(older, name)
        with self._guard:
            return _table(self._refreshed(), name)

    def _refreshed(self) -> Database:
        """The database for queries, with all commits up to now."""
        if self._bulk is None:
            self._bulk = open_db(self._path, follow=False)
        self._bulk.refresh()
        return self._bulk


def _table(db: Database, name: str) -> TableSchema:
    try:
        return db.schema(name)
    except QueryError:
        known = ", ".join(db.tables) or "none"
        raise Problem(404, f"there is no table {name[:60]!r}; there are: {known}") from None
