"""Staged replay: real Spark jobs agree with the oracle, whatever is cut, killed, restarted or resumed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from mvps_support import answers, answers_log, growth, growth_log, mail, mail_log, market, market_log
from pyspark.sql import SparkSession
from spark_support import assert_outputs, assert_run, expected, outputs_of, stored, write_files

from mainstem import store
from mainstem.app import App
from mainstem.errors import InputError, SparkError
from mainstem.lang import dataflow
from mainstem.spark import mvps, replay, replay_info, target
from mainstem.spark.manifest import Manifest
from mainstem.spark.mvps_tasks import Done
from mainstem.spark.plan import choose
from mainstem.spark.sampling import derive_ns
from mainstem.spark.schedule import Cell, Schedule
from mainstem.spark.sources import sources_of
from mainstem.testing import Outcome

SMALL = {"range_rows": 120, "epoch_rows": 300, "jit": False, "plan": "mvps"}
"""A log of 900 rows in about three epochs of three ranges."""

LOGS: dict[str, tuple[App, Callable[..., pa.Table]]] = {"mail": (mail, mail_log), "market": (market, market_log)}


@pytest.mark.parametrize("partitions", [1, 2, 4])
@pytest.mark.parametrize("name", LOGS)
def test_stages_give_the_result_of_the_serial_run(
    spark: SparkSession, tmp_path: Path, name: str, partitions: int
) -> None:
    app, log = LOGS[name]
    table = log()
    path = write_files(tmp_path / "log", table, files=2, row_group=130)
    df = app.replay(spark, path, state=tmp_path / "state", partitions=partitions, **SMALL)
    wanted = expected(app, table)
    assert_run(wanted, app, df, tmp_path / "state")
    info = replay_info(df)
    assert (info.plan, info.events, info.rejected) == ("mvps", table.num_rows, 0)
    assert info.transactions == wanted.outputs.num_rows
    assert info.aborted == wanted.outputs["status"].to_pylist().count("aborted")
    assert info.waves == (3 if app is mail else 2)
    assert not (tmp_path / "state" / ".replay").exists()


def test_a_replay_goes_on_from_the_stored_state(spark: SparkSession, tmp_path: Path) -> None:
    """Also rows that the second half deletes must be gone."""
    table = mail_log()
    half = int(np.searchsorted(table["ts"].to_numpy(), table["ts"][450].as_py()))
    first = write_files(tmp_path / "first", table.slice(0, half), files=1)
    second = write_files(tmp_path / "second", table.slice(half), files=1)
    initial = {"Sender": pa.table({"key": [3, 500], "sent": [7, 1], "mark": [2, 2]})}
    options = {**SMALL, "state": tmp_path / "state", "partitions": 2}
    mail.replay(spark, first, initial=initial, **options)
    mail.replay(spark, second, **options)
    everything = spark.read.parquet(str(tmp_path / "state" / "outputs"))
    assert_run(expected(mail, table, initial=initial), mail, everything, tmp_path / "state")
    with pytest.raises(InputError, match="committed up to ts"):
        mail.replay(spark, first, **options)


def test_text_frames_and_bad_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Inputs that can't be cut are spooled; rejected rows keep the places that they have in the originals."""
    table = mail_log(500)
    hosts = table["host"].to_pylist()
    senders: list[int | None] = table["sender"].to_pylist()
    senders[100] = senders[333] = None
    table = table.set_column(2, "sender", pa.array(senders)).set_column(3, "host", pa.array(hosts))
    path, csv = write_files(tmp_path / "log", table, files=1, row_group=80), tmp_path / "b.csv"
    pa.csv.write_csv(table, csv)
    frame = spark.read.parquet(path).coalesce(1)
    oracle = mail.run([path, str(csv), path], engine="oracle", on_bad="reject")
    df = mail.replay(spark, [path, csv, frame], out=tmp_path / "out", on_bad="reject", partitions=2, **SMALL)
    assert_outputs(Outcome(oracle.outputs), df)
    kept = pq.read_table(tmp_path / "out" / "_rejects").sort_by([("input", "ascending"), ("offset", "ascending")])
    assert kept.drop_columns(["data"]).to_pylist() == oracle.rejects.drop_columns(["data"]).to_pylist()
    assert replay_info(df).rejected == oracle.rejects.num_rows > 0
    assert (tmp_path / "out" / "_SUCCESS").exists()


