"""The stateless half of a plan, in parallel tasks: validate, derive, keep the columns in use, pack blobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError, MainstemError
from mainstem.gate import EventBatch, Rejects, batches
from mainstem.gate.cast import to_ts
from mainstem.gate.raw import Input, Raw, RawBatch, Request
from mainstem.gate.rejects import rows_as_json
from mainstem.replay.sharding import shards_of
from mainstem.schema import INT64_MAX
from mainstem.spark import blobs
from mainstem.spark.job import CHUNK_ROWS, Job, Task
from mainstem.spark.sources import NoInput, Split

RUN_ROWS, RUN_BYTES = 1 << 18, 64 << 20
"""A DataFrame is sorted in runs of this size (whichever comes first); the merge puts runs together."""

RowOf = Callable[[np.ndarray], np.ndarray]


def preprocess_rows(job: Job, source: int, event: str | None) -> Task:
    """The task for partitions of a DataFrame. Rows count in order of `ts`, and of their position for equal `ts`."""

    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        packer = Packer(job, source, context.partitionId())
        try:
            row = 0
            for run in runs(rows):
                yield from pack_run(packer, run, row, event)
                row += run.num_rows
        except MainstemError as error:
            yield packer.error(error)

    return task


def preprocess_splits(job: Job, splits: list[Split]) -> Task:
    """The task for splits of files. Its rows are the numbers of the splits to read."""

    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for number in (number for batch in rows for number in batch.column(0).to_pylist()):
            split = splits[number]
            packer = Packer(job, split.source, split.part)
            try:
                yield from packer.pack_all(split.open(), lambda offsets: offsets)
            except MainstemError as error:
                yield packer.error(error)

    return task


class Packer:
    """Packs the events of one partition of one input."""

    def __init__(self, job: Job, source: int, part: int) -> None:
        self.job, self.source, self.part = job, source, part
        self._chunk = 0
        self._used = [frozenset(job.program.used_columns[event.name]) for event in job.program.inputs]

    def pack_all(self, rows: Input, row_of: RowOf) -> Iterator[pa.RecordBatch]:
        """All events of an input and its rejected rows; `row_of` maps rows of the input to rows of the source."""
        program, rejects = self.job.program, Rejects()
        # Inputs before this one are other tasks' work; empty ones in their places keep the numbers right.
        inputs = [*(NoInput() for _ in range(self.source)), rows]
        stream = batches(
            inputs, program.inputs, batch_size=CHUNK_ROWS, on_bad=self.job.on_bad, rejects=rejects,
            derives=program.derives, columns=program.used_columns,
        )  # fmt: skip
        for batch in stream:
            yield from self._pack(batch)
        if rejects.count:
            table = rejects.table
            offsets = pa.array(row_of(table["offset"].to_numpy()))
            yield self.rejects(table.set_column(table.schema.get_field_index("offset"), "offset", offsets))

    def rejects(self, table: pa.Table) -> pa.RecordBatch:
        return self._row(blobs.pack_table(table), blobs.FIRST, role=blobs.REJECTS)

    def error(self, error: MainstemError) -> pa.RecordBatch:
        """An error travels like events do: a task that fails would be tried again, in vain, and bury the message."""
        return self._row(blobs.pack_error(error), blobs.FIRST, role=blobs.ERROR)

    def _pack(self, batch: EventBatch) -> Iterator[pa.RecordBatch]:
        chunk = blobs.compact(batch)
        chunk.columns = [
            {name: array for name, array in arrays.items() if name in used}
            for arrays, used in zip(chunk.columns, self._used, strict=True)
        ]
        first_ts = int(chunk.ts[0])
        if not self.job.shards:
            yield self._row(blobs.pack(chunk), first_ts)
        else:
            for shard, piece in enumerate(blobs.split(chunk, self._shard_of(chunk), self.job.shards)):
                yield self._row(blobs.pack(piece), first_ts, shard=shard)
        self._chunk += 1

    def _shard_of(self, chunk: blobs.Chunk) -> np.ndarray:
        keyed = self.job.program.keyed
        assert keyed is not None
        shard = np.empty(len(chunk.kind), np.int64)
        for k, event in enumerate(self.job.program.inputs):
            own = chunk.kind == k
            if own.any():
                shard[own] = shards_of([chunk.columns[k][name] for name in keyed[event.name]], self.job.shards)
        return shard

    def _row(self, data: bytes, min_ts: int, *, shard: int = 0, role: int = blobs.EVENTS) -> pa.RecordBatch:
        return blobs.blob_row(
            data, role=role, shard=shard, min_ts=min_ts, input=self.source, part=self.part, chunk=self._chunk
        )


class TableInput(Input):
    """Rows of a DataFrame in order of `ts`."""

    what = "DataFrame"

    def __init__(self, table: pa.Table, event: str | None) -> None:
        self._table, self.event = table, event

    def read(self, request: Request) -> Iterator[Raw]:
        for batch in self._table.to_batches():
            yield RawBatch(batch)


def runs(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Consecutive batches joined to tables of about RUN_ROWS rows or RUN_BYTES bytes."""
    waiting: list[pa.RecordBatch] = []
    count = size = 0
    for batch in rows:
        waiting.append(batch)
        count, size = count + batch.num_rows, size + batch.nbytes
        if count >= RUN_ROWS or size >= RUN_BYTES:
            yield pa.Table.from_batches(waiting)
            waiting, count, size = [], 0, 0
    if count:
        yield pa.Table.from_batches(waiting)


def pack_run(packer: Packer, run: pa.Table, first_row: int, event: str | None) -> Iterator[pa.RecordBatch]:
    """Blobs of one run: sorted, without the rows that come too late."""
    run, order, ts = in_order(run)
    late = int(np.searchsorted(ts, packer.job.after_ts))
    if late:
        yield packer.rejects(too_late(packer.job, run.slice(0, late), packer.source, first_row + order[:late], event))
    rest = run.slice(late)
    yield from packer.pack_all(TableInput(rest, event), lambda offsets: first_row + order[offsets + late])


def in_order(run: pa.Table) -> tuple[pa.Table, np.ndarray, np.ndarray]:
    """The rows sorted by `ts` (stable; rows without one last), where each came from, and their times."""
    if "ts" not in run.column_names:  # the gate says what is missing
        return run, np.arange(run.num_rows), np.full(run.num_rows, INT64_MAX)
    times = to_ts(run["ts"].combine_chunks(), "typed").array
    ts = times.fill_null(INT64_MAX).to_numpy() if times.null_count else times.to_numpy()
    if bool(np.all(ts[1:] >= ts[:-1])):
        return run, np.arange(run.num_rows), ts
    order = np.argsort(ts, kind="stable")
    return run.take(pa.array(order)), order, ts[order]


def too_late(job: Job, rows: pa.Table, source: int, offsets: np.ndarray, event: str | None) -> pa.Table:
    """Rows that are older than the committed state, as rejects; an error when bad rows shall raise."""
    reason = f"the event is older than the committed state, which has reached ts {job.after_ts}"
    if job.on_bad == "raise":
        raise InputError(
            f"input {source} (DataFrame), row {offsets[0]}: {reason}\n"
            '  pass on_bad="reject" to set late events aside, or delay the stream until its inputs are complete'
        )
    rejects = Rejects()
    names = rows["event"].cast(pa.string()).to_pylist() if event is None and "event" in rows.column_names else event
    rejects.add(source, offsets, names, reason, rows_as_json(rows.to_pylist()))
    return rejects.table
