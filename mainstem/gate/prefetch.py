"""Reading ahead on a thread, so that decoding overlaps the engine."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from typing import Generic, TypeVar

T = TypeVar("T")

DEPTH = 4  # items read ahead: enough to cover a slow row group, few enough to keep memory bounded


def prefetched(items: Iterator[T], depth: int = DEPTH) -> Iterator[T]:
    """The same items, at most `depth` of them read ahead. The thread lives from the first item until the last one,
    an error, or the moment the consumer closes or drops this iterator."""
    mailbox: _Mailbox[T] = _Mailbox(depth)
    # A daemon: a consumer that is never closed must not keep the interpreter from ending.
    thread = threading.Thread(target=mailbox.fill_from, args=(items,), name="mainstem-read-ahead", daemon=True)
    thread.start()
    try:
        yield from iter(mailbox)
    finally:
        mailbox.stop()
        if thread is not threading.current_thread():  # garbage collection may run this on the reading thread
            thread.join()


class _Mailbox(Generic[T]):
    """A bounded queue with one writer and one reader; either side can end it."""

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._items: deque[T] = deque()
        self._changed = threading.Condition()
        self._stopped = self._ended = False
        self._error: BaseException | None = None

    def fill_from(self, items: Iterator[T]) -> None:
        """Runs on the reading thread."""
        try:
            for item in items:
                if not self._put(item):
                    break
        except BaseException as error:  # the consumer raises it, in its own thread
            self._error = error
        finally:
            close = getattr(items, "close", None)
            if close is not None:
                close()
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def _put(self, item: T) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: len(self._items) < self._depth or self._stopped)
            if not self._stopped:
                self._items.append(item)
                self._changed.notify_all()
            return not self._stopped

    def __iter__(self) -> Iterator[T]:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._ended)
                if not self._items:
                    break
                item = self._items.popleft()
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._items.clear()
            self._changed.notify_all()