def test_a_part_of_the_log_without_a_folder(spark: SparkSession, tmp_path: Path) -> None:
    table = mail_log()
    path = write_files(tmp_path / "log", table, files=2, row_group=130)
    ts = table["ts"].to_numpy()
    part = table.filter(pa.array((ts >= 100) & (ts < 300)))
    told: list[int] = []
    df = mail.replay(spark, path, between=(100, 300), partitions=2, progress=told.append, jit=False, range_rows=60)
    assert_outputs(expected(mail, part), df)
    assert "between=" in replay_info(df).reason
    assert sum(told) == part.num_rows


def test_an_empty_log(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "log", mail_log(10).slice(0, 0), files=1)
    df = mail.replay(spark, path, out=tmp_path / "out", **SMALL)
    assert outputs_of(df).num_rows == 0
    assert (tmp_path / "out" / "_SUCCESS").exists()


@pytest.mark.parametrize(("app", "table", "who"), [
    (growth, growth_log(), "function grow of event Grow"),
    (answers, answers_log(), "function ask of event Ask"),
], ids=["in a wave", "at home"])  # fmt: skip
def test_an_overflow_starts_the_replay_again(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, app: App, table: pa.Table, who: str
) -> None:
    """It comes in a later epoch, when the outputs of earlier ones are written already."""
    path = write_files(tmp_path / "log", table, files=1, row_group=50)
    with caplog.at_level(logging.WARNING, "mainstem.spark"):
        df = app.replay(
            spark, path, state=tmp_path / "state", partitions=2, plan="mvps", range_rows=50, epoch_rows=50, jit=False
        )
    assert_run(expected(app, table), app, df, tmp_path / "state")
    assert f"{who} aborted with 'integer overflow'" in caplog.text
    assert "started again" in replay_info(df).reason
    assert not list((tmp_path / "state" / "outputs").glob(".*"))


def test_the_first_bad_row_stops_a_replay_and_leaves_nothing(spark: SparkSession, tmp_path: Path) -> None:
    table = mail_log(400)
    senders = table["sender"].to_pylist()
    senders[350] = None
    path = write_files(tmp_path / "log", table.set_column(2, "sender", pa.array(senders)), files=1, row_group=100)
    with pytest.raises(InputError, match=r"row 350\b"):
        mail.replay(spark, path, state=tmp_path / "state", **SMALL)
    assert all(rows.num_rows == 0 for rows in stored(mail, tmp_path / "state").values())
    assert not list((tmp_path / "state" / "outputs").glob("*.parquet"))


class Stopped(Exception):
    pass


def stop_at(monkeypatch: pytest.MonkeyPatch, cell: Cell | None) -> list[Cell]:
    """Jobs that end from now on; the driver is stopped when that of `cell` has."""
    seen: list[Cell] = []
    take = mvps.Driver._take

    def taken(self: mvps.Driver, done_cell: Cell, done: Sequence[Done]) -> None:
        if done_cell == cell:
            raise Stopped
        seen.append(done_cell)
        take(self, done_cell, done)

    monkeypatch.setattr(mvps.Driver, "_take", taken)
    return seen


def epochs_done(folder: Path) -> int:
    manifest = Manifest.load(folder / ".replay")
    return 0 if manifest is None else manifest.done


