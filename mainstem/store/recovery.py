"""From the files of a directory to the last committed state: the newest valid snapshot, then the log.

The same rules serve the writer, which then cuts an unfinished record off, and readers, which leave it alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError
from mainstem.store.frame import REMEDY
from mainstem.store.layout import Layout
from mainstem.store.log import Commit, LogCursor
from mainstem.store.shards import ShardMap, files_from_json, missing_files, read_shard_files
from mainstem.store.snapshot import KEPT, Snapshot, find_snapshots


class StoreWarning(UserWarning):
    """Damage that cost nothing, because a second copy was good. The next damage may cost something."""


@dataclass
class Recovered:
    """What the files say. `cursor` stands at the end of the log."""

    snapshots: list[Snapshot]  # valid, newest first
    cursor: LogCursor
    epoch: int
    meta: dict[str, Any]
    shards: ShardMap
    inline: set[str]  # tables with rows in the snapshot or in the commits after it
    commits: int = 0  # since the snapshot
    log_bytes: int = 0  # since the snapshot
    unsealed: int | None = None  # first epoch of an empty last segment, when the one before it lacks its seal
    warnings: list[str] = field(default_factory=list)

    @property
    def base(self) -> Snapshot | None:
        return self.snapshots[0] if self.snapshots else None

    def take(self, commit: Commit) -> None:
        head = commit.content.head
        self.epoch, self.meta = commit.epoch, head["meta"]
        self.shards.add(files_from_json(head["files"]))
        self.inline |= set(head["tables"])
        self.commits += 1
        self.log_bytes += commit.size


def recover(layout: Layout, store: int, *, spares: bool) -> Recovered:
    """Find the last committed state. `spares`: also read the older snapshot and its log, and warn of damage there."""
    newest = max(layout.snapshot_epochs(), default=0)  # before the log is read, as a writer may go on meanwhile
    snapshots, problems = find_snapshots(layout, store, limit=KEPT if spares else 1)
    base = snapshots[0] if snapshots else None
    try:
        found = _read_log(layout, store, snapshots, newest)
    except CorruptError as error:
        raise CorruptError("\n".join([*problems, str(error)])) from None
    missing = missing_files(layout, found.shards)
    if missing:
        paths = ", ".join(str(layout.shard_file(file.shard, file.name)) for file in missing)
        found.cursor.close()
        raise CorruptError(f"committed shard files are missing: {paths}\n  {REMEDY}")
    source = f"snapshot {base.epoch} and the log" if base else "the whole log"
    found.warnings += [f"{problem}; not needed: the state comes from {source}" for problem in problems]
    if spares and base is not None:
        found.warnings += _check_spare_log(layout, store, snapshots, complete=not problems)
    return found


def replay(
    layout: Layout, store: int, base: Snapshot | None, shards: ShardMap, upto: int
) -> Iterator[tuple[str, pa.Table]]:
    """(table name, rows) that make up the state after epoch `upto`, to be applied in order."""
    if base is not None:
        yield from base.read()
    yield from read_shard_files(layout.path, shards)
    cursor = LogCursor(layout, store, base.epoch if base else 0)
    try:
        for commit in cursor.read():
            if commit.epoch > upto:
                return
            yield from commit.content.tables()
    finally:
        cursor.close()


def _read_log(layout: Layout, store: int, snapshots: list[Snapshot], newest: int) -> Recovered:
    base = snapshots[0] if snapshots else None
    cursor = LogCursor(layout, store, base.epoch if base else 0)
    try:
        shards = ShardMap(base.shards.files) if base else ShardMap()
        inline = set(base.inline) if base else set()
        found = Recovered(snapshots, cursor, cursor.epoch, base.meta if base else {}, shards, inline)
        while True:
            following, place = _following(layout, cursor), (cursor.first, cursor.offset)
            for commit in cursor.read():
                found.take(commit)
            if place == (cursor.first, cursor.offset):
                break  # what was listed before a read that found nothing new, can't have come from a rotation meanwhile
        _check_reach(cursor, newest)
        found.unsealed = _unfinished_rotation(layout, cursor, following)
        return found
    except BaseException:
        cursor.close()
        raise


def _check_reach(cursor: LogCursor, newest: int) -> None:
    """A snapshot is taken of a state that the log has reached. A log that ends before it was cut afterwards."""
    if cursor.last < newest:
        raise CorruptError(
            f"{cursor.path} ends at epoch {cursor.last}, but there is a snapshot of epoch {newest}\n  {REMEDY}\n"
            f"  lost: commits after epoch {cursor.last} that are not in a valid snapshot"
        )


def _following(layout: Layout, cursor: LogCursor) -> list[tuple[int, int]]:
    """First epoch and size of the segments after the cursor's."""
    return [(first, layout.segment(first).stat().st_size) for first in cursor.following()]


def _unfinished_rotation(layout: Layout, cursor: LogCursor, following: list[tuple[int, int]]) -> int | None:
    """The log may end before its last segment in one way only: that one is new and empty, the seal is not written."""
    if not following:
        return None
    first = following[0][0]
    if following == [(cursor.last + 1, 0)]:
        return first
    lost = f"epochs {cursor.last + 1} to {first - 1}" if first > cursor.last + 1 else "the seal, no commit"
    raise CorruptError(
        f"{cursor.path} ends at byte {cursor.offset} without a seal, but {layout.segment(first)} follows\n  {REMEDY}\n"
        f"  lost: {lost}"
    )


def _check_spare_log(layout: Layout, store: int, snapshots: list[Snapshot], *, complete: bool) -> list[str]:
    """Read the log between the two snapshots, which only a damaged snapshot would make necessary."""
    base, *older = snapshots
    start = older[0].epoch if older else 0
    if not complete:  # the older snapshot is damaged, so nobody knows how far back the log should reach
        start = min(layout.segment_epochs()) - 1
    cursor = None
    try:
        cursor = LogCursor(layout, store, start)
        for commit in cursor.read():
            if commit.epoch > base.epoch:  # and not before: the seal of the last spare segment is read too
                break
    except CorruptError as error:
        return [f"{str(error).splitlines()[0]}; not needed: the state comes from snapshot {base.epoch}"]
    finally:
        if cursor is not None:
            cursor.close()
    return []
