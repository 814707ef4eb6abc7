"""Histories on Spark: every plan gives the oracle's windows, and the durable state holds the same rings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from spark_support import assert_run, expected, write_files

import mainstem as ms

logins = ms.App("logins")


@logins.event
class Login:
    user: str
    city: str
    ok: bool


@logins.history(key=str, keep=8)
class Logins:
    city: str
    ok: bool


@logins.on(Login)
def login(e):
    recent = Logins[e.user]
    recent.append(city=e.city, ok=e.ok)
    good = recent.sum("ok", last=50)
    ms.require(good > 0 or recent.count(last=50) < 4, "locked")
    return {"good": good, "cities": recent.distinct("city", last=50), "home": recent.top("city")}


def login_log(rows: int = 1500) -> pa.Table:
    random = np.random.default_rng(0)
    return pa.table(
        {
            "ts": np.sort(random.integers(0, 9 * rows, rows)),
            "user": [f"u{k}" for k in random.zipf(1.6, rows) % 97],
            "city": [("Ulm", "Köln", "Rom")[k] for k in random.integers(0, 3, rows)],
            "ok": random.random(rows) < 0.4,
        }
    )


@pytest.mark.parametrize(("plan", "partitions"), [("fused", 1), ("one_stage", 2), ("keyed", 3)])
def test_replay_equals_the_oracle(spark: SparkSession, tmp_path: Path, plan: str, partitions: int) -> None:
    table = login_log()
    path = write_files(tmp_path / "log", table, files=3)
    wanted = expected(logins, table)
    assert set(wanted.outputs["reason"].to_pylist()) == {
        None, "locked", "history of Logins is full: keep more than 8 entries"
    }  # fmt: skip
    df = logins.replay(spark, path, state=tmp_path / "state", plan=plan, partitions=partitions, batch=300, jit=False)
    assert_run(wanted, logins, df, tmp_path / "state")
