"""What the server answers, as an OpenAPI document. The page at `/` and the docs are made from it or name it."""

from __future__ import annotations

from typing import Any

from mainstem.serve.limits import Limits
from mainstem.serve.message import ARROW_STREAM, EVENT_STREAM, JSON_LINES, PROBLEM

Part = dict[str, Any]

API_VERSION = "1"

_INTEGER: Part = {"type": "integer", "format": "int64"}
_TEXT: Part = {"type": "string"}
_ROW: Part = {"type": "object", "additionalProperties": True, "description": "Key column(s) and fields, by name."}


def document(limits: Limits) -> Part:
    """The OpenAPI 3.1 description of a server with these limits."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Mainstem", "version": API_VERSION, "description": _DESCRIPTION},
        "security": [{"token": []}],
        "paths": _paths(limits),
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Answer": _answer_schema(), "Problem": _problem_schema()},
        },
    }


_DESCRIPTION = (
    "Read-only queries on the last committed state. Every answer comes from the state after one commit, whose epoch is "
    "in the header `mainstem-epoch`. Rows are JSON; with `Accept: application/vnd.apache.arrow.stream` they are an "
    "Arrow stream. In JSON, bytes are Base64, times ISO 8601, and NaN and infinities text. Every request but those for "
    "this description and `/v1/health` needs `Authorization: Bearer <token>`."
)


def _paths(limits: Limits) -> Part:
    return {
        "/v1/health": {"get": _operation("Whether the server runs. Needs no token.", _json(_object(ok="boolean")))},
        "/v1/status": {
            "get": _operation(
                "The last commit: its epoch, the timestamp and number of its last event, and the rows per table.",
                _json(_object(epoch="integer", ts=["integer", "null"], seq=["integer", "null"], tables="object")),
            )
        },
        "/v1/tables": {"get": _operation("The tables, their keys and their fields.", _json(_object(tables="array")))},
        "/v1/tables/{table}/rows/{key}": {
            "get": _operation(
                "One row. Every part of a key is one segment of the path (`rows/north/7`): integers are decimal, text "
                "is UTF-8, bytes are themselves, times are ISO 8601, all percent-encoded.",
                _rows(_ROW),
                parameters=[_path("table"), _path("key"), *_as_of()],
                problems={404: "No such table, or no such row."},
            )
        },
        "/v1/tables/{table}/scan": {"get": _scan(limits), "post": _scan_by_body(limits)},
        "/v1/sql": {
            "post": _operation(
                "One SQL statement (DuckDB's dialect) that reads; every table is a table. Values for `?` or `$name` "
                f"come in `params`. At most {limits.rows:,} rows and {limits.query_seconds:g} s.",
                _rows({"$ref": "#/components/schemas/Answer"}),
                parameters=_as_of(),
                body=_object(query="string", params=["array", "object"], limit="integer", required=["query"]),
                problems={422: "The query is wrong, asks for more than reading, or takes too long."},
            )
        },
        "/v1/watch/{table}": {"get": _watch(limits)},
    }


def _scan(limits: Limits) -> Part:
    return _operation(
        "Rows of a table by key. `where` is a SQL condition on its columns.",
        _rows({"$ref": "#/components/schemas/Answer"}),
        parameters=[
            _path("table"),
            _query("where", _TEXT, "A SQL condition, e.g. `balance < 0`."),
            _query("columns", _TEXT, "Names with commas between them; all when missing."),
            _query("limit", {**_INTEGER, "minimum": 0, "maximum": limits.rows}, "At most so many rows."),
            *_as_of(),
        ],
        problems={404: "No such table.", 422: "The condition is wrong, or takes too long."},
    )


def _scan_by_body(limits: Limits) -> Part:
    columns = {"type": "array", "items": _TEXT}
    schema = _object(where="string", limit="integer")
    schema["properties"]["columns"] = columns
    return {**_scan(limits), "parameters": [_path("table"), *_as_of()], "requestBody": _body(schema)}


def _watch(limits: Limits) -> Part:
    return _operation(
        "Changes of a table, one item per commit, as server-sent events, or as JSON lines with `Accept: "
        f"application/x-ndjson`. Ends after {limits.watch_seconds:g} s at most; go on with `since` (or "
        "`Last-Event-ID`) = the last epoch that was seen.",
        {"description": "Commits.", "content": {EVENT_STREAM.decode(): {}, JSON_LINES.decode(): {}}},
        parameters=[
            _path("table"),
            _query("since", {**_INTEGER, "minimum": 0}, "Begin behind this epoch; now when missing."),
            _query("seconds", {"type": "number", "minimum": 0}, "End after so long."),
            _query("count", {**_INTEGER, "minimum": 1}, "End after so many commits."),
        ],
        problems={404: "No such table.", 410: "The changes since that epoch are not kept any more."},
    )


def _operation(
    summary: str,
    answer: Part,
    *,
    parameters: list[Part] | None = None,
    body: Part | None = None,
    problems: dict[int, str] | None = None,
) -> Part:
    found: Part = {"summary": summary, "responses": {"200": answer}}
    if parameters:
        found["parameters"] = parameters
    if body is not None:
        found["requestBody"] = _body(body)
    common = {400: "The request is wrong.", 401: "The token is missing or wrong.", 429: "Too many requests at once."}
    for status, text in sorted({**common, **(problems or {})}.items()):
        content = {PROBLEM.decode(): {"schema": {"$ref": "#/components/schemas/Problem"}}}
        found["responses"][str(status)] = {"description": text, "content": content}
    return found


def _body(schema: Part) -> Part:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _json(schema: Part) -> Part:
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}}}


def _rows(schema: Part) -> Part:
    """An answer that has both forms, with the header that tells its version."""
    return {
        "description": "The answer.",
        "headers": {
            "mainstem-epoch": {"schema": _INTEGER, "description": "The commit whose state was read."},
            "mainstem-truncated": {"schema": {"type": "boolean"}, "description": "Whether rows were cut off."},
        },
        "content": {"application/json": {"schema": schema}, ARROW_STREAM.decode(): {}},
    }


def _object(*, required: list[str] | None = None, **types: str | list[str]) -> Part:
    found: Part = {"type": "object", "properties": {name: {"type": kind} for name, kind in types.items()}}
    return {**found, "required": required} if required else found


def _path(name: str) -> Part:
    return {"name": name, "in": "path", "required": True, "schema": _TEXT}


def _query(name: str, schema: Part, text: str) -> Part:
    return {"name": name, "in": "query", "schema": schema, "description": text}


def _as_of() -> list[Part]:
    return [
        _query("batch", {**_INTEGER, "minimum": 0}, "The state after this epoch instead of the last one."),
        _query("ts", _INTEGER, "The state after the last commit whose events are not later than this timestamp."),
    ]


def _answer_schema() -> Part:
    schema = _object(epoch="integer", columns="array", rows="array", truncated="boolean")
    schema["properties"]["rows"]["items"] = _ROW
    return schema


def _problem_schema() -> Part:
    return _object(type="string", title="string", status="integer", detail="string")
