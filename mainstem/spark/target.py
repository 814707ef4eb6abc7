"""Where a replay's results go: a folder of Parquet, a store with the end state, or both in one commit.

1  tasks write outputs, rejects and state under hidden names
2  the driver has one report per task: these files, and no others, are the result
3  with a store: one commit takes the state and names the files
4  files get their final names; without a store, `_SUCCESS` then marks them complete
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import InputError
from mainstem.lang import Program
from mainstem.replay.sharding import shards_of
from mainstem.schema import INT64_MIN
from mainstem.spark import blobs
from mainstem.spark.job import Report
from mainstem.state import State
from mainstem.store import (
    QUERIES,
    REJECTS_KEY,
    ShardFile,
    Store,
    discard_staged,
    pending,
    publish,
    read_shard_files,
    write_shard_file,
)  # fmt: skip
from mainstem.store.carried import refuse_waiting
from mainstem.store.layout import Layout
from mainstem.store.partitions import SHARDS, gather, load_state, scatter, shard_count
from mainstem.windows import WINDOWS

REPLAY = "replay"
"""Key of a commit's meta: which replay it ended."""

SUCCESS = "_SUCCESS"
Tables = Mapping[str, pa.Table]


class Folder:
    """Outputs without a store: a new folder, complete when `_SUCCESS` is in it.

    `kept` (also of a store's target): staged files that survive when the target is closed without being finished.
    """

    first_seq, after_ts = 0, INT64_MIN
    state: str | None = None
    windows: dict[str, Any] | None = None
    rejects_stem = "part"

    def __init__(self, out: str, initial: Tables | None, kept: Collection[str] | None = None) -> None:
        self.kept = set(kept or ())
        self.out, self.rejects = Path(out), Path(out) / "_rejects"
        self.start = initial or None
        self.shard_files: dict[int, list[ShardFile]] = {}
        if kept is None:  # else an interrupted run has begun here, and may have published some of its files
            check_new(self.out)
        self.out.mkdir(parents=True, exist_ok=True)

    @property
    def finished(self) -> str | None:
        """What `finish` was last told to remember, in this run or an earlier one; None before."""
        mark = self.out / SUCCESS
        return mark.read_text() if mark.exists() else None

    def finish(self, reports: Sequence[Report], remember: str = "") -> list[Path]:
        """Publish the files of these reports; the output files."""
        files = [publish(self.out, staged) for report in reports for staged in report.staged]
        for report in reports:
            for staged in report.rejects_staged:
                publish(self.rejects, staged)
        (self.out / SUCCESS).write_text(remember)
        return files

    def close(self) -> None:
        discard_staged(self.out, self.kept)
        discard_staged(self.rejects, self.kept)


class StoreTarget:
    """Outputs and state in one commit."""

    def __init__(
        self, program: Program, path: str, out: str | None, initial: Tables | None, shards: int, store: Store,
        kept: Collection[str] = (),
    ) -> None:  # fmt: skip
        self.store, self.state, self.shards = store, path, shards
        self.kept = set(kept)
        refuse_waiting(store.path, store.meta, "a replay")
        self.out = Path(out) if out is not None else Path(path) / "outputs"
        self.rejects = Path(path) / "rejects"
        store.publish_pending()
        self.close_staged()
        if store.epoch == 0 and (shards or initial):
            begin(program, store, initial or {}, shards)
        arrange(program, store, shards)
        self.first_seq = int(store.meta.get("seq", 0))
        last = store.meta.get("ts")
        self.after_ts = INT64_MIN if last is None else int(last)
        self.windows = store.meta
        self.rejects_stem = rejects_stem(store)
        self.shard_files = store.shard_files
        self.start = None if shards else _tables(program, store)

    @property
    def finished(self) -> str | None:
        return self.store.meta.get(REPLAY)

    def finish(self, reports: Sequence[Report], remember: str = "") -> list[Path]:
        meta = {**self._meta(reports), **({REPLAY: remember} if remember else {})}
        carriers = [file for report in reports if (file := report.shard_file) is not None]
        if self.shards:
            self.store.commit({}, meta, carriers)
        else:
            self.store.commit(dict(read_shard_files(self.store.path, carriers)), meta)
            for file in carriers:
                Layout(self.store.path).shard_file(file.shard, file.name).unlink()
        return self.store.publish_pending()

    def _meta(self, reports: Sequence[Report]) -> dict[str, Any]:
        events = max((report.events for report in reports), default=0)
        times = [report.last_ts for report in reports if report.last_ts is not None]
        meta: dict[str, Any] = {"seq": self.first_seq + events, "ts": max(times, default=self.store.meta.get("ts"))}
        if self.shards:
            meta[SHARDS] = self.shards
        if reports and reports[0].windows is not None:  # one task has seen all events
            meta[WINDOWS] = reports[0].windows
        if QUERIES in self.store.meta:  # live runs on this state must still know what they have done
            meta[QUERIES] = self.store.meta[QUERIES]
        meta |= pending(self.out, [staged for report in reports for staged in report.staged])
        meta |= pending_rejects(self.rejects, [staged for report in reports for staged in report.rejects_staged])
        return meta

    def close_staged(self) -> None:
        discard_staged(self.out, self.kept)
        discard_staged(self.rejects, self.kept)

    def close(self) -> None:
        self.close_staged()
        self.store.close()


