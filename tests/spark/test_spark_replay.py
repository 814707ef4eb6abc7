"""Replay: every plan, on 1, 2 and 4 partitions, from paths and DataFrames, agrees with the oracle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession, functions
from spark_support import (
    assert_outputs,
    assert_run,
    bank,
    bank_log,
    expected,
    meter_log,
    meters,
    outputs_of,
    stored,
    word_log,
    words,
    write_files,
)  # fmt: skip

from mainstem.app import App
from mainstem.apps import ledger
from mainstem.errors import InputError
from mainstem.spark import replay_info
from mainstem.testing import Outcome

PLANS = [("fused", 1), *((plan, count) for plan in ("one_stage", "keyed") for count in (1, 2, 4))]


@pytest.mark.parametrize(("plan", "partitions"), PLANS)
def test_files_with_outputs_and_state(spark: SparkSession, tmp_path: Path, plan: str, partitions: int) -> None:
    table = meter_log()
    initial = {"Meter": pa.table({"key": [f"m{k}" for k in range(7)], "total": range(7), "count": range(1, 8)})}
    path = write_files(tmp_path / "log", table, files=3)
    options = {"plan": plan, "partitions": partitions, "initial": initial, "batch": 700, "jit": False}
    df = meters.replay(spark, path, out=tmp_path / "out", state=tmp_path / "state", **options)
    wanted = expected(meters, table, initial=initial)
    assert_run(wanted, meters, df, tmp_path / "state")
    assert_outputs(wanted, spark.read.parquet(str(tmp_path / "out")))
    info = replay_info(df)
    assert (info.plan, info.events, info.rejected) == (plan, table.num_rows, 0)
    assert info.transactions == wanted.outputs.num_rows
    assert info.aborted == wanted.outputs["status"].to_pylist().count("aborted")


@pytest.mark.parametrize(("plan", "partitions"), [("fused", 1), ("one_stage", 3), ("keyed", 3)])
def test_a_replay_without_a_folder_is_lazy(spark: SparkSession, tmp_path: Path, plan: str, partitions: int) -> None:
    table = meter_log()
    path = write_files(tmp_path / "log", table, files=2)
    df = meters.replay(spark, path, plan=plan, partitions=partitions, batch=700, jit=False)
    wanted = expected(meters, table)
    assert_outputs(wanted, df)
    assert df.count() == wanted.outputs.num_rows
    assert replay_info(df).events is None


def shuffled_frame(spark: SparkSession, table: pa.Table, partitions: int, seed: int = 1) -> DataFrame:
    """Rows in random order, in a fixed number of partitions that overlap in time."""
    order = np.random.default_rng(seed).permutation(table.num_rows)
    rows = table.take(pa.array(order)).to_pylist()
    schema = "ts long, event string, meter string, amount long"
    columns = [tuple(row[name] for name in table.column_names) for row in rows]
    return spark.createDataFrame(spark.sparkContext.parallelize(columns, partitions), schema)


def in_frame_order(df: DataFrame) -> pa.Table:
    """The rows by (ts, partition, row): the order that a DataFrame has for a replay."""
    numbered = df.withColumn("_row", functions.monotonically_increasing_id()).toArrow()
    return numbered.sort_by([("ts", "ascending"), ("_row", "ascending")]).drop_columns(["_row"])


@pytest.mark.parametrize("partitions", [1, 2, 4])
@pytest.mark.parametrize("plan", ["one_stage", "keyed"])
def test_rows_of_a_frame_count_by_ts_then_partition_then_row(spark: SparkSession, plan: str, partitions: int) -> None:
    df = shuffled_frame(spark, meter_log(1500), partitions)
    wanted = expected(meters, in_frame_order(df))
    assert_outputs(wanted, meters.replay(spark, df, plan=plan, partitions=2, batch=100, jit=False))


def test_several_inputs_break_ties_by_their_position(spark: SparkSession, tmp_path: Path) -> None:
    first, second = meter_log(900, seed=1), meter_log(1100, seed=2)
    inputs = [write_files(tmp_path / "a", first, files=2), write_files(tmp_path / "b", second, files=3)]
    wanted = expected(meters, [first, second])
    for plan in ("fused", "one_stage", "keyed"):
        assert_outputs(wanted, meters.replay(spark, inputs, plan=plan, partitions=4, batch=333, jit=False))


def test_a_path_and_a_frame_by_event_type(spark: SparkSession, tmp_path: Path) -> None:
    table = meter_log(1000)
    readings = table.filter(pa.compute.equal(table["event"], "Reading")).drop_columns(["event"])
    closings = table.filter(pa.compute.equal(table["event"], "Close")).select(["ts", "meter"])
    path = write_files(tmp_path / "readings", readings, files=1)
    df = spark.createDataFrame(closings).coalesce(1)
    wanted = expected(meters, {"Reading": readings, "Close": closings})
    assert_outputs(wanted, meters.replay(spark, {"Reading": path, "Close": df}, jit=False))


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("plan", ["fused", "one_stage"])
def test_derive_functions_run_in_tasks(spark: SparkSession, tmp_path: Path, plan: str, partitions: int) -> None:
    table = word_log()
    path = write_files(tmp_path / "log", table, files=2)
    df = words.replay(spark, path, plan=plan, partitions=partitions, out=tmp_path / "out", jit=False)
    assert_outputs(expected(words, table), df)


def test_auto_chooses_and_says_why(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "meters", meter_log(100), files=1)
    text = write_files(tmp_path / "words", word_log(100), files=1)
    fused = replay_info(meters.replay(spark, path, jit=False))
    assert (fused.plan, "files" in fused.reason) == ("fused", True)
    framed = replay_info(meters.replay(spark, spark.read.parquet(path), jit=False))
    assert (framed.plan, "DataFrame" in framed.reason) == ("one_stage", True)
    assert "derive" in replay_info(words.replay(spark, text, jit=False)).reason


def test_a_compiled_ledger(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "log"
    ledger.write_log(path, 40_000, files=2)
    wanted = expected(ledger.app, str(path), initial=ledger.initial())
    for plan in ("fused", "one_stage"):
        state = tmp_path / plan
        df = ledger.app.replay(spark, path, initial=ledger.initial(), plan=plan, state=state)
        assert_run(wanted, ledger.app, df, state)


@pytest.mark.parametrize(
    ("app", "log", "plan"), [(bank, bank_log, "fused"), (bank, bank_log, "one_stage"), (meters, meter_log, "keyed")]
)
def test_a_replay_goes_on_from_the_stored_state(
    spark: SparkSession, tmp_path: Path, app: App, log: Callable[[], pa.Table], plan: str
) -> None:
    table = log()
    half = int(np.searchsorted(table["ts"].to_numpy(), table["ts"][1500].as_py()))
    first = write_files(tmp_path / "first", table.slice(0, half), files=2)
    second = write_files(tmp_path / "second", table.slice(half), files=2)
    options = {"state": tmp_path / "state", "plan": plan, "partitions": 2, "jit": False}
    app.replay(spark, first, **options)
    df = app.replay(spark, second, **options)
    wanted = expected(app, table)
    everything = spark.read.parquet(str(tmp_path / "state" / "outputs"))
    assert_run(wanted, app, everything, tmp_path / "state")
    assert df.agg(functions.min("seq")).first()[0] == half
    with pytest.raises(InputError, match="committed up to ts"):
        app.replay(spark, first, **options)
    assert_run(wanted, app, everything, tmp_path / "state")


def bad_log() -> pa.Table:
    table = meter_log(1000)
    amounts = table["amount"].to_pylist()
    events = table["event"].to_pylist()
    for row in (3, 500, 999):
        events[row], amounts[row] = "Reading", None
    events[77] = "Unknown"
    return table.set_column(3, "amount", pa.array(amounts)).set_column(1, "event", pa.array(events))


@pytest.mark.parametrize("plan", ["fused", "one_stage", "keyed"])
def test_bad_rows_are_kept_with_their_place_and_reason(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    table = bad_log()
    path = write_files(tmp_path / "log", table, files=2)
    df = meters.replay(spark, path, plan=plan, partitions=2, on_bad="reject", out=tmp_path / "out", jit=False)
    oracle = meters.run(table, engine="oracle", on_bad="reject")
    assert_outputs(Outcome(oracle.outputs), df)
    kept = pq.read_table(tmp_path / "out" / "_rejects").sort_by([("input", "ascending"), ("offset", "ascending")])
    assert kept.drop_columns(["data"]).to_pylist() == oracle.rejects.drop_columns(["data"]).to_pylist()
    assert replay_info(df).rejected == 4


@pytest.mark.parametrize("plan", ["fused", "one_stage", "keyed"])
def test_the_first_bad_row_stops_a_replay_and_leaves_nothing(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    path = write_files(tmp_path / "log", bad_log(), files=2)
    with pytest.raises(InputError, match=r"row 3\b"):
        meters.replay(spark, path, plan=plan, partitions=2, state=tmp_path / "state", jit=False)
    assert stored(meters, tmp_path / "state")["Meter"].num_rows == 0
    assert not list((tmp_path / "state" / "outputs").glob("*"))


def test_rows_out_of_order_in_a_file_are_bad_input(spark: SparkSession, tmp_path: Path) -> None:
    table = meter_log(600)
    path = write_files(
        tmp_path / "log", pa.concat_tables([table.slice(400), table.slice(0, 400)]), files=1, row_group=100
    )
    for plan in ("fused", "one_stage"):
        with pytest.raises(InputError, match="row 200"):
            meters.replay(spark, path, plan=plan, partitions=4, out=tmp_path / plan, jit=False)


def test_an_empty_log_gives_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "log", meter_log(10).slice(0, 0), files=1)
    for plan in ("fused", "one_stage", "keyed"):
        df = meters.replay(spark, path, plan=plan, out=tmp_path / plan, jit=False)
        assert df.columns == meters.program.output_schema.names
        assert outputs_of(df).num_rows == 0
        assert (tmp_path / plan / "_SUCCESS").exists()


def test_progress_adds_up_to_all_events(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "log", meter_log(2000), files=1)
    told: list[int] = []
    meters.replay(spark, path, out=tmp_path / "out", batch=100, jit=False, progress=told.append)
    assert sum(told) == 2000
    assert min(told) > 0
