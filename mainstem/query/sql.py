"""SQL on Arrow tables by DuckDB, and nothing else: no statement that writes, no file, no network.

Three walls, each enough for most attempts: only a single SELECT is let through; DuckDB may not open anything outside of
its memory and its settings are locked; and it sees no tables but those that it is handed for this query.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import duckdb
import pyarrow as pa

from mainstem.errors import QueryError
from mainstem.query.shape import check_shape

Parameters = Sequence[Any] | Mapping[str, Any]

_Settings = dict[str, str | bool | int | float | list[str]]
_SETTINGS: _Settings = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "python_enable_replacements": False,  # Python variables are not tables
    "temp_directory": "",  # what does not fit into memory is an error, and not a file in the current folder
    "lock_configuration": True,
}
_CHECKED_MAX, _CHECKED_LENGTH_MAX = 1024, 4096  # queries that are remembered as harmless, and characters of each
_INTERRUPT_SECONDS = 0.01
_SESSIONS_MAX = 8  # that wait for the next query
_REFUSED = (TypeError, ValueError, OverflowError, RuntimeError)  # of texts and parameters that have no form in SQL
_READS = "write one SELECT (or WITH, VALUES, FROM, DESCRIBE, SHOW, SUMMARIZE)"


class Sql:
    """A DuckDB without tables of its own. May be used from several threads."""

    def __init__(self, memory_mb: int | None = None) -> None:
        """`memory_mb`: what all queries together may need; most of the machine's when left out."""
        limit: _Settings = {} if memory_mb is None else {"memory_limit": f"{memory_mb}MiB"}
        self._root = duckdb.connect(":memory:", config={**_SETTINGS, **limit})
        self._checked: OrderedDict[str, None] = OrderedDict()
        self._checking = threading.Lock()
        self._idle: list[_Session] = []
        self._busy: set[_Session] = set()

    def check(self, query: str) -> None:
        """Refuse what is not a single statement that reads."""
        if not isinstance(query, str):
            raise QueryError(f"a query is text, not {type(query).__name__}\n  {_READS}")
        if "\0" in query:  # where C++ may take the text to end, and Python does not
            raise QueryError(f"the query has a zero character\n  {_READS}")
        if query in self._checked:
            return
        check_shape(query)
        with self._checking:
            self._check(query)

    def _check(self, query: str) -> None:
        try:
            kinds = [statement.type.name for statement in self._root.extract_statements(query)]
        except duckdb.Error as error:
            raise QueryError(f"the query failed: {error}") from error
        except _REFUSED as error:  # text that has no form in UTF-8; a kind that DuckDB's Python has no name for
            raise QueryError(f"the query is refused: {error}\n  {_READS}") from error
        if kinds != ["SELECT"]:
            found = " and ".join(kind.replace("_", " ") for kind in kinds) or "nothing"
            raise QueryError(f"queries only read, but this one is {found}\n  {_READS}")
        if len(query) <= _CHECKED_LENGTH_MAX:
            self._checked[query] = None
        while len(self._checked) > _CHECKED_MAX:
            self._checked.popitem(last=False)

    def run(
        self,
        query: str,
        schemas: Mapping[str, pa.Schema],
        tables: Mapping[str, pa.Table],
        params: Parameters | None = None,
        timeout: float | None = None,
        limit: int | None = None,
        stop: threading.Event | None = None,
    ) -> pa.Table:
        """The answer of a query that `check` let pass, or its first `limit` rows.

        `tables`: the contents that it needs of those in `schemas`. Another thread may end it by setting `stop`, which
        is set when it is over.
        """
        with self._session(schemas) as session, session.given(tables), session.limited(timeout, stop):
            relation = session.connection.sql(query, params=params)
            answer = (relation if limit is None else relation.limit(limit)).to_arrow_table()
            return answer.rename_columns(_unique(answer.column_names))

    def interrupt(self) -> None:
        """End the queries that run now, each with an error."""
        for session in list(self._busy):
            session.connection.interrupt()

    def close(self) -> None:
        self._idle.clear()
        self._root.close()

    @contextmanager
    def _session(self, schemas: Mapping[str, pa.Schema]) -> Iterator[_Session]:
        """A session for one query. One that was interrupted, or knows other tables, is not used again."""
        try:
            session = self._idle.pop()
        except IndexError:
            session = _Session(self._root, schemas)
        if session.schemas is not schemas:
            session.connection.close()
            session = _Session(self._root, schemas)
        self._busy.add(session)
        try:
            yield session
        except duckdb.InterruptException as error:
            session.connection.close()
            raise QueryError("the query was stopped\n  ask for less, or give it more time") from error
        except (duckdb.Error, *_REFUSED) as error:
            self._put_back(session)
            raise QueryError(f"the query failed: {error}") from error
        except BaseException:
            session.connection.close()
            raise
        else:
            self._put_back(session)
        finally:
            self._busy.discard(session)

    def _put_back(self, session: _Session) -> None:
        if len(self._idle) < _SESSIONS_MAX and not session.interrupted:
            self._idle.append(session)
        else:
            session.connection.close()


