"""What the driver tells every task of one replay or micro-batch, and what tasks report back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from mainstem.gate.validate import OnBad
from mainstem.lang import Program
from mainstem.schema import INT64_MIN, TableSchema
from mainstem.store import ShardFile

CHUNK_ROWS = 1 << 16
"""Events per blob: a blob's fixed cost (about 100 µs) vanishes, and Spark can still sort and spill them."""


@dataclass(frozen=True)
class Job:
    """Plain data that travels to tasks with their code."""

    program: Program
    batch_rows: int
    on_bad: OnBad = "raise"
    jit: bool = True
    first_seq: int = 0
    windows: dict[str, Any] | None = None  # meta of the commit whose open windows it goes on with
    complete: bool = True  # windows that are open at the end of the log close there
    after_ts: int = INT64_MIN  # the state is committed up to here; earlier events are too late
    shards: int = 0  # 0: one state stage; n: keyed, n shards
    start: Any = None  # Broadcast of {table: rows} to start from, or None
    out: str | None = None  # folder of output files; None when rows go back to Spark
    stem: str = "part"  # of the names of output files
    rejects: str = ""  # folder of rejected rows
    rejects_stem: str = "part"  # of the names of their files
    state: str | None = None  # store whose state the tasks write; None when it is not kept
    shard_files: dict[int, list[ShardFile]] = field(default_factory=dict)  # keyed: committed files to start from
    progress: str | None = None  # folder where tasks note how far they are

    @property
    def tables(self) -> dict[str, TableSchema]:
        return {table.name: table for table in self.program.tables}


@dataclass
class Report:
    """What one state task did. Its files count only if the driver gets the report: Spark accepts one per task."""

    shard: int = 0
    events: int = 0  # in the whole log, as seen by this task, with closed windows
    transactions: int = 0
    aborted: int = 0
    last_ts: int | None = None
    staged: list[str] = field(default_factory=list)
    rejects_staged: list[str] = field(default_factory=list)
    rejected: int = 0
    state_file: tuple[int, str, bool] | None = None
    error: str | None = None  # as `blobs.pack_error` makes it
    closed: int = 0  # windows among the events
    windows: dict[str, Any] | None = None  # what open windows need to know of the events so far

    SCHEMA = "report string"

    def to_batch(self) -> pa.RecordBatch:
        return pa.record_batch([pa.array([json.dumps(asdict(self))])], names=["report"])

    @staticmethod
    def from_text(text: str) -> Report:
        return Report(**json.loads(text))

    @property
    def shard_file(self) -> ShardFile | None:
        return None if self.state_file is None else ShardFile(*self.state_file)


Task = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
"""A function for `DataFrame.mapInArrow`."""
