"""The state half of a plan: one task (or one per shard) runs the engine over events in total order.

The task either writes Parquet and its end state under hidden names and reports them, or streams output rows back to
Spark. It holds one state, a few batches and, while merging, the blobs that overlap in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError, MainstemError
from mainstem.gate import Rejects, batches, inputs_of
from mainstem.gate.prefetch import prefetched
from mainstem.gate.rejects import SCHEMA as REJECTS_SCHEMA
from mainstem.spark import blobs
from mainstem.spark.engines import Engine, keep_engine, new_engine, take_engine
from mainstem.spark.job import Job, Report, Task
from mainstem.spark.merge import Ordered, merge
from mainstem.spark.parts import PartWriter
from mainstem.spark.pipes import WriteBehind
from mainstem.spark.progress import Progress
from mainstem.store import write_shard_file
from mainstem.windows import Operators

OUTPUT_BLOBS = "chunk int, data binary"

BATCHES_AHEAD = 2
"""Checked batches that wait for the engine; the gate reads ahead on its own below this."""

SHARD_FILES_MAX = 32
"""Files of one live shard; then its next file is a base again."""


@dataclass
class Feed:
    """Events of one state task in total order, and the rejected rows met on the way."""

    shard: int
    ordered: Iterator[Ordered]
    rejects: list[pa.Table] = field(default_factory=list)
    gate_rejects: Rejects = field(default_factory=Rejects)  # filled by the gate while it is read

    def all_rejects(self) -> pa.Table:
        table = pa.concat_tables([*self.rejects, self.gate_rejects.table])
        return table.sort_by([("input", "ascending"), ("offset", "ascending")])


def fused_feed(job: Job, inputs: object) -> Feed:
    """Files, read by this task; the gate decodes and checks on its own threads."""
    program, rejects = job.program, Rejects()
    stream = batches(
        inputs_of(inputs, program.inputs), program.inputs, batch_size=job.batch_rows, on_bad=job.on_bad,
        rejects=rejects, derives=program.derives, columns=program.used_columns,
    )  # fmt: skip

    def ordered() -> Iterator[Ordered]:
        first = job.first_seq
        for batch in prefetched(stream, depth=BATCHES_AHEAD):
            yield Ordered(batch, first, None, len(batch), int(batch.ts[-1]))
            first += len(batch)

    return Feed(0, ordered(), gate_rejects=rejects)


def blob_feed(job: Job, rows: Iterator[pa.RecordBatch]) -> Feed | None:
    """Blobs of this task's partition; None when there are none."""
    blob_rows = blobs.blob_rows(rows)
    first = next(blob_rows, None)
    if first is None:
        return None
    feed = Feed(first.shard, iter(()))

    def arriving() -> Iterator[tuple[int, tuple[int, int, int], blobs.Chunk]]:
        row: blobs.BlobRow | None = first
        while row is not None:
            if row.role == blobs.ERROR:
                blobs.raise_error(row.data)
            elif row.role == blobs.REJECTS:
                feed.rejects.append(blobs.unpack_table(row.data))
            else:
                yield row.min_ts, row.key, blobs.unpack(row.data, job.program.inputs)
            row = next(blob_rows, None)

    feed.ordered = merge(arriving(), batch_rows=job.batch_rows, first=job.first_seq)
    return feed


def _fed(job: Job, rows: Iterator[pa.RecordBatch]) -> Feed | None:
    """As `blob_feed`; a log without events still ends, and windows that an earlier one has left open close there."""
    feed = blob_feed(job, rows)
    return Feed(0, iter(())) if feed is None and job.program.windows else feed


class Run:
    """An engine over one feed."""

    def __init__(self, job: Job, feed: Feed, engine: Engine) -> None:
        self.job, self.feed, self.engine = job, feed, engine
        self.report = Report(shard=feed.shard)
        self.deltas: list[dict[str, pa.Table]] = []

    def outputs(self) -> Iterator[pa.RecordBatch]:
        report = self.report
        for ordered in self._with_windows() if self.job.program.windows else self.feed.ordered:
            if len(ordered.batch):
                self._check_order(ordered)
                result = self.engine.executor.run(ordered.batch, ordered.first)
                if self.engine.tracked:
                    self.deltas.append(result.deltas())
                report.transactions += result.stats.transactions
                report.aborted += result.stats.aborted
                yield with_seq(result.outputs, ordered)
            report.events += ordered.total
            report.last_ts = ordered.last_ts

    def _with_windows(self) -> Iterator[Ordered]:
        """The feed with closed windows among the events."""
        job, report, first = self.job, self.report, self.job.first_seq
        operators = Operators.of(job.program.windows, job.windows or {})
        before = operators.events
        events = (ordered.batch for ordered in self.feed.ordered)
        for batch in operators.follow(events, len(job.program.inputs), complete=job.complete):
            report.closed = first + len(batch) - job.first_seq - (operators.events - before)
            yield Ordered(batch, first, None, len(batch), int(batch.ts[-1]))
            first += len(batch)
        report.windows = operators.kept()

    def _check_order(self, ordered: Ordered) -> None:
        first, reached = int(ordered.batch.ts[0]), self.job.after_ts
        if first < reached:
            raise InputError(
                f"event {ordered.first} has ts {first}, but {self.job.state} is committed up to ts {reached}\n"
                "  give later events only, or another state directory"
            )


def with_seq(outputs: pa.RecordBatch, ordered: Ordered) -> pa.RecordBatch:
    """The outputs of a shard numbered 0, 1, … from `first`, with the positions in the total order instead."""
    if ordered.seq is None:
        return outputs
    column = outputs.schema.get_field_index("seq")
    numbered = outputs.column(column).to_numpy() - ordered.first
    return outputs.set_column(column, outputs.schema.field(column), pa.array(ordered.seq[numbered]))


