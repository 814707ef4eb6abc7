"""The write-ahead log: commits in segments `log/<first epoch>.wal`.

A segment holds one record per commit, epochs without gaps. When it is full, or a snapshot is asked for, the next
segment is created (empty, synced) and then the full one is closed with a SEAL record. So a segment that has vanished
is noticed, even the last one. Only the end of the log can be torn: by a crash in an append or in a seal.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise

from mainstem.errors import CorruptError, StoreError
from mainstem.store import crash, frame, payload
from mainstem.store.disk import (
    Bytes,
    remove,
    store_error,
    sync,
    sync_directory,
    sync_readonly,
    write_all,
    write_in_halves,
)
from mainstem.store.frame import Kind, TornError
from mainstem.store.layout import Layout
from mainstem.store.lock import synced_epoch
from mainstem.store.payload import Payload


@dataclass(frozen=True, slots=True)
class Commit:
    epoch: int
    content: Payload
    size: int


class LogCursor:
    """Reads commits in order, across segments; can be asked again when the log may have grown."""

    def __init__(self, layout: Layout, store: int, after: int) -> None:
        """Start behind epoch `after`. The segment that holds the next epoch is opened at once."""
        self.layout, self.store = layout, store
        self.epoch = after  # the last one delivered
        self.offset = 0  # end of the last whole record of the segment
        self.torn = False  # whether an unfinished record follows it
        self._fd = -1
        firsts = [first for first in layout.segment_epochs() if first <= after + 1]
        if not firsts:
            raise _missing_segment(layout, after + 1)
        self._open(firsts[-1])

    def read(self) -> Iterator[Commit]:
        """All commits that are in the log now and were not delivered before."""
        if os.fstat(self._fd).st_size < self.offset:
            raise CorruptError(f"{self.path} was cut back to before byte {self.offset}, which was read already")
        while (record := self._next_record()) is not None:
            size, self.offset = record.end - self.offset, record.end
            if record.kind == Kind.SEAL:
                self._open(record.epoch)
                continue
            self._next += 1
            if record.epoch > self.epoch:
                self.epoch = record.epoch
                where = f"{self.path}, epoch {record.epoch}"
                yield Commit(record.epoch, payload.decode(record.payload, where), size)

    @property
    def last(self) -> int:
        """The epoch that the log reaches."""
        return self._next - 1

    def grown(self) -> bool:
        """Whether there may be something new, or the file was removed: one system call."""
        status = os.fstat(self._fd)
        return status.st_size != self.offset or status.st_nlink == 0

    def sync(self) -> None:
        """Make durable what was read, so that nobody acts on a commit that a power cut then undoes."""
        if synced_epoch(self.layout.lock, self.store) < self.epoch:
            sync_readonly(self._fd)

    def following(self) -> list[int]:
        """First epochs of the segments after the current one."""
        return [first for first in self.layout.segment_epochs() if first > self.first]

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _open(self, first: int) -> None:
        self.close()
        self.first, self.path = first, self.layout.segment(first)
        self.offset, self._next, self.torn = 0, first, False
        try:
            self._fd = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError:
            raise _missing_segment(self.layout, first) from None

    def _next_record(self) -> frame.Record | None:
        """The record behind the last one; None at the end of the log, whole or torn."""
        self.torn = False
        try:
            record = frame.read(self._fd, self.path, self.offset, self.store)
        except TornError:
            self.torn = True
            return None
        except CorruptError as error:
            raise CorruptError(f"{error}\n  lost: {self._lost()}{self._advice()}") from None
        if record is not None and (record.epoch != self._next or record.kind not in (Kind.COMMIT, Kind.SEAL)):
            raise CorruptError(
                f"{self.path}, byte {self.offset}: epoch {self._next} belongs here, found {record.kind.name.lower()} "
                f"{record.epoch}\n  {frame.REMEDY}\n  lost: {self._lost()}"
            )
        return record

    def _lost(self) -> str:
        """The commits that a damaged place takes with it: its own and all after, as they build on it."""
        last = self._last_legible()
        return f"epochs {self._next} to {last}" if last > self._next else f"epoch {self._next}"

    def _last_legible(self) -> int:
        """The highest epoch that any header from here on shows."""
        last = frame.find_last_epoch(self._fd, self.offset)
        for first in self.following():
            fd = os.open(self.layout.segment(first), os.O_RDONLY)
            try:
                last = max(last, first - 1, frame.find_last_epoch(fd, 0))
            finally:
                os.close(fd)
        return last

    def _advice(self) -> str:
        """The last record, or the last group of them, may be one that a power cut left with a hole.

        Only its owner can know. A record that the writer has noted as synced is no such.
        """
        last = self._last_legible()
        if self.following() or (last > self._next and synced_epoch(self.layout.lock, self.store) >= self._next):
            return ""
        which = f"epochs {self._next} to {last} are the last records" if last > self._next else "it is the last record"
        return (
            f"\n  {which}: if the power failed during that commit, it was never acknowledged, and\n"
            f"  `truncate -s {self.offset} {self.path}` drops it"
        )


class LogWriter:
    """Appends commits to the last segment. After a failure it must not be used again; opening anew recovers."""

    def __init__(self, layout: Layout, store: int, first: int, end: int) -> None:
        """Go on at byte `end` of a segment; what stands behind it is an unfinished record and is cut off."""
        self.layout, self.store = layout, store
        self._fd = -1
        self._open(first, end)

    def append(self, epoch: int, content: list[Bytes]) -> None:
        """Add a commit; readers may find it from now on, durable it is after `sync`."""
        record = frame.encode(Kind.COMMIT, self.store, epoch, content)
        with self._taking_back("write to"):
            self._check_there()
            crash.reach("log.append.start")
            write_all(self._fd, record[:1])
            crash.reach("log.append.header")
            write_in_halves(self._fd, record[1:], "log.append.half")
            crash.reach("log.append.written")
        self.end += sum(memoryview(part).nbytes for part in record)

    def sync(self) -> None:
        """Have all commits on disk. A sync that failed is never tried again: the system may have dropped the pages."""
        with self._taking_back("sync"):
            sync(self._fd)
        self._accepted = self.end

    def accept(self) -> None:
        """Count what was appended, although it is not synced."""
        self._accepted = self.end

    def rotate(self, next_epoch: int) -> None:
        """Go on in a new segment, unless the current one is still empty."""
        if self.end == 0:
            return
        crash.reach("log.rotate.start")
        self.sync()
        with self._taking_back("write to"):
            os.close(os.open(self.layout.segment(next_epoch), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
            sync_directory(self.layout.log)
            crash.reach("log.rotate.created")
            self.finish_rotation(next_epoch)

    def finish_rotation(self, next_epoch: int) -> None:
        """Seal the segment and go on in the next one, which exists and is empty."""
        record = frame.encode(Kind.SEAL, self.store, next_epoch, payload.encode({}))
        write_in_halves(self._fd, record, "log.rotate.sealing")
        sync(self._fd)
        crash.reach("log.rotate.sealed")
        self._open(next_epoch, 0)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _open(self, first: int, end: int) -> None:
        self.close()
        self.first, self.end, self.path = first, end, self.layout.segment(first)
        self._accepted = end
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        if os.fstat(self._fd).st_size > end:
            os.ftruncate(self._fd, end)
            crash.reach("recover.cut")
        sync(self._fd)  # a commit that a killed process had not synced is about to count

    def _check_there(self) -> None:
        """A file without a name still takes bytes, which nobody will ever read."""
        if os.fstat(self._fd).st_nlink == 0:
            raise StoreError(
                f"{self.path} was removed while it was being written\n"
                "  restore the directory from a copy, or start a new one and replay the input from its beginning"
            )

    @contextmanager
    def _taking_back(self, action: str) -> Iterator[None]:
        """When the system refuses: cut off what does not count. An interruption leaves things as a crash would."""
        try:
            yield
        except OSError as error:
            failed = store_error(action, self.path, error)
            try:
                os.ftruncate(self._fd, self._accepted)
            except OSError as second:  # recovery cuts an unfinished record anyway
                failed.add_note(f"then cutting the log back to byte {self._accepted} failed: {second}")
            raise failed from error


def drop_segments(layout: Layout, upto: int) -> None:
    """Remove the segments whose epochs are all up to `upto`, oldest first, so that no gap can arise."""
    for first, following in pairwise(layout.segment_epochs()):
        if following - 1 > upto:
            break
        if remove(layout.segment(first)):
            crash.reach("trim.segment")


def _missing_segment(layout: Layout, epoch: int) -> CorruptError:
    """A gap: the segment that should hold `epoch` is not there."""
    later = [first for first in layout.segment_epochs() if first > epoch]
    lost = f"epochs {epoch} to {later[0] - 1}" if later else f"all commits from epoch {epoch} on"
    what = f"{layout.segment(epoch)}: the log has no segment for epoch {epoch}"
    return CorruptError(f"{what}\n  {frame.REMEDY}\n  lost: {lost}")
