"""The tasks of a staged replay, as Spark runs them: read and route a range, run a shard of a wave, write outputs.

Every file has the attempt in its name, so a retry or a second copy of a task leaves garbage at worst. What counts is
the report that the driver gets. Errors of the program or its input are reported, not raised: a task that fails would be
tried again in vain. Other errors (a disk, a lost file) are raised, and Spark tries the task elsewhere.
"""

from __future__ import annotations

import atexit
import gc
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstem.errors import InputError, MainstemError, ProgramError, UserCodeError
from mainstem.gate import EventBatch
from mainstem.gate.files import FileInput
from mainstem.gate.rejects import SCHEMA as REJECTS_SCHEMA
from mainstem.gate.validate import OnBad
from mainstem.lang.dataflow import Dataflow
from mainstem.replay import kept
from mainstem.replay.fold import fold_part
from mainstem.replay.home import run_home
from mainstem.replay.jobs import FoldJob, HomeJob, RangeBlocks, Rare, RareAbort, WaveJob, WaveReport, WaveTask
from mainstem.replay.ranges import Between, Range, read_range
from mainstem.replay.router import route_range
from mainstem.replay.routing import Routing
from mainstem.replay.split import Key, Split, Total
from mainstem.replay.spool import spool
from mainstem.replay.wave import run_wave
from mainstem.spark import blobs
from mainstem.spark.parts import PartWriter

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast

REPORTED = (InputError, ProgramError, UserCodeError)


@dataclass(frozen=True)
class Common:
    """What all tasks of a replay know; sent to each machine once."""

    flow: Dataflow
    shards: int
    exchange: str
    outs: tuple[str, ...]  # one folder per home
    rejects: str
    rejects_stem: str
    on_bad: OnBad
    batch_rows: int
    jit: bool
    after_ts: int
    state: str | None
    between: Between

    def new_file(self, name: str) -> Path:
        """A name that no other attempt has."""
        return Path(self.exchange) / f"{name}-{secrets.token_hex(8)}"


@dataclass(frozen=True)
class SpoolWork:
    input: int
    event: str | None
    path: str


@dataclass(frozen=True)
class SpoolDone:
    input: int
    file: str
    rejects_staged: tuple[str, ...]
    rejected: int


@dataclass(frozen=True)
class RangeWork:
    epoch: int
    number: int  # in the epoch
    range: Range


@dataclass(frozen=True)
class RangeDone:
    blocks: RangeBlocks
    rejects_staged: tuple[str, ...]
    rejected: int


@dataclass(frozen=True)
class WaveWork:
    epoch: int
    task: WaveTask
    ranges: tuple[Path, ...]
    carries: tuple[Path, ...]
    state: Path | None
    watch: Mapping[int, tuple[Key, ...]] = field(default_factory=dict)
    split: Split | None = None
    totals: tuple[Total, ...] = ()


@dataclass(frozen=True)
class FoldWork:
    ranges: tuple[Path, ...]
    carries: tuple[Path, ...]
    split: Split
    part: int


@dataclass(frozen=True)
class FoldDone:
    part: int
    total: Total


@dataclass(frozen=True)
class NotSplit:
    """A wave has run again without its split: what parts did was not what one task would have done."""

    split: Split
    why: str


@dataclass(frozen=True)
class WaveDone:
    task: WaveTask
    report: WaveReport
    carry: Path
    state: Path


@dataclass(frozen=True)
class HomeWork:
    home: int
    number: int  # of the range in its epoch
    range: Path
    carries: tuple[Path, ...]
    first_seq: int


@dataclass(frozen=True)
class HomeDone:
    home: int
    staged: tuple[str, ...]
    transactions: int
    aborted: int


@dataclass(frozen=True)
class RareDone:
    """Outputs that could not be made, because of what the dataflow takes as never happening."""

    rare: Rare


@dataclass(frozen=True)
class Failed:
    """An error that the driver raises; as `blobs.pack_error` makes it."""

    error: bytes


Work = SpoolWork | RangeWork | FoldWork | WaveWork | HomeWork
Done = SpoolDone | RangeDone | FoldDone | WaveDone | NotSplit | HomeDone | RareDone | Failed


def perform(shared: Broadcast[bytes], works: Iterable[Work]) -> Iterator[Done]:
    """The body of a task: usually one piece of work."""
    common = _unpacked(shared.value)
    for work in works:
        try:
            yield do(common, work)
        except REPORTED as error:
            yield failed(error)
    kept.drop_lost()
    _settle()


_tasks_done = 0


def _settle() -> None:
    """Put what is loaded out of the garbage collector's sight, after the first, second, fourth, … task of this process.

    Spark's daemon collects garbage after every task. With compiled code loaded that takes 0.1 s, often longer than the
    task itself.
    """
    global _tasks_done
    _tasks_done += 1
    if _tasks_done & (_tasks_done - 1) == 0:
        if _tasks_done == 1:
            atexit.register(gc.unfreeze)
        gc.collect()
        gc.freeze()


