"""One client's connection: bytes to requests, answers to bytes, in order.

httptools (the parser of Node.js) reads the syntax of HTTP. What is added here is what a parser can't know: bounds on
size and time, the order of pipelined answers, and an end that lets the client read the last answer.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol, cast

import httptools

from mainstem.serve.limits import Limits
from mainstem.serve.message import Pending, Problem, Request, Response, Stream, head
from mainstem.serve.service import Service

# Requests of one connection that are answered in a row before other connections have their turn.
_TURN = 32
# A client that was refused may still be sending; it gets this long to read why.
_LINGER_SECONDS = 2.0


class Office(Protocol):
    """What all connections of a server share."""

    limits: Limits
    service: Service
    date: bytes
    log: Callable[[str], None] | None

    def entered(self, connection: Connection) -> bool:
        """Notes a new connection; False when there are too many."""

    def left(self, connection: Connection) -> None:
        """Forgets a connection."""

    def failed(self, error: Exception) -> None:
        """Reports an error of the server itself."""


class Connection(asyncio.Protocol):
    def __init__(self, office: Office, loop: asyncio.AbstractEventLoop) -> None:
        self.office, self._loop = office, loop
        self._parser = httptools.HttpRequestParser(self)
        self._turns: deque[Request | Problem] = deque()
        self._task: asyncio.Task[None] | None = None
        self._request: Request | None = None  # whose head is complete, and whose body is arriving
        self._reading_head = False
        self._headers: dict[bytes, bytes] = {}
        self._head_bytes = 0
        self._head_bytes_raw = 0
        self._body = bytearray()
        self._paused = False
        self._ending = False  # nothing more is read from the client
        self._last = False  # the server ends
        self._eof = False  # nothing more comes from the client
        self._writable = asyncio.Event()
        self._writable.set()
        self._stalled_since = math.inf
        self.deadline = math.inf

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self.deadline = self._loop.time() + self.office.limits.idle_seconds
        if not self.office.entered(self):
            self._turns.append(Problem(429, f"the server has its {self.office.limits.connections} connections in use"))
            self._stop_reading()
            self._proceed()

    def data_received(self, data: bytes) -> None:
        if self._ending:
            return
        unfinished = self._headers if self._reading_head else None
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._last_turn()
        except httptools.HttpParserError as error:
            self._refuse(error)
        if self._reading_head and self._headers is unfinished:
            self._endless_head(len(data))
        self._proceed()

    def eof_received(self) -> bool:
        """The client sends no more. If an answer is in progress, then it is gone: closing stops the query."""
        self._eof = True
        if self._reading_head or self._request is not None:
            self._turns.append(Problem(400, "the request ended before it was complete"))
        self._stop_reading()
        self._proceed()
        return self._task is None and bool(self._turns)  # whether to leave the connection open

    def connection_lost(self, error: Exception | None) -> None:
        self._ending = True
        self._turns.clear()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()
        self.office.left(self)

    def pause_writing(self) -> None:
        self._writable.clear()
        self._stalled_since = self._loop.time()

    def resume_writing(self) -> None:
        self._writable.set()
        self._stalled_since = math.inf
        self._proceed()

    # What the server calls.

    def look_at_the_clock(self, now: float) -> None:
        """Ends what takes too long; called about once a second."""
        if now > self._stalled_since + self.office.limits.stalled_seconds:
            self._transport.abort()
        elif now > self.deadline:
            if self._ending or not (self._reading_head or self._request is not None):
                self._transport.abort()
                return
            seconds = self.office.limits.arrival_seconds
            self._turns.append(Problem(408, f"the request did not arrive within {seconds:g} s"))
            self._stop_reading()
            self._proceed()

    def shut_down(self) -> None:
        """Finish the answer in progress, then close."""
        self._last = True
        self._turns.clear()
        self._stop_reading()
        self._proceed()

    def abort(self) -> None:
        self._transport.abort()

    # What the parser calls.

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = {}
        self._head_bytes, self._head_bytes_raw, self._reading_head = 0, 0, True
        self.deadline = self._loop.time() + self.office.limits.arrival_seconds

    def on_url(self, part: bytes) -> None:
        self._url += part
        self._count_head(len(part))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count_head(len(name) + len(value) + 4)
        if not self._reading_head:
            return  # a trailer: nothing here uses one, and none may pass for a header
        name = name.lower()
        before = self._headers.get(name)
        self._headers[name] = value if before is None else before + b", " + value

    def on_headers_complete(self) -> None:
        self._reading_head = False
        parser, headers = self._parser, self._headers
        path, query = _split(self._url)
        version = parser.get_http_version()
        keep = parser.should_keep_alive()
        request = Request(parser.get_method(), path, query, headers, keep, version == "1.1")
        if version == "1.1" and (not headers.get(b"host") or b"," in headers[b"host"]):
            raise Problem(400, "a request needs one Host header")
        request.refused = self.office.service.admit(request)
        if b"content-length" in headers:
            self._check_body(int(headers[b"content-length"]))
        self._request = request
        if b"expect" in headers:
            self._encourage(request)
        self._body.clear()

    def on_body(self, part: bytes) -> None:
        self._check_body(len(self._body) + len(part))
        if self._request is not None and self._request.refused is None:
            self._body += part

    def on_message_complete(self) -> None:
        request = self._request
        assert request is not None
        request.body = bytes(self._body)
        self._request = None
        self._turns.append(request)
        self.deadline = math.inf
        if len(self._turns) > self.office.limits.pipelined and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    # Reading.

    def _encourage(self, request: Request) -> None:
        """Tells a client that asks before it sends its body to go on; not while an answer before it is due."""
        asked = request.chunks and request.headers[b"expect"].lower() == b"100-continue"
        if asked and request.refused is None and not self._turns and self._task is None:
            self._send(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _count_head(self, size: int) -> None:
        self._head_bytes += size
        if self._head_bytes > self.office.limits.head_bytes:
            raise self._large_head()

    def _endless_head(self, size: int) -> None:
        """The parser hands out a header when it is complete, and would collect one without an end."""
        self._head_bytes_raw += size
        if self._head_bytes_raw > self.office.limits.head_bytes:
            self._turns.append(self._large_head())
            self._stop_reading()

    def _large_head(self) -> Problem:
        return Problem(431, f"a request's line and headers may have {self.office.limits.head_bytes} bytes")

    def _check_body(self, size: int) -> None:
        if size > self.office.limits.body_bytes:
            raise Problem(413, f"a body may have {self.office.limits.body_bytes} bytes")

    def _refuse(self, error: httptools.HttpParserError) -> None:
        """What the parser, or one of its callbacks, does not accept. Nobody knows where the next request begins."""
        cause = error.__context__
        if isinstance(error, httptools.HttpParserCallbackError) and cause is not None:
            self._turns.append(cause if isinstance(cause, Problem) else Problem(400, "the request can't be read"))
        else:
            self._turns.append(Problem(400, f"the request is not HTTP: {error}"))
        self._stop_reading()

    def _last_turn(self) -> None:
        """A request for another protocol is answered as if it had not asked, which HTTP allows; then it is over."""
        if self._turns and isinstance(self._turns[-1], Request):
            self._turns[-1].keep_alive = False
        self._stop_reading()

    def _resume(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _stop_reading(self) -> None:
        self._ending = True
        self._reading_head, self._request = False, None
        self.deadline = math.inf

    # Answering.

    def _proceed(self) -> None:
        """Answers what is complete, in order, until an answer takes time or the client stops reading."""
        for _ in range(_TURN):
            if self._task is not None or not self._writable.is_set() or self._transport.is_closing():
                return
            if not self._turns:
                self._rest()
                return
            self._answer(self._turns.popleft())
        self._loop.call_soon(self._proceed)

    def _rest(self) -> None:
        """Nothing is left to answer."""
        if self._ending:
            self._linger()
        else:
            if self._request is None and not self._reading_head:
                self.deadline = self._loop.time() + self.office.limits.idle_seconds
            self._resume()

    def _answer(self, turn: Request | Problem) -> None:
        started = time.perf_counter()
        if isinstance(turn, Problem):
            self._write(None, turn.response(), started)
            return
        answer = turn.refused.response() if turn.refused is not None else self.office.service.answer(turn)
        if isinstance(answer, Response):
            self._write(turn, answer, started)
        else:
            self._task = self._loop.create_task(self._answer_later(turn, answer, started))

    async def _answer_later(self, request: Request, answer: Stream | Pending, started: float) -> None:
        try:
            found = answer if isinstance(answer, Stream) else await answer
            if isinstance(found, Response):
                self._write(request, found, started)
            else:
                await self._write_stream(request, found, started)
        except Exception as error:
            self._transport.abort()  # an answer that ends without its last chunk is known to be cut off
            self.office.failed(error)
        finally:
            self._task = None
            self._proceed()

    def _write(self, request: Request | None, answer: Response, started: float) -> None:
        keep_alive = request is not None and request.keep_alive and not self._eof
        framing = b"content-length: %d\r\n" % len(answer.body)
        sent = head(answer.status, answer.kind, answer.headers, self.office.date, framing, keep_alive=keep_alive)
        self._send(sent if request is not None and request.method == b"HEAD" else sent + answer.body)
        if self.office.log is not None:
            self.office.log(_line(request, answer.status, len(answer.body), started))
        if not keep_alive:
            self._end()

    async def _write_stream(self, request: Request, answer: Stream, started: float) -> None:
        keep_alive = request.chunks and request.keep_alive and not self._eof
        framing = b"transfer-encoding: chunked\r\n" if request.chunks else b""
        self._send(head(200, answer.kind, answer.headers, self.office.date, framing, keep_alive=keep_alive))
        length = 0
        if request.method != b"HEAD":
            async for part in answer.chunks:
                length += len(part)
                self._send(b"%x\r\n%b\r\n" % (len(part), part) if request.chunks else part)
                await self._writable.wait()
            if request.chunks:
                self._send(b"0\r\n\r\n")
        if self.office.log is not None:
            self.office.log(_line(request, 200, length, started))
        if not keep_alive:
            self._end()

    def _send(self, data: bytes) -> None:
        """Unless the client is gone, which this connection may be told only later."""
        if not self._transport.is_closing():
            self._transport.write(data)

    def _end(self) -> None:
        """No more answers on this connection."""
        self._turns.clear()
        self._stop_reading()

    def _linger(self) -> None:
        """Closing while the client still sends would throw away the answer that it has not read yet."""
        if self._eof or self._last:
            self._transport.close()
            return
        self.deadline = self._loop.time() + _LINGER_SECONDS
        self._transport.write_eof()
        self._resume()


def _line(request: Request | None, status: int, length: int, started: float) -> str:
    """A line of the access log. Headers are not part of it, and so the token is not."""
    what = "(unreadable)"
    if request is not None:
        target = request.path + (b"?" + request.query if request.query else b"")
        what = (request.method + b" " + target).decode("ascii", "backslashreplace")
    milliseconds = (time.perf_counter() - started) * 1000
    return f"{time.strftime('%H:%M:%S')} {status} {what} {length} bytes {milliseconds:.1f} ms"


def _split(url: bytes) -> tuple[bytes, bytes]:
    """Path and query of a request's target, which proxies may send with a scheme and a host."""
    if not url.startswith(b"/"):
        try:
            parsed = httptools.parse_url(url)
        except httptools.HttpParserInvalidURLError:
            raise Problem(400, "the request's target is no path") from None
        return parsed.path or b"/", parsed.query or b""
    path, _, query = url.partition(b"?")
    return path, query
