"""Windows on Spark: replays and live runs give what `app.run` gives, which is what the oracle gives."""

from __future__ import annotations

import datetime
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inputs_support import (
    SCHEMA,
    Handing,
    live_files,
    oracle,
    payments,
    plain,
    schedule,
    tables,
    write_pieces,
)  # fmt: skip
from live_support import Live
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from spark_support import outputs_of, stored, word_log, words

import mainstem as ms
from mainstem.app import App
from mainstem.errors import InputError, SparkError
from mainstem.spark import replay_info
from mainstem.testing import Outcome, assert_same

sys.path.insert(0, str(Path(__file__).parent.parent / "windows"))  # where windows_support.py is

import windows_support as generated

# Steps of folds travel to workers by value: workers do not have the tests' folder on their path.
cloudpickle.register_pickle_by_value(generated)

CHILD = Path(__file__).with_name("spark_child.py")
TIMEOUT_SECONDS = 300


def by_name(outcome: Outcome) -> Outcome:
    """Spark does not keep the order of functions of one event; their names tell rows apart."""
    return Outcome(outcome.outputs.sort_by([("seq", "ascending"), ("function", "ascending")]), outcome.state)


def one_log(given: list[pa.Table], folder: Path) -> list[str]:
    folder.mkdir(parents=True)
    paths = [str(folder / f"{number}.parquet") for number in range(len(given))]
    for table, path in zip(given, paths, strict=True):
        pq.write_table(table, path, row_group_size=16)
    return paths


def test_a_transaction_that_reads_windows_equals_the_oracle_in_run_replay_and_live(
    spark: SparkSession, tmp_path: Path
) -> None:
    """`Sent[e.src].count(last=…)` ends with the event, `spent[e.src]` is the last closed window; both decide."""
    given = tables(11, 60, bad=0.05)
    paths = one_log(given, tmp_path / "log")
    wanted, rejects = oracle(payments, given)
    reasons = set(wanted.outputs["reason"].to_pylist())
    assert {"more than 5 transfers lately", "far more than before", "busy", None} == reasons

    ran = payments.run(paths, on_bad="reject", jit=False, progress=None, batch=50)
    assert_same(wanted, Outcome(plain(ran.outputs), dict(payments.state)))

    replayed = payments.replay(
        spark, paths, on_bad="reject", jit=False, batch=50, state=tmp_path / "replayed", complete=True, progress=None
    )
    assert_same(by_name(wanted), Outcome(outputs_of(replayed), stored(payments, tmp_path / "replayed")))
    assert replay_info(replayed).events == sum(t.num_rows for t in given) - len(rejects)

    live = tmp_path / "live"
    pieces = schedule(11, given, 6)
    for first, stop in ((0, 3), (3, 4), (4, len(pieces))):  # the query ends and starts again
        write_pieces(live, pieces, first, stop)
        live_files(spark, live)
    run = Handing(live / "state", [])
    run.finish()
    assert_same(wanted, run.outcome())
    assert run.rejects() == rejects


def child(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(CHILD.parents[2]), os.environ.get("PYTHONPATH")]))
    quick = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for seconds need not optimise
    return subprocess.run(
        [sys.executable, str(CHILD), *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
        env={**os.environ, "PYTHONPATH": path, "MAINSTEM_JIT": "0", "JAVA_TOOL_OPTIONS": quick, **environment},
    )  # fmt: skip


def check_killed(spark: SparkSession, folder: Path, seed: int, crashes: list[str]) -> None:
    given = tables(seed, 20, bad=0.05)
    pieces = schedule(seed, given, 5)
    write_pieces(folder, pieces, 0, len(pieces))
    for crash in crashes:
        done = child("inputs", folder, MAINSTEM_CRASH=crash)
        assert done.returncode == -9, f"{crash} was not reached\n{done.stderr[-2000:]}"
    live_files(spark, folder)
    run = Handing(folder / "state", [])
    run.finish()
    wanted, rejects = oracle(payments, given)
    assert_same(wanted, run.outcome())
    assert run.rejects() == rejects


def test_a_driver_killed_after_a_commit_goes_on_with_what_waits(spark: SparkSession, tmp_path: Path) -> None:
    check_killed(spark, tmp_path, 5, ["commit.logged:3"])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(6))
