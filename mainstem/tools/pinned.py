"""The files of one moment, to be read at leisure while a writer goes on.

A writer removes snapshots, segments and shard files that newer ones replace, maybe faster than a large directory can
be read. An open file stays readable whatever happens to its name. So all files are opened at once, and a folder of
links to the open files (`/proc/<pid>/fd/<n>`) stands for the directory. Nothing is copied but the last segment of the
log, which is being written; nothing is written to the directory.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from mainstem.errors import StoreError
from mainstem.store.layout import Layout
from mainstem.store.lock import holder

ATTEMPTS_MAX = 100
"""Names may change while files are being opened, which takes milliseconds; then all are opened anew."""


@contextmanager
def pinned(layout: Layout) -> Iterator[Layout]:
    """The directory as it is now. Without a writer, or where files can't be held so, it is the directory itself."""
    with ExitStack() as stack:
        if holder(layout.lock) is None or not Path("/proc/self/fd").is_dir():
            yield layout
            return
        try:
            found = _pin_all(layout, stack)
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.EACCES, errno.EROFS, errno.ENOSPC):
                raise
            found = layout  # more files than a process may open, or no place for links: read them as they are
        try:
            yield found
        except StoreError as error:
            raise type(error)(str(error).replace(str(found.path), str(layout.path))) from error


def _pin_all(layout: Layout, stack: ExitStack) -> Layout:
    for _ in range(ATTEMPTS_MAX):
        attempt = ExitStack()
        try:
            folder = Path(attempt.enter_context(tempfile.TemporaryDirectory(prefix="mainstem-pinned-")))
            if _pin(layout, folder, attempt):
                stack.push(attempt)
                return Layout(folder)
        except BaseException:
            attempt.close()
            raise
        attempt.close()
    raise StoreError(f"{layout.path} changes faster than its files can be opened\n  try again when less is written")


def _pin(layout: Layout, folder: Path, stack: ExitStack) -> bool:
    """Whether all files could be linked, and none came or went meanwhile."""
    names = _names(layout)
    for kind in (layout.log, layout.snapshots, layout.shards):
        (folder / kind.name).mkdir()
    for name in names:
        try:
            handle = os.open(layout.path / name, os.O_RDONLY)
        except FileNotFoundError:
            return False
        stack.callback(os.close, handle)
        link = folder / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(f"/proc/{os.getpid()}/fd/{handle}")
    _copy_last_segment(Layout(folder))
    return _names(layout) == names


def _names(layout: Layout) -> list[Path]:
    found = [layout.format, *map(layout.segment, layout.segment_epochs())]
    found += map(layout.snapshot, layout.snapshot_epochs())
    found += [layout.increment(since, epoch) for since, epoch in layout.increment_epochs()]
    found += layout.shards.glob("*/*.shard")
    found += layout.carried.glob(".*.staged")
    return sorted(path.relative_to(layout.path) for path in found)


def _copy_last_segment(held: Layout) -> None:
    """Commits after this moment name files that are not held."""
    epochs = held.segment_epochs()
    if epochs:
        last = held.segment(epochs[-1])
        content = last.read_bytes()
        last.unlink()
        last.write_bytes(content)
