"""A staged replay from its folders to its result: starting, going on after a kill, starting over, and the end."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.engine import make_executor
from mainstem.errors import InputError, MainstemError
from mainstem.gate import Columns, EventBatch
from mainstem.gate.batch import frozen, identity
from mainstem.gate.validate import OnBad
from mainstem.lang import Program
from mainstem.lang.dataflow import Dataflow
from mainstem.lang.tables import Failures
from mainstem.replay import Rare, RareAbort, WaveTask, own_rows, read_state, replay_local, wave_tasks, write_state
from mainstem.replay.hot import Balance, HotKey, HotKeys
from mainstem.replay.keys import KeyColumns
from mainstem.replay.ranges import RANGE_ROWS, Between, Range, check_between, cut_log
from mainstem.replay.routing import Routing
from mainstem.replay.warm import compile_moves
from mainstem.spark import manifest as kept
from mainstem.spark.job import Report
from mainstem.spark.manifest import Manifest, Totals
from mainstem.spark.mvps import EPOCH_ROWS, START, Driver, Jobs, gather_epochs
from mainstem.spark.mvps_inputs import Inputs, check_resumable
from mainstem.spark.mvps_tasks import Common, name_of
from mainstem.spark.sources import Source
from mainstem.spark.target import Folder, StoreTarget, open_target
from mainstem.state import State
from mainstem.store import write_shard_file
from mainstem.store.disk import disk, make_directory
from mainstem.store.lock import WriterLock

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger("mainstem.spark")

FOLDER = ".replay"
LOCK = "lock"

Flows = Callable[[Failures], Dataflow]
Tables = Mapping[str, pa.Table]
Target = Folder | StoreTarget


@dataclass(frozen=True)
class Options:
    """Of a staged replay alone. None: the default, or as an interrupted replay had it."""

    partitions: int
    asked_partitions: int | None = None
    range_rows: int | None = None
    epoch_rows: int | None = None
    between: Between = (None, None)
    exchange: str | None = None
    resume: bool | None = None
    on_bad: OnBad = "raise"
    batch_rows: int = 1 << 16
    jit: bool = True


@dataclass(frozen=True)
class Folders:
    """Where a replay keeps what it needs and puts what it made."""

    exchange: Path
    state: str | None
    out: str | None

    @classmethod
    def of(cls, spark: SparkSession, state: str | None, out: str | None, exchange: str | None) -> Folders:
        base = exchange or state or out
        if base is not None and (state is not None or out is not None):
            return cls(Path(base) / FOLDER, state, out)
        if base is None and not str(spark.sparkContext.master).startswith("local"):
            raise InputError(
                "a staged replay keeps files between its jobs, but there is no folder that all machines see\n"
                "  pass out=, state= or exchange="
            )
        if base is not None:
            make_directory(Path(base))
        here = Path(tempfile.mkdtemp(prefix="mainstem-replay-", dir=base))
        atexit.register(shutil.rmtree, here, ignore_errors=True)
        return cls(here / FOLDER, None, str(here / "outputs"))


@dataclass
class Result:
    """Output files and counts."""

    files: list[Path]
    totals: Totals
    flow: Dataflow
    restarted: str = field(default="")  # why, when an overflow made the replay start again
    hot: tuple[HotKey, ...] = ()
    balance: tuple[Balance, ...] = ()
    state_bytes: int = 0  # of all tables in memory at the end


def replay_in_stages(
    spark: SparkSession, sources: Sequence[Source], flows: Flows, folders: Folders, options: Options,
    *, initial: Tables | None, progress: Callable[[int], None] | None,
) -> Result:  # fmt: skip
    """Runs now; `flows` gives the program's dataflow, with failures taken as rare or not."""
    check_between(options.between)
    exchange = folders.exchange
    with disk("use", exchange):
        make_directory(exchange)
    lock = WriterLock(exchange / LOCK)
    over = False
    try:
        earlier = _earlier(exchange, options.resume)
        program = flows("rare").program
        staged = None if earlier is None else earlier.kept
        target = open_target(program, state=folders.state, out=folders.out, initial=initial, shards=0, kept=staged)
        run = StagedReplay(spark, sources, flows, exchange, options, target, progress)
        try:
            result = run.finished(earlier) if earlier is not None else None
            result = result or run.run(earlier)
            over = True
            return result
        except MainstemError:
            over = earlier is None and run.epochs_done == 0  # there is nothing to go on from
            raise
        finally:
            target.close()
    finally:
        lock.release()
        if over:
            shutil.rmtree(exchange, ignore_errors=True)


def _earlier(exchange: Path, resume: bool | None) -> Manifest | None:
    """The replay to go on with."""
    if resume is False:
        _sweep(exchange, set())
        return None
    found = Manifest.load(exchange)
    if found is None and resume:
        raise InputError(f"resume=True, but there is no interrupted replay in {exchange}\n  leave out resume=")
    return found


