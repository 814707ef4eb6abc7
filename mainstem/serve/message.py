"""Requests, answers, and problems: answers that say what was wrong (RFC 9457)."""

from __future__ import annotations

import http
import json
from collections.abc import AsyncIterator, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

JSON = b"application/json"
JSON_LINES = b"application/x-ndjson"
ARROW_STREAM = b"application/vnd.apache.arrow.stream"
EVENT_STREAM = b"text/event-stream"
HTML = b"text/html; charset=utf-8"
PROBLEM = b"application/problem+json"

Headers: TypeAlias = tuple[tuple[bytes, bytes], ...]


@dataclass(slots=True)
class Request:
    """One request. `path` is as it was sent: still percent-encoded, so that an encoded `/` stays in its part."""

    method: bytes
    path: bytes
    query: bytes
    headers: dict[bytes, bytes]  # names in lower case; values of a name that came twice are joined by ", "
    keep_alive: bool
    chunks: bool  # whether the client understands answers without a length (HTTP/1.1)
    body: bytes = b""
    refused: Problem | None = None  # told from the head alone


@dataclass(slots=True)
class Response:
    status: int
    body: bytes
    kind: bytes = JSON
    headers: Headers = ()


@dataclass(slots=True)
class Stream:
    """An answer whose length is not known when it begins."""

    chunks: AsyncIterator[bytes]
    kind: bytes
    headers: Headers = ()


Answer: TypeAlias = Response | Stream
Pending: TypeAlias = Coroutine[Any, Any, Answer]


class Problem(Exception):
    """Ends a request with a 4xx (or, when the store itself is at fault, 5xx) that says what to do."""

    def __init__(self, status: int, detail: str, *, headers: Headers = ()) -> None:
        super().__init__(detail)
        self.status, self.detail, self.headers = status, detail, headers

    def response(self) -> Response:
        title = http.HTTPStatus(self.status).phrase
        content = {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}
        # A detail may quote what the client sent, half a surrogate pair included: ASCII escapes take everything.
        return Response(self.status, json.dumps(content).encode("ascii"), PROBLEM, self.headers)


def head(status: int, kind: bytes, headers: Headers, date: bytes, framing: bytes, *, keep_alive: bool) -> bytes:
    """The bytes of an answer before its body; `framing` is the header line that says where the body ends."""
    parts = [_STATUS_LINES[status], framing, b"content-type: ", kind, _COMMON, date]
    if not keep_alive:
        parts.append(b"\r\nconnection: close")
    for name, value in headers:
        parts += (b"\r\n", name, b": ", value)
    parts.append(b"\r\n\r\n")
    return b"".join(parts)


_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n".encode() for status in http.HTTPStatus}
# Answers change with every commit and may be private; and no browser shall guess that one is a page.
_COMMON = b"\r\ncache-control: no-store\r\nx-content-type-options: nosniff\r\ndate: "
