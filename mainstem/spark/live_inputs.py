"""Several live inputs in one order: a micro-batch brings rows of some of them, and hands on what is ready.

1  the rows of each input are sorted by `ts` and checked (`live_rows.py`)
2  those that are ready go on to the engine; the others wait, together with those of earlier micro-batches
3  what waits, and how far each input is, belongs to the commit of the micro-batch
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from mainstem.errors import StoreError
from mainstem.gate import EventBatch
from mainstem.gate.live.held import Reached, Sheet, chunk_of, pass_silent
from mainstem.gate.rejects import SCHEMA as REJECTS_SCHEMA
from mainstem.lang import Program
from mainstem.spark.job import Job
from mainstem.spark.live_rows import INPUT, LiveInput, read_in_driver, read_in_tasks
from mainstem.store import Store
from mainstem.store.carried import CARRIED, Carried, discard_carried, waiting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Inputs:
    """The inputs of a live run, and what waits of them."""

    def __init__(
        self, program: Program, inputs: Sequence[LiveInput], store: Store, idle: float | None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._inputs, self._store = inputs, store
        self._carried = _carried(program, len(inputs), store)
        self._used = [frozenset(program.used_columns[event.name]) for event in program.inputs]
        self._idle, self._clock = idle, clock
        self._heard = [clock()] * len(inputs)
        self.discard()

    @property
    def meta(self) -> dict[str, Any]:
        """For the commit of the micro-batch that was taken last."""
        return self._carried.meta

    def take(self, job: Job, df: DataFrame) -> tuple[EventBatch | None, pa.Table]:
        """The events that are ready with this micro-batch, and its bad rows. What is not ready is on disk."""
        reached, now = self._carried.reached, self._clock()
        read = read_in_tasks if job.program.derives else read_in_driver
        found = read(job, self._inputs, reached, df)
        chunks = {}
        for number, brought in found.items():
            reached[number].rows += brought.rows
            self._heard[number] = now
            if brought.batch is not None:
                chunks[number] = chunk_of(brought.batch, self._used)
                reached[number].show(int(brought.batch.ts[-1]), "row")
            reached[number].show(brought.promised, "heartbeat")
        if self._idle is not None:
            pass_silent(reached, [number for number, heard in enumerate(self._heard) if now - heard >= self._idle])
        batch = self._carried.step(Sheet(chunks), self._store.epoch + 1)
        return batch, pa.concat_tables([REJECTS_SCHEMA.empty_table(), *(brought.rejects for brought in found.values())])

    def discard(self) -> None:
        """Remove files that the last commit does not name; when it is durable."""
        discard_carried(self._store.path, self._store.meta)


def united(frames: Sequence[DataFrame]) -> DataFrame:
    """All inputs as one stream, each row with the number of its input."""
    from pyspark.sql import functions

    numbered = [frame.withColumn(INPUT, functions.lit(number)) for number, frame in enumerate(frames)]
    return reduce(lambda left, right: left.unionByName(right, allowMissingColumns=True), numbered)


def _carried(program: Program, inputs: int, store: Store) -> Carried:
    """What earlier micro-batches have left waiting."""
    if CARRIED not in store.meta:
        return Carried(store.path, program, [Reached() for _ in range(inputs)])
    kept = len(store.meta[CARRIED]["inputs"])
    if kept == inputs:
        return Carried.load(store.path, program, store.meta)
    if count := waiting(store.meta):
        raise StoreError(
            f"{store.path} holds {count} events of {kept} live inputs that wait for each other, and now "
            f"there are {inputs}\n  give the same inputs, or run what waits first: app.run([], state=…, complete=True)"
        )
    return Carried(store.path, program, [Reached() for _ in range(inputs)])
