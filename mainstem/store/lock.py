"""One writer per directory: an advisory lock that the system releases when the process ends, however it ends.

The lock's file also tells readers up to which epoch the writer has synced its log. They need not sync it again then.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
import weakref
import zlib
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mainstem.errors import LockedError

_NOTE = struct.Struct("<QQ")  # store, epoch; their checksum follows
_NOTE_CRC = struct.Struct("<I")
_NOTE_AT = 32  # behind the pid (20 bytes and a line break) and the time of opening (10 and one)


class _Lock:
    """Held until `release` or the end of the process; not inherited by its children."""

    _fd = -1

    def release(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def __del__(self) -> None:
        """What nobody holds any more must not block others."""
        self.release()


class FolderLock(_Lock):
    """A folder of outputs while a run writes there: a second run would take hidden files of the first for left-overs,
    and give its own files the same names."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDONLY)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.release()
            raise LockedError(
                f"{path} gets the outputs of another run right now\n  wait for its end, or choose another folder"
            ) from None
        except OSError:
            pass  # some network file systems lock files only; what one run left there is still told from another's
        _held.add(self)


class WriterLock(_Lock):
    """The one writer of a directory of state."""

    def __init__(self, path: Path) -> None:
        self.pid = os.getpid()
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            pid = _told(self._fd)[0]
            self.release()
            raise _locked(path, pid, error) from None
        # As long as the text before, so never truncated: some file systems flush on that, for milliseconds.
        os.pwrite(self._fd, f"{self.pid:<20}\n{int(time.time()):<10}\n".encode(), 0)
        _held.add(self)

    @property
    def mine(self) -> bool:
        """False in a child process, which has a copy of the object but not the lock."""
        return self._fd >= 0 and self.pid == os.getpid()

    def note_synced(self, store: int, epoch: int) -> None:
        """Tell readers that all commits up to `epoch` are on disk. Only a hint: without it they sync themselves."""
        note = _NOTE.pack(store, epoch)
        with suppress(OSError):
            os.pwrite(self._fd, note + _NOTE_CRC.pack(zlib.crc32(note)), _NOTE_AT)


@dataclass(frozen=True)
class Holder:
    """The process that has a directory open for writing."""

    pid: int
    since: int  # seconds since 1970; 0 when it has not told


def holder(path: Path) -> Holder | None:
    """Who holds the lock now; None when nobody does. Never touches it, so that no writer finds it taken by a reader."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    try:
        pid, since = _told(fd)
        locked = _is_locked(os.fstat(fd).st_ino)
        held = pid.isdecimal() and (_alive(int(pid)) if locked is None else locked)
    finally:
        os.close(fd)
    return Holder(int(pid), int(since) if since.isdecimal() else 0) if held else None


def _told(fd: int) -> tuple[str, str]:
    """Pid and time of the last one that took the lock, as text."""
    words = os.pread(fd, _NOTE_AT, 0).decode(errors="replace").split()
    return (words[0] if words else ""), (words[1] if len(words) > 1 else "")


def _is_locked(inode: int) -> bool | None:
    """Whether somebody has locked a file; None where the system has no list of locks (it is Linux's).

    A line reads `1: FLOCK ADVISORY WRITE <pid> <major>:<minor>:<inode> 0 EOF`. Some file systems show another device
    there than to `stat`, so the inode has to do.
    """
    try:
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    except OSError:
        return None
    return any("FLOCK" in words and any(word.endswith(f":{inode}") for word in words) for words in locks)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's process
    return True


def synced_epoch(path: Path, store: int) -> int:
    """Up to where the log of a store is on disk for certain, as its writer has told; 0 when nothing is known."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except OSError:
        return 0
    try:
        data = os.pread(fd, _NOTE.size + _NOTE_CRC.size, _NOTE_AT)
    finally:
        os.close(fd)
    note = data[: _NOTE.size]
    if len(data) < _NOTE.size + _NOTE_CRC.size or _NOTE_CRC.unpack(data[_NOTE.size :])[0] != zlib.crc32(note):
        return 0  # never written, or being written right now
    known, epoch = _NOTE.unpack(note)
    return int(epoch) if known == store else 0


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
_held: weakref.WeakSet[_Lock] = weakref.WeakSet()


def _release_in_child() -> None:
    for lock in list(_held):
        lock.release()


os.register_at_fork(after_in_child=_release_in_child)
