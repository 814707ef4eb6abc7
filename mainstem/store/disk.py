"""The few system calls that durability rests on, and what their failures mean to a user."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mainstem.errors import StoreError
from mainstem.store import crash

Bytes = Any  # anything with the buffer protocol: bytes, memoryview, pa.Buffer

_REMEDIES = {
    errno.ENOSPC: "free space on the disk, then open the directory again",
    errno.EDQUOT: "free space within the quota, then open the directory again",
    errno.EFBIG: "raise the limit on file sizes (ulimit -f), then open the directory again",
    errno.EACCES: "give this user the right to read and write it, or choose another directory",
    errno.EPERM: "give this user the right to read and write it, or choose another directory",
    errno.EROFS: "the file system is read-only: choose another directory",
    errno.EIO: "the disk fails: check it, and copy the directory to another one before going on",
    errno.ENOENT: "check the path; another process may have removed it",
    errno.ENOTDIR: "choose a path that is a directory or does not exist yet",
    errno.EEXIST: "choose a path that is a directory or does not exist yet",
}


def store_error(action: str, path: Path, error: OSError) -> StoreError:
    """The error that a user sees for a failed system call."""
    remedy = _REMEDIES.get(error.errno or 0, "see the system's message")
    named = error.filename
    inside = isinstance(named, (str, os.PathLike)) and Path(named) != path and Path(named).is_relative_to(path)
    where = f" ({named})" if inside else ""
    return StoreError(f"can't {action} {path}: {error.strerror or error}{where}\n  {remedy}")


@contextmanager
def disk(action: str, path: Path) -> Iterator[None]:
    """Turn a failed system call into a `StoreError` that says what was tried and where."""
    try:
        yield
    except OSError as error:
        raise store_error(action, path, error) from error


def sync(fd: int) -> None:
    """Return when the file's bytes are on the disk, and not only in its cache (macOS needs its own call)."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(fd, fcntl.F_FULLFSYNC)
    elif hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


def sync_readonly(fd: int) -> None:
    """`sync` for a reader, where the file system may not support it: then nobody can write there either."""
    try:
        sync(fd)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EINVAL, errno.ENOTSUP):
            raise


def sync_directory(path: Path) -> None:
    """Return when created, renamed and removed names of a directory are on the disk."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Create a directory and its parents, each durable before what will stand in it."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    sync_directory(path.parent)


def write_all(fd: int, buffers: Sequence[Bytes]) -> None:
    """Write every byte; the system may take fewer at a time."""
    for buffer in buffers:
        view = memoryview(buffer).cast("B")
        while len(view):
            view = view[os.write(fd, view) :]


def write_in_halves(fd: int, buffers: Sequence[Bytes], step: str) -> None:
    """Write every byte, with a crash step when half of them are written."""
    views = [memoryview(buffer).cast("B") for buffer in buffers]
    left = sum(map(len, views)) // 2
    first, second = [], []
    for view in views:
        first.append(view[:left])
        second.append(view[min(left, len(view)) :])
        left = max(0, left - len(view))
    write_all(fd, first)
    crash.reach(step)
    write_all(fd, second)


def read_at(fd: int, offset: int, length: int) -> bytes:
    """The bytes of a file from an offset on; fewer when it ends before. One allocation in the usual case."""
    data = os.pread(fd, length, offset)
    if len(data) == length or not data:
        return data
    parts = [data]  # a single call reads at most 2 GiB
    done = len(data)
    while done < length and (data := os.pread(fd, length - done, offset + done)):
        parts.append(data)
        done += len(data)
    return b"".join(parts)


def only_zeros(fd: int, start: int, end: int) -> bool:
    """Whether a range of a file was never written (file systems show zeros there after a power cut)."""
    step = 1 << 20
    for offset in range(start, end, step):
        chunk = read_at(fd, offset, min(step, end - offset))
        if chunk.count(0) != len(chunk):
            return False
    return True


def remove(path: Path) -> bool:
    """Delete a file; False when somebody else did."""
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True
