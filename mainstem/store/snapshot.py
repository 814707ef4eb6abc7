"""Snapshots: the whole state after a commit, so that the log before it can go.

Written under a temporary name, synced, renamed: a snapshot that has its name is complete. The two newest are kept, and
the log since the older of them; so one damaged snapshot loses nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError
from mainstem.store import crash
from mainstem.store.disk import disk, remove, sync_directory
from mainstem.store.frame import Kind
from mainstem.store.layout import Layout
from mainstem.store.shards import ShardMap
from mainstem.store.tablefile import TableFile

KEPT = 2


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that was read to its last byte, or just written."""

    epoch: int
    meta: dict[str, Any]
    shards: ShardMap
    inline: frozenset[str]  # the tables that it holds
    size: int
    file: TableFile

    def read(self) -> Iterator[tuple[str, pa.Table]]:
        return self.file.read()


def write_snapshot(
    layout: Layout, store: int, epoch: int, meta: dict[str, Any], shards: ShardMap, tables: Mapping[str, pa.Table]
) -> Snapshot:
    """Write the state after `epoch`. Nothing changes for readers and recovery until the rename."""
    target = layout.snapshot(epoch)
    temporary = target.with_suffix(".tmp")
    head = {"meta": meta, "files": shards.to_json(), "inline": sorted(tables)}
    with disk("write", target):
        crash.reach("snapshot.start")
        remove(temporary)
        try:
            size = TableFile(temporary, Kind.SNAPSHOT, store, epoch).write(head, tables, "snapshot.half")
            crash.reach("snapshot.synced")
            temporary.rename(target)
        except OSError:
            remove(temporary)
            raise
        sync_directory(layout.snapshots)
    crash.reach("snapshot.renamed")
    file = TableFile(target, Kind.SNAPSHOT, store, epoch)
    return Snapshot(epoch, meta, ShardMap(shards.files), frozenset(tables), size, file)


def load_snapshot(layout: Layout, store: int, epoch: int) -> Snapshot:
    """Read and verify every byte of a snapshot. Its rows are read again, part by part, when they are asked for."""
    file = TableFile(layout.snapshot(epoch), Kind.SNAPSHOT, store, epoch)
    head = file.verify()
    shards = ShardMap.from_json(head["files"])
    return Snapshot(epoch, head["meta"], shards, frozenset(head["inline"]), file.path.stat().st_size, file)


def find_snapshots(layout: Layout, store: int, limit: int) -> tuple[list[Snapshot], list[str]]:
    """The newest valid snapshots, at most `limit`, newest first; and what is wrong with the others on the way."""
    valid: list[Snapshot] = []
    problems: list[str] = []
    for epoch in reversed(layout.snapshot_epochs()):
        try:
            valid.append(load_snapshot(layout, store, epoch))
        except CorruptError as error:
            problems.append(str(error).splitlines()[0])
        if len(valid) == limit:
            break
    return valid, problems


def drop_snapshots(layout: Layout, kept: Collection[int]) -> None:
    """Remove all snapshots but those of some epochs, and what interrupted writes have left."""
    for temporary in layout.snapshots.glob("*.tmp"):
        remove(temporary)
    for epoch in layout.snapshot_epochs():
        if epoch not in kept:
            remove(layout.snapshot(epoch))
            crash.reach("snapshot.dropping")
