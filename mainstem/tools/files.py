"""Every file of a directory, read to its last byte; what is damaged, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import CorruptError
from mainstem.store.carried import carried_files
from mainstem.store.format import Format
from mainstem.store.frame import REMEDY
from mainstem.store.layout import Layout
from mainstem.store.log import LogCursor
from mainstem.store.outputs import named_files
from mainstem.store.recovery import Told
from mainstem.store.shards import ShardFile, ShardMap, files_from_json, read_shard_files
from mainstem.store.sheets import verified
from mainstem.store.snapshot import Snapshot, load_snapshot


@dataclass(frozen=True)
class Damage:
    """One thing that is not as it was written. `what` names the file and, where one is known, the byte."""

    file: Path
    what: str
    lost: str
    remedy: str
    costs_state: bool = True  # else it is about outputs, or events that wait: the tables are whole

    @staticmethod
    def of(file: Path, error: CorruptError) -> Damage:
        """From the message of an error, which says it on lines of their own."""
        what, *more = (line.strip() for line in str(error).splitlines())
        lost = next((line.removeprefix("lost: ") for line in more if line.startswith("lost: ")), "its rows")
        return Damage(file, what, lost, REMEDY)

    def __str__(self) -> str:
        return f"{self.what}\n  lost: {self.lost}\n  {self.remedy}"


class Meter:
    """Tells how many bytes were read of how many."""

    def __init__(self, told: Told | None, total: int) -> None:
        self._told, self._total, self._done = told, max(total, 1), 0

    def add(self, count: int) -> None:
        self._done += count
        if self._told is not None:
            self._told(min(self._done, self._total), self._total)

    def grow(self, count: int) -> None:
        """There is more to read than was known."""
        self._total += count


@dataclass
class Files:
    """What the files of a directory hold. Damage does not end the reading: everything that can be read is."""

    layout: Layout
    stored: Format
    meter: Meter
    snapshots: list[Snapshot] = field(default_factory=list)  # valid, oldest first
    increments: list[Snapshot] = field(default_factory=list)  # valid
    damages: list[Damage] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    count: int = 1  # the format file
    bytes: int = 0
    commits: int = 0
    epoch: int = 0  # the last one that a whole record tells of
    meta: dict[str, Any] = field(default_factory=dict)
    shards: ShardMap = field(default_factory=ShardMap)

    @staticmethod
    def read(layout: Layout, stored: Format, meter: Meter) -> Files:
        files = Files(layout, stored, meter, bytes=layout.format.stat().st_size)
        files._read_snapshots()
        files._read_log()
        files._read_shards()
        files._read_carried()
        files._read_outputs()
        return files

    def _read_snapshots(self) -> None:
        names = [(0, epoch) for epoch in self.layout.snapshot_epochs()] + self.layout.increment_epochs()
        for since, epoch in names:
            path = self.layout.increment(since, epoch) if since else self.layout.snapshot(epoch)
            found = self._reading(path, partial(load_snapshot, self.layout, self.stored.store, epoch, since))
            if found is not None:
                (self.increments if since else self.snapshots).append(found)

    def _read_log(self) -> None:
        """All segments; after damage, from the next segment on."""
        firsts = self.layout.segment_epochs()
        self.count += len(firsts)
        self._begin_shards(firsts[0] - 1 if firsts else 0)
        while firsts:
            end, torn = self._read_segments(firsts[0])
            firsts = [first for first in firsts if first > end]
            if torn:
                self.notes.append(torn)

    def _begin_shards(self, epoch: int) -> None:
        """The live shard files where the log begins: as the snapshot of that epoch has them."""
        known = [snapshot for snapshot in self.snapshots if snapshot.epoch <= epoch]
        self.shards = ShardMap(known[-1].shards.files if known else None)

    def _read_segments(self, first: int) -> tuple[int, str]:
        """From one segment on as far as seals lead; the last segment reached, and what stands unfinished at its end."""
        cursor = LogCursor(self.layout, self.stored.store, first - 1)
        try:
            for commit in cursor.read():
                head = commit.content.head
                self.epoch, self.meta, self.commits = commit.epoch, head["meta"], self.commits + 1
                self.shards.add(files_from_json(head["files"]))
                for _ in commit.content.tables():
                    pass  # the checksum holds; now the tables can be opened, too
                self._read_bytes(commit.size)
            self._check_end(cursor)
        except CorruptError as error:
            self._note(cursor.path, error)
        finally:
            cursor.close()
        rest = cursor.path.stat().st_size - cursor.offset if cursor.torn else 0
        torn = f"{cursor.path} ends with {rest} bytes of a commit that was never finished: the next run cuts them off"
        return cursor.first, torn if rest and not cursor.following() else ""

    def _check_end(self, cursor: LogCursor) -> None:
        """Only the last segment has no seal, and maybe the one before a new empty one."""
        following = cursor.following()
        if not following or (following == [cursor.last + 1] and not self.layout.segment(following[0]).stat().st_size):
            return
        raise CorruptError(
            f"{cursor.path}, byte {cursor.offset}: ends without a seal, but {self.layout.segment(following[0])} follows"
            f"\n  lost: epochs {cursor.last + 1} to {following[0] - 1}"
        )

    def _read_shards(self) -> None:
        """Live files, and those of earlier versions that are still there: newer ones may have replaced them."""
        live = set(self.shards)
        named = {*live, *(f for s in (*self.snapshots, *self.increments) for f in s.shards)}
        for file in sorted(named, key=lambda f: (f.shard, f.name)):
            path = self.layout.shard_file(file.shard, file.name)
            if file in live or path.exists():
                self._reading(path, partial(self._read_shard, file))

    def _read_shard(self, file: ShardFile) -> bool:
        for _ in read_shard_files(self.layout.path, [file]):
            pass
        return True

    def _read_carried(self) -> None:
        """Events that wait after the last commit; what earlier ones named is gone."""
        for told in carried_files(self.meta):
            path = self.layout.carried / told["name"]
            self.count += 1
            try:
                self._read_bytes(verified(self.layout.carried, told).size)
            except CorruptError as error:
                self.damages.append(replace(Damage.of(path, error), costs_state=False))

    def _read_outputs(self) -> None:
        """Files that the last commit names. They may be anywhere by now: what is not there is not missed."""
        for path in named_files(self.meta):
            self.count += 1
            try:
                for _ in pq.ParquetFile(path).iter_batches():
                    pass
            except (pa.ArrowException, OSError) as error:
                what = f"{path}: outputs of epoch {self.epoch} can't be read: {str(error).splitlines()[0]}"
                remedy = "run the same events on an earlier state (`mainstem restore --as-of-batch`) to get them again"
                self.damages.append(Damage(path, what, "these outputs, no state", remedy, costs_state=False))

    def _reading(self, path: Path, read: Callable[[], Any]) -> Any:
        """What `read` gives; None, and a damage, when the file is not as it was written."""
        self.count += 1
        try:
            size = path.stat().st_size if path.exists() else 0
            found = read()
        except CorruptError as error:
            self._note(path, error)
            return None
        except FileNotFoundError:
            return None  # a writer has dropped it meanwhile: it was one of the spare ones
        self._read_bytes(size)
        return found

    def _note(self, path: Path, error: CorruptError) -> None:
        self.damages.append(Damage.of(path, error))

    def _read_bytes(self, count: int) -> None:
        self.bytes += count
        self.meter.add(count)


def size_of(layout: Layout) -> int:
    """Bytes of all files that `Files.read` reads, about."""
    folders = (layout.log, layout.snapshots, layout.shards, layout.carried)
    return sum(file.stat().st_size for folder in folders for file in folder.rglob("*.*") if file.is_file())
