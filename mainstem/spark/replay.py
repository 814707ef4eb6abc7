"""Replay: a stored log, from paths or DataFrames, to a DataFrame of outputs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from mainstem.engine import make_executor
from mainstem.errors import InputError
from mainstem.gate.validate import check_on_bad
from mainstem.lang import Program
from mainstem.replay.footers import read_footers
from mainstem.replay.hot import Balance, HotKey
from mainstem.replay.ranges import check_between
from mainstem.replay.sharding import shards_of
from mainstem.spark import blobs, execute, options
from mainstem.spark.frames import project
from mainstem.spark.job import Job, Report
from mainstem.spark.mvps_replay import Flows, Folders, Options, Result, replay_in_stages
from mainstem.spark.plan import Choice, check_program, choose, describe_stages
from mainstem.spark.preprocess import preprocess_rows, preprocess_splits
from mainstem.spark.progress import Watch
from mainstem.spark.sampling import derive_ns
from mainstem.spark.sources import Source, Split, inputs_of_paths, sources_of, splits_of
from mainstem.spark.target import Folder, StoreTarget, check_reports, open_target
from mainstem.state import State

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

log = logging.getLogger("mainstem.spark")

BATCH = 1 << 17
"""Events per kernel call: half of an output row group, so that the writer is fed evenly."""


@dataclass(frozen=True)
class ReplayInfo:
    """What a replay did; counts are known when it ran at once (`out=` or `state=`)."""

    plan: str
    reason: str
    events: int | None = None
    transactions: int | None = None
    aborted: int | None = None
    rejected: int | None = None
    stages: tuple[str, ...] = ()  # of a staged replay, for people
    waves: int = 0
    hot_keys: tuple[HotKey, ...] = ()  # of a staged replay: keys with a large share, whether they were split, and why
    balance: tuple[Balance, ...] = ()  # of a staged replay: how full the fullest task of each wave was
    state_bytes: int = 0  # of a staged replay: its tables in the memory of tasks at the end


def replay(
    program: Program,
    spark: SparkSession,
    events: Any,
    *,
    state: str | Path | None = None,
    initial: Mapping[str, pa.Table] | None = None,
    out: str | Path | None = None,
    plan: Literal["auto", "fused", "one_stage", "keyed", "mvps"] = "auto",
    partitions: int | None = None,
    batch: int | None = None,
    on_bad: Literal["raise", "reject"] = "raise",
    jit: bool | None = None,
    progress: Callable[[int], None] | None = None,
    complete: bool | None = None,
    between: tuple[int | None, int | None] | None = None,
    resume: bool | None = None,
    exchange: str | Path | None = None,
    range_rows: int | None = None,
    epoch_rows: int | None = None,
    flows: Flows | None = None,
) -> DataFrame:
    """Runs a stored log on Spark and returns the outputs, one row per transaction; `seq` is their order.

    `events`: a path (file, glob, directory of Parquet, CSV, JSON lines or Arrow), a DataFrame, a list of these, or a
    dict {EventType: input}. Paths are read as `app.run` reads them. Rows of a DataFrame count in the order of
    (ts, partition, row).

    Without `out` and `state` the DataFrame is lazy: every action on it replays the log. With `out` the replay runs now
    and writes Parquet into that folder. With `state` it starts from the state in that directory (or from `initial`
    when it is new), and commits the end state and the outputs there together; outputs go to `<state>/outputs` unless
    `out` names another folder. Rejected rows (`on_bad="reject"`) are kept in `<state>/rejects` or `<out>/_rejects`.

    `plan` forces a plan; `replay_info(df)` tells which one ran and why. `partitions`: parallel tasks, and the shards of
    a keyed or staged plan. `batch`: events per kernel call. `progress` is called with the number of events newly done.
    `complete`: whether windows that are open at the end of the log close there; left out, they do unless `state` keeps
    them for later events.

    A staged replay (`plan="mvps"`) runs now, also without `out` and `state`, and has options of its own.
    `between=(from, to)`: only events with `from <= ts < to`; None for no bound. It keeps what its jobs exchange, and a
    checkpoint per epoch, in `.replay` of the folder `exchange`, `state` or `out`. Killed, it goes on behind the last
    checkpoint when it is called again: `resume=False` starts over instead, `resume=True` insists on going on.
    `epoch_rows`: events between checkpoints; `range_rows`: events that one task reads. `flows` is what `app.replay`
    adds: the dataflow of the program, with failures taken as rare or not.
    """
    options.check_session(spark)
    check_program(program)
    sources = sources_of(events, program.inputs, streaming=False)
    check_on_bad(on_bad)
    out_path, state_path = options.folder("out", out), options.folder("state", state)
    tables = options.check_initial(program, initial)
    count = options.positive("partitions", partitions, options.default_partitions(spark))
    if progress is not None and not callable(progress):
        raise InputError(f"progress={progress!r}\n  pass a function that takes the number of events newly done")
    staging = plan in ("auto", "mvps") and not program.windows
    flow = flows("rare") if flows is not None and staging else None
    own = {
        "between": between, "resume": resume, "exchange": exchange, "range_rows": range_rows, "epoch_rows": epoch_rows
    }  # fmt: skip
    needs = [name for name, value in own.items() if value is not None]
    now = out_path is not None or state_path is not None
    sample = lambda: derive_ns(program, inputs_of_paths(sources))
    choice = choose(program, sources, plan, count, flow, needs, now, sample)
    log.info("replay of %s: plan %s (%s)", program.name, choice.plan, choice.reason)
    if choice.plan == "mvps":
        assert flows is not None
        staged = staged_options(
            count, asked_partitions=partitions, range_rows=range_rows, epoch_rows=epoch_rows, between=between,
            exchange=exchange, resume=resume, on_bad=on_bad, batch=batch, jit=jit,
        )  # fmt: skip
        _check_rejects(on_bad, out_path, state_path)
        folders = Folders.of(spark, state_path, out_path, staged.exchange)
        result = replay_in_stages(spark, sources, flows, folders, staged, initial=tables, progress=progress)
        return _in_stages(spark, choice, result)
    compile_program(program, options.chosen_jit(jit))
    job = Job(program, options.positive("batch", batch, BATCH), on_bad, options.chosen_jit(jit))
    complete = state_path is None if complete is None else complete
    job = replace(job, shards=count if choice.plan == "keyed" else 0, complete=complete)
    pipeline = Pipeline(spark, sources, choice, count)
    if out_path is None and state_path is None:
        _check_rejects(on_bad, out_path, state_path)
        return _with_info(pipeline.rows(_with_start(spark, job, tables)), ReplayInfo(choice.plan, choice.reason))
    target = open_target(program, state=state_path, out=out_path, initial=tables, shards=job.shards)
    try:
        return _run_now(pipeline, job, target, choice, progress)
    finally:
        target.close()


def staged_options(
    partitions: int, *, asked_partitions: int | None, range_rows: int | None, epoch_rows: int | None,
    between: tuple[int | None, int | None] | None, exchange: str | Path | None, resume: bool | None,
    on_bad: Literal["raise", "reject"], batch: int | None, jit: bool | None,
) -> Options:  # fmt: skip
    """Checked; None where the default counts, or what an interrupted replay had."""
    return Options(
        partitions, asked_partitions, None if range_rows is None else options.positive("range_rows", range_rows, 1),
        None if epoch_rows is None else options.positive("epoch_rows", epoch_rows, 1), check_between(between),
        options.folder("exchange", exchange), resume, on_bad, options.positive("batch", batch, BATCH),
        options.chosen_jit(jit),
    )  # fmt: skip


def _check_rejects(on_bad: str, out: str | None, state: str | None) -> None:
    if on_bad == "reject" and out is None and state is None:
        raise InputError('on_bad="reject" keeps rejected rows in a folder, but there is none\n  pass out= or state=')


def _in_stages(spark: SparkSession, choice: Choice, result: Result) -> DataFrame:
    totals, flow = result.totals, result.flow
    reason = f"{choice.reason}; it started again, because {result.restarted}" if result.restarted else choice.reason
    info = ReplayInfo(
        choice.plan, reason, totals.events, totals.transactions, totals.aborted, totals.rejected,
        describe_stages(flow), len(flow.waves), result.hot, result.balance,
        result.state_bytes,
    )  # fmt: skip
    return _with_info(read_outputs(spark, flow.program, result.files), info)


def replay_info(df: DataFrame) -> ReplayInfo:
    """The plan and the counts of the replay that returned `df`."""
    info = getattr(df, "_mainstem", None)
    if not isinstance(info, ReplayInfo):
        raise InputError("this DataFrame does not come from replay\n  pass the very object that replay returned")
    return info


def compile_program(program: Program, jit: bool) -> None:
    """Compile in the driver: workers then load the code, and never write one cache at the same time."""
    make_executor(program, State({table.name: table for table in program.tables}), jit=jit)
    for key in {table.key for table in program.tables}:
        shards_of([pa.array([], part.arrow) for part in key], 1)


def _run_now(
    pipeline: Pipeline, job: Job, target: Folder | StoreTarget, choice: Choice, progress: Callable[[int], None] | None
) -> DataFrame:
    job = replace(
        job, out=str(target.out), rejects=str(target.rejects), rejects_stem=target.rejects_stem,
        state=target.state, shard_files=target.shard_files, windows=target.windows,
        first_seq=target.first_seq, after_ts=target.after_ts, stem=f"part-{target.first_seq:020d}",
    )  # fmt: skip
    with Watch(progress) as watch:
        job = replace(_with_start(pipeline.spark, job, target.start), progress=watch.folder)
        reports = pipeline.reports(job)
        check_reports(reports)
        events = max((report.events - report.closed for report in reports), default=0)
        watch.finish(events)
    if job.start is not None:
        job.start.destroy()
    files = target.finish(reports)
    info = ReplayInfo(
        choice.plan, choice.reason, events, sum(r.transactions for r in reports), sum(r.aborted for r in reports),
        sum(r.rejected for r in reports),
    )  # fmt: skip
    return _with_info(read_outputs(pipeline.spark, job.program, files), info)


def _with_start(spark: SparkSession, job: Job, tables: Mapping[str, pa.Table] | None) -> Job:
    return replace(job, start=spark.sparkContext.broadcast(dict(tables))) if tables else job


def _with_info(df: DataFrame, info: ReplayInfo) -> DataFrame:
    df._mainstem = info  # type: ignore[attr-defined]
    return df


FILES_MAX = 32
"""Spark looks at more paths than these with a job of its own; a folder it lists in the driver."""


def read_outputs(spark: SparkSession, program: Program, files: Sequence[Path], prefix: str = "") -> DataFrame:
    """`prefix`: how the names of the files begin."""
    schema = spark_schema(program.output_schema)
    if not files:
        return spark.createDataFrame([], schema)
    reader = spark.read.schema(schema)
    pattern = f"{prefix}*.parquet"
    if len(files) > FILES_MAX and set(files[0].parent.glob(pattern)) == set(files):
        return reader.option("pathGlobFilter", pattern).parquet(str(files[0].parent))
    return reader.parquet(*map(str, files))


def spark_schema(schema: pa.Schema) -> Any:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(execute.decoded_schema(schema), prefer_timestamp_ntz=True)


class Pipeline:
    """The Spark jobs of one replay."""

    def __init__(self, spark: SparkSession, sources: Sequence[Source], choice: Choice, partitions: int) -> None:
        self.spark, self.sources, self.choice, self.partitions = spark, sources, choice, partitions

    def rows(self, job: Job) -> DataFrame:
        """A lazy DataFrame of outputs."""
        schema = spark_schema(job.program.output_schema)
        if self.choice.plan == "fused":
            return self._one_row().mapInArrow(execute.fused_to_rows(job, inputs_of_paths(self.sources)), schema)
        arranged = self._arranged(job)
        if self.choice.plan == "keyed":
            return arranged.mapInArrow(execute.blobs_to_rows(job), schema)
        packed = arranged.mapInArrow(execute.blobs_to_output_blobs(job), execute.OUTPUT_BLOBS)
        return packed.repartitionById(self.partitions, "chunk").mapInArrow(execute.unpack_outputs, schema)

    def reports(self, job: Job) -> list[Report]:
        """Run now; results are in files."""
        if self.choice.plan == "fused":
            task = execute.fused_to_files(job, inputs_of_paths(self.sources))
            done = self._one_row().mapInArrow(task, Report.SCHEMA)
        else:
            done = self._arranged(job).mapInArrow(execute.blobs_to_files(job), Report.SCHEMA)
        return sorted((Report.from_text(row.report) for row in done.collect()), key=lambda report: report.shard)

    def _one_row(self) -> DataFrame:
        return self.spark.range(0, 1, 1, 1)

    def _arranged(self, job: Job) -> DataFrame:
        """Blobs of all inputs: in one partition, or one per shard, sorted so that they merge while they stream."""
        packed = self._packed(job)
        placed = packed.repartitionById(job.shards, "shard") if job.shards else packed.repartition(1)
        return placed.sortWithinPartitions(*blobs.ORDER)

    def _packed(self, job: Job) -> DataFrame:
        frames = [
            project(source, job.program).mapInArrow(preprocess_rows(job, source.index, source.event), blobs.ROW_SCHEMA)
            for source in self.sources
            if source.df is not None
        ]
        splits = self._splits()
        if splits:
            numbers = self.spark.range(0, len(splits), 1, len(splits))
            frames.append(numbers.mapInArrow(preprocess_splits(job, splits), blobs.ROW_SCHEMA))
        return reduce(lambda left, right: left.unionAll(right), frames)

    def _splits(self) -> list[Split]:
        paths = [source for source in self.sources if source.path is not None]
        return [
            split
            for source in paths
            for split in splits_of(source, read_footers(str(source.path)), -(-self.partitions // len(paths)))
        ]
