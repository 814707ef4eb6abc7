"""From a request to its answer: who may ask, which endpoint it is, and what an error becomes."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import InputError, MainstemError, QueryError
from mainstem.query import Database
from mainstem.schema import TableSchema
from mainstem.serve import ask, encode, openapi, page
from mainstem.serve.keys import decode_text
from mainstem.serve.limits import Limits
from mainstem.serve.message import ARROW_STREAM, HTML, JSON, Answer, Headers, Pending, Problem, Request, Response
from mainstem.serve.pool import Pool, Turn
from mainstem.serve.reader import Reader, Row, Rows
from mainstem.serve.watching import Watching

EPOCH, TRUNCATED = b"mainstem-epoch", b"mainstem-truncated"
# These say nothing about the state.
_OPEN = frozenset((b"/", b"/openapi.json", b"/v1/health"))
_ENDLESS = b"/v1/watch/"  # without a head that could be told alone
_CHALLENGE: Headers = ((b"www-authenticate", b'Bearer realm="mainstem"'),)

Handler = Callable[[Request], Response | Pending]


class Service:
    """The endpoints of one store."""

    def __init__(self, path: Path, token: str, limits: Limits, failed: Callable[[Exception], None]) -> None:
        self._limits, self._failed = limits, failed
        self._token = token.encode("ascii")
        self._reader = Reader(path, limits)
        self._pool = Pool(limits, limits.queries, "query")
        self._loading = Pool(limits, 1, "load")
        self._watching = Watching(self._reader, limits)
        document = openapi.document(limits)
        fixed = {b"/openapi.json": encode.json_bytes(document), b"/v1/health": b'{"ok":true}'}
        self._fixed = {path: Response(200, body) for path, body in fixed.items()}
        self._document = document
        self.listens_at("http://HOST:PORT")

    def listens_at(self, url: str) -> None:
        """Has the page show how to ask this server."""
        self._fixed[b"/"] = Response(200, page.render(self._document, url), HTML)

    def admit(self, request: Request) -> Problem | None:
        """Why a request is refused, told from its head alone, so that no body is kept for a stranger."""
        if request.path in _OPEN:
            return None
        scheme, _, given = request.headers.get(b"authorization", b"").partition(b" ")
        if scheme.lower() == b"bearer" and hmac.compare_digest(given.strip(), self._token):
            return None
        return Problem(401, "send the header Authorization: Bearer <token>", headers=_CHALLENGE)

    def answer(self, request: Request) -> Response | Pending:
        """The answer, or a coroutine when it takes time. Neither raises."""
        try:
            found = self._handler(request)(request)
        except Exception as error:
            return self._problem(error).response()
        return found if isinstance(found, Response) else self._guarded(found)

    def look(self) -> None:
        """Notices when the directory is another one; requests look at the log only. A failure is told to them."""
        try:
            self._reader.refresh()
        except MainstemError:
            pass
        except Exception as error:
            self._failed(error)

    def stop(self) -> None:
        """End what would go on for long."""
        self._watching.stop()
        self._pool.close()
        self._loading.close()

    def close(self) -> None:
        self.stop()
        self._watching.close()
        self._reader.close()

    # Which endpoint.

    def _handler(self, request: Request) -> Handler:
        handlers = self._handlers(request.path)
        if b"GET" in handlers and not request.path.startswith(_ENDLESS):
            handlers[b"HEAD"] = handlers[b"GET"]
        handler = handlers.get(request.method)
        if handler is None:
            allowed = b", ".join(handlers)
            detail = f"this endpoint takes {allowed.decode()}; nothing is ever written"
            raise Problem(405, detail, headers=((b"allow", allowed),))
        return handler

    def _handlers(self, path: bytes) -> dict[bytes, Handler]:
        """What may be asked of a path, by method. A path names an endpoint, a table and a key, and never a file."""
        if path in self._fixed:
            return {b"GET": lambda request: self._fixed[request.path]}
        match path.split(b"/"):
            case [b"", b"v1", b"tables", table, b"rows", *key] if key:
                return {b"GET": partial(self._get_row, table, key)}
            case [b"", b"v1", b"tables", table, b"scan"]:
                return {b"GET": partial(self._get_scan, table), b"POST": partial(self._post_scan, table)}
            case [b"", b"v1", b"status"]:
                return {b"GET": self._get_status}
            case [b"", b"v1", b"tables"]:
                return {b"GET": self._get_tables}
            case [b"", b"v1", b"sql"]:
                return {b"POST": self._post_sql}
            case [b"", b"v1", b"watch", table]:
                return {b"GET": partial(self._get_watch, table)}
        raise Problem(404, "there is no such endpoint; see / for those there are")

    # The endpoints.

    def _get_status(self, request: Request) -> Response:
        ask.parameters(request, ())
        status = self._reader.status()
        return Response(200, encode.json_bytes(status), JSON, _version(status["epoch"]))

    def _get_tables(self, request: Request) -> Response:
        ask.parameters(request, ())
        epoch, tables = self._reader.tables()
        described = [_described(schema) for schema in tables]
        return Response(200, encode.json_bytes({"tables": described}), JSON, _version(epoch))

    def _get_row(self, table: bytes, parts: list[bytes], request: Request) -> Response | Pending:
        name = decode_text(table, "the table's name")
        version = ask.version(ask.parameters(request, ask.VERSION))
        if version.last:
            return _row_answer(request, self._reader.row(name, parts))
        return self._run(version, lambda older, turn: _row_answer(request, self._reader.row_at(name, parts, older)))

    def _get_scan(self, table: bytes, request: Request) -> Pending:
        given = ask.parameters(request, (*ask.SCAN, *ask.VERSION))
        return self._scan(table, request, ask.scan_by_query(given, self._limits), ask.version(given))

    def _post_scan(self, table: bytes, request: Request) -> Pending:
        version = ask.version(ask.parameters(request, ask.VERSION))
        return self._scan(table, request, ask.scan_by_body(request, self._limits), version)

    def _scan(self, table: bytes, request: Request, scan: ask.Scan, version: ask.Version) -> Pending:
        name = decode_text(table, "the table's name")
        return self._run(
            version, lambda older, turn: self._rows_answer(request, self._reader.scan(name, scan, older, turn))
        )

    def _post_sql(self, request: Request) -> Pending:
        version = ask.version(ask.parameters(request, ask.VERSION))
        statement = ask.statement(request, self._limits)
        return self._run(
            version, lambda older, turn: self._rows_answer(request, self._reader.sql(statement, older, turn))
        )

    def _get_watch(self, table: bytes, request: Request) -> Pending:
        return self._watching.begin(decode_text(table, "the table's name"), request)

    async def _run(self, version: ask.Version, work: Callable[[Database | None, Turn], Response]) -> Response:
        """Runs a query on a thread. An older version is loaded before, on the one thread for that: loading may take
        long, and must not keep all threads from queries that need none."""
        older = None
        if not version.last:
            older = self._reader.known(version) or await self._loading.run(lambda turn: self._reader.load(version))
        return await self._pool.run(lambda turn: work(older, turn))

    # Answers.

    def _rows_answer(self, request: Request, rows: Rows) -> Response:
        headers = (*_version(rows.epoch), (TRUNCATED, b"true" if rows.truncated else b"false"))
        if rows.table.nbytes > self._limits.answer_bytes:
            raise Problem(422, f"the answer has more than {self._limits.answer_bytes:,} bytes: ask for fewer rows")
        if ask.wants_arrow(request):
            return Response(200, encode.arrow_bytes(rows.table), ARROW_STREAM, headers)
        about = {"epoch": rows.epoch, "truncated": rows.truncated, "columns": encode.json_columns(rows.table.schema)}
        parts = [encode.json_bytes(about)[:-1], b',"rows":[', *encode.json_rows(rows.table), b"]}"]
        return Response(200, b"".join(parts), JSON, headers)

    # Errors.

    async def _guarded(self, pending: Pending) -> Answer:
        try:
            return await pending
        except Exception as error:
            return self._problem(error).response()

    def _problem(self, error: Exception) -> Problem:
        """What a client is told. Only what is its own fault, or what the store says about itself, is told in detail."""
        if isinstance(error, Problem):
            return error
        if isinstance(error, (QueryError, InputError)):
            return Problem(422, self._reader.words(error))
        self._failed(error)
        if isinstance(error, MainstemError):
            return Problem(503, "the store can't be read; the server's log says why")
        return Problem(500, "the server failed; its log says why")


def _version(epoch: int) -> Headers:
    return ((EPOCH, b"%d" % epoch),)


def _described(schema: TableSchema) -> dict[str, Any]:
    keys = [{"name": name, "type": str(type_)} for name, type_ in zip(schema.key_columns, schema.key, strict=True)]
    return {
        "name": schema.name,
        "key": keys,
        "fields": [{"name": field.name, "type": str(field.type)} for field in schema.fields],
    }


def _row_answer(request: Request, row: Row) -> Response:
    headers = _version(row.epoch)
    if row.fields is None:
        raise Problem(404, f"{row.schema.name} has no row with the key {row.key!r}", headers=headers)
    if ask.wants_arrow(request):
        table = pa.Table.from_pylist([row.columns()], schema=row.schema.arrow)
        return Response(200, encode.arrow_bytes(table), ARROW_STREAM, headers)
    return Response(200, encode.json_bytes(row.columns()), JSON, headers)
