"""Live runs: any cut into micro-batches gives the oracle's result, and every batch counts exactly once."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from live_support import NOW, Live
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from spark_support import (
    assert_run,
    bank,
    bank_log,
    expected,
    meter_log,
    meters,
    stored,
    word_log,
    words,
    write_files,
)  # fmt: skip

from mainstem.errors import SparkError, StoreError
from mainstem.spark.target import arrange, begin
from mainstem.store import Store
from mainstem.store.partitions import shard_count
from mainstem.testing import Outcome, assert_same


@pytest.mark.parametrize("per_batch", [1, 3, 100])
@pytest.mark.parametrize("plan", ["one_stage", "keyed"])
def test_micro_batches_of_any_size(spark: SparkSession, tmp_path: Path, plan: str, per_batch: int) -> None:
    live = Live(spark, tmp_path, meters, meter_log(), per_batch=per_batch)
    initial = {"Meter": pa.table({"key": ["m1", "m2"], "total": [5, 6], "count": [1, 1]})}
    durability = {1: "sync", 3: "batch", 100: "none"}[per_batch]
    live.go(plan=plan, partitions=2, initial=initial, durability=durability, keep=1)
    assert_run(expected(meters, live.table, initial=initial), meters, live.outputs(), live.state)


def test_derive_functions_run_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, words, word_log(), files=3)
    live.go()
    assert_run(expected(words, live.table), words, live.outputs(), live.state)


@pytest.mark.parametrize("plan", ["one_stage", "keyed"])
def test_a_batch_that_spark_hands_out_again_is_not_run_again(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    live = Live(spark, tmp_path, meters, meter_log(1500), files=3)
    wanted = expected(meters, live.table)
    live.go(plan=plan, partitions=2)
    before = live.epoch()
    live.forget_last_commit()
    live.go(plan=plan, partitions=2)
    assert live.epoch() == before
    assert_run(wanted, meters, live.outputs(), live.state)


def test_a_function_gets_the_recorded_outputs_again(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, meters, meter_log(1500), files=3)
    wanted = expected(meters, live.table)
    for plan in ("one_stage", "keyed"):
        live.state, live.checkpoint = tmp_path / plan / "state", tmp_path / plan / "checkpoint"
        got: list[tuple[int, pa.Table]] = []
        live.go(plan=plan, partitions=2, out=lambda table, batch, got=got: got.append((batch, table)))
        assert [batch for batch, _ in got] == [0, 1, 2]
        last = live.forget_last_commit()
        live.go(plan=plan, partitions=2, out=lambda table, batch, got=got: got.append((batch, table)))
        assert got[-1][0] == last == 2
        assert_same(Outcome(got[2][1]), Outcome(got[3][1]))
        everything = pa.concat_tables([table for _, table in got[:3]]).unify_dictionaries()
        keys = [("seq", "ascending"), ("function", "ascending")]
        assert_same(Outcome(wanted.outputs), Outcome(decoded(everything).sort_by(keys)))


def decoded(table: pa.Table) -> pa.Table:
    plain = [f.with_type(f.type.value_type) if pa.types.is_dictionary(f.type) else f for f in table.schema]
    return table.cast(pa.schema(plain))


def test_a_function_that_fails_after_the_commit_is_called_again(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, bank, bank_log(1200), files=4)
    got: list[tuple[int, pa.Table]] = []

    def emit(table: pa.Table, batch: int) -> None:
        got.append((batch, table))
        if len(got) == 2:
            raise RuntimeError("the receiver is away")

    with pytest.raises(StreamingQueryException, match="the receiver is away"):
        live.go(out=emit)
    live.go(out=emit)
    assert [batch for batch, _ in got] == [0, 1, 1, 2, 3]
    assert_same(Outcome(got[1][1]), Outcome(got[2][1]))
    assert_same(
        Outcome(pa.table({}), expected(bank, live.table).state), Outcome(pa.table({}), stored(bank, live.state))
    )


def late_log() -> tuple[pa.Table, pa.Table]:
    """A log in which 50 rows come two files too late, and the same log without them."""
    table = bank_log(900)
    late = pc.and_(pc.greater_equal(table["ts"], 20), pc.less(table["ts"], 45))
    in_time, delayed = table.filter(pc.invert(late)), table.filter(late)
    assert delayed.num_rows > 10
    return pa.concat_tables([in_time.slice(0, 600), delayed, in_time.slice(600)]), in_time


@pytest.mark.parametrize("plan", ["one_stage", "keyed"])
def test_late_events_are_set_aside(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    app = meters if plan == "keyed" else bank
    table, in_time = late_log()
    if plan == "keyed":
        columns = {"meter": pc.cast(table["source"], pa.string()), "amount": table["amount"]}
        table = pa.table({"ts": table["ts"], "event": ["Reading"] * table.num_rows, **columns})
        in_time = table.filter(pc.invert(_late_rows(table)))
    live = Live(spark, tmp_path, app, table, files=6, ties=True)
    live.go(plan=plan, partitions=2, on_bad="reject")
    assert_run(expected(app, in_time), app, live.outputs(), live.state)
    rejects = pq.read_table(live.state / "rejects")
    assert rejects.num_rows == table.num_rows - in_time.num_rows
    assert "older than the committed state" in rejects["reason"][0].as_py()


def test_batches_of_nothing_but_rejects(spark: SparkSession, tmp_path: Path) -> None:
    """They count as batches, move no `seq`, and keep their rows apart."""
    table = meter_log(900)
    events = ["Unknown" if 300 <= row < 700 else event for row, event in enumerate(table["event"].to_pylist())]
    live = Live(spark, tmp_path, meters, table.set_column(1, "event", pa.array(events)), files=9, ties=True)
    for plan in ("one_stage", "keyed"):
        live.state, live.checkpoint = tmp_path / plan / "state", tmp_path / plan / "checkpoint"
        live.go(plan=plan, partitions=2, on_bad="reject")
        result = meters.run(live.table, engine="oracle", on_bad="reject")
        assert_run(Outcome(result.outputs, dict(meters.state)), meters, live.outputs(), live.state)
        assert pq.read_table(live.state / "rejects").num_rows == result.rejects.num_rows == 400


def _late_rows(table: pa.Table) -> pa.Array:
    highest = pc.cumulative_max(table["ts"].combine_chunks())
    return pc.less(table["ts"].combine_chunks(), highest)


def test_a_late_event_stops_the_run_before_it_counts(spark: SparkSession, tmp_path: Path) -> None:
    table, _ = late_log()
    live = Live(spark, tmp_path, bank, table, files=6, ties=True)
    with pytest.raises(StreamingQueryException, match="older than the committed state"):
        live.go()
    whole = live.outputs().count()
    assert whole > 0
    assert_run(expected(bank, table.slice(0, whole)), bank, live.outputs(), live.state)


def test_inputs_by_event_type(spark: SparkSession, tmp_path: Path) -> None:
    table = meter_log(1000)
    readings = table.filter(pc.equal(table["event"], "Reading")).drop_columns(["event"])
    closings = table.filter(pc.equal(table["event"], "Close")).select(["ts", "meter"])
    sources = {}
    for name, part in (("Reading", readings), ("Close", closings)):
        path = write_files(tmp_path / name, part, files=1)
        sources[name] = spark.readStream.schema(spark.read.parquet(path).schema).parquet(path)
    state = tmp_path / "state"
    options = {"state": state, "checkpoint": tmp_path / "checkpoint", "trigger": NOW, "jit": False}
    meters.stream(spark, sources, **options).awaitTermination()
    meters.run([], state=state, out=state / "outputs", complete=True, jit=False)  # what waits for the other input
    wanted = expected(meters, {"Reading": readings, "Close": closings})
    assert_run(wanted, meters, spark.read.parquet(str(state / "outputs")), state)


def test_a_state_older_than_the_checkpoint_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, bank, bank_log(900), files=3)
    second, third = (file.rename(tmp_path / file.name) for file in sorted((tmp_path / "log").iterdir())[1:])
    live.go()
    shutil.copytree(live.state, tmp_path / "backup")
    second.rename(tmp_path / "log" / second.name)
    live.go()
    shutil.rmtree(live.state)
    (tmp_path / "backup").rename(live.state)
    third.rename(tmp_path / "log" / third.name)
    with pytest.raises(StreamingQueryException, match="ends with batch 0"):
        live.go()


def test_one_run_per_state_and_a_stopped_one_makes_room(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, bank, bank_log(600), files=2)
    options = {"state": live.state, "checkpoint": live.checkpoint, "jit": False}
    query = bank.stream(spark, live.source(), **options, trigger={"processingTime": "100 milliseconds"})
    with pytest.raises(SparkError, match="is active in this process"):
        bank.stream(spark, live.source(), **options)
    deadline = time.monotonic() + 60
    while live.epoch() < 2 and time.monotonic() < deadline:
        time.sleep(0.05)
    query.stop()
    live.go()
    assert_run(expected(bank, live.table), bank, live.outputs(), live.state)


def test_shards_are_not_used_after_another_kind_of_run(tmp_path: Path) -> None:
    """Its changes are in the log, where a keyed plan does not look."""
    with Store.open(tmp_path, meters.program.tables) as store:
        begin(meters.program, store, {}, 2)
        assert shard_count(store) == 2
        row = pa.table({"key": ["a"], "total": [1], "count": [1]})
        store.commit({"Meter": row}, {"seq": 1, "ts": 1})
        with pytest.raises(StoreError, match="another kind of run has added to it"):
            arrange(meters.program, store, 3)
