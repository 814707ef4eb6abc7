"""States that this process has written, kept for the next epoch: reading a row back takes as long as a transaction.

Files are the truth. A state is kept under the name of its file and given out once: an attempt that fails may have
changed it, and the next one reads the file. When the file is gone, another process has taken the task over and nobody
will ask for the state again.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path

from mainstem.replay.states import TaskState

KEPT_BYTES_MAX = 1 << 30  # per process; a state may be here in vain, when its task runs in another process next
GARBAGE_MAX = 2.0  # rows of missing keys, which reads leave behind, per row; reading the file anew drops them
SMALL_ROWS = 1 << 16  # tables up to this size may be all garbage
STRING_BYTES = 64  # about, in a pool

Identity = tuple[int, int, int]


@dataclass(frozen=True)
class _Kept:
    state: TaskState
    file: Identity
    size: int


_kept: OrderedDict[Path, _Kept] = OrderedDict()


def take(path: Path) -> TaskState | None:
    """The state that was written to this file, if it is still here and the file is still that one."""
    found = _kept.pop(path, None)
    return None if found is None or found.file != _identity(path) else found.state


def keep(path: Path, before: Path | None, state: TaskState) -> None:
    """Keeps what was written to `path`, in place of what the task had written `before`."""
    if before is not None:
        _kept.pop(before, None)
    file = _identity(path)
    if file is None or _mostly_garbage(state):
        return
    _kept[path] = _Kept(state, file, size_of(state))
    while _kept and sum(one.size for one in _kept.values()) > KEPT_BYTES_MAX:
        _kept.popitem(last=False)


def drop_lost() -> None:
    """Lets go of states whose files are gone; otherwise one would stay for every epoch in which a task moved away."""
    for path, one in list(_kept.items()):
        if one.file != _identity(path):
            del _kept[path]


def forget() -> None:
    _kept.clear()


def names() -> list[Path]:
    """Files whose states are here, the oldest first."""
    return list(_kept)


def _identity(path: Path) -> Identity | None:
    """Another file may have come under the same name: from another replay, perhaps by another process."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _mostly_garbage(state: TaskState) -> bool:
    tables = [table for one in state.of_stage.values() for table in one.tables.values()]
    return any(table.index.count > SMALL_ROWS + (1 + GARBAGE_MAX) * len(table) for table in tables)


def size_of(state: TaskState) -> int:
    """About, in bytes."""
    size = 0
    for one in state.of_stage.values():
        size += STRING_BYTES * (len(one.strings) + len(one.binaries))
        for table in one.tables.values():
            size += table.rows.nbytes + table.index.keys.nbytes + table.index.slots.nbytes
    return size