def _sweep(exchange: Path, keep: set[str]) -> None:
    """Remove what attempts left behind that do not count."""
    for entry in exchange.iterdir():
        if entry.name == LOCK or entry.name in keep:
            continue
        if entry.is_dir():
            _sweep(entry, keep)
        else:
            entry.unlink(missing_ok=True)


class StagedReplay:
    """One replay over an open target."""

    def __init__(
        self, spark: SparkSession, sources: Sequence[Source], flows: Flows, exchange: Path, options: Options,
        target: Target, progress: Callable[[int], None] | None,
    ) -> None:  # fmt: skip
        self.spark, self.sources, self.flows, self.exchange, self.options = spark, sources, flows, exchange, options
        self.target, self.progress = target, progress
        self.epochs_done = 0

    def finished(self, earlier: Manifest) -> Result | None:
        """The result of a replay that was killed after its last step that matters."""
        if self.target.finished != earlier.id:
            return None
        staged = [name.removeprefix(".").rsplit(".", 2)[0] for name in earlier.totals.staged]
        files = [self.target.out / name for name in staged]
        return Result([file for file in files if file.exists()], _sum(earlier), self.flows(_failures(earlier)))

    def run(self, earlier: Manifest | None) -> Result:
        flow = self.flows("rare" if earlier is None else _failures(earlier))
        manifest = self._begun(flow) if earlier is None else self._continued(earlier, flow)
        try:
            return self._run(flow, manifest)
        except RareAbort as met:
            why = _rare_text(flow.program, met.rare)
            log.warning("replay of %s starts again, because %s", flow.program.name, why)
        tied = self.flows("tied")
        manifest = replace(
            manifest, same=self._same(tied), overflow="tied", done=0, states={}, totals=Totals()
        )  # fmt: skip
        self.target.kept = set(manifest.kept)
        return replace(self._run(tied, manifest), restarted=why)

    def _begun(self, flow: Dataflow) -> Manifest:
        options = self.options
        return Manifest(
            self._same(flow), options.partitions, options.range_rows or RANGE_ROWS, options.epoch_rows or EPOCH_ROWS
        )

    def _continued(self, earlier: Manifest, flow: Dataflow) -> Manifest:
        check_resumable(self.sources, self.options.resume, self.exchange)
        kept.check_same(earlier, self._same(flow), self.exchange)
        asked = {
            "partitions": (self.options.asked_partitions, earlier.shards),
            "range_rows": (self.options.range_rows, earlier.range_rows),
            "epoch_rows": (self.options.epoch_rows, earlier.epoch_rows),
        }
        for name, (wanted, had) in asked.items():
            if wanted is not None and wanted != had:
                raise InputError(
                    f"{name}={wanted}, but the interrupted replay in {self.exchange} has {name}={had}\n"
                    f"  leave out {name}= to go on, or pass resume=False to start over"
                )
        log.info("replay of %s goes on behind epoch %d", flow.program.name, earlier.done)
        return earlier

    def _same(self, flow: Dataflow) -> dict[str, object]:
        store = self.target.store if isinstance(self.target, StoreTarget) else None
        return {
            "the program": kept.identity_of_program(flow),
            "the log": kept.identity_of_log(self.sources),
            "the state to start from": kept.identity_of_start(
                flow.program, self.target.start, None if store is None else store.epoch
            ),
            "on_bad=": self.options.on_bad,
            "between=": list(self.options.between),
        }

    def _run(self, flow: Dataflow, manifest: Manifest) -> Result:
        _compile(flow, manifest.shards, self.options.jit)
        _sweep(self.exchange, {"manifest.json", *manifest.states.values(), *manifest.spooled.values()})
        common = self._common(flow, manifest)
        jobs = Jobs(self.spark.sparkContext, common)
        try:
            inputs = Inputs(self.spark, self.sources, common, jobs.run).open(manifest)
            ranges = cut_log(inputs, range_rows=manifest.range_rows, between=self.options.between)
            if not manifest.states:
                manifest.states = self._write_start(common)
            self._save(manifest)
            driver = self._drive(jobs, common, manifest, ranges)
        finally:
            jobs.close()
        files = self.target.finish([self._report(common, manifest)], manifest.id)
        size, hot = sum(driver.state_bytes.values()), driver.hot
        return Result(files, _sum(manifest), flow, hot=hot.report(), balance=hot.balance(), state_bytes=size)

    def _drive(self, jobs: Jobs, common: Common, manifest: Manifest, ranges: Sequence[Range]) -> Driver:
        epochs = gather_epochs(ranges, manifest.epoch_rows)
        first_seq = self.target.first_seq
        start = None if manifest.done else (self.target.start or {})
        hot = HotKeys(common.flow, common.shards, start, first=manifest.done)
        save = lambda: self._save(manifest)
        driver = Driver(jobs, common, manifest, epochs, first_seq, save, self.progress, hot)
        driver.run()
        return driver

    def _save(self, manifest: Manifest) -> None:
        manifest.save(self.exchange)
        self.epochs_done = manifest.done
        self.target.kept = set(manifest.kept)

    def _common(self, flow: Dataflow, manifest: Manifest) -> Common:
        target, options = self.target, self.options
        return Common(
            flow, manifest.shards, str(self.exchange), (str(target.out),) * len(flow.homes), str(target.rejects),
            target.rejects_stem,
            options.on_bad, options.batch_rows, options.jit, target.after_ts, target.state, options.between,
        )  # fmt: skip

    def _write_start(self, common: Common) -> dict[str, str]:
        """State files for the first epoch."""
        states = {}
        for task in _tasks(common.flow, common.shards):
            path = common.new_file(f"{START}{name_of(task)}")
            write_state(path, own_rows(common.flow, task, common.shards, self.target.start or {}))
            states[name_of(task)] = path.name
        return states

    def _report(self, common: Common, manifest: Manifest) -> Report:
        """All that the replay did, as one task would report it."""
        totals = _sum(manifest)
        report = Report(
            0, totals.events, totals.transactions, totals.aborted, totals.last_ts, totals.staged,
            totals.rejects_staged, totals.rejected,
        )  # fmt: skip
        if self.target.state is not None and totals.events:
            changes = self._changes(common.flow, manifest)
            file = write_shard_file(
                self.target.state, 0, f"part-{self.target.first_seq:020d}", changes, base=False
            )  # fmt: skip
            report.state_file = file.shard, file.name, file.base
        return report

    def _changes(self, flow: Dataflow, manifest: Manifest) -> dict[str, pa.Table]:
        """The rows at the end of tables that belong to a stage, with rows that are gone marked as deleted."""
        schemas = {flow.program.tables[t].name: flow.program.tables[t] for s in flow.stages for t in s.tables}
        state = State(schemas)
        for name in schemas:
            before = (self.target.start or {}).get(name)
            if before is not None:
                state.apply(name, before.append_column("_deleted", pa.array(np.ones(before.num_rows, bool))))
        for file in manifest.states.values():
            for name, rows in read_state(self.exchange / file):
                if name in schemas:
                    state.apply(name, rows)
        return {name: table.delta(np.arange(table.index.count)) for name, table in state.tables.items()}