def open_target(
    program: Program, *, state: str | None, out: str | None, initial: Tables | None, shards: int,
    kept: Collection[str] | None = None,
) -> Folder | StoreTarget:  # fmt: skip
    """`shards`: 0 for one state stage. `kept`: staged files of an interrupted run that goes on here; None: a new run.
    The caller closes the target."""
    if state is None:
        assert out is not None
        return Folder(out, initial, kept)
    check_out(out, state)
    store = Store.open(state, program.tables)
    try:
        return StoreTarget(program, state, out, initial, shards, store, kept or ())
    except BaseException:
        store.close()
        raise


def check_out(out: str | None, state: str) -> None:
    """A new store numbers its output files from 0 again: they must not replace those of another one."""
    if out is not None and not Layout(Path(state)).format.exists():
        check_new(Path(out))


def check_new(out: Path) -> None:
    if out.exists() and (not out.is_dir() or any(not entry.name.startswith(".") for entry in out.iterdir())):
        raise InputError(f"out={out} is not an empty folder\n  choose another one, or remove it")


def begin(program: Program, store: Store, initial: Tables, shards: int) -> None:
    """The first commit of a new store: the tables to start from, in shard files when the plan is keyed."""
    meta = {"seq": 0, "ts": None}
    if not shards:
        store.commit(dict(initial), meta)
        return
    store.commit({}, {**meta, SHARDS: shards}, _bases(program, store, initial, shards, "begin"))


def arrange(program: Program, store: Store, shards: int) -> None:
    """Have the rows where a run wants them: in its number of shards, or with 0 in one piece. Moves them if need be."""
    if shard_count(store) == shards or store.epoch == 0:
        return
    state = load_state(store, _empty(program))
    if shards:
        tables = state.export()
        scatter(store, tables, _bases(program, store, tables, shards, "moved"))
    else:
        gather(store, state)


def _bases(program: Program, store: Store, tables: Tables, shards: int, token: str) -> list[ShardFile]:
    """The rows of some tables as files, one base per shard; they count when a commit names them."""
    files = []
    for shard in range(shards):
        state = _empty(program)
        for table in program.tables:
            if table.name in tables:
                rows = tables[table.name]
                keys = [rows[column].combine_chunks() for column in table.key_columns]
                state.apply(table.name, rows.filter(pa.array(shards_of(keys, shards) == shard)))
        files.append(write_shard_file(store.path, shard, token, state.export(), base=True))
    return files


def pending_rejects(directory: Path, staged: list[str]) -> dict[str, Any]:
    return pending(directory, staged, REJECTS_KEY) if staged else {}


def rejects_stem(store: Store) -> str:
    """By commit: a batch of nothing but rejects does not move `seq`, which output files are named by."""
    return f"epoch-{store.epoch + 1:020d}"


def check_reports(reports: Sequence[Report]) -> None:
    """Raise the first error that a task has met."""
    for report in reports:
        if report.error is not None:
            blobs.raise_error(report.error.encode())


def _tables(program: Program, store: Store) -> dict[str, pa.Table]:
    return load_state(store, _empty(program)).export()


def _empty(program: Program) -> State:
    return State({table.name: table for table in program.tables})
