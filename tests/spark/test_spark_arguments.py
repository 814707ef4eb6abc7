"""Every argument that can't work is refused before a job runs, with what to pass instead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark_support import bank, bank_log, meter_log, meters, write_files

import mainstem as ms
from mainstem.errors import InputError, MainstemError, ProgramError, SparkError
from mainstem.spark import replay_info


class ConnectSession:
    """Looks like a session of Spark Connect: Mainstem goes by the module of its class."""

    __module__ = "pyspark.sql.connect.session"


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_files(tmp_path_factory.mktemp("arguments") / "log", bank_log(50), files=1)


REPLAY: list[tuple[dict[str, Any], type[MainstemError], str]] = [
    ({"plan": "fast"}, SparkError, "no plan 'fast'\n  use one of auto, fused, one_stage, keyed"),
    ({"plan": "keyed"}, SparkError, "more than one key"),
    ({"batch": 0}, InputError, "batch=0\n  pass a positive number"),
    ({"batch": "many"}, InputError, "batch='many'"),
    ({"partitions": True}, InputError, "partitions=True"),
    ({"partitions": -2}, InputError, "partitions=-2"),
    ({"on_bad": "ignore"}, InputError, "on_bad is 'ignore'"),
    ({"on_bad": "reject"}, InputError, "pass out= or state="),
    ({"out": "s3a://bucket/out"}, InputError, "out= is s3a://bucket/out"),
    ({"state": 5}, InputError, "state=5\n  pass the path of a folder"),
    ({"initial": [1]}, InputError, "initial is list"),
    ({"initial": {"Nobody": pa.table({"key": [1]})}}, InputError, "no table 'Nobody'"),
    ({"initial": {"Account": pa.table({"key": [1]})}}, InputError, "Account.balance is missing"),
    ({"progress": 3}, InputError, "progress=3"),
]


@pytest.mark.parametrize(("options", "kind", "message"), REPLAY)
def test_replay_refuses(
    spark: SparkSession, log: str, options: dict[str, Any], kind: type[MainstemError], message: str
) -> None:
    with pytest.raises(kind) as caught:
        bank.replay(spark, log, **options)
    assert message in str(caught.value)


INPUTS: list[tuple[Callable[[SparkSession, str], Any], str]] = [
    (lambda spark, log: bank_log(5), "spark.createDataFrame(table)"),
    (lambda spark, log: [], "there is no input"),
    (lambda spark, log: 17, "input 0 is int"),
    (lambda spark, log: [log, None], "input 1 is NoneType"),
    (lambda spark, log: log + "/nothing", "does not exist"),
    (lambda spark, log: "hdfs://host/log", "read it with spark.read and pass the DataFrame"),
    (lambda spark, log: {"Deposit": log}, "no event type of this app"),
    (lambda spark, log: spark.readStream.schema("ts long").parquet(log), "use app.stream"),
    (lambda spark, log: spark.read.parquet(log).drop("amount"), "amount"),
    (lambda spark, log: spark.read.parquet(log).drop("ts"), "'ts'"),
]


@pytest.mark.parametrize(("make", "message"), INPUTS)
def test_replay_refuses_inputs(
    spark: SparkSession, log: str, make: Callable[[SparkSession, str], Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        bank.replay(spark, make(spark, log), jit=False)
    assert message in str(caught.value)


def test_a_frame_of_several_event_types_needs_their_names(spark: SparkSession) -> None:
    df = spark.createDataFrame(meter_log(10).drop_columns(["event"]))
    with pytest.raises(InputError, match="event"):
        meters.replay(spark, df, jit=False)


def test_fused_reads_files_only(spark: SparkSession, log: str) -> None:
    with pytest.raises(SparkError, match=r"input 1 is a DataFrame\n  pass its path"):
        bank.replay(spark, [log, spark.read.parquet(log)], plan="fused")


def test_a_folder_with_files_is_not_overwritten(spark: SparkSession, log: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(InputError, match="is not an empty folder"):
        bank.replay(spark, log, out=tmp_path, jit=False)
    with pytest.raises(InputError, match="is not an empty folder"):
        bank.replay(spark, log, out=tmp_path, state=tmp_path.with_name("state"), jit=False)
    source = spark.readStream.schema(spark.read.parquet(log).schema).parquet(log)
    places = {"state": tmp_path.with_name("state"), "checkpoint": tmp_path.with_name("checkpoint")}
    with pytest.raises(InputError, match="is not an empty folder"):
        bank.stream(spark, source, out=tmp_path, jit=False, **places)
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_the_session_must_be_a_classic_one(log: str) -> None:
    for session in (ConnectSession(), None, "local[2]"):
        with pytest.raises(SparkError, match="Classic only" if isinstance(session, ConnectSession) else "SparkSession"):
            bank.replay(session, log)  # type: ignore[arg-type]
        with pytest.raises(SparkError):
            bank.stream(session, None, state="state", checkpoint="checkpoint")  # type: ignore[arg-type]


def test_a_program_that_can_not_be_compiled_is_refused(spark: SparkSession, log: str) -> None:
    odd = ms.App("odd")

    @odd.event
    class Ping:
        n: int

    @odd.on(Ping)
    def ping(e):
        return {"text": "".join(["a", "b"])}

    if odd.program.compiled:
        pytest.fail("this program was meant to be beyond the compiler: find another one")
    with pytest.raises(ProgramError, match="can't run on Spark"):
        odd.replay(spark, log)


STREAM: list[tuple[dict[str, Any], type[MainstemError], str]] = [
    ({"state": None}, InputError, "state is None"),
    ({"checkpoint": None}, InputError, "checkpoint=None"),
    ({"checkpoint": "/tmp/my checkpoint"}, InputError, "has a space"),
    ({"checkpoint": "same", "state": "same"}, InputError, "give each its own"),
    ({"plan": "fused"}, SparkError, "no plan 'fused' for a live run"),
    ({"plan": "keyed"}, SparkError, "more than one key"),
    ({"trigger": "availableNow"}, InputError, "trigger='availableNow'"),
    ({"on_bad": "drop"}, InputError, "on_bad is 'drop'"),
    ({"partitions": 0}, InputError, "partitions=0"),
    ({"out": 7}, InputError, "out=7"),
]


@pytest.mark.parametrize(("options", "kind", "message"), STREAM)
def test_stream_refuses(
    spark: SparkSession, log: str, tmp_path: Path, options: dict[str, Any], kind: type[MainstemError], message: str
) -> None:
    source = spark.readStream.schema(spark.read.parquet(log).schema).parquet(log)
    given = {"state": tmp_path / "state", "checkpoint": tmp_path / "checkpoint", **options}
    with pytest.raises(kind) as caught:
        bank.stream(spark, source, **given)
    assert message in str(caught.value)
    assert not (tmp_path / "state").exists()


def test_stream_wants_streams(spark: SparkSession, log: str, tmp_path: Path) -> None:
    places = {"state": tmp_path / "state", "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(InputError, match=r"use app\.replay"):
        bank.stream(spark, spark.read.parquet(log), **places)
    with pytest.raises(InputError, match="give a streaming DataFrame"):
        bank.stream(spark, log, **places)  # type: ignore[arg-type]
    reader = spark.readStream
    text, number = (
        reader.schema(f"ts long, source {kind}, target long, amount long").parquet(log) for kind in ("string", "long")
    )
    with pytest.raises(InputError, match=r"'source' is string in input 0 and bigint in input 1"):
        bank.stream(spark, [text, number], **places)


def test_replay_info_is_of_replays_only(spark: SparkSession) -> None:
    with pytest.raises(InputError, match="does not come from replay"):
        replay_info(spark.range(1))