def _tasks(flow: Dataflow, shards: int) -> list[WaveTask]:
    return [task for wave in range(1, len(flow.waves) + 1) for task in wave_tasks(flow, wave, shards)]


def _failures(manifest: Manifest) -> Failures:
    return "tied" if manifest.overflow == "tied" else "rare"


def _sum(manifest: Manifest) -> Totals:
    spooled, totals = manifest.spool_totals, manifest.totals
    return replace(
        totals, rejected=totals.rejected + spooled.rejected,
        rejects_staged=spooled.rejects_staged + totals.rejects_staged,
    )  # fmt: skip


def _rare_text(program: Program, rare: Rare) -> str:
    function = program.functions[rare.function]
    return f"function {function.name} of event {function.event} aborted with {program.reasons[rare.code]!r}"


def _compile(flow: Dataflow, shards: int, jit: bool) -> None:
    """In the driver: workers then load the code, and never write one cache at the same time.

    The loops between stages are compiled when they are called: so an event of each type, all zeros, is replayed.
    """
    programs = [(stage.program, "serial" if stage.keyed else "auto") for stage in flow.stages]
    keys = (d.function.program for d in flow.program.derives if isinstance(d.function, KeyColumns))
    programs += [(program, "serial") for program in (*keys, *(home.program for home in flow.homes))]
    for program, engine in programs:
        make_executor(program, State({table.name: table for table in program.tables}), engine, jit=jit)
    compile_moves(Routing(flow, shards).shard_dtype)  # those that hot keys need, too
    with tempfile.TemporaryDirectory(prefix="mainstem-compile-") as folder, suppress(RareAbort):
        replay_local(flow, [[_one_of_each(flow.program)]], shards=shards, epoch=1, folder=Path(folder), jit=jit)


def _one_of_each(program: Program) -> EventBatch:
    count = len(program.events)
    columns: list[Columns | None] = []
    for event in program.events:
        fields = (*event.fields, *event.derived)
        zeros = {f.name: pa.array([[] if f.type.is_list else f.type.zero], f.type.arrow) for f in fields}
        columns.append(Columns(identity(1), zeros))
    return EventBatch(frozen(np.arange(count, dtype=np.uint8)), frozen(np.zeros(count, np.int64)), columns, ())
