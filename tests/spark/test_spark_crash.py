"""Killed processes: a driver at named steps of a live run, workers and executors during replays."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from spark_support import assert_run, bank, bank_log, expected, meter_log, meters, write_files

CHILD = Path(__file__).with_name("spark_child.py")
TIMEOUT_SECONDS = 300
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for seconds need not optimise


def child(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    root = str(CHILD.parents[2])
    path = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(CHILD), *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
        env={**os.environ, "PYTHONPATH": path, "MAINSTEM_JIT": "0", "JAVA_TOOL_OPTIONS": SHORT_LIVED, **environment},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "crashes"),
    [
        # In the commit.
        ("one_stage", ["log.append.half:2"]),
        # Before the commit, right after it, and while outputs are published; in a worker on its shard.
        pytest.param(
            "one_stage",
            ["output.stage.synced:2", "commit.logged:2", "output.publish.renamed:2"],
            marks=pytest.mark.long,
        ),
        pytest.param(
            "keyed", ["shard.half:2", "output.publish.start:2", "worker shard.half:1"], marks=pytest.mark.long
        ),
    ],
)
def test_a_driver_killed_on_its_way_resumes_exactly_once(
    spark: SparkSession, tmp_path: Path, plan: str, crashes: list[str]
) -> None:
    """Every run is killed in its second batch and the next one goes on; the last one is left alone."""
    app, table = (meters, meter_log(2400)) if plan == "keyed" else (bank, bank_log(2400))
    write_files(tmp_path / "log", table, files=8, ties=False)
    for crash in crashes:
        where, _, step = crash.rpartition(" ")
        done = child("stream", plan, tmp_path, MAINSTEM_CRASH=step)
        if where == "worker":  # Spark gives up on the task, and the driver ends with that error
            assert done.returncode > 0, f"{crash} was not reached\n{done.stderr[-2000:]}"
            assert "Python worker exited unexpectedly" in done.stderr, done.stderr[-2000:]
        else:
            assert done.returncode == -9, f"{crash} was not reached\n{done.stderr[-2000:]}"
    done = child("stream", plan, tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    outputs = spark.read.parquet(str(tmp_path / "state" / "outputs"))
    assert_run(expected(app, table), app, outputs, tmp_path / "state")


@pytest.mark.long
def test_killed_workers_and_executors_change_nothing(tmp_path: Path) -> None:
    done = child("cluster", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("same:") == 3