def test_a_stopped_replay_goes_on_behind_its_last_epoch(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after each kind of job, of ever later epochs; then in the middle of publishing."""
    table = mail_log()
    path = write_files(tmp_path / "log", table, files=2, row_group=130)
    run = lambda: mail.replay(spark, path, out=tmp_path / "out", partitions=2, **SMALL)
    for cell in (Cell(0, 0), Cell(0, 4), Cell(1, 1), Cell(2, 4)):
        with monkeypatch.context() as patch:
            seen, committed = stop_at(patch, cell), epochs_done(tmp_path / "out")
            with pytest.raises(Stopped):
                run()
            assert all(done.epoch >= committed for done in seen)
        assert not list((tmp_path / "out").glob("*.parquet"))
    assert epochs_done(tmp_path / "out") == 2
    published: list[str] = []
    with monkeypatch.context() as patch:

        def publish(folder: Path, staged: str) -> Any:
            if len(published) == 2:
                raise Stopped
            published.append(staged)
            return store.publish(folder, staged)

        patch.setattr(target, "publish", publish)
        with pytest.raises(Stopped):
            run()
    seen = stop_at(monkeypatch, None)
    df = run()
    assert not seen
    assert_outputs(expected(mail, table), df)
    assert_outputs(expected(mail, table), spark.read.parquet(str(tmp_path / "out")))
    assert sorted(entry.name for entry in (tmp_path / "out").iterdir() if entry.name.startswith(".")) == []


def test_an_interrupted_replay_is_not_mixed_with_another(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = mail_log()
    path = write_files(tmp_path / "log", table, files=2, row_group=130)
    options: dict[str, Any] = {"out": tmp_path / "out", **SMALL}
    with monkeypatch.context() as patch:
        stop_at(patch, Cell(1, 4))
        with pytest.raises(Stopped):
            mail.replay(spark, path, partitions=2, **options)
    with pytest.raises(InputError, match=r"partitions=3, but .* has partitions=2"):
        mail.replay(spark, path, partitions=3, **options)
    with pytest.raises(InputError, match=r"interrupted replay, but between= has changed since\n  pass resume=False"):
        mail.replay(spark, path, between=(0, 100), **options)
    other = write_files(tmp_path / "other", mail_log(seed=1), files=2, row_group=130)
    with pytest.raises(InputError, match="the log has changed"):
        mail.replay(spark, other, **options)
    df = mail.replay(spark, other, resume=False, **options)
    assert_outputs(expected(mail, mail_log(seed=1)), df)
    with pytest.raises(InputError, match="no interrupted replay"):
        mail.replay(spark, other, resume=True, **{**options, "out": tmp_path / "new"})


def test_auto_and_options_of_other_plans(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "log", mail_log(100), files=1)
    df = mail.replay(spark, path, out=tmp_path / "out", partitions=2, jit=False)
    info = replay_info(df)
    assert (info.plan, info.waves) == ("mvps", 3)
    assert "3 of 3 stages run in 2 shards" in info.reason
    assert info.stages[1] == "wave 2: Host, by key"
    assert replay_info(mail.replay(spark, path, partitions=1, jit=False)).plan != "mvps"
    with pytest.raises(SparkError, match=r"between= is for plan='mvps'"):
        mail.replay(spark, path, plan="fused", between=(0, 5))
    with pytest.raises(SparkError, match=r"only app\.replay knows"):
        replay(mail.program, spark, path, plan="mvps")


@pytest.mark.parametrize(
    ("cost", "partitions", "plan"),
    [(100, 2, "fused"), (400, 2, "fused"), (600, 2, "mvps"), (400, 3, "mvps"), (100, 8, "mvps"), (5_000, 8, "mvps")],
)
def test_auto_weighs_derive_functions_against_moving_events(
    spark: SparkSession, tmp_path: Path, cost: float, partitions: int, plan: str
) -> None:
    sources = sources_of(write_files(tmp_path / "log", mail_log(100), files=1), mail.program.events, streaming=False)
    flow = dataflow(mail.spec)
    choice = choose(mail.program, sources, "auto", partitions, flow, derive_ns=lambda: cost)
    assert (choice.plan, "derive functions" in choice.reason) == (plan, True)


def test_derive_functions_are_measured_on_the_first_events(tmp_path: Path) -> None:
    path = write_files(tmp_path / "log", mail_log(100), files=1)
    assert derive_ns(mail.program, path) > 0
    assert derive_ns(mail.program, tmp_path / "nothing") == 0


@pytest.mark.parametrize("first", [0, 2])
def test_jobs_start_when_what_they_need_is_there(first: int) -> None:
    """All orders in which jobs can end keep the rules of the page."""
    random = np.random.default_rng(first)
    for waves in (0, 1, 3):
        schedule = Schedule(6, waves, first=first, ahead=3)
        running: list[Cell] = []
        done: set[Cell] = {Cell(e, s) for e in range(first) for s in range(waves + 2)}
        committed = list(range(first))
        while not schedule.finished:
            for cell in schedule.start_ready():
                assert cell.epoch < len(committed) + 3
                assert cell.step == 0 or Cell(cell.epoch, cell.step - 1) in done
                if 0 < cell.step <= waves and cell.epoch:
                    assert Cell(cell.epoch - 1, cell.step) in done
                if cell.step == waves + 1:
                    assert all(Cell(epoch, 0) in done for epoch in range(cell.epoch))
                running.append(cell)
            ended = running.pop(int(random.integers(len(running))))
            done.add(ended)
            committed += schedule.done(ended)
        assert committed == list(range(6))
        assert len(done) == 6 * (waves + 2)