def failed(error: MainstemError) -> Failed:
    return Failed(blobs.pack_error(error))


@lru_cache(maxsize=2)
def _unpacked(data: bytes) -> Common:
    """Workers live on between tasks: the programs are unpacked once."""
    from pyspark import cloudpickle

    common = cloudpickle.loads(data)
    assert isinstance(common, Common)
    return common


def do(common: Common, work: Work) -> Done:
    if isinstance(work, SpoolWork):
        return spool_path(common, work)
    if isinstance(work, RangeWork):
        return range_task(common, work)
    if isinstance(work, FoldWork):
        return fold_task(common, work)
    if isinstance(work, WaveWork):
        return wave_task(common, work)
    return home_task(common, work)


def spool_path(common: Common, work: SpoolWork) -> SpoolDone:
    made = spool(
        FileInput(work.path, work.event), work.input, common.flow.program, spool_folder(common),
        on_bad=common.on_bad, between=common.between,
    )  # fmt: skip
    staged = stage_rejects(common, f"spool-{work.input:04d}", made.rejects)
    return SpoolDone(work.input, made.path.name, staged, made.rejects.num_rows)


def spool_folder(common: Common) -> Path:
    return Path(common.exchange) / "spool"


def range_task(common: Common, work: RangeWork) -> RangeDone:
    batches, rejects = read_range(
        work.range, common.flow.program, on_bad=common.on_bad, batch_size=common.batch_rows
    )  # fmt: skip
    path = common.new_file(f"range-{work.epoch:06d}-{work.number:04d}")
    blocks = route_range(_not_late(common, batches), Routing(common.flow, common.shards), path)
    staged = stage_rejects(common, f"e{work.epoch:06d}-r{work.number:04d}", rejects.table)
    return RangeDone(blocks, staged, rejects.count)


def _not_late(common: Common, batches: Iterator[EventBatch]) -> Iterator[EventBatch]:
    for batch in batches:
        if len(batch) and int(batch.ts[0]) < common.after_ts:
            raise InputError(
                f"an event has ts {batch.ts[0]}, but {common.state} is committed up to ts {common.after_ts}\n"
                "  give later events only, or another state directory"
            )
        yield batch


def stage_rejects(common: Common, name: str, rejects: pa.Table) -> tuple[str, ...]:
    writer = PartWriter(common.rejects, f"{common.rejects_stem}-{name}", REJECTS_SCHEMA)
    for batch in rejects.to_batches():
        writer.write(batch)
    return tuple(writer.close())


def wave_task(common: Common, work: WaveWork) -> WaveDone:
    name = f"{work.epoch:06d}-{name_of(work.task)}"
    carry, state = common.new_file(f"carry-{name}"), common.new_file(f"state-{name}")
    report = run_wave(
        WaveJob(
            common.flow, work.task, common.shards, work.ranges, work.carries, work.state, carry, state, common.jit,
            split=work.split, totals=work.totals, watch=work.watch,
        )
    )  # fmt: skip
    return WaveDone(work.task, report, carry, state)


def fold_task(common: Common, work: FoldWork) -> FoldDone:
    job = FoldJob(common.flow, common.shards, work.ranges, work.carries, work.split, work.part, common.jit)
    return FoldDone(work.part, fold_part(job))


def name_of(task: WaveTask) -> str:
    return f"w{task.wave:02d}-{'-'.join(map(str, task.stages))}-s{task.shard:05d}"


def home_task(common: Common, work: HomeWork) -> HomeDone | RareDone:
    job = HomeJob(
        common.flow, work.home, common.shards, work.range, work.number, work.carries, work.first_seq, common.jit
    )
    homes = common.flow.homes
    schema, prefix = homes[work.home].program.output_schema, variant_prefix(work.home, len(homes))
    writer = PartWriter(common.outs[work.home], f"{prefix}part-{work.first_seq:020d}-s0000", schema)
    transactions = aborted = 0
    try:
        for outputs in run_home(job):
            transactions += outputs.num_rows
            aborted += outputs.num_rows - outputs.column("reason").null_count
            writer.write(outputs)
    except RareAbort as met:
        return RareDone(met.rare)
    return HomeDone(work.home, tuple(writer.close()), transactions, aborted)


def variant_prefix(home: int, homes: int) -> str:
    """How names of a variant's output files begin; variants share a folder."""
    return f"v{home:02d}-" if homes > 1 else ""


def packed(common: Common) -> Any:
    """For a broadcast: derive functions of a user's script need Spark's own pickler."""
    from pyspark import cloudpickle

    return cloudpickle.dumps(common)
