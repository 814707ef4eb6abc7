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
from collections.abc import Callable
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


class Watch:
    """The driver's side: `folder` is for the tasks; `callback` gets the events newly done while the block runs."""

    def __init__(self, callback: Callable[[int], None] | None) -> None:
        self._callback = callback
        self._told = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="mainstem-progress", daemon=True)
        self.folder = tempfile.mkdtemp(prefix="mainstem-progress-") if callback is not None else None

    def __enter__(self) -> Watch:
        if self.folder is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def finish(self, events: int) -> None:
        """All is done: tell the rest."""
        self._stop()
        self._tell(events)

    def _stop(self) -> None:
        if self.folder is not None:
            self._ended.set()
            self._thread.join()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _poll(self) -> None:
        assert self.folder is not None
        while not self._ended.wait(_POLL_SECONDS):
            self._tell(_done(Path(self.folder)))

    def _tell(self, done: int) -> None:
        if self._callback is not None and done > self._told:
            self._callback(done - self._told)
            self._told = done


def _done(folder: Path) -> int:
    """The shard that is least far tells how much of the log is done."""
    by_shard: dict[str, int] = {}
    for file in folder.iterdir():
        try:
            by_shard[file.name.partition(".")[0]] = int(file.read_text() or 0)
        except (OSError, ValueError):
            continue
    return min(by_shard.values(), default=0)
