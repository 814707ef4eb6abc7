"""Queries that take time run on threads, so that the event loop is free for single rows."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from mainstem.serve.limits import Limits
from mainstem.serve.message import Headers, Problem

Found = TypeVar("Found")

_RETRY: Headers = ((b"retry-after", b"1"),)
# DuckDB ends a query at its deadline; what is not DuckDB (loading an older version, writing JSON) may end later.
_SLACK_SECONDS = 1.0


@dataclass(frozen=True)
class Turn:
    """What a query is given when it begins."""

    seconds: float  # that it may take
    stop: threading.Event  # is set when nobody waits for it any more


class Pool:
    """A few threads, and a bounded number of queries that wait for one."""

    def __init__(self, limits: Limits, threads: int, name: str) -> None:
        self._limits, self._count = limits, threads
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._running: dict[Future[Any], threading.Event] = {}  # those that wait for a thread included

    async def run(self, work: Callable[[Turn], Found]) -> Found:
        """What `work` returns. It is stopped when its client is gone."""
        limits = self._limits
        if len(self._running) >= self._count + limits.queries_waiting:
            raise Problem(429, f"{len(self._running)} queries are running or waiting; try again", headers=_RETRY)
        stop, deadline = threading.Event(), time.monotonic() + limits.query_seconds
        try:
            future = self._threads.submit(lambda: work(self._turn(deadline, stop)))
        except RuntimeError:
            raise Problem(503, "the server is ending") from None
        self._running[future] = stop
        future.add_done_callback(lambda done: self._running.pop(done, None))
        try:
            async with asyncio.timeout(limits.query_seconds + _SLACK_SECONDS):
                return await asyncio.wrap_future(future)
        except TimeoutError:
            raise self._late() from None
        finally:
            stop.set()

    def close(self) -> None:
        """Takes no more queries, drops those that wait, and stops those that run."""
        for stop in tuple(self._running.values()):
            stop.set()
        self._threads.shutdown(cancel_futures=True)

    def _turn(self, deadline: float, stop: threading.Event) -> Turn:
        left = deadline - time.monotonic()
        if left <= 0:
            raise self._late()
        return Turn(left, stop)

    def _late(self) -> Problem:
        seconds = self._limits.query_seconds
        return Problem(422, f"the query took longer than {seconds:g} s, waiting included: ask for less")
