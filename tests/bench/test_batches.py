"""The `batches` benchmark: memory of an executor over many batches."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from mainstem.bench import batches
from mainstem.bench.__main__ import cli
from mainstem.bench.batches import Growth, Options


def test_each_strategy_has_a_process_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MAINSTEM_JIT", "0")  # for the processes: nothing to compile
    sizes = ["--batches", "5", "--batch", "20", "--every", "2", "--app", "TP"]
    ways = ["--strategy", "serial", "--strategy", "components"]
    done = CliRunner().invoke(cli, ["batches", *sizes, *ways, "--json", str(tmp_path / "out.json")])
    assert done.exit_code == 0, done.output
    assert "growth" in done.output
    report = json.loads((tmp_path / "out.json").read_text())
    assert [figure["strategy"] for figure in report["figures"]] == ["serial", "components"]
    for figure in report["figures"]:
        assert list(figure["resident_mb"]) == ["2", "4", "5"]
        assert all(megabytes > 10 for megabytes in figure["resident_mb"].values())


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.parametrize("strategy", batches.DEFAULT_WAYS)
def test_strategies_run_the_same_batches_again_and_again(strategy, monkeypatch, capsys):
    monkeypatch.setattr(batches, "DISTINCT", 2)
    found = batches.measure(strategy, Options(app="TP", batches=5, batch=20, every=5))
    assert list(found.resident_mb) == [5]
    assert f"{strategy}: 5 batches" in capsys.readouterr().err


def test_growth_is_what_comes_after_the_first_look():
    flat, leaking = Growth("x", {100: 80.0, 200: 82.0, 300: 81.0}), Growth("x", {100: 80.0, 200: 85.1})
    assert (flat.growth, flat.met, leaking.met) == (1.0, True, False)