def _unique(names: Sequence[str]) -> list[str]:
    """Names of which no two are the same, whatever their case: `a`, `a_1`, as DuckDB calls columns of a subquery."""
    seen: dict[str, int] = {}  # how many were made from a name
    unique = []
    for name in names:
        free = name
        while free.lower() in seen:
            seen[name.lower()] += 1
            free = f"{name}_{seen[name.lower()]}"
        seen[free.lower()] = 0
        unique.append(free)
    return unique


class _Session:
    """A connection that knows all tables by name; their contents are handed over for each query."""

    def __init__(self, root: duckdb.DuckDBPyConnection, schemas: Mapping[str, pa.Schema]) -> None:
        self.connection, self.schemas, self.interrupted = root.cursor(), schemas, False
        self._slots = {name: _Slot(name, schema) for name, schema in schemas.items()}
        for name, slot in self._slots.items():
            self.connection.register(name, slot)

    @contextmanager
    def given(self, tables: Mapping[str, pa.Table]) -> Iterator[None]:
        for name, table in tables.items():
            self._slots[name].table = table
        try:
            yield
        finally:
            for name in tables:
                self._slots[name].table = None

    @contextmanager
    def limited(self, seconds: float | None, stop: threading.Event | None) -> Iterator[None]:
        """Interrupts what takes longer, or what nobody wants any more."""
        if seconds is None and stop is None:
            yield
            return
        stop = stop or threading.Event()
        over = threading.Event()
        guard = threading.Thread(target=self._interrupt_after, args=(seconds, stop, over), daemon=True)
        guard.start()
        try:
            yield
        except duckdb.InterruptException as error:
            if not self.interrupted or stop.is_set():
                raise
            raise QueryError(
                f"the query took longer than {seconds:g} s and was stopped\n  ask for less, or raise timeout="
            ) from error
        finally:
            over.set()
            stop.set()
            guard.join()  # else it might hit the next query of this session

    def _interrupt_after(self, seconds: float | None, stop: threading.Event, over: threading.Event) -> None:
        stop.wait(seconds)
        while not over.wait(_INTERRUPT_SECONDS if self.interrupted else 0):
            self.interrupted = True
            self.connection.interrupt()  # again and again: a query that has just been begun does not hear it


class _Slot:
    """Stands for one table in a session. DuckDB asks it for the schema, and for the rows of the query's version."""

    def __init__(self, name: str, schema: pa.Schema) -> None:
        self._name, self._schema = name, schema
        self.table: pa.Table | None = None

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        if self.table is None:
            raise QueryError(f"table {self._name} is read, but the query does not name it\n  write its name plainly")
        return self.table.__arrow_c_stream__(requested_schema)