def to_files(job: Job, feed: Feed, engine: Engine) -> tuple[Report, Run]:
    """Run, and write outputs and rejects under hidden names."""
    assert job.out is not None
    run = Run(job, feed, engine)
    writer = PartWriter(job.out, f"{job.stem}-s{feed.shard:04d}", job.program.output_schema)
    progress = Progress(job.progress, feed.shard)
    with WriteBehind(writer.write) as behind:
        for outputs in run.outputs():
            behind.put(outputs)
            progress.note(run.report.events - run.report.closed)
    run.report.staged = writer.close()
    run.report.rejects_staged, run.report.rejected = _write_rejects(job, feed)
    return run.report, run


def replay_to_files(job: Job, feed: Feed) -> Report:
    """Outputs, rejects and the end state. Errors of the program or its input are reported, not raised: a task that
    fails would be tried again in vain."""
    try:
        engine = new_engine(job, feed.shard)
        report, _ = to_files(job, feed, engine)
        if job.state is not None and report.events:
            report.state_file = _write_state(job, engine, feed.shard)
        return report
    except MainstemError as error:
        return _failed(feed, error)


def _failed(feed: Feed, error: MainstemError) -> Report:
    return Report(shard=feed.shard, error=blobs.pack_error(error).decode())


def _write_rejects(job: Job, feed: Feed) -> tuple[list[str], int]:
    table = feed.all_rejects()
    writer = PartWriter(job.rejects, f"{job.rejects_stem}-s{feed.shard:04d}", REJECTS_SCHEMA)
    for batch in table.to_batches():
        writer.write(batch)
    return writer.close(), table.num_rows


def _write_state(job: Job, engine: Engine, shard: int) -> tuple[int, str, bool]:
    """Keyed: the shard's rows as a base. Else a carrier for the driver to commit: all rows, deleted ones marked."""
    assert job.state is not None
    if job.shards:
        tables = engine.state.export()
    else:
        tables = {name: table.delta(np.arange(table.index.count)) for name, table in engine.state.tables.items()}
    file = write_shard_file(job.state, shard, job.stem, tables, base=bool(job.shards))
    return file.shard, file.name, file.base


def _drain(rows: Iterator[pa.RecordBatch]) -> None:
    """Read the row that started the task: Spark keeps a worker, with its loaded code, only if it has read all."""
    for _ in rows:
        pass


def fused_to_files(job: Job, inputs: object) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(rows)
        yield replay_to_files(job, fused_feed(job, inputs)).to_batch()

    return task


def fused_to_rows(job: Job, inputs: object) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        _drain(rows)
        for outputs in Run(job, fused_feed(job, inputs), new_engine(job, 0)).outputs():
            yield decoded(outputs)

    return task


def blobs_to_files(job: Job) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        feed = _fed(job, rows)
        if feed is not None:
            yield replay_to_files(job, feed).to_batch()

    return task


def blobs_to_output_blobs(job: Job) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        feed = _fed(job, rows)
        if feed is None:
            return
        for chunk, outputs in enumerate(Run(job, feed, new_engine(job, feed.shard)).outputs()):
            data = blobs.pack_table(pa.Table.from_batches([outputs]))
            yield pa.record_batch([pa.array([chunk], pa.int32()), pa.array([data])], names=["chunk", "data"])

    return task


def blobs_to_rows(job: Job) -> Task:
    """For shards, which are many already: rows at once."""

    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        feed = blob_feed(job, rows)
        if feed is not None:
            for outputs in Run(job, feed, new_engine(job, feed.shard)).outputs():
                yield decoded(outputs)

    return task


def shard_to_files(job: Job) -> Task:
    """A live shard: like a replay of one micro-batch, on the state of the batch before it."""

    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        feed = blob_feed(job, rows)
        if feed is not None:
            yield live_to_files(job, feed).to_batch()

    return task


def live_to_files(job: Job, feed: Feed) -> Report:
    try:
        engine = take_engine(job, feed.shard)
        report, run = to_files(job, feed, engine)
        if report.transactions:
            report.state_file = _write_changes(job, run, feed.shard)
            engine.token = report.state_file[1]
        keep_engine(job, feed.shard, engine)
        return report
    except MainstemError as error:
        return _failed(feed, error)


def _write_changes(job: Job, run: Run, shard: int) -> tuple[int, str, bool]:
    """The rows that the batch changed; now and then all rows, which bounds the files that loading a shard reads."""
    assert job.state is not None
    base = len(job.shard_files.get(shard, [])) >= SHARD_FILES_MAX
    if base:
        tables = run.engine.state.export()
    else:
        names = {name for deltas in run.deltas for name in deltas}
        tables = {name: pa.concat_tables(d[name] for d in run.deltas if name in d) for name in names}
    file = write_shard_file(job.state, shard, job.stem, tables, base=base)
    return file.shard, file.name, file.base


def unpack_outputs(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in rows:
        for data in batch.column("data"):
            for outputs in blobs.unpack_table(data.as_buffer()).to_batches():
                yield decoded(outputs)


def decoded(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Dictionaries as plain strings: Spark has no dictionary type."""
    arrays = [a.dictionary_decode() if pa.types.is_dictionary(a.type) else a for a in batch.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=decoded_schema(batch.schema))


def decoded_schema(schema: pa.Schema) -> pa.Schema:
    return pa.schema([f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in schema])
