"""The durable state of one program: commits that survive a crash, one writer per directory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, get_args

import pyarrow as pa

from mainstem.errors import StoreError
from mainstem.schema import TableSchema
from mainstem.store import crash, payload
from mainstem.store.disk import disk, make_directory, sync_directory
from mainstem.store.format import Format, check_schemas, create_format, read_format
from mainstem.store.layout import Layout
from mainstem.store.lock import WriterLock
from mainstem.store.log import LogWriter
from mainstem.store.recovery import Recovered, StoreWarning, recover, replay
from mainstem.store.shards import ShardFile, drop_files, drop_strangers, files_to_json, missing_files
from mainstem.store.snapshot import KEPT, drop_snapshots, write_snapshot
from mainstem.store.tables import check_tables

Durability = Literal["sync", "none"]
SNAPSHOT_EVERY = 64  # commits
SEGMENT_BYTES = 64 << 20


class Store:
    """Epoch 0 is the empty state; every commit is the next epoch. Use it from one thread at a time."""

    def __init__(self, layout: Layout, lock: WriterLock, stored: Format, found: Recovered, log: LogWriter) -> None:
        """Use `Store.open`."""
        self.path = layout.path
        self.warnings = list(found.warnings)
        self.snapshot_every, self.segment_bytes = SNAPSHOT_EVERY, SEGMENT_BYTES
        self._layout, self._lock, self._stored, self._state, self._log = layout, lock, stored, found, log
        self._obsolete: list[ShardFile] = []  # replaced, but a kept snapshot still names them

    @classmethod
    def open(
        cls,
        path: str | Path,
        schemas: Mapping[str, TableSchema] | Iterable[TableSchema],
        *,
        create: bool = True,
        snapshot_every: int = SNAPSHOT_EVERY,
        segment_bytes: int = SEGMENT_BYTES,
        durability: Durability = "sync",
    ) -> Store:
        """Open a directory for writing and recover its last committed state; `create` makes a new one if need be.

        `snapshot_every` sets when `snapshot_due` turns true; `segment_bytes` when the log goes on in a new file.
        With `durability="none"` a power cut may take the last commits, in order; a crash of the process takes none.
        """
        if durability not in get_args(Durability):
            raise StoreError(f"unknown durability {durability!r}\n  use one of: {', '.join(get_args(Durability))}")
        layout = Layout(Path(path))
        tables = tuple(schemas.values() if isinstance(schemas, Mapping) else schemas)
        if not create:
            read_format(layout)
        with disk("open", layout.path):
            make_directory(layout.path)
            lock = WriterLock(layout.lock)
            try:
                store = cls._recover(layout, lock, tables, durable=durability == "sync")
            except BaseException:
                lock.release()
                raise
        store.snapshot_every, store.segment_bytes = snapshot_every, segment_bytes
        return store

    @classmethod
    def _recover(cls, layout: Layout, lock: WriterLock, schemas: tuple[TableSchema, ...], *, durable: bool) -> Store:
        if layout.format.exists():
            stored = read_format(layout)
            check_schemas(layout.path, stored, schemas)
        else:
            stored = create_format(layout, schemas)
        found = recover(layout, stored.store, spares=True)
        found.cursor.close()
        for folder in (layout.path, layout.log, layout.snapshots):
            sync_directory(folder)  # names that a killed process had not synced are about to count
        log = LogWriter(layout, stored.store, found.cursor.first, found.cursor.offset, durable=durable)
        try:
            if found.unsealed is not None:
                log.finish_rotation(found.unsealed)
            store = cls(layout, lock, stored, found, log)
            for text in found.warnings:
                warnings.warn(text, StoreWarning, stacklevel=4)
            # Damaged snapshots stay, as evidence and for the next warning, until a new one makes up for them.
            oldest = found.snapshots[-1].epoch if len(found.snapshots) == KEPT else 0
            store._drop_old([epoch for epoch in layout.snapshot_epochs() if epoch >= oldest])
            drop_strangers(layout, store._named_files())
        except BaseException:
            log.close()
            raise
        return store

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 for a new store."""
        return self._state.epoch

    @property
    def meta(self) -> dict[str, Any]:
        """What the last commit said about itself."""
        return self._state.meta

    @property
    def shard_files(self) -> dict[int, list[ShardFile]]:
        """Per shard: its newest base and the files after it, in order."""
        return {shard: list(files) for shard, files in self._state.shards.files.items()}

    @property
    def snapshot_due(self) -> bool:
        """Enough commits since the last snapshot, and a log as large as it: so snapshots at most double the writing."""
        base = self._state.base
        grown = self._state.log_bytes >= (base.size if base else 0)
        return self._state.commits >= self.snapshot_every and grown

    def replay(self) -> Iterator[tuple[str, pa.Table]]:
        """(table name, rows) that make up the state after the last commit, to be applied in order."""
        self._check_open()
        state = self._state
        return replay(self._layout, self._stored.store, state.base, state.shards, state.epoch)

    def commit(self, deltas: Mapping[str, pa.Table], meta: dict[str, Any], files: Sequence[ShardFile] = ()) -> int:
        """Make changed rows and written shard files the new state; durable when this returns the new epoch.

        `deltas`: per table, whole rows by key, with `_deleted` true for rows to remove. `meta`: anything that JSON
        can hold, e.g. the batch id and the names of staged outputs.
        """
        self._check_open()
        crash.reach("commit.start")
        check_tables(self._stored.schemas, deltas, deletes=True)
        self._check_files(files)
        changed = [(name, table) for name, table in deltas.items() if table.num_rows]
        meta = json.loads(payload.encode_json(meta))  # as recovery will read it: tuples are lists, keys are strings
        content = payload.encode({"meta": meta, "files": files_to_json(files)}, changed)
        epoch = self.epoch + 1
        if self._log.end >= self.segment_bytes:
            self._log.rotate(epoch)
        size = self._log.append(epoch, content)
        crash.reach("commit.logged")
        state = self._state
        state.epoch, state.meta = epoch, meta
        state.inline |= {name for name, _ in changed}
        state.commits, state.log_bytes = state.commits + 1, state.log_bytes + size
        self._obsolete += state.shards.add(files)
        with suppress(OSError):  # the commit stands; what can't be removed now goes when the store opens next
            self._drop_obsolete()
        return epoch

    def snapshot(self, tables: Mapping[str, pa.Table]) -> None:
        """Store the whole state after the last commit, then drop what no kept snapshot needs.

        `tables`: every table that commits carried rows of; rows in shard files stay there.
        """
        self._check_open()
        check_tables(self._stored.schemas, tables, deletes=False)
        state = self._state
        missing = sorted(state.inline - set(tables))
        if missing:
            raise StoreError(f"the snapshot lacks {', '.join(missing)}\n  give every table that was committed to")
        if state.base is not None and state.base.epoch == state.epoch:
            return
        self._log.sync()
        made = write_snapshot(self._layout, self._stored.store, state.epoch, state.meta, state.shards, tables)
        state.snapshots = [made, *state.snapshots][:KEPT]
        state.commits, state.log_bytes = 0, 0
        self._log.rotate(state.epoch + 1)
        crash.reach("snapshot.rotated")
        with disk("clean up", self.path):
            self._drop_old([kept.epoch for kept in state.snapshots])

    def close(self) -> None:
        """Release the directory. Every commit is durable already, with `durability="none"` after this."""
        try:
            if self._lock.mine and not self._log.failure:
                self._log.sync()
        finally:
            self._log.close()
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if not self._lock.mine:
            raise StoreError(f"{self.path} is closed, or was opened by a parent process\n  open it again")

    def _check_files(self, files: Sequence[ShardFile]) -> None:
        missing = missing_files(self._layout, files)
        if missing:
            paths = ", ".join(str(self._layout.shard_file(file.shard, file.name)) for file in missing)
            raise StoreError(f"can't commit shard files that are not there: {paths}\n  write them again")

    def _drop_old(self, snapshots: list[int]) -> None:
        """Keep these snapshots and the log since the older of two valid ones; while there is one, the whole log."""
        drop_snapshots(self._layout, snapshots)
        valid = self._state.snapshots
        if len(valid) == KEPT:
            self._log.drop(valid[-1].epoch)
        self._drop_obsolete()

    def _drop_obsolete(self) -> None:
        if not self._obsolete:
            return
        named = set(self._named_files())
        drop_files(self._layout, [file for file in self._obsolete if file not in named])
        self._obsolete = [file for file in self._obsolete if file in named]

    def _named_files(self) -> Iterator[ShardFile]:
        yield from self._state.shards
        for snapshot in self._state.snapshots:
            yield from snapshot.shards
