"""One writer per directory: an advisory lock that the system releases when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import weakref
from pathlib import Path

from mainstem.errors import LockedError


class WriterLock:
    """Held until `release` or the end of the process; not inherited by its children."""

    def __init__(self, path: Path) -> None:
        self._fd = -1
        self.pid = os.getpid()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(self._fd, 32, 0).decode(errors="replace").strip()
            self.release()
            raise _locked(path, holder, error) from None
        # As long as the text before, so never truncated: some file systems flush on that, for milliseconds.
        os.pwrite(self._fd, f"{self.pid:<20}\n".encode(), 0)
        _held.add(self)

    @property
    def mine(self) -> bool:
        """False in a child process, which has a copy of the object but not the lock."""
        return self._fd >= 0 and self.pid == os.getpid()

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        """A store that nobody holds any more must not block the directory."""
        self.release()


def _locked(path: Path, holder: str, error: OSError) -> LockedError:
    if not isinstance(error, BlockingIOError):
        return LockedError(f"can't lock {path}: {error.strerror}\n  use a file system that supports flock")
    if holder == str(os.getpid()):
        return LockedError(f"{path.parent} is open in this process already (pid {holder})\n  close that store first")
    return LockedError(
        f"{path.parent} is open in another process (pid {holder or 'unknown'})\n"
        "  stop it first; to read beside it use ms.open"
    )


# A forked child would keep the lock alive after the writer has died.
_held: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
