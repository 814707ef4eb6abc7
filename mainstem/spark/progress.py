"""How far a running job is: tasks note it in small files, a thread of the driver reads them.

Spark delivers a Python task's own counters only when the task has ended, and a replay may be one long task. The
folder is on the driver's machine; tasks elsewhere do not find it and stay silent.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_NOTE_SECONDS, _POLL_SECONDS = 0.1, 0.1


class Progress:
    """A task's side: notes events done, a few times per second at most."""

    def __init__(self, folder: str | None, shard: int) -> None:
        self._path = Path(folder) / f"{shard}.{os.getpid()}" if folder and os.path.isdir(folder) else None
        self._next = 0.0

    def note(self, events: int) -> None:
        now = time.monotonic()
        if self._path is None or now < self._next:
            return
        self._next = now + _NOTE_SECONDS
        try:
            self._path.write_text(str(events))
        except OSError:  # the driver has gone on: nobody reads it
            self._path = None


@contextmanager
def watched(callback: Callable[[int], None] | None) -> Iterator[str | None]:
    """The driver's side: a folder for the tasks; `callback` gets the events newly done while the block runs."""
    if callback is None:
        yield None
        return
    folder = tempfile.mkdtemp(prefix="mainstem-progress-")
    ended = threading.Event()
    told = 0

    def tell() -> None:
        nonlocal told
        done = _done(Path(folder))
        if done > told:
            callback(done - told)
            told = done

    def poll() -> None:
        while not ended.wait(_POLL_SECONDS):
            tell()

    thread = threading.Thread(target=poll, name="mainstem-progress", daemon=True)
    thread.start()
    try:
        yield folder
    finally:
        ended.set()
        thread.join()
        shutil.rmtree(folder, ignore_errors=True)


def _done(folder: Path) -> int:
    """The shard that is least far tells how much of the log is done."""
    by_shard: dict[str, int] = {}
    for file in folder.iterdir():
        try:
            by_shard[file.name.partition(".")[0]] = int(file.read_text() or 0)
        except (OSError, ValueError):
            continue
    return min(by_shard.values(), default=0)
