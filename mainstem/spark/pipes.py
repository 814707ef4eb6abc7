"""Writing behind: a thread at the end of a task, with a bound on what waits for it.

Running compiled transactions and writing Parquet both release the interpreter's lock, so two threads keep two cores
busy (reading ahead is the gate's own thread). The bound keeps memory flat however long the log is.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Generic, TypeVar

T = TypeVar("T")

WAITING_MAX = 2
"""Batches that may wait: one is being made and one being written already, so more would only take memory."""

_END = object()


class WriteBehind(Generic[T]):
    """Calls `write(item)` in another thread, in order. Its error is raised by the next `put`, or at the end."""

    def __init__(self, write: Callable[[T], None], waiting_max: int = WAITING_MAX) -> None:
        self._write = write
        self._pipe: queue.Queue[T | object] = queue.Queue(waiting_max)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._pump, name="mainstem-write", daemon=True)
        self._thread.start()

    def put(self, item: T) -> None:
        self._check()
        self._pipe.put(item)

    def __enter__(self) -> WriteBehind[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.put(_END)
        self._thread.join()
        if error is None:
            self._check()

    def _check(self) -> None:
        if self._error is not None:
            raise self._error

    def _pump(self) -> None:
        while (item := self._pipe.get()) is not _END:
            if self._error is None:  # after an error the rest is drained, so that `put` never blocks for ever
                try:
                    self._write(item)  # type: ignore[arg-type]
                except BaseException as error:
                    self._error = error
