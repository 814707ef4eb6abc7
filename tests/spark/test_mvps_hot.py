"""Hot keys of a staged replay on Spark: split over tasks, with the result of one."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark_support import assert_run, expected, write_files

import mainstem as ms
from mainstem.app import App
from mainstem.replay import hot
from mainstem.spark import replay_info

SMALL = {"range_rows": 150, "epoch_rows": 600, "jit": False, "plan": "mvps"}

visits = ms.App("visits")
"""Two stages by key, one after the other; the rows of both can be summed up."""


@visits.event
class Visit:
    page: str
    user: int
    seconds: int


@visits.table(key=str)
class Page:
    visits: int = 0
    longest: int = 0
    last: int = -1


@visits.table(key=int)
class User:
    popular: int = 0
    visits: int = 0


@visits.on(Visit)
def visit(e):
    ms.require(e.seconds >= 0, "negative time")
    page = Page[e.page]
    page.visits += 1
    page.longest = max(page.longest, e.seconds)
    page.last = e.user
    user = User[e.user]
    user.visits += 1
    if page.visits > 100:
        user.popular += 1
    return {"visits": page.visits, "longest": page.longest, "popular": user.popular}


def visits_log(rows: int = 1_500, share: float = 0.7) -> pa.Table:
    draw = np.random.default_rng(3)
    pages = np.where(draw.random(rows) < share, 0, draw.integers(1, 60, rows))
    users = np.where(draw.random(rows) < share, 5, draw.integers(10, 90, rows))
    columns = {"ts": np.arange(rows), "page": [f"/seite {n}" for n in pages], "user": users}
    return pa.table({**columns, "seconds": draw.integers(-3, 200, rows), "event": ["Visit"] * rows})


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also logs as short as those of tests."""
    monkeypatch.setattr(hot, "Policy", lambda: POLICY)


POLICY = hot.Policy(enabled=True, imbalance=1.0, items_min=0)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("partitions", [2, 4])
def test_hot_keys_are_split_and_nothing_changes(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    table = visits_log()
    path = write_files(tmp_path / "log", table, files=2, row_group=150)
    df = visits.replay(spark, path, state=tmp_path / "state", partitions=partitions, **SMALL)
    assert_run(expected(visits, table), visits, df, tmp_path / "state")
    info = replay_info(df)
    split = {(key.tables, key.key): key.split for key in info.hot_keys}
    assert split["Page", ("/seite 0",)] == split["User", (5,)] == 1.0
    assert [balance.tables for balance in info.balance] == ["Page", "User"]
    assert all(balance.actual < balance.unsplit - 0.1 for balance in info.balance)


@pytest.mark.usefixtures("eager")
def test_a_wave_runs_again_when_parts_do_not_meet(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A sum that overflows on the way aborts a transaction; totals know nothing of it."""
    big = 2**62
    amounts = [big, big - 1, *[0] * 400, 5, -big, *[0] * 800]
    rows = len(amounts)
    table = pa.table({"ts": range(rows), "key": [1] * rows, "by": amounts, "event": ["Add"] * rows})
    path = write_files(tmp_path / "log", table, files=1, row_group=150)
    app = sums()
    df = app.replay(spark, path, state=tmp_path / "state", partitions=2, **SMALL)
    assert_run(expected(app, table), app, df, tmp_path / "state")
    assert "runs again without splitting hot keys" in caplog.text
    (key,) = replay_info(df).hot_keys
    assert not key.split and "depends on their rows" in key.why


def sums() -> App:
    app = ms.App("sums")

    @app.event
    class Add:
        key: int
        by: int

    @app.table(key=int)
    class Sum:
        total: int = 0

    @app.on(Add)
    def add(e):
        Sum[e.key].total += e.by
        return {"total": Sum[e.key].total}

    return app


def test_short_logs_are_not_split(spark: SparkSession, tmp_path: Path) -> None:
    path = write_files(tmp_path / "log", visits_log(600), files=1, row_group=150)
    info = replay_info(visits.replay(spark, path, out=tmp_path / "out", partitions=2, **SMALL))
    assert {key.why for key in info.hot_keys} == {"there are too few accesses to gain by it"}
    assert all(balance.actual == balance.unsplit for balance in info.balance)
