"""Tables of a store as DataFrames: the right rows and types, of one version in every task."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live_support import NOW, Live
from pyspark.errors import AnalysisException
from spark_support import bank, bank_log, meter_log, meters
from spark_support import expected as oracle

import mainstem as ms
from mainstem.schema import Field, TableSchema, Type
from mainstem.spark import register
from mainstem.spark.datasource import MainstemSource
from mainstem.state import State
from mainstem.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVERYTHING = TableSchema(
    "Everything",
    (Type("str"), Type("int")),
    False,
    (
        Field("number", Type("int")),
        Field("share", Type("float")),
        Field("flag", Type("bool")),
        Field("text", Type("str")),
        Field("data", Type("bytes")),
        Field("seen", Type("datetime")),
        Field("last", Type("int", length=3)),
    ),
)
ACCOUNT = TableSchema("Account", (Type("int"),), True, (Field("balance", Type("int")),))
ROWS = 1_000


def account_rows(first: int, count: int, balance: int) -> pa.Table:
    keys = pa.array(range(first, first + count), pa.int64())
    return pa.table([keys, pa.array([balance] * count)], schema=ACCOUNT.arrow)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "bank", [ACCOUNT, EVERYTHING], durability="none") as store:
        store.commit({"Account": account_rows(0, ROWS, 1)}, {"ts": 10})
        yield store


def read(spark: SparkSession, store: Store, table: str = "Account", **options: Any) -> DataFrame:
    return spark.read.format("mainstem").options(path=str(store.path), table=table, **options).load()


def totals(df: DataFrame) -> tuple[int, int]:
    row = df.selectExpr("count(*) n", "sum(balance) s").collect()[0]
    return row["n"], row["s"]


def test_rows_are_those_of_ms_open_however_many_tasks_read(spark: SparkSession, store: Store) -> None:
    store.commit({"Account": account_rows(500, ROWS, 7)}, {"ts": 20})
    gone = account_rows(0, 10, 0).append_column("_deleted", pa.array([True] * 10))
    store.commit({"Account": gone}, {"ts": 30})
    with ms.open(store.path) as db:
        expected = db.table("Account")
    for partitions in (1, 3):
        df = read(spark, store, "account", partitions=partitions)
        rows = df.selectExpr("*", "spark_partition_id() task").toArrow()
        assert set(rows["task"].to_pylist()) == set(range(partitions))
        assert rows.sort_by("key").drop_columns("task").to_pylist() == expected.to_pylist()


def test_every_type(spark: SparkSession, store: Store) -> None:
    values = ["é", -1, 2**62, 0.5, True, "ß", b"\0\1", datetime.datetime(2024, 2, 29, 1, 2, 3, 4), [1, 2, 3]]
    columns = [pa.array([value], field.type) for value, field in zip(values, EVERYTHING.arrow, strict=True)]
    store.commit({"Everything": pa.table(columns, schema=EVERYTHING.arrow)}, {})
    row = read(spark, store, "Everything").collect()[0].asDict()
    row["data"] = bytes(row["data"])
    assert row == dict(zip(EVERYTHING.arrow.names, values, strict=True))


def test_a_frame_stays_at_the_version_that_it_was_loaded_with(spark: SparkSession, store: Store) -> None:
    store.commit({"Account": account_rows(0, ROWS, 2)}, {"ts": 20})
    second, first, by_ts = read(spark, store), read(spark, store, as_of_batch=1), read(spark, store, as_of_ts=19)
    store.commit({"Account": account_rows(ROWS, ROWS, 3)}, {"ts": 30})
    store.snapshot()
    assert totals(second) == (ROWS, 2 * ROWS)
    assert totals(first) == totals(by_ts) == (ROWS, ROWS)
    assert totals(read(spark, store)) == (2 * ROWS, 5 * ROWS)
    assert first.join(second, "key").count() == ROWS


def test_an_empty_table(spark: SparkSession, store: Store) -> None:
    df = read(spark, store, "Everything", partitions=2)
    assert df.count() == 0
    assert df.columns == EVERYTHING.arrow.names


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"table": "Nobody"}, "unknown table Nobody\n  tables of .*: Account, Everything"),
        ({"table": ""}, "needs the option 'table'"),
        ({"as_of_batch": "9"}, "keeps the versions after epoch 0 to 1, not 9"),
        ({"as_of_batch": "1", "as_of_ts": "1"}, "exclude each other"),
        ({"as_of_ts": "soon"}, "option 'as_of_ts' is 'soon'"),
        ({"asof": "1"}, "unknown option 'asof'"),
        ({"partitions": "0"}, "option 'partitions' is 0"),
        ({"path": "/nowhere/at/all"}, "is not a Mainstem directory"),
        ({"path": "s3://bucket/bank"}, "tasks can't open as a file"),
    ],
)
def test_wrong_options_say_what_to_do(store: Store, options: dict[str, str], message: str) -> None:
    with pytest.raises(ms.MainstemError, match=message):
        MainstemSource({"path": str(store.path), "table": "Account", **options})


def test_an_error_reaches_the_user(spark: SparkSession, store: Store) -> None:
    with pytest.raises(AnalysisException, match="unknown table Nobody"):
        read(spark, store, "Nobody")


def test_registering_twice_is_quiet(spark: SparkSession, store: Store) -> None:
    register(spark)
    assert totals(read(spark, store)) == (ROWS, ROWS)


@pytest.mark.parametrize("plan", ["one_stage", "keyed"])
def test_queries_while_a_stream_runs(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    """From the process of the stream: sums of whole batches, in order, and every change told once."""
    app, log, column = (bank, bank_log(900), "balance") if plan == "one_stage" else (meters, meter_log(900), "count")
    live = Live(spark, tmp_path, app, log, files=5)
    sizes = [pq.read_metadata(file).num_rows for file in sorted((tmp_path / "log").glob("*.parquet"))]
    table = app.program.tables[0].name
    wanted = [sum(oracle(app, log.slice(0, end)).state[table][column].to_pylist()) for end in accumulate([0, *sizes])]
    options = {"state": live.state, "checkpoint": live.checkpoint, "trigger": NOW, "jit": False, "plan": plan}
    query = app.stream(spark, live.source(), **options, partitions=2)
    with ms.open(live.state) as db:
        seen, watching = [], db.watch(table, since=0, timeout=0)
        while query.isActive:
            answer = db.sql(f"select coalesce(sum({column}), 0)::bigint s from {table}")
            seen.append((answer.to_pylist()[0]["s"], db.epoch))
        query.awaitTermination()
        assert {total for total, _ in seen} <= set(wanted)
        assert [epoch for _, epoch in seen] == sorted(epoch for _, epoch in seen)
        state = State({table: app.program.tables[0]})
        for change in watching:
            state.apply(table, change[table])
        assert db.table(table).equals(state.export()[table])
        df = spark.read.format("mainstem").options(path=str(live.state), table=table).load()
        assert df.selectExpr(f"sum({column}) s").collect()[0]["s"] == wanted[-1]
