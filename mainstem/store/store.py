"""The durable state of one program: commits that survive a crash, one writer per directory."""

from __future__ import annotations

import json
import warnings
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import pyarrow as pa

from mainstem.errors import StoreError
from mainstem.schema import TableSchema
from mainstem.store import crash, payload
from mainstem.store.disk import disk, make_directory, sync_directory
from mainstem.store.format import Format, create_format, evolved, read_format, replace_format
from mainstem.store.layout import Layout
from mainstem.store.lending import ask_back
from mainstem.store.lock import WriterLock
from mainstem.store.log import LogWriter
from mainstem.store.outputs import Output, publish_pending
from mainstem.store.recovery import Recovered, StoreWarning, Told, recover, replay
from mainstem.store.shards import ShardFile, files_to_json, missing_files
from mainstem.store.snapshot import KEEP
from mainstem.store.tables import check_tables
from mainstem.store.upkeep import Upkeep
from mainstem.store.writer import (
    SEGMENT_BYTES,
    SEGMENT_COMMITS,
    CommitWriter,
    Durability,
    Entry,
    Segments,
    check_durability,
)


class Store:
    """Epoch 0 is the empty state; every commit is the next epoch. Use it from one thread at a time."""

    def __init__(
        self, layout: Layout, lock: WriterLock, stored: Format, found: Recovered, log: LogWriter, *,
        durability: Durability, keep: int, segments: Segments,
    ) -> None:  # fmt: skip
        """Use `Store.open`."""
        self.path, self.durability = layout.path, durability
        self.warnings = list(found.warnings)
        self._layout, self._lock, self._stored = layout, lock, stored
        self._epoch, self._meta, self._shards = found.epoch, found.meta, found.shards
        self._pending = found.pending
        self._tail = found.tail  # until the first commit
        self._read: _Replay | None = None
        self._upkeep = Upkeep(layout, stored, found, keep)
        self._writer = CommitWriter(log, lock, found.epoch, durability, segments, self._upkeep)

    @classmethod
    def open(
        cls,
        path: str | Path,
        schemas: Mapping[str, TableSchema] | Iterable[TableSchema],
        *,
        create: bool = True,
        durability: Durability = "sync",
        keep: int = KEEP,
        segment_bytes: int = SEGMENT_BYTES,
        segment_commits: int = SEGMENT_COMMITS,
        told: Told | None = None,
    ) -> Store:
        """Open a directory for writing and recover its last committed state; `create` makes a new one if need be.

        `durability`: what a kill or a power cut may take (docs/durability.md). `keep`: snapshots that stay, with the
        log since the oldest. `segment_bytes` and `segment_commits`: when the log goes on in a new file; full ones are
        folded into snapshots in the background. `told` is called while the log is being read.
        """
        check_durability(durability, keep)
        layout = Layout(Path(path))
        tables = tuple(schemas.values() if isinstance(schemas, Mapping) else schemas)
        if not create:
            read_format(layout)
        ask_back(layout.path)
        with disk("open", layout.path):
            make_directory(layout.path)
            lock = WriterLock(layout.lock)
            try:
                before, stored, found = _find(layout, tables, keep, told)
                log = LogWriter(layout, stored.store, found.cursor.first, found.cursor.offset)
                try:
                    segments = Segments(segment_bytes, segment_commits)
                    store = cls(layout, lock, stored, found, log, durability=durability, keep=keep, segments=segments)
                    store._finish_recovery(before, found)
                except BaseException:
                    log.close()
                    raise
            except BaseException:
                lock.release()
                raise
        return store

    def _finish_recovery(self, before: Format, found: Recovered) -> None:
        """Complete on disk what a killed process had begun, and remove what it left."""
        for folder in (self._layout.snapshots, self._layout.shards):
            make_directory(folder)  # copies are made by tools that leave out empty folders
        for folder in (self._layout.path, self._layout.log, self._layout.snapshots):
            sync_directory(folder)  # names that a killed process had not synced are about to count
        crash.reach("recover.synced")
        log = self._writer.log
        if found.unsealed is not None:
            log.finish_rotation(found.unsealed)
            crash.reach("recover.sealed")
        if self._stored != before:
            replace_format(self._layout, self._stored)  # after recovery: a damaged directory stays as it is
        for text in found.warnings:
            warnings.warn(text, StoreWarning, stacklevel=4)
        self._upkeep.clean()
        crash.reach("recover.cleaned")
        self._lock.note_synced(self._stored.store, self._epoch)
        self._upkeep.sealed(log.first - 1)

    @property
    def epoch(self) -> int:
        """The last committed epoch; 0 for a new store."""
        return self._epoch

    @property
    def durable(self) -> int:
        """The last epoch that is on disk and whose outputs are visible; with `batch` it follows `epoch`."""
        return self._writer.durable

    @property
    def meta(self) -> dict[str, Any]:
        """What the last commit said about itself."""
        return self._meta

    @property
    def shard_files(self) -> dict[int, list[ShardFile]]:
        """Per shard: its newest base and the files after it, in order."""
        return {shard: list(files) for shard, files in self._shards.files.items()}

    def publish_pending(self) -> list[Path]:
        """Publish outputs of recovered commits that a crash has left hidden; final names of those of the last one."""
        self.flush()
        for meta in self._pending:
            publish_pending(meta)
            crash.reach("recover.published")
        self._pending = []
        return publish_pending(self._meta)

    def replay(self) -> Iterator[tuple[str, pa.Table]]:
        """(table name, rows) that make up the state after the last commit, to be applied in order."""
        self._check_open()
        self.flush()
        self._end_replay()
        self._read = _Replay(self._replay())
        return self._read

    def _replay(self) -> Generator[tuple[str, pa.Table], None, None]:
        with self._upkeep.reading() as base:
            folded = base.epoch if base else 0  # maybe more than when the tail was read
            tail = None if self._tail is None else [commit for commit in self._tail if commit.epoch > folded]
            yield from replay(self._layout, self._stored, base, self._shards, self._epoch, tail)

    def commit(
        self, deltas: Mapping[str, pa.Table], meta: dict[str, Any], files: Sequence[ShardFile] = (),
        outputs: Sequence[Output] = (),
    ) -> int:  # fmt: skip
        """Make changed rows and written shard files the new state; the new epoch. Durable when this returns, or, with
        `durability="batch"`, after `flush` and before any of `outputs` is visible.

        `deltas`: per table, whole rows by key, with `_deleted` true for rows to remove. `meta`: anything that JSON
        can hold, e.g. the batch id. `outputs`: files that appear with this commit; `meta` must name them (`pending`).
        """
        self._check_open()
        self._writer.check()
        self._tell_problems()
        crash.reach("commit.start")
        check_tables(self._stored.schemas, deltas, deletes=True)
        self._check_files(files)
        changed = [(name, table) for name, table in deltas.items() if table.num_rows]
        meta = json.loads(payload.encode_json(meta))  # as recovery will read it: tuples are lists, keys are strings
        content = payload.encode({"meta": meta, "files": files_to_json(files)}, changed)
        self._writer.put(Entry(self._epoch + 1, content, tuple(files), tuple(outputs)))
        self._epoch, self._meta, self._tail = self._epoch + 1, meta, None
        self._shards.add(files)
        return self._epoch

    def flush(self) -> None:
        """Return when every commit is durable and its outputs are visible."""
        self._check_open()
        self._writer.flush()

    def snapshot(self) -> None:
        """Fold all commits into a snapshot now. The background does it too, a full segment of the log at a time."""
        self._check_open()
        self._end_replay()
        self._writer.rotate(self._epoch + 1)
        crash.reach("snapshot.rotated")
        with disk("make a snapshot in", self.path):
            self._upkeep.fold(self._epoch)

    def close(self) -> None:
        """Release the directory when every commit is durable; raises when that has failed and nobody was told."""
        try:
            if self._lock.mine:
                try:
                    self._end_replay()
                    self._writer.close()
                finally:
                    self._upkeep.close()
                self._tell_problems()
        finally:
            self._writer.log.close()
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _end_replay(self) -> None:
        """While rows are read no file is folded; a reader that has stopped half-way must not keep that up."""
        if self._read is not None:
            self._read.end()
            self._read = None

    def _tell_problems(self) -> None:
        for text in self._upkeep.problems():
            self.warnings.append(text)
            warnings.warn(text, StoreWarning, stacklevel=3)

    def _check_open(self) -> None:
        if not self._lock.mine:
            raise StoreError(f"{self.path} is closed, or was opened by a parent process\n  open it again")

    def _check_files(self, files: Sequence[ShardFile]) -> None:
        missing = missing_files(self._layout, files)
        if missing:
            paths = ", ".join(str(self._layout.shard_file(file.shard, file.name)) for file in missing)
            raise StoreError(f"can't commit shard files that are not there: {paths}\n  write them again")


class _Replay:
    """The rows of a store, which may need its files for something else before all are read."""

    def __init__(self, rows: Generator[tuple[str, pa.Table], None, None]) -> None:
        self._rows, self._ended = rows, False

    def __iter__(self) -> Iterator[tuple[str, pa.Table]]:
        return self

    def __next__(self) -> tuple[str, pa.Table]:
        if self._ended:
            raise StoreError(
                "the store was read anew, folded or closed before all rows were read\n  read them first: list(…)"
            )
        return next(self._rows)

    def end(self) -> None:
        self._ended = True
        self._rows.close()


def _find(
    layout: Layout, schemas: tuple[TableSchema, ...], keep: int, told: Told | None
) -> tuple[Format, Format, Recovered]:
    """The format as it is and as it has to be, and what the files hold. Only a new directory is changed."""
    if layout.format.exists():
        before = read_format(layout)
        stored = evolved(layout, before, schemas)
    else:
        before = stored = create_format(layout, schemas)
    found = recover(layout, stored.store, spares=True, keep=keep, told=told)
    found.cursor.close()
    crash.reach("recover.found")
    return before, stored, found
