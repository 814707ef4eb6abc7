"""The thread that makes snapshots, and the one that commits in groups."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

GROUP_COMMITS_MAX = 64
GROUP_BYTES_MAX = 64 << 20
"""Commits, and bytes of them, that may wait for their sync; who adds more waits."""

_NICE = 10
_BUSY_SECONDS = 0.005
"""The snapshot thread sleeps as long after it has worked this long: half of one core at most, and short holds."""

Entry = TypeVar("Entry")


class GroupCommit(Generic[Entry]):
    """Writes what was put since the last time, in order and in one go, while the next entries are being made."""

    def __init__(self, write: Callable[[list[Entry]], None]) -> None:
        """`write` is called in a thread of its own. After it has raised, nothing is written any more."""
        self._write = write
        self._state = threading.Condition()
        self._waiting: list[tuple[Entry, int]] = []
        self._commits = self._bytes = 0  # put and not yet written
        self._thread: threading.Thread | None = None
        self._closing = self.stopped = False

    def put(self, entry: Entry, size: int) -> None:
        """Have an entry written soon; waits while too much is on its way. Without effect once stopped."""
        with self._state:
            self._state.wait_for(lambda: self.stopped or self._has_room(size))
            if self.stopped:
                return
            self._waiting.append((entry, size))
            self._commits, self._bytes = self._commits + 1, self._bytes + size
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="mainstem-commit", daemon=True)
                self._thread.start()
            self._state.notify_all()

    def flush(self) -> None:
        """Return when all that was put is written, or will never be."""
        with self._state:
            self._state.wait_for(lambda: self.stopped or self._commits == 0)

    def close(self) -> None:
        self.flush()
        with self._state:
            self._closing = True
            self._state.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _has_room(self, size: int) -> bool:
        if self._commits == 0:
            return True  # even when it is larger than the bound by itself
        return self._commits < GROUP_COMMITS_MAX and self._bytes + size <= GROUP_BYTES_MAX

    def _run(self) -> None:
        try:
            with suppress(Exception):  # whoever gave `write` knows it too, and tells
                while group := self._next_group():
                    self._write([entry for entry, _ in group])
                    with self._state:
                        self._commits -= len(group)
                        self._bytes -= sum(size for _, size in group)
                        self._state.notify_all()
        finally:
            with self._state:
                self.stopped = True
                self._waiting.clear()
                self._state.notify_all()

    def _next_group(self) -> list[tuple[Entry, int]]:
        """All that waits, as soon as anything does; nothing at the end."""
        with self._state:
            self._state.wait_for(lambda: self._waiting or self._closing)
            group, self._waiting = self._waiting, []
            return group


class Snapshotter:
    """Folds sealed segments in the background; a failure costs a snapshot and nothing else."""

    def __init__(self, work: Callable[[], None]) -> None:
        """`work` is called in a thread of its own after every `wake`, and may call `pause` as often as it likes."""
        self._work = work
        self._wake = threading.Event()
        self.closing = False
        self._thread: threading.Thread | None = None
        self._rested = time.monotonic()

    def wake(self) -> None:
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mainstem-snapshot", daemon=True)
            self._thread.start()
        self._wake.set()

    def pause(self) -> None:
        """Give way: to threads that wait for the interpreter lock, and to processes that wait for a core."""
        if self.closing or threading.current_thread() is not self._thread:
            return
        busy = time.monotonic() - self._rested
        if busy >= _BUSY_SECONDS:
            time.sleep(min(busy, 1.0))
            self._rested = time.monotonic()

    def close(self) -> None:
        """Let work that has begun come to its end, at full speed: else short runs would never get a snapshot."""
        self.closing = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        _lower_priority()
        while True:
            self._wake.wait()
            self._wake.clear()
            if self.closing:
                return
            self._rested = time.monotonic()
            self._work()


def _lower_priority() -> None:
    """Of this thread alone; only Linux can."""
    if sys.platform == "linux":
        with suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
