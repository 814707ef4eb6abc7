"""What is in a directory of durable state: tables, versions, files, and who writes to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from mainstem.errors import QueryError
from mainstem.lang.history import keep_of
from mainstem.query.asof import oldest_epoch
from mainstem.query.load import beside_a_writer, load
from mainstem.query.view import View
from mainstem.state import DELETED
from mainstem.store.carried import carried_files, waiting
from mainstem.store.durable import QUERIES
from mainstem.store.format import read_format
from mainstem.store.layout import Layout
from mainstem.store.lock import Holder, holder
from mainstem.store.log import Commit, LogCursor
from mainstem.store.schemas import key_text
from mainstem.store.shards import ShardFile, files_from_json, read_shard_files
from mainstem.tools.pinned import pinned


@dataclass(frozen=True)
class TableInfo:
    """A table as the directory knows it."""

    key: str
    fields: dict[str, str]  # name: type
    rows: int
    keep: int  # entries that a row of a history keeps; 0 for a plain table


@dataclass(frozen=True)
class FileInfo:
    """A snapshot, increment or segment of the log: the first and last epoch that it is about, and its size.

    A snapshot is about all epochs up to its own, and counts from 0; the last epoch of a segment is not in its name.
    """

    kind: str
    first: int
    last: int | None
    bytes: int


@dataclass(frozen=True)
class Inspection:
    """What `inspect` has found."""

    path: Path
    format: int
    store: str  # the directory's own id, in every record of it
    epoch: int
    oldest: int  # the first epoch whose state can be asked for
    seq: int  # events committed
    ts: int | None  # of the last of them
    tables: dict[str, TableInfo]
    files: tuple[FileInfo, ...]
    shards: int  # of a keyed plan; 0 when rows are in one piece
    shard_files: int
    log_bytes: int
    bytes: int  # of all of it
    queries: dict[str, int]  # live queries and their last batch
    waiting: int  # events of live inputs that wait for other inputs
    writer: Holder | None
    warnings: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """The same as plain values, for JSON."""
        return {**asdict(self), "path": str(self.path)}


@dataclass(frozen=True)
class CommitInfo:
    """One commit as the log holds it."""

    epoch: int
    bytes: int
    meta: dict[str, Any]
    changed: dict[str, int]  # rows written, by table
    deleted: dict[str, int]  # rows removed, by table
    shard_files: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def inspect(path: str | Path) -> Inspection:
    """Look into a directory of durable state, beside its writer if there is one."""
    layout = Layout(Path(path))
    with pinned(layout) as held:
        follower, warned = load(held)
        follower.close()
        files = tuple(beside_a_writer(held, lambda: list(_files(held))))
        oldest = oldest_epoch(held)
        named = [held.shard_file(file.shard, file.name) for file in follower.view.shards]
        shard_bytes = sum(file.stat().st_size for file in named if file.exists())
    view = follower.view
    log_bytes = sum(file.bytes for file in files if file.kind == "log")
    carried_bytes = sum(told["bytes"] for told in carried_files(view.meta))
    warnings = tuple(text.replace(str(held.path), str(layout.path)) for text in warned)
    return Inspection(
        layout.path, view.stored.version, f"{view.stored.store:016x}", view.epoch, oldest,
        int(view.meta.get("seq", 0)), view.meta.get("ts"), _tables(view), files, len(view.shards.files), len(named),
        log_bytes, sum(file.bytes for file in files) + shard_bytes + carried_bytes, dict(view.meta.get(QUERIES, {})),
        waiting(view.meta), holder(layout.lock), warnings,
    )  # fmt: skip


def inspect_commit(path: str | Path, epoch: int) -> CommitInfo:
    """What one commit changed. It must be in the log still: `oldest` of `inspect` tells from where on."""
    with pinned(Layout(Path(path))) as layout:
        store = read_format(layout).store
        commit = beside_a_writer(layout, lambda: _commit(layout, store, epoch))
        files = files_from_json(commit.content.head["files"])
        parts = [*commit.content.tables(), *read_shard_files(layout.path, _there(layout, files))]
    changed: dict[str, int] = {}
    deleted: dict[str, int] = {}
    for name, rows in parts:
        gone = rows[DELETED].to_numpy().sum() if DELETED in rows.column_names else 0
        changed[name] = changed.get(name, 0) + rows.num_rows - int(gone)
        deleted[name] = deleted.get(name, 0) + int(gone)
    return CommitInfo(epoch, commit.size, commit.content.head["meta"], changed, deleted, len(files))


def _tables(view: View) -> dict[str, TableInfo]:
    found = {}
    for name, table in sorted(view.state.tables.items()):
        fields = {field.name: str(field.type) for field in table.schema.fields}
        found[name] = TableInfo(key_text(table.schema), fields, len(table), keep_of(table.schema))
    return found


def _files(layout: Layout) -> Iterator[FileInfo]:
    for epoch in layout.snapshot_epochs():
        yield FileInfo("snapshot", 0, epoch, layout.snapshot(epoch).stat().st_size)
    for since, epoch in layout.increment_epochs():
        yield FileInfo("increment", since + 1, epoch, layout.increment(since, epoch).stat().st_size)
    firsts = layout.segment_epochs()
    for number, first in enumerate(firsts):
        last = firsts[number + 1] - 1 if number + 1 < len(firsts) else None
        yield FileInfo("log", first, last, layout.segment(first).stat().st_size)


def _commit(layout: Layout, store: int, epoch: int) -> Commit:
    oldest = min(layout.segment_epochs(), default=1)
    cursor = LogCursor(layout, store, max(epoch, oldest) - 1)
    try:
        found = next(cursor.read(), None)
    finally:
        cursor.close()
    if found is None or found.epoch != epoch:
        kept = f"commits from {oldest} on" if found else f"commits {oldest} to {cursor.last}"
        raise QueryError(f"{layout.path}: the log has no commit {epoch}\n  it has {kept}")
    return found


def _there(layout: Layout, files: list[ShardFile]) -> list[ShardFile]:
    """Shard files that no newer base has replaced: those can still be counted."""
    return [file for file in files if not file.is_dropped and layout.shard_file(file.shard, file.name).is_file()]
