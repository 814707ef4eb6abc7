"""The state half of a plan: one task (or one per shard) runs the engine over events in total order.

The task either writes Parquet and its end state under hidden names and reports them, or streams output rows back to
Spark. It holds one state, a few batches and, while merging, the blobs that overlap in time.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mainstem.engine import make_executor
from mainstem.errors import InputError, MainstemError
from mainstem.gate import Rejects, batches, inputs_of
from mainstem.gate.prefetch import prefetched
from mainstem.gate.rejects import SCHEMA as REJECTS_SCHEMA
from mainstem.spark import blobs
from mainstem.spark.job import Job, Report, Task
from mainstem.spark.merge import Ordered, merge
from mainstem.spark.parts import PartWriter
from mainstem.spark.pipes import WriteBehind
from mainstem.spark.preprocess import shards_of
from mainstem.spark.progress import Progress
from mainstem.state import State
from mainstem.store import read_shard_files, write_shard_file

OUTPUT_BLOBS = "chunk int, data binary"


@dataclass
class Feed:
    """Events of one state task in total order, and the rejected rows met on the way."""

    shard: int
    ordered: Iterator[Ordered]
    rejects: list[pa.Table] = field(default_factory=list)
    late_rejects: Rejects = field(default_factory=Rejects)  # filled by the gate while it is read

    def all_rejects(self) -> pa.Table:
        table = pa.concat_tables([*self.rejects, self.late_rejects.table])
        return table.sort_by([("input", "ascending"), ("offset", "ascending")])


def fused_feed(job: Job, inputs: object) -> Feed:
    """Files, read by this task; the gate decodes and checks on its own threads."""
    program, rejects = job.program, Rejects()
    stream = batches(
        inputs_of(inputs, program.events), program.events, batch_size=job.batch_rows, on_bad=job.on_bad, rejects=rejects,
        derives=program.derives, columns=program.used_columns,
    )  # fmt: skip

    def ordered() -> Iterator[Ordered]:
        first = job.first_seq
        for batch in prefetched(stream):
            yield Ordered(batch, first, None, len(batch), int(batch.ts[-1]))
            first += len(batch)

    return Feed(0, ordered(), late_rejects=rejects)


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
                yield row.min_ts, row.key, blobs.unpack(row.data, job.program.events)
            row = next(blob_rows, None)

    feed.ordered = merge(arriving(), batch_rows=job.batch_rows, first=job.first_seq)
    return feed


class Run:
    """The executor over one feed."""

    def __init__(self, job: Job, feed: Feed) -> None:
        self.job, self.feed = job, feed
        self.state = start_state(job, feed.shard)
        self.report = Report(shard=feed.shard)

    def outputs(self) -> Iterator[pa.RecordBatch]:
        executor = make_executor(self.job.program, self.state, jit=self.job.jit)
        report = self.report
        for ordered in self.feed.ordered:
            batch = ordered.batch
            if len(batch):
                self._check_order(ordered)
                result = executor.run(batch, ordered.first)
                report.transactions += result.stats.transactions
                report.aborted += result.stats.aborted
                yield with_seq(result.outputs, ordered)
            report.events += ordered.total
            report.last_ts = ordered.last_ts

    def _check_order(self, ordered: Ordered) -> None:
        first = int(ordered.batch.ts[0])
        if first < self.job.after_ts:
            raise InputError(
                f"event {ordered.first} has ts {first}, but {self.job.state} is committed up to ts {self.job.after_ts}\n"
                "  give later events only, or another state directory"
            )


def with_seq(outputs: pa.RecordBatch, ordered: Ordered) -> pa.RecordBatch:
    """The outputs of a shard numbered 0, 1, … from `first`, with the positions in the total order instead."""
    if ordered.seq is None:
        return outputs
    column = outputs.schema.get_field_index("seq")
    numbered = outputs.column(column).to_numpy() - ordered.first
    return outputs.set_column(column, outputs.schema.field(column), pa.array(ordered.seq[numbered]))


def start_state(job: Job, shard: int) -> State:
    state = State(job.tables)
    if job.start is not None:
        for name, table in job.start.value.items():
            state.apply(name, _own_rows(job, name, table, shard))
    if job.state is not None and job.shard_files:
        for name, table in read_shard_files(job.state, job.shard_files.get(shard, [])):
            state.apply(name, table)
    return state


def _own_rows(job: Job, name: str, table: pa.Table, shard: int) -> pa.Table:
    if job.shards < 2:
        return table
    keys = [table[column].combine_chunks() for column in job.tables[name].key_columns]
    return table.filter(pa.array(shards_of(keys, job.shards) == shard))


def to_files(job: Job, feed: Feed) -> Report:
    """Run, and write outputs, rejects and the end state. Errors of the program or its input are reported, not raised."""
    assert job.out is not None
    try:
        run = Run(job, feed)
        stem = f"{job.stem}-s{feed.shard:04d}"
        writer = PartWriter(job.out, stem, job.program.output_schema)
        progress = Progress(job.progress, feed.shard)
        with WriteBehind(writer.write) as behind:
            for outputs in run.outputs():
                behind.put(outputs)
                progress.note(run.report.events + outputs.num_rows)
        report = run.report
        report.staged = writer.close()
        report.rejects_staged, report.rejected = _write_rejects(job, feed, stem)
        if job.state is not None and report.events:
            report.state_file = _write_state(job, run.state, feed.shard)
        return report
    except MainstemError as error:
        return Report(shard=feed.shard, error=blobs.pack_error(error).decode())


def _write_rejects(job: Job, feed: Feed, stem: str) -> tuple[list[str], int]:
    table = feed.all_rejects()
    writer = PartWriter(job.rejects, stem, REJECTS_SCHEMA)
    for batch in table.to_batches():
        writer.write(batch)
    return writer.close(), table.num_rows


def _write_state(job: Job, state: State, shard: int) -> tuple[int, str, bool]:
    """Keyed: the shard's rows as a base. Else a carrier to the driver: all rows, deleted ones marked, which it commits."""
    assert job.state is not None
    if job.shards:
        tables = {name: table.export() for name, table in state.tables.items()}
    else:
        tables = {name: table.delta(np.arange(table.index.count)) for name, table in state.tables.items()}
    file = write_shard_file(job.state, shard, f"{job.stem}-s{shard:04d}", tables, base=bool(job.shards))
    return file.shard, file.name, file.base


def fused_to_files(job: Job, inputs: object) -> Task:
    def task(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield to_files(job, fused_feed(job, inputs)).to_batch()

    return task


def fused_to_rows(job: Job, inputs: object) -> Task:
    def task(_: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for outputs in Run(job, fused_feed(job, inputs)).outputs():
            yield decoded(outputs)

    return task


def blobs_to_files(job: Job) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        feed = blob_feed(job, rows)
        if feed is not None:
            yield to_files(job, feed).to_batch()

    return task


def blobs_to_output_blobs(job: Job) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        feed = blob_feed(job, rows)
        if feed is None:
            return
        for chunk, outputs in enumerate(Run(job, feed).outputs()):
            data = blobs.pack_table(pa.Table.from_batches([outputs]))
            yield pa.record_batch([pa.array([chunk], pa.int32()), pa.array([data])], names=["chunk", "data"])

    return task


def blobs_to_rows(job: Job) -> Task:
    """For shards, which are many already: rows at once."""

    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        feed = blob_feed(job, rows)
        if feed is not None:
            for outputs in Run(job, feed).outputs():
                yield decoded(outputs)

    return task


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
