"""The ledger benchmark end to end, on sizes that take no time."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

from mainstem.apps import ledger
from mainstem.bench import limit
from mainstem.bench.__main__ import cli

SMALL = ["ledger", "--events", "3000", "--oracle-events", "1000", "--repeats", "2", "--no-spark"]


def test_the_embedded_part_compares_all_contenders(tmp_path):
    result = CliRunner().invoke(cli, [*SMALL, "--json", str(tmp_path / "out.json")])
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "out.json").read_text())
    names = [(figure["name"], figure["events"]) for figure in report["figures"]]
    assert names == [
        ("oracle", 1000),
        ("app.run", 1000),
        ("hand-written loop", 1000),
        ("app.run", 3000),
        ("hand-written loop", 3000),
    ]
    assert [target["what"] for target in report["targets"]] == ["app.run / hand-written loop", "app.run / oracle"]
    assert report["disagreements"] == []


@pytest.mark.long
def test_the_spark_part_compares_all_contenders(tmp_path):
    from mainstem.bench import plain

    sizes = [*SMALL[:-1], "--replay-events", "40000", "--spark-repeats", "1", "--dir", str(tmp_path / "logs")]
    # A process of its own: the benchmark stops its Spark session, which other tests may share.
    command = [sys.executable, "-m", "mainstem.bench", *sizes, "--json", str(tmp_path / "out.json")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads((tmp_path / "out.json").read_text())
    names = {figure["name"] for figure in report["figures"] if figure["events"] == 10_000}
    assert names == {f"plain PySpark: {name}" for name in plain.VARIANTS}
    assert sum(figure["events"] == 40_000 for figure in report["figures"]) == 4
    assert [peak["events"] for peak in report["peak_bytes"]] == [10_000, 20_000, 40_000]
    assert len(list((tmp_path / "logs").iterdir())) == 3


def test_a_wrong_result_fails_the_command(monkeypatch):
    honest = limit.run

    def forgetful(columns, state, outcome):
        honest(columns, state, outcome)
        state.balances[0] += 1

    monkeypatch.setattr(limit, "run", forgetful)
    result = CliRunner().invoke(cli, SMALL)
    assert result.exit_code == 1
    assert "digests differ" in result.output


def test_the_hand_written_loop_conserves_money():
    events = ledger.generate(20_000)
    state, outcome = limit.Ledger.of(ledger.initial()), limit.Outcome.empty(20_000)
    limit.run(limit.arrays(events), state, outcome)
    deposited = events["amount"].to_numpy()[(outcome.code == limit.COMMITTED) & (limit.arrays(events)[0] == 0)].sum()
    assert state.balances.sum() == np.sum(ledger.initial()["Account"]["balance"].to_numpy()) + deposited
    assert state.balances.min() >= 0
