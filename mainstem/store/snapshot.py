"""Snapshots and increments: what the log has come to, so that it need not be read from its beginning.

A *snapshot* holds the whole state after a commit, an *increment* the last version of every row that changed after one
commit up to another. The state is a snapshot, the increments that follow each other from there, and the rest of the
log. Both are written under a temporary name, synced, renamed: a file that has its name is complete. The log since the
oldest kept snapshot stays, so increments, and all snapshots but the oldest, are a second copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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

KEEP = 2  # snapshots: one damaged one loses nothing


@dataclass(frozen=True)
class Snapshot:
    """A snapshot (`since` 0) or increment that was read to its last byte, or just written."""

    since: int
    epoch: int
    meta: dict[str, Any]
    shards: ShardMap  # all live files after `epoch`, also in an increment
    size: int
    file: TableFile

    def read(self) -> Iterator[tuple[str, pa.Table]]:
        return self.file.read()


class Base:
    """A snapshot and the increments on top of it: where recovery begins to read the log."""

    def __init__(self, files: Sequence[Snapshot]) -> None:
        self.files = tuple(files)
        top = self.files[-1]
        self.epoch, self.meta, self.shards = top.epoch, top.meta, top.shards
        self.size = sum(file.size for file in self.files)

    def read(self) -> Iterator[tuple[str, pa.Table]]:
        """(table name, rows), to be applied in order."""
        for file in self.files:
            yield from file.read()

    def __str__(self) -> str:
        full, *increments = self.files
        more = f", {len(increments)} increments up to {self.epoch}" if increments else ""
        return f"snapshot {full.epoch}{more}"


def write_snapshot(
    layout: Layout, store: int, since: int, epoch: int, meta: dict[str, Any], shards: ShardMap,
    tables: Mapping[str, pa.Table],
) -> Snapshot:  # fmt: skip
    """Write the state after `epoch`, or what changed after `since`. Nothing changes for anybody until the rename."""
    final = _file(layout, store, since, epoch)
    step = "increment" if since else "snapshot"
    temporary = TableFile(final.path.with_suffix(".tmp"), final.kind, store, epoch)
    head = {"meta": meta, "files": shards.to_json(), "inline": sorted(tables), **({"since": since} if since else {})}
    with disk("write", final.path):
        crash.reach(f"{step}.start")
        remove(temporary.path)
        try:
            size = temporary.write(head, tables, f"{step}.half")
            crash.reach(f"{step}.synced")
            temporary.path.rename(final.path)
        except Exception:
            remove(temporary.path)
            raise
        crash.reach(f"{step}.renamed")
        sync_directory(layout.snapshots)
    return Snapshot(since, epoch, meta, ShardMap(shards.files), size, final)


def load_snapshot(layout: Layout, store: int, epoch: int, since: int = 0) -> Snapshot:
    """Read and verify every byte of a file. Its rows are read again, part by part, when they are asked for."""
    file = _file(layout, store, since, epoch)
    head = file.verify()
    if head.get("since", 0) != since:
        raise CorruptError(f"{file.path} holds the changes since epoch {head.get('since', 0)}, not {since}")
    return Snapshot(since, epoch, head["meta"], ShardMap.from_json(head["files"]), file.path.stat().st_size, file)


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


def find_increments(layout: Layout, store: int, since: int) -> tuple[list[Snapshot], list[str]]:
    """The valid increments that follow each other from an epoch, in order; and what is wrong with others on the way."""
    chain: list[Snapshot] = []
    problems: list[str] = []
    for start, epoch in sorted(layout.increment_epochs(), key=lambda known: (known[0], -known[1])):
        if start != (chain[-1].epoch if chain else since):
            continue  # part of one that was taken, or leading nowhere
        try:
            chain.append(load_snapshot(layout, store, epoch, start))
        except CorruptError as error:
            problems.append(str(error).splitlines()[0])
    return chain, problems


def _file(layout: Layout, store: int, since: int, epoch: int) -> TableFile:
    if since:
        return TableFile(layout.increment(since, epoch), Kind.INCREMENT, store, epoch)
    return TableFile(layout.snapshot(epoch), Kind.SNAPSHOT, store, epoch)
