"""What a micro-batch brings of one of several live inputs: good rows in order, bad ones with the reason, heartbeats.

Rows are read in the driver. With derive functions they are read in tasks, each with the rows of its own partition; what
comes to the driver then is one blob of compact columns per input and partition.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import InputError, MainstemError
from mainstem.gate import EventBatch, Rejects, batches, flaws
from mainstem.gate.cast import to_ts
from mainstem.gate.live.held import Reached
from mainstem.gate.rejects import SCHEMA as REJECTS_SCHEMA
from mainstem.gate.rejects import rows_as_json
from mainstem.lang import Program
from mainstem.schema import INT64_MIN
from mainstem.spark import blobs
from mainstem.spark.job import Job, Task
from mainstem.spark.merge import merge
from mainstem.spark.preprocess import TableInput, in_order
from mainstem.spark.sources import NoInput, Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

INPUT = "_input"
"""The column that tells the inputs of a united stream apart."""


@dataclass(frozen=True)
class LiveInput:
    """One input: its number, the event type that the user named, and its own columns."""

    number: int
    event: str | None
    columns: tuple[str, ...]

    @staticmethod
    def of(source: Source, frame: DataFrame) -> LiveInput:
        return LiveInput(source.index, source.event, tuple(frame.columns))

    def has_heartbeats(self, program: Program) -> bool:
        """Whether a row of nothing but a `ts` could be no event: a type that has to be named, or a field that must not
        be null."""
        named = [name for name in self.columns if name != "ts"]
        if self.event is None and len(program.inputs) > 1:
            return bool(named)
        event = next(e for e in program.inputs if self.event in (None, e.name))
        fields = [event.field(name) for name in named]
        return any(field is not None and not field.type.nullable for field in fields)

    def rows_of(self, table: pa.Table) -> pa.Table:
        """The rows of this input among those of all."""
        return table.filter(pc.equal(table[INPUT], self.number)).select(self.columns)


@dataclass(frozen=True)
class Brought:
    """What came of one input."""

    batch: EventBatch | None
    rejects: pa.Table
    rows: int
    promised: int = INT64_MIN  # by heartbeats


def read_in_driver(
    job: Job, inputs: Sequence[LiveInput], reached: Sequence[Reached], df: DataFrame
) -> dict[int, Brought]:
    """Cheaper than tasks when there is nothing to derive."""
    table = df.toArrow()
    found = ((input.number, input.rows_of(table)) for input in inputs)
    return {n: _read(job, inputs[n], rows, reached[n], reached[n].rows) for n, rows in found if rows.num_rows}


def read_in_tasks(
    job: Job, inputs: Sequence[LiveInput], reached: Sequence[Reached], df: DataFrame
) -> dict[int, Brought]:
    """Derive functions run beside each other; compact columns come to the driver."""
    packed = df.mapInArrow(_reading(job, inputs, reached), blobs.ROW_SCHEMA).toArrow()
    of_input: dict[int, list[blobs.BlobRow]] = {}
    for row in blobs.blob_rows(iter(packed.to_batches())):
        if row.role == blobs.ERROR:
            blobs.raise_error(row.data)
        of_input.setdefault(row.key[0], []).append(row)
    return {number: _joined(job, rows, reached[number].rows) for number, rows in sorted(of_input.items())}


def _reading(job: Job, inputs: Sequence[LiveInput], reached: Sequence[Reached]) -> Task:
    def task(rows: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        arrived = list(rows)
        for input in inputs if arrived else ():
            place = {"input": input.number, "part": context.partitionId(), "chunk": 0}
            own = input.rows_of(pa.Table.from_batches(arrived))
            if not own.num_rows:
                continue
            try:
                yield from _packed(job, _read(job, input, own, reached[input.number], 0), place)
            except MainstemError as error:
                yield blobs.blob_row(blobs.pack_error(error), min_ts=blobs.FIRST, role=blobs.ERROR, **place)

    return task


def _packed(job: Job, found: Brought, place: dict[str, int]) -> Iterator[pa.RecordBatch]:
    told = json.dumps([found.rows, found.promised]).encode()
    yield blobs.blob_row(told, min_ts=blobs.FIRST, role=blobs.COUNTS, **place)
    if found.rejects.num_rows:
        yield blobs.blob_row(blobs.pack_table(found.rejects), min_ts=blobs.FIRST, role=blobs.REJECTS, **place)
    if found.batch is not None:
        chunk, used = blobs.compact(found.batch), job.program.used_columns
        chunk.columns = [
            {name: array for name, array in arrays.items() if name in used[event.name]}
            for event, arrays in zip(job.program.inputs, chunk.columns, strict=True)
        ]
        yield blobs.blob_row(blobs.pack(chunk), min_ts=int(chunk.ts[0]), **place)


def _joined(job: Job, rows: Sequence[blobs.BlobRow], first: int) -> Brought:
    """The partitions of one input. `first` is the offset of the first row of the first of them."""
    counts = {row.key: json.loads(bytes(memoryview(row.data))) for row in rows if row.role == blobs.COUNTS}
    starts = dict(zip(sorted(counts), np.cumsum([first, *(counts[key][0] for key in sorted(counts))]), strict=False))
    rejects = [REJECTS_SCHEMA.empty_table()]
    for row in rows:
        if row.role == blobs.REJECTS:
            bad = blobs.unpack_table(row.data)
            rejects.append(bad.set_column(1, "offset", pc.add(bad["offset"], pa.scalar(int(starts[row.key])))))
    chunks = [(r.min_ts, r.key, blobs.unpack(r.data, job.program.inputs)) for r in rows if r.role == blobs.EVENTS]
    ordered = next(merge(sorted(chunks, key=lambda chunk: chunk[:2]), batch_rows=1 << 62), None)
    return Brought(
        None if ordered is None else ordered.batch, pa.concat_tables(rejects), sum(c[0] for c in counts.values()),
        max(c[1] for c in counts.values()),
    )  # fmt: skip


def _read(job: Job, input: LiveInput, rows: pa.Table, reached: Reached, first: int) -> Brought:
    """Rows of one input that came together; `first` is the offset of the first of them."""
    count, places, promised = rows.num_rows, np.arange(rows.num_rows), INT64_MIN
    if input.has_heartbeats(job.program):
        rows, places, promised = _without_heartbeats(rows)
    table, order, ts = in_order(rows)
    offsets = first + places[order]
    late = int(np.searchsorted(ts, max(reached.clock, job.after_ts)))
    too_late = _too_late(job, input, table.slice(0, late), ts[:late], offsets[:late], reached)
    batch, bad = _checked(job, input, table.slice(late), offsets[late:])
    return Brought(batch, pa.concat_tables([too_late, bad]), count, promised)


def _checked(job: Job, input: LiveInput, rows: pa.Table, offsets: np.ndarray) -> tuple[EventBatch | None, pa.Table]:
    """Sorted rows as one batch; `offsets` says which rows of the input they are."""
    program, rejects = job.program, Rejects()
    # Empty inputs in the places of those before it keep the number right.
    inputs = [*(NoInput() for _ in range(input.number)), TableInput(rows, input.event)]
    stream = batches(
        inputs, program.inputs, batch_size=max(1, rows.num_rows), on_bad=job.on_bad, rejects=rejects,
        derives=program.derives, columns=program.used_columns,
    )  # fmt: skip
    batch, bad = next(stream, None), rejects.table
    return batch, bad.set_column(1, "offset", pa.array(offsets[bad["offset"].to_numpy()]))


def _without_heartbeats(rows: pa.Table) -> tuple[pa.Table, np.ndarray, int]:
    """The rows that have more than a `ts`, where they were, and what the others promise."""
    times = to_ts(rows["ts"].combine_chunks(), "typed").array
    empty = reduce(pc.and_, [pc.is_null(rows[name]) for name in rows.column_names if name != "ts"])
    beats = pc.and_(empty.combine_chunks(), pc.is_valid(times)).to_numpy(zero_copy_only=False)
    if not beats.any():
        return rows, np.arange(rows.num_rows), INT64_MIN
    promised = pc.max(times.filter(pa.array(beats))).as_py()
    return rows.filter(pa.array(~beats)), np.flatnonzero(~beats), promised


def _too_late(
    job: Job, input: LiveInput, rows: pa.Table, ts: np.ndarray, offsets: np.ndarray, reached: Reached
) -> pa.Table:
    """Rows that are older than what their input has shown, as rejects; an error when bad rows shall raise."""
    if not rows.num_rows:
        return REJECTS_SCHEMA.empty_table()
    found = [_flaw(int(t), reached, job.after_ts) for t in ts.tolist()]
    if job.on_bad == "raise":
        at = int(np.argmin(offsets))
        raise InputError(
            f"input {input.number} (DataFrame), row {offsets[at]}: {found[at].reason}\n  {found[at].remedy}"
        )
    names = rows["event"].cast(pa.string()).to_pylist() if "event" in rows.column_names else input.event
    rejects = Rejects()
    rejects.add(input.number, offsets, names, [flaw.reason for flaw in found], rows_as_json(rows.to_pylist()))
    return rejects.table


def _flaw(ts: int, reached: Reached, after_ts: int) -> flaws.Flaw:
    if reached.clock < after_ts:
        return flaws.Flaw(
            f"the event is older than the committed state, which has reached ts {after_ts}",
            f"give later events only, or {flaws.SET_ASIDE}",
        )
    if reached.by == "silence":
        return flaws.after_silence(ts, reached.clock)
    if reached.by == "heartbeat":
        return flaws.after_heartbeat(ts, reached.clock)
    return flaws.unsorted(ts, reached.clock)
