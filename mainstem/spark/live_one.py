"""Live, one state stage: the state lives in the driver's memory, over a store. Workers can lose theirs any minute."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstem.gate import EventBatch, Rejects, batches
from mainstem.gate.rejects import SCHEMA as REJECTS_SCHEMA
from mainstem.spark import blobs
from mainstem.spark.execute import blob_feed
from mainstem.spark.job import Job
from mainstem.spark.live import EMITTED, Emit, Live
from mainstem.spark.live_inputs import Inputs
from mainstem.spark.live_rows import LiveInput
from mainstem.spark.parts import PartWriter
from mainstem.spark.preprocess import TableInput, in_order, preprocess_rows, too_late
from mainstem.spark.target import pending_rejects, rejects_stem
from mainstem.store import DurableRun, pending
from mainstem.store.carried import refuse_waiting
from mainstem.windows import WINDOWS, Operators

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class OneStage(Live):
    def __init__(
        self, job: Job, path: str, out: str | Emit, initial: Any, progress: Callable[[int], None] | None,
        kept: Mapping[str, Any], inputs: Sequence[LiveInput] = (), idle: float | None = None,
    ) -> None:  # fmt: skip
        """`kept`: options of the store. `inputs`: those that wait for each other, if there are several."""
        self.run = DurableRun(job.program, path, initial=initial, **kept, how={"jit": job.jit})
        try:
            store = self.run.store
            self.operators = Operators.of(job.program.windows, store.meta)
            if not inputs:
                refuse_waiting(store.path, store.meta, "this run")
            self.inputs = Inputs(job.program, inputs, store, idle) if inputs else None
            super().__init__(job, store, out, progress)
        except BaseException:
            self.run.close()
            raise

    def execute(self, df: DataFrame, meta: dict[str, Any]) -> int:
        job = replace(self.job, after_ts=self.after_ts, first_seq=self.seq)
        if self.inputs is not None:
            batch, rejects = self.inputs.take(job, df)
            meta |= self.inputs.meta
        else:
            batch, rejects = _from_blobs(job, df) if job.program.derives else _from_rows(job, df)
        events = 0 if batch is None else len(batch)
        if batch is not None and job.program.windows:
            batch = self.operators.step(batch, len(job.program.inputs))
            meta[WINDOWS] = self.operators.kept()
        elif WINDOWS in self.store.meta:
            meta[WINDOWS] = self.store.meta[WINDOWS]
        if rejects.num_rows:
            writer = PartWriter(self.rejects, rejects_stem(self.store), REJECTS_SCHEMA)
            meta |= pending_rejects(self.rejects, _write(writer, rejects.to_batches()))
        if batch is None:
            self.store.commit({}, {"seq": self.seq, "ts": self.store.meta.get("ts"), **meta})
        else:
            writer = PartWriter(self.folder, f"part-{self.seq:020d}", job.program.output_schema)

            def also(result: Any) -> dict[str, Any]:
                staged = _write(writer, [result.outputs])
                return meta | ({EMITTED: staged} if self.emit else pending(self.folder, staged))

            self.run.run(batch, also)
        self.store.publish_pending()  # which waits for the commit: Spark must not note a batch that may be lost
        if self.inputs is not None:
            self.inputs.discard()
        return events


def _write(writer: PartWriter, rows: list[pa.RecordBatch]) -> list[str]:
    for batch in rows:
        writer.write(batch)
    return writer.close()


def _from_rows(job: Job, df: DataFrame) -> tuple[EventBatch | None, pa.Table]:
    """Rows come to the driver as they are: cheaper than a Python task when there is nothing to derive."""
    table, order, ts = in_order(df.toArrow())
    late = int(ts.searchsorted(job.after_ts))
    found = [too_late(job, table.slice(0, late), 0, order[:late], None)] if late else []
    rejects = Rejects()
    events = batches(
        [TableInput(table.slice(late), None)], job.program.inputs, batch_size=max(1, table.num_rows),
        on_bad=job.on_bad, rejects=rejects, columns=job.program.used_columns,
    )  # fmt: skip
    batch = next(events, None)
    bad = rejects.table
    offsets = pa.array(order[bad["offset"].to_numpy() + late])
    found.append(bad.set_column(bad.schema.get_field_index("offset"), "offset", offsets))
    return batch, pa.concat_tables(found)


def _from_blobs(job: Job, df: DataFrame) -> tuple[EventBatch | None, pa.Table]:
    """Derive functions run in tasks; compact columns come to the driver."""
    packed = df.mapInArrow(preprocess_rows(job, 0, None), blobs.ROW_SCHEMA).toArrow()
    packed = packed.sort_by([(name, "ascending") for name in blobs.ORDER])
    whole = replace(job, batch_rows=max(1, packed.num_rows) << 40)  # one batch, one commit

    def rows() -> Iterator[pa.RecordBatch]:
        yield from packed.to_batches()

    feed = blob_feed(whole, rows())
    if feed is None:
        return None, REJECTS_SCHEMA.empty_table()
    ordered = next(feed.ordered, None)
    return None if ordered is None else ordered.batch, feed.all_rejects()
