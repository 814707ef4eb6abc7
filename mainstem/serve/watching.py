"""Changes of a table as they are committed, to clients that keep their connection open."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from dataclasses import dataclass

from mainstem.errors import QueryError
from mainstem.query import Change
from mainstem.serve import ask, encode
from mainstem.serve.limits import Limits
from mainstem.serve.message import EVENT_STREAM, JSON_LINES, Answer, Problem, Request, Stream
from mainstem.serve.reader import Reader

_PARAMETERS = ("since", "seconds", "count")
# After so long without a commit a client is told that the server is still there; proxies close silent connections.
_SILENCE_SECONDS = 15.0
_GONE_SECONDS = 0.5
_AHEAD = 4  # commits that wait for a client to read them; the thread waits meanwhile


@dataclass(frozen=True)
class _Wish:
    """What a client wants to be told."""

    table: str
    since: int
    seconds: float
    count: int
    events: bool  # server-sent events, else JSON lines


class Watching:
    """The watchers of a server: a thread each, as following a log means waiting for it."""

    def __init__(self, reader: Reader, limits: Limits) -> None:
        self._reader, self._limits = reader, limits
        self._watchers: dict[_Watcher, threading.Thread] = {}

    async def begin(self, name: str, request: Request) -> Answer:
        """The stream of a request; problems that can be told beforehand are told instead of it."""
        wish = self._wish(name, request)
        self._watchers = {watcher: thread for watcher, thread in self._watchers.items() if thread.is_alive()}
        if len(self._watchers) >= self._limits.watchers:
            raise Problem(429, f"the server has its {self._limits.watchers} watchers in use")
        watcher = _Watcher(self._reader, wish, self._limits.rows)
        self._watchers[watcher] = threading.Thread(target=watcher.follow, name="watch")
        self._watchers[watcher].start()
        try:
            first = await watcher.next()
        except BaseException:
            watcher.end()
            raise
        return Stream(_chunks(watcher, first), EVENT_STREAM if wish.events else JSON_LINES)

    def stop(self) -> None:
        """End all streams."""
        for watcher in self._watchers:
            watcher.end()

    def close(self) -> None:
        self.stop()
        for thread in self._watchers.values():
            thread.join()

    def _wish(self, name: str, request: Request) -> _Wish:
        given = ask.parameters(request, _PARAMETERS)
        now = self._reader.epoch()
        schema = self._reader.schema(name)
        last_seen = request.headers.get(b"last-event-id", b"").decode("ascii", "replace")
        text = given.get("since") or last_seen
        since = ask.integer(text, "since", at_least=0) if text else now
        if since > now:
            raise Problem(400, f"since is {since}, but the last commit is {now}")
        seconds = ask.number(given["seconds"], "seconds") if "seconds" in given else self._limits.watch_seconds
        count = ask.integer(given["count"], "count", at_least=1) if "count" in given else 2**62
        seconds = min(seconds, self._limits.watch_seconds)
        lines = JSON_LINES in request.headers.get(b"accept", b"").lower()
        return _Wish(schema.name, since, seconds, count, not lines)


class _Watcher:
    """Carries commits from a thread that waits for them to the event loop."""

    def __init__(self, reader: Reader, wish: _Wish, rows: int) -> None:
        self._reader, self._wish, self._rows = reader, wish, rows
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()
        self._places = threading.Semaphore(_AHEAD)  # left in the queue
        self._over = threading.Event()  # nothing more is to be told
        self._ended = threading.Event()  # the client is gone, or the server ends
        self._clock = self._loop.call_at(self._loop.time() + wish.seconds, self._over.set)

    def end(self) -> None:
        """From the event loop: nobody listens any more."""
        self._clock.cancel()
        self._over.set()
        self._ended.set()

    async def next(self) -> bytes | None:
        """The next piece of the stream; None at its end."""
        try:
            item = await asyncio.wait_for(self._queue.get(), _SILENCE_SECONDS if self._wish.events else None)
        except TimeoutError:
            return b": nothing new\n\n"
        self._places.release()
        if isinstance(item, Exception):
            raise item
        return item

    def follow(self) -> None:
        """Runs on the thread until time, count, client or server end it."""
        try:
            changes = self._reader.changes(self._wish.since, self._over)
        except QueryError as error:
            self._put(Problem(410, self._reader.words(error)))
            return
        except Exception as error:
            self._put(error)
            return
        self._put(b": watching\n\n" if self._wish.events else b"")  # the answer begins
        try:
            self._tell_all(changes)
            self._put(None)
        except QueryError as error:
            self._put(self._framed(encode.json_bytes({"error": self._reader.words(error)}), b"event: error"))
            self._put(None)
        except Exception as error:
            self._put(error)

    def _tell_all(self, changes: Iterator[Change]) -> None:
        told = 0
        for change in changes:
            if self._wish.table in change.tables:
                self._put(self._framed(self._encoded(change), b"id: %d" % change.epoch))
                told += 1
            if told >= self._wish.count or self._over.is_set():
                return

    def _put(self, item: bytes | Exception | None) -> None:
        """Waits while the client is behind, and gives up when it is gone."""
        while not self._places.acquire(timeout=_GONE_SECONDS):
            if self._ended.is_set():
                return
        with suppress(RuntimeError):  # the server has ended
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)

    def _encoded(self, change: Change) -> bytes:
        rows = change.tables[self._wish.table]
        about = {"epoch": change.epoch, "ts": change.ts, "truncated": rows.num_rows > self._rows}
        parts = [encode.json_bytes(about)[:-1], b',"rows":[', *encode.json_rows(rows.slice(0, self._rows)), b"]}"]
        return b"".join(parts)

    def _framed(self, body: bytes, line: bytes) -> bytes:
        return b"%b\ndata: %b\n\n" % (line, body) if self._wish.events else body + b"\n"


async def _chunks(watcher: _Watcher, first: bytes | None) -> AsyncIterator[bytes]:
    try:
        piece = first
        while piece is not None:
            if piece:
                yield piece
            piece = await watcher.next()
    finally:
        watcher.end()