def test_a_driver_killed_anywhere_goes_on_with_what_waits(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check_killed(spark, tmp_path, seed, ["output.stage.synced:2", "log.append.half:2", "output.publish.start:1"])


def generated_app(draw: random.Random, number: int) -> App:
    app = ms.App(f"generated_{number}")
    app.event(type("Tick", (), {"__annotations__": {"level": int}}))
    kinds: dict[str, Any] = {f.name: TYPES[f.type.base] for f in generated.READING.fields}
    reading = app.event(type("Reading", (), {"__annotations__": kinds}))
    for at in range(draw.randint(1, 3)):
        found = generated.random_window(draw, at)
        app.window(
            reading, size=found.size, advance=found.advance, by=[f.name for f in found.by], unit=found.unit,
            where=found.where, name=found.name, **dict(found.aggregates),
        )  # fmt: skip
    return app


TYPES = {"int": int, "str": str, "bool": bool, "float": float, "bytes": bytes, "datetime": datetime.datetime}


def check_generated(spark: SparkSession, folder: Path, seed: int) -> None:
    draw = random.Random(seed)
    app = generated_app(draw, seed)
    table = generated.table_of(generated.random_events(draw, 150))
    cut = draw.randint(0, table.num_rows)
    paths = [one_log([part], folder / name)[0] for name, part in (("a", table.slice(0, cut)), ("b", table.slice(cut)))]
    result = app.run(table, jit=False, progress=None)
    wanted = Outcome(plain(result.outputs), dict(app.state))
    plan = draw.choice(["fused", "one_stage"])
    options: dict[str, Any] = {"state": folder / "state", "plan": plan, "jit": False, "batch": 40, "progress": None}
    first = outputs_of(app.replay(spark, paths[0], **options))
    rest = outputs_of(app.replay(spark, paths[1], complete=True, **options))
    assert_same(wanted, Outcome(pa.concat_tables([first, rest]), stored(app, folder / "state")))


@pytest.mark.parametrize("seed", range(2))
def test_a_replay_that_goes_on_equals_one_run(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check_generated(spark, tmp_path, seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2, 60))
def test_many_replays_that_go_on_equal_one_run(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    check_generated(spark, tmp_path, seed)


def test_windows_of_one_live_input(spark: SparkSession, tmp_path: Path) -> None:
    given = tables(2, 80, inputs=1)[0]
    live = Live(spark, tmp_path, payments, given, files=4)
    done: list[int] = []
    live.go(progress=done.append)
    assert sum(done) == given.num_rows
    run = Handing(live.state, [])
    wanted, _ = oracle(payments, given, complete=False)
    assert_same(wanted, run.outcome())
    run.finish()
    assert_same(oracle(payments, given)[0], run.outcome())


LIMIT = 9
limited = ms.App("limited")


@limited.event
class Visit:
    user: int


visits = limited.window(Visit, size=10, by="user", name="visits", n=ms.count())


@limited.table(key=int)
class Warned:
    times: int = 0


@limited.on(visits)
def warn(e):  # type: ignore[no-untyped-def]
    if e.n > LIMIT:
        Warned[e.user].times += 1
        return {"times": Warned[e.user].times}
    return None


def visit_log(folder: Path) -> tuple[pa.Table, str]:
    table = pa.table({"ts": range(200), "user": [ts % 3 for ts in range(200)]})
    return table, one_log([table], folder)[0]


def test_auto_takes_one_task_and_says_why(spark: SparkSession, tmp_path: Path) -> None:
    table, path = visit_log(tmp_path / "log")
    wanted = by_name(oracle(limited, table)[0])
    why = "it has windows (visits), which close between events of one order, in one task"
    for events, plan in ((path, "fused"), (spark.read.parquet(path), "one_stage")):
        lazy = limited.replay(spark, events, jit=False, progress=None)
        assert replay_info(lazy).plan == plan
        assert why in replay_info(lazy).reason
        assert_same(Outcome(wanted.outputs), Outcome(outputs_of(lazy)))
    assert "because windows close between events of one order, in one task: visits" in limited.explain()


def test_plans_that_see_some_events_only_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    _, path = visit_log(tmp_path / "log")
    why = r"not possible for app limited: it has windows \(visits\), which close .*\n  use plan="
    for options in ({"plan": "mvps"}, {"plan": "keyed"}, {"between": (0, 5)}):
        with pytest.raises(SparkError, match=why):
            limited.replay(spark, path, progress=None, **options)
    stream = spark.readStream.schema("ts long, user long").parquet(str(tmp_path / "log"))
    places: dict[str, Any] = {"state": tmp_path / "state", "checkpoint": tmp_path / "checkpoint"}
    with pytest.raises(SparkError, match=why):
        limited.stream(spark, stream, plan="keyed", **places)


def test_variants_with_windows_are_replayed_one_by_one(spark: SparkSession, tmp_path: Path) -> None:
    table, path = visit_log(tmp_path / "log")
    apps = ms.variants(limited, LIMIT=[2, 3])
    replays = limited.replay(spark, path, variants=apps, out=tmp_path / "out", jit=False, progress=None)
    for app in apps:
        assert_same(Outcome(by_name(oracle(app, table)[0]).outputs), Outcome(outputs_of(replays[app.name])))
    assert replays.changes().count() > 0
    assert sorted(folder.name for folder in (tmp_path / "out").iterdir()) == ["v00", "v01"]
    with pytest.raises(InputError, match="variants have no state="):
        limited.replay(spark, path, variants=apps, state=tmp_path / "state", progress=None)


def test_inputs_by_event_type_and_heartbeats_through_spark(spark: SparkSession, tmp_path: Path) -> None:
    """Inputs have columns of their own, and one promises what the other needs."""
    transfers = pa.table({"ts": [1, 5, 9], "src": [1, 1, 2], "dst": [2, 2, 1], "amount": [3, 4, 5]})
    checks = pa.table({"ts": [3, 50], "account": [1, None], "note": ["a", None]})
    sources = {}
    for name, table in (("Transfer", transfers), ("Audit", checks)):
        path = tmp_path / name
        path.mkdir()
        pq.write_table(table, path / "0.parquet")
        sources[name] = spark.readStream.schema(spark.read.parquet(str(path)).schema).parquet(str(path))
    places: dict[str, Any] = {"state": tmp_path / "state", "checkpoint": tmp_path / "checkpoint"}
    payments.stream(spark, sources, jit=False, trigger={"availableNow": True}, **places).awaitTermination()
    wanted, _ = oracle(payments, {"Transfer": transfers, "Audit": checks.slice(0, 1)}, complete=False)
    assert_same(wanted, Handing(tmp_path / "state", []).outcome())


def test_derive_functions_of_several_inputs_run_in_tasks(spark: SparkSession, tmp_path: Path) -> None:
    """Two partitions of one input and one of the other; a bad row and a heartbeat among them."""
    given = [word_log(300, seed=1), word_log(200, seed=2)]
    nothing = {"ts": [999], "user": pa.nulls(1, pa.int64()), "text": pa.nulls(1, pa.string())}
    bad = {"ts": [200], "user": [1], "text": pa.nulls(1, pa.string())}
    given[1] = pa.concat_tables([given[1], pa.table(bad)])
    cut = given[0]["ts"].to_pylist().index(given[0]["ts"][150].as_py())  # Spark reads files in an order of its own
    halves = [given[0].slice(0, cut), given[0].slice(cut)]
    sources = []
    for number, parts in enumerate((halves, [pa.concat_tables([given[1], pa.table(nothing)])])):
        folder = tmp_path / f"in{number}"
        for part, table in zip("ab", parts, strict=False):
            one_log([table], folder / part)
        schema = "ts long, user long, text string"
        sources.append(spark.readStream.schema(schema).option("recursiveFileLookup", True).parquet(str(folder)))
    places: dict[str, Any] = {"state": tmp_path / "state", "checkpoint": tmp_path / "checkpoint"}
    options: dict[str, Any] = {"jit": False, "on_bad": "reject", "trigger": {"availableNow": True}}
    words.stream(spark, [sources[0].repartition(2, "ts"), sources[1]], **places, **options).awaitTermination()
    run = Handing(tmp_path / "state", [], app=words)
    run.finish()
    wanted, rejects = oracle(words, given)
    assert len(rejects) == 1
    assert_same(wanted, run.outcome())
    assert run.rejects() == rejects


def test_orders_of_several_inputs_that_make_no_sense_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "in"
    one_log([pa.Table.from_pylist([], schema=SCHEMA)], folder)
    source = spark.readStream.schema(spark.read.parquet(str(folder)).schema).parquet(str(folder))
    places: dict[str, Any] = {"state": tmp_path / "state", "checkpoint": tmp_path / "checkpoint"}
    for events, options, message in (
        ([source, source], {"order": "sorted"}, "order='sorted'"),
        ([source, source], {"idle": 0}, "idle=0: an input is silent for some time"),
        ([source, source], {"order": "batch", "idle": 1.0}, "no input waits for another"),
        (source, {"idle": 1.0}, "of one input no input waits for another"),
    ):
        with pytest.raises(InputError, match=message):
            payments.stream(spark, events, **places, **options)
