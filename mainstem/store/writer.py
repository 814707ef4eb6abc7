"""From commits to the disk: each by itself, or all that wait at once. After the first failure nothing is written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, get_args

from mainstem.errors import StoreError
from mainstem.store import crash
from mainstem.store.background import GroupCommit
from mainstem.store.disk import Bytes
from mainstem.store.lock import WriterLock
from mainstem.store.log import LogWriter
from mainstem.store.outputs import Output, publish_all, stage_all
from mainstem.store.shards import ShardFile
from mainstem.store.upkeep import Upkeep

Durability = Literal["sync", "batch", "none"]
SEGMENT_BYTES = 16 << 20
SEGMENT_COMMITS = 1024
"""When the log goes on in a new file. Full ones are folded, so recovery reads about one of them: tens of ms."""


@dataclass(frozen=True)
class Entry:
    """A commit on its way to the disk."""

    epoch: int
    content: list[Bytes]
    files: tuple[ShardFile, ...]
    outputs: tuple[Output, ...]

    @property
    def size(self) -> int:
        return sum(memoryview(part).nbytes for part in self.content) + sum(output.size for output in self.outputs)


@dataclass(frozen=True)
class Segments:
    """When a segment is full."""

    bytes_max: int = SEGMENT_BYTES
    commits_max: int = SEGMENT_COMMITS


class CommitWriter:
    """Takes commits in order. With `batch` they wait for a thread that syncs all that came meanwhile with one sync."""

    def __init__(
        self, log: LogWriter, lock: WriterLock, epoch: int, durability: Durability, segments: Segments, upkeep: Upkeep
    ) -> None:
        """`epoch`: the last one in the log."""
        self.log, self.lock, self.durable = log, lock, epoch
        self._syncing, self._segments, self._upkeep = durability != "none", segments, upkeep
        self._group = GroupCommit(self._write) if durability == "batch" else None
        self._put = self._logged = epoch
        self._failure: BaseException | None = None
        self._told = False

    def put(self, entry: Entry) -> None:
        """Write a commit, or have it written soon; raises when this or an earlier one failed."""
        self.check()
        if self._group is None:
            self._write([entry])
            self._put = entry.epoch
            return
        self._put = entry.epoch
        self._group.put(entry, entry.size)
        self.check()

    def flush(self) -> None:
        """Return when every commit is durable and its outputs are visible."""
        if self._group is not None:
            self._group.flush()
        self.check()

    def rotate(self, epoch: int) -> None:
        """Have the next commit, `epoch`, begin a new segment."""
        self.flush()
        with self._stopping():
            self.log.rotate(epoch)

    def close(self) -> None:
        """Sync the rest; raises when something failed and nobody was told."""
        if self._group is not None:
            self._group.close()
        if self._failure is None:
            with self._stopping():
                self.log.sync()
                self.lock.note_synced(self.log.store, self._put)
        elif not self._told:
            self.check()

    def check(self) -> None:
        """Raise once something has failed: the first time in full, then in short."""
        if self._failure is None:
            return
        if self._told:
            reason = "; ".join([str(self._failure) or repr(self._failure), *getattr(self._failure, "__notes__", ())])
            raise StoreError(f"the store stopped after an error: {reason}\n  close it and open it again")
        self._told = True
        raise StoreError(f"{self._failure}{self._undone()}") from self._failure

    def _undone(self) -> str:
        """Which commits the caller took for done."""
        text = ""
        if self._logged > self.durable:
            which = _which(self.durable + 1, self._logged)
            text += f"\n  {which} durable, but not published: opening again publishes the outputs"
        if self._put > self._logged:
            which, last = _which(self._logged + 1, self._put), self._logged
            text += f"\n  {which} not durable, and not published: opening again gives the state after commit {last}"
        return text

    def _write(self, entries: list[Entry]) -> None:
        """1 outputs under hidden names, 2 the log, 3 one sync: the commits are durable, 4 outputs get their names.

        In this order also in a group: the system may write appended bytes to the disk at any time, and a commit whose
        outputs are not there must never be found in a log.
        """
        outputs = [output for entry in entries for output in entry.outputs]
        with self._stopping():
            stage_all(outputs, durable=self._syncing)
            crash.reach("commit.staged")
            self._rotate_when_full(entries[0].epoch)
            for entry in entries:
                self.log.append(entry.epoch, entry.content)
                crash.reach("commit.appended")
            self._sync(entries[-1].epoch)
            self._logged = entries[-1].epoch
            crash.reach("commit.logged")
            publish_all([(output.directory, output.staged) for output in outputs], durable=self._syncing)
            crash.reach("commit.published")
            self.durable = entries[-1].epoch
            self._upkeep.committed([file for entry in entries for file in entry.files])
            self._upkeep.sealed(self.log.first - 1)

    def _sync(self, epoch: int) -> None:
        if not self._syncing:
            self.log.accept()
            return
        self.log.sync()
        crash.reach("log.append.synced")
        self.lock.note_synced(self.log.store, epoch)

    def _rotate_when_full(self, epoch: int) -> None:
        """All that the full segment names is published: commits before these are done."""
        if self.log.end >= self._segments.bytes_max or epoch - self.log.first >= self._segments.commits_max:
            self.log.rotate(epoch)

    @contextmanager
    def _stopping(self) -> Iterator[None]:
        """Stop for good on any error. Without group commit the caller is told by the error itself."""
        try:
            yield
        except BaseException as error:
            self._failure = error
            self._told = self._group is None
            raise


def _which(first: int, last: int) -> str:
    return f"commit {first} is" if first == last else f"commits {first} to {last} are"


def check_durability(durability: str, keep: int) -> None:
    """Refuse what a user may have misspelt."""
    if durability not in get_args(Durability):
        raise StoreError(f"unknown durability {durability!r}\n  use one of: {', '.join(get_args(Durability))}")
    if isinstance(keep, bool) or not isinstance(keep, int) or keep < 1:
        raise StoreError(f"keep={keep!r} snapshots\n  keep at least one; the default is 2")
