"""The write-ahead log: commits in segments `log/<first epoch>.wal`.

A segment holds one record per commit, epochs without gaps. When it is full, or when a snapshot was taken, the next
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
from mainstem.store.disk import Bytes, store_error, sync, sync_directory, sync_readonly, write_all, write_in_halves
from mainstem.store.frame import Kind, TornError
from mainstem.store.layout import Layout
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
        """Whether there may be something new: one system call."""
        return os.fstat(self._fd).st_size != self.offset

    def sync(self) -> None:
        """Make durable what was read, so that nobody acts on a commit that a power cut then undoes."""
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
        """A last record may also be one that a power cut left with a hole; only its owner can know."""
        if self.following() or self._last_legible() > self._next:
            return ""
        return (
            "\n  it is the last record: if the power failed during that commit, it was never acknowledged, and\n"
            f"  `truncate -s {self.offset} {self.path}` drops it"
        )


class LogWriter:
    """Appends commits to the last segment. After a failure nothing more is accepted."""

    def __init__(self, layout: Layout, store: int, first: int, end: int, *, durable: bool) -> None:
        """Go on at byte `end` of a segment; what stands behind it is an unfinished record and is cut off."""
        self.layout, self.store, self.durable = layout, store, durable
        self.failure = ""
        self._fd = -1
        self._open(first, end)

    def append(self, epoch: int, content: list[Bytes]) -> int:
        """Add a commit; durable when this returns. The size of its record."""
        self._check_usable()
        record = frame.encode(Kind.COMMIT, self.store, epoch, content)
        with self._stopping_on_error():
            crash.reach("log.append.start")
            write_all(self._fd, record[:1])
            crash.reach("log.append.header")
            write_in_halves(self._fd, record[1:], "log.append.half")
            crash.reach("log.append.written")
            if self.durable:
                sync(self._fd)
            crash.reach("log.append.synced")
        size = sum(memoryview(part).nbytes for part in record)
        self.end += size
        return size

    def rotate(self, next_epoch: int) -> None:
        """Go on in a new segment, unless the current one is still empty."""
        self._check_usable()
        if self.end == 0:
            return
        with self._stopping_on_error():
            crash.reach("log.rotate.start")
            sync(self._fd)
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

    def drop(self, upto: int) -> None:
        """Remove the segments whose epochs are all up to `upto`, oldest first, so that no gap can arise."""
        epochs = self.layout.segment_epochs()
        for first, following in pairwise(epochs):
            if following - 1 > upto:
                break
            self.layout.segment(first).unlink(missing_ok=True)
            crash.reach("snapshot.dropping")

    def sync(self) -> None:
        self._check_usable()
        with self._stopping_on_error():
            sync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1

    def _open(self, first: int, end: int) -> None:
        self.close()
        self.first, self.end, self.path = first, end, self.layout.segment(first)
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        if os.fstat(self._fd).st_size > end:
            os.ftruncate(self._fd, end)
        sync(self._fd)  # a commit that a killed process had not synced is about to count

    def _check_usable(self) -> None:
        if self.failure:
            raise StoreError(f"the store stopped after an error: {self.failure}\n  close it and open it again")

    @contextmanager
    def _stopping_on_error(self) -> Iterator[None]:
        """Stop for good. A refused append is taken back; an interrupted one is left as a crash would leave it."""
        try:
            yield
        except OSError as error:
            self.failure = str(error)
            self._take_back()
            raise store_error("write to", self.path, error) from error
        except BaseException as error:
            self.failure = repr(error)
            raise

    def _take_back(self) -> None:
        """Best effort: recovery cuts an unfinished record anyway, but the space may be needed now."""
        try:
            os.ftruncate(self._fd, self.end)
            sync(self._fd)
        except OSError as error:
            self.failure += f"; then cutting the log back to byte {self.end} failed: {error}"


def _missing_segment(layout: Layout, epoch: int) -> CorruptError:
    """A gap: the segment that should hold `epoch` is not there."""
    later = [first for first in layout.segment_epochs() if first > epoch]
    lost = f"epochs {epoch} to {later[0] - 1}" if later else f"all commits from epoch {epoch} on"
    what = f"{layout.segment(epoch)}: the log has no segment for epoch {epoch}"
    return CorruptError(f"{what}\n  {frame.REMEDY}\n  lost: {lost}")
