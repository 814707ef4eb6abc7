"""The ledger as a Spark engineer would write it without Mainstem.

A conditional transfer touches four rows that any other event may touch, so all events pass through one task, in order.
Spark promises no order without a sort, and timestamps have ties: the sort key is the timestamp, then the file, then the
row in the file. Some variants sort in the JVM, some in NumPy inside the task; the loop is one over Python dicts, or the
engineer's own Numba loop (the very loop of `limit.py`, which is more than most would write). The benchmark runs all and
compares with the fastest. The task leaves the final tables as Parquet files beside the outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from mainstem.apps.workloads import ledger
from mainstem.bench import limit

OUTPUT = "ts bigint, seq bigint, event string, status string, reason string, left bigint"
_ORDER = ("ts", "file", "row")
_REASONS = pa.array(limit.REASONS, pa.string())
_STATUS = pa.array(["committed", *["aborted"] * (len(limit.REASONS) - 1)])


def read(spark: SparkSession, log: Path) -> DataFrame:
    """The log with the place of each row (`file`, `row`), which decides between equal timestamps."""
    files = [
        spark.read.parquet(str(path)).select("*", F.lit(i).alias("file"), F.col("_metadata.row_index").alias("row"))
        for i, path in enumerate(sorted(log.glob("*.parquet")))
    ]
    return reduce(DataFrame.unionAll, files)


def jvm_sorted(events: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> DataFrame:
    """Read in one task, sort there."""
    return events.coalesce(1).sortWithinPartitions(*_ORDER).drop("file", "row").mapInArrow(task, OUTPUT)


def jvm_shuffled(events: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> DataFrame:
    """Read in all tasks, then shuffle to one and sort there."""
    return events.repartition(1).sortWithinPartitions(*_ORDER).drop("file", "row").mapInArrow(task, OUTPUT)


def numpy_sorted(events: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> DataFrame:
    """Read in one task, sort in NumPy; the whole log must fit into the worker's memory."""

    def sort_and_run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(_in_order(pa.Table.from_batches(batches)))

    return events.coalesce(1).mapInArrow(sort_and_run, OUTPUT)


def grouped(events: DataFrame, task: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]) -> DataFrame:
    """One group of all events as one Arrow table, sorted in NumPy."""

    def sort_and_run(table: pa.Table) -> pa.Table:
        return pa.Table.from_batches(task(_in_order(table.drop(["one"]))))

    return events.withColumn("one", F.lit(1)).groupBy("one").applyInArrow(sort_and_run, OUTPUT)


def _in_order(table: pa.Table) -> Iterator[pa.RecordBatch]:
    order = np.lexsort(tuple(table[name].to_numpy() for name in reversed(_ORDER)))
    for start in range(0, order.size, 1 << 16):
        yield from table.take(order[start : start + (1 << 16)]).combine_chunks().to_batches()


def with_dicts(state: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The loop over Python dicts."""
    tables = ledger.initial()
    balances = dict(enumerate(tables["Account"]["balance"].to_pylist()))
    stocks = dict(enumerate(tables["Asset"]["units"].to_pylist()))
    yield from _number(batches, partial(_dict_loop, balances, stocks))
    final = limit.Ledger(np.array([*balances.values()]), np.array([*stocks.values()]))
    _write_state(state, final)


def with_numba(state: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The loop compiled by Numba."""
    final = limit.Ledger.of(ledger.initial())
    yield from _number(batches, partial(_numba_loop, final))
    _write_state(state, final)


def _dict_loop(balances: dict[int, int], stocks: dict[int, int], batch: pa.Table) -> limit.Outcome:
    # NumPy's tolist makes Python integers several times faster than Arrow's to_pylist.
    columns = [column.tolist() for column in limit.arrays(batch)]
    codes: list[int] = []
    left: list[int] = []
    for is_transfer, account, asset, to_account, to_asset, amount, units in zip(*columns, strict=True):
        kept = -1
        if amount <= 0 or units <= 0:
            code = limit.NOT_POSITIVE
        elif not is_transfer:
            balances[account] += amount
            stocks[asset] += units
            code = limit.COMMITTED
        elif balances[account] < amount:
            code = limit.NO_FUNDS
        elif stocks[asset] < units:
            code = limit.NO_UNITS
        else:
            balances[account] -= amount
            stocks[asset] -= units
            balances[to_account] += amount
            stocks[to_asset] += units
            kept = balances[account]
            code = limit.COMMITTED
        codes.append(code)
        left.append(kept)
    kept_all = np.array(left, np.int64)
    return limit.Outcome(np.array(codes, np.uint8), kept_all, (kept_all >= 0).astype(np.uint8))


def _numba_loop(state: limit.Ledger, batch: pa.Table) -> limit.Outcome:
    outcome = limit.Outcome.empty(batch.num_rows)
    limit.run(limit.arrays(batch), state, outcome)
    return outcome


def _number(batches: Iterator[pa.RecordBatch], run: Callable[[pa.Table], limit.Outcome]) -> Iterator[pa.RecordBatch]:
    """Run batch after batch and give each event its output row."""
    seq = 0
    for batch in batches:
        outcome = run(pa.Table.from_batches([batch]))
        rows = batch.num_rows
        yield pa.RecordBatch.from_arrays(
            [
                batch["ts"],
                pa.array(np.arange(seq, seq + rows)),
                batch["event"],
                _STATUS.take(pa.array(outcome.code)),
                _REASONS.take(pa.array(outcome.code)),
                pa.array(outcome.left, mask=outcome.has_left == 0),
            ],
            names=["ts", "seq", "event", "status", "reason", "left"],
        )
        seq += rows


def _write_state(folder: str, final: limit.Ledger) -> None:
    for name, table in final.export().items():
        pq.write_table(table, Path(folder) / f"{name}.parquet")


VARIANTS = {
    "dicts, JVM sort": (with_dicts, jvm_sorted),
    "Numba, JVM sort": (with_numba, jvm_sorted),
    "Numba, shuffle, JVM sort": (with_numba, jvm_shuffled),
    "Numba, NumPy sort": (with_numba, numpy_sorted),
    "Numba, one Arrow group": (with_numba, grouped),
}


def run(spark: SparkSession, variant: str, log: Path, out: Path, state: Path) -> None:
    """Run the log with one of VARIANTS: outputs to `out`, the final tables to `state`."""
    loop, plan = VARIANTS[variant]
    state.mkdir(parents=True, exist_ok=True)
    plan(read(spark, log), partial(loop, str(state))).write.parquet(str(out))
