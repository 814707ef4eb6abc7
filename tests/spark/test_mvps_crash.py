"""Killed processes in staged replays: the driver in every kind of task and between epochs, workers and executors."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from mvps_support import mail, mail_log
from pyspark.sql import SparkSession
from spark_support import assert_run, expected, write_files

from mainstem.spark.manifest import Manifest

CHILD = Path(__file__).with_name("mvps_child.py")
TIMEOUT_SECONDS = 400
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # a JVM that lives for seconds need not optimise
KINDS = ("range", "wave1", "wave2", "wave3", "home")


def child(*arguments: object) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, [str(CHILD.parents[2]), os.environ.get("PYTHONPATH")]))
    return subprocess.run(
        [sys.executable, str(CHILD), *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_SECONDS,
        env={**os.environ, "PYTHONPATH": path, "MAINSTEM_JIT": "0", "JAVA_TOOL_OPTIONS": SHORT_LIVED},
    )  # fmt: skip


@pytest.mark.parametrize(
    "steps",
    [
        ["commit:2"],
        pytest.param([*(f"{kind}:1" for kind in KINDS), "commit:1", "wave2:3"], marks=pytest.mark.long),
    ],
    ids=["some", "all"],
)
def test_a_killed_driver_goes_on_behind_its_last_epoch(spark: SparkSession, tmp_path: Path, steps: list[str]) -> None:
    """Every run is killed, and the next one goes on; the last one is left alone."""
    table = mail_log()
    path = write_files(tmp_path / "log", table, files=2, row_group=130)
    committed = 0
    for step in steps:
        done = child("driver", tmp_path, step)
        assert done.returncode == -9, f"{step} was not reached\n{done.stderr[-2000:]}"
        manifest = Manifest.load(tmp_path / "state" / ".replay")
        assert manifest is not None
        assert manifest.done >= committed
        committed = manifest.done
    assert committed > 0
    df = mail.replay(
        spark, path, state=tmp_path / "state", plan="mvps", partitions=2, range_rows=120, epoch_rows=300, jit=False,
    )  # fmt: skip
    assert_run(expected(mail, table), mail, df, tmp_path / "state")


@pytest.mark.parametrize(
    "kinds", ["range,wave2+,home", pytest.param("+,".join(KINDS) + "+", marks=pytest.mark.long)], ids=["some", "all"]
)
def test_killed_workers_and_executors_change_nothing(tmp_path: Path, kinds: str) -> None:
    done = child("cluster", tmp_path, kinds)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("same") == 1
