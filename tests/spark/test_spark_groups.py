"""Transaction groups on Spark: every plan, live runs and variants give the oracle's result."""

# mypy: ignore-errors

from __future__ import annotations

from pathlib import Path

import pytest
from live_support import Live
from pyspark.sql import SparkSession
from spark_support import assert_outputs, assert_run, bank_log, expected, write_files

import mainstem as ms

LIMIT = 40
groups = ms.App("groups")
"""Counts by payer, then books by payer and by payee: stages with keys of their own."""


@groups.event
class Transfer:
    source: int
    target: int
    amount: int


@groups.table(key=int)
class Counted:
    transfers: int = 0


@groups.table(key=int)
class Received:
    total: int = 0
    last: int = -1


with groups.atomic(Transfer, name="transfer"):

    @groups.on(Transfer)
    def count(e):
        Counted[e.source].transfers += 1
        if Counted[e.source].transfers > LIMIT:
            return {"limited": True}
        return None

    @groups.on(Transfer)
    def receive(e):
        ms.require(e.amount != 13, "unlucky")
        if e.amount > 50:
            return None
        Received[e.target].total += e.amount + Counted[e.source].transfers % 2
        Received[e.target].last = e.source
        return {"amount": e.amount}


@pytest.mark.parametrize("plan", ["fused", "one_stage", "mvps"])
def test_replay(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    table = bank_log(1500)
    wanted = expected(groups, table)
    assert {True, None} == set(wanted.outputs["limited"].to_pylist())
    path = write_files(tmp_path / "log", table, files=3)
    df = groups.replay(spark, path, plan=plan, batch=400, jit=False, state=tmp_path / "state")
    assert_run(wanted, groups, df, tmp_path / "state")


def test_live(spark: SparkSession, tmp_path: Path) -> None:
    live = Live(spark, tmp_path, groups, bank_log(900), files=3)
    live.go()
    assert_run(expected(groups, live.table), groups, live.outputs(), live.state)


def test_variants(spark: SparkSession, tmp_path: Path) -> None:
    table = bank_log(600)
    path = write_files(tmp_path / "log", table, files=2)
    apps = ms.variants(groups, LIMIT=[3, 1000])
    replays = groups.replay(spark, path, variants=apps, jit=False)
    limited = []
    for app in apps:
        wanted = expected(app, table)
        assert_outputs(wanted, replays[app.name])
        limited.append(wanted.outputs["limited"].to_pylist().count(True))
    assert limited[0] > 0 == limited[1]
