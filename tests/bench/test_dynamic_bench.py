"""The `dynamic` benchmark: steps, totals, plot."""

from __future__ import annotations

import json

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mainstem.bench import dynamic, dynamic_report, plot
from mainstem.bench.__main__ import cli
from mainstem.bench.dynamic import Options, Results, Step
from mainstem.bench.engines import WAYS, Pass
from mainstem.bench.measure import Ending, Stopwatch
from mainstem.engine import BatchStats

WORDS = ["dynamic", "--events", "40", "--steps", "2", "--batch", "10", "--cost", "0", "--repeats", "1"]


@pytest.mark.usefixtures("uncompiled")
def test_every_strategy_over_four_phases(tmp_path):
    done = CliRunner().invoke(cli, [*WORDS, "--json", str(tmp_path / "out.json"), "--plot", str(tmp_path / "out.png")])
    assert done.exit_code == 0, done.output
    for text in ("Phase 1: rising rate", "Phase 4", "auto beats every fixed strategy", "All digests agree"):
        assert text in done.output
    for text in ("A perfect chooser", "perfect choice"):
        assert text in done.output
    report = json.loads((tmp_path / "out.json").read_text())
    assert [(step["phase"], step["step"]) for step in report["steps"]] == [(p, s) for p in (1, 2, 3, 4) for s in (0, 1)]
    assert len(report["totals"]) == len(WAYS)
    assert report["events"] == 141
    assert (tmp_path / "out.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def batch(engine: str, seconds: float) -> BatchStats:
    return BatchStats(100, 100, 100, 0, engine, 0.0, seconds, 0.0)


def ran(*batches: tuple[str, float], state: str = "right") -> Pass:
    stats = [batch(engine, seconds) for engine, seconds in batches]
    return Pass(Stopwatch(sum(seconds for _, seconds in batches)), stats, Ending(state, ""))


@pytest.fixture
def results() -> Results:
    steps = [Step(phase, 0, {"skew": 0.0}, 2 * phase - 2, 2 * phase - 1) for phase in (1, 2, 3)]
    found = Results(Options(), steps, 600)
    x, y = ("serial", 1.0), ("lock", 2.0)
    dynamic._note(found, "serial", ran(*[x] * 6))
    dynamic._note(found, "lock", ran(*[("lock", 1.5)] * 6))
    dynamic._note(found, "nolock", ran(*[("nolock", 0.1)] * 6, state="wrong"))
    dynamic._note(found, "auto", ran(x, x, y, y, ("lock", 0.1), ("lock", 0.1)))
    return found


def test_auto_is_compared_with_the_best_fixed_strategy(results):
    assert results.fixed == ["serial", "lock"]
    assert results.gain == pytest.approx(6.0 / 6.2)
    assert results.chosen == {1: ["serial"], 2: ["lock"], 3: ["lock"]}
    assert results.changes == 1
    assert [step.rate(results.fastest["auto"].stats) for step in results.steps] == pytest.approx([100, 50, 1000])


def test_a_perfect_chooser_takes_the_best_fixed_strategy_of_every_step(results):
    dynamic._note(results, "components", ran(*[("components", seconds) for seconds in (0.9, 0.9, 1.5, 1.5, 2.0, 2.0)]))
    assert [results.perfect(step)[0] for step in results.steps] == ["components", "serial", "serial"]
    assert results.perfect_rate == pytest.approx(600 / (1.8 + 2.0 + 2.0))


def test_the_fastest_run_counts_but_all_runs_must_agree(results):
    dynamic._note(results, "lock", ran(*[("lock", 0.5)] * 6))
    assert results.fixed == ["lock", "serial"]
    assert results.disagreements == []
    dynamic._note(results, "lock", ran(*[("lock", 0.9)] * 6, state="other"))
    assert results.fastest["lock"].watch.seconds == 3.0
    assert results.disagreements == ["lock ended in other/, but serial in right/"]


def test_a_run_that_was_given_up_has_taken_longer_than_it_shows(results, tmp_path):
    dynamic._note(results, "pat", ran(*[("pat", 10.0)] * 3, state="half"))
    assert [results.step_rate("pat", step) for step in results.steps] == [10.0, None, None]
    assert not results.is_whole("pat") and results.fixed == ["serial", "lock", "pat"]
    assert results.disagreements == []
    with (tmp_path / "out.txt").open("w") as file:
        dynamic_report.print_results(results, Console(file=file, width=200))
    text = (tmp_path / "out.txt").read_text()
    assert "> 30.00" in text and "+383.9% at least" in text and "given up" in text
    assert dynamic_report.as_json(results)["totals"]["pat"]["given_up"]
    dynamic_report.plot(results, tmp_path / "out.svg")
    dynamic._note(results, "lock", ran(("lock", 1.0)))  # a second turn that was given up says nothing
    assert results.is_whole("lock")


def test_runs_are_given_up_after_twice_the_time_of_the_fastest(results):
    assert dynamic._limit(results) == pytest.approx(dynamic.GIVE_UP * 0.6)


def test_a_plot_may_be_a_vector_graphic(results, tmp_path):
    dynamic_report.plot(results, tmp_path / "out.svg")
    text = (tmp_path / "out.svg").read_text()
    assert "<svg" in text and text.rstrip().endswith("</svg>")


@pytest.mark.parametrize(
    ("name", "installed", "message"),
    [
        ("out.png", False, "pip install 'mainstem[plot]'"),
        ("out.gif", True, ".png, .svg, .pdf"),
        ("none/out.png", True, "make it first"),
    ],
)
def test_a_plot_that_can_not_be_made_is_refused_at_once(monkeypatch, tmp_path, name, installed, message):
    monkeypatch.setattr(plot, "find_spec", lambda package: object() if installed else None)
    done = CliRunner().invoke(cli, [*WORDS, "--plot", str(tmp_path / name)], env={"COLUMNS": "300"})
    assert done.exit_code == 2
    assert message in done.output
