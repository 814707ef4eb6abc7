"""States and executors of tasks: made anew for a replay, kept between the micro-batches of a live shard.

A worker process may serve any shard, lose the race against a second attempt, or be killed while idle. So a kept engine
is only a cache of shard files: it counts when its token is the name of the shard's last *committed* file and the query
still runs the same program, and it is out of the cache while a batch changes it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import pyarrow as pa

from mainstem.engine import Executor, InterpretedExecutor, make_executor
from mainstem.lang import Program
from mainstem.replay.sharding import shards_of
from mainstem.spark.job import Job
from mainstem.state import State
from mainstem.store import read_shard_files


@dataclass
class Engine:
    program: Program
    state: State
    executor: Executor | InterpretedExecutor
    tracked: bool = False
    token: str = ""


_kept: dict[tuple[str, int], Engine] = {}


def new_engine(job: Job, shard: int, *, track: bool = False) -> Engine:
    """The state at the start of the job: `initial` rows, or what the shard's committed files hold."""
    state = State(job.tables)
    if job.start is not None:
        for name, table in job.start.value.items():
            state.apply(name, _own_rows(job, name, table, shard))
    files = job.shard_files.get(shard, [])
    if files and job.state is not None:
        for name, table in read_shard_files(job.state, files):
            state.apply(name, table)
    # Shards run side by side already; the one state stage has all cores to itself.
    threads = 1 if job.shards else None
    executor = make_executor(job.program, state, jit=job.jit, track=track, threads=threads)
    return Engine(job.program, state, executor, track)


def take_engine(job: Job, shard: int) -> Engine:
    """The engine of a live shard, from the cache when it matches what is committed."""
    assert job.state is not None
    kept = _kept.pop((job.state, shard), None)
    committed = job.shard_files[shard][-1].name
    if kept is not None and kept.token == committed and _same(kept.program, job.program):
        return kept
    engine = new_engine(job, shard, track=True)
    engine.token = committed
    return engine


def keep_engine(job: Job, shard: int, engine: Engine) -> None:
    assert job.state is not None
    _kept[job.state, shard] = engine


def _same(one: Program, other: Program) -> bool:
    """Whether two programs run the same transactions. Derive functions do not run here, and are new in every job."""
    return replace(one, derives=()) == replace(other, derives=())


def _own_rows(job: Job, name: str, table: pa.Table, shard: int) -> pa.Table:
    if not job.shards:
        return table
    keys = [table[column].combine_chunks() for column in job.tables[name].key_columns]
    return table.filter(pa.array(shards_of(keys, job.shards) == shard))
