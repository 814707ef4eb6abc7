"""The replay benchmark: end to end on Spark (long), and everything around the replays with stand-ins for sessions."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mainstem.bench import replay, replay_causality, replay_options, replay_report, replay_spark, replay_ways
from mainstem.bench.__main__ import cli
from mainstem.bench.replay import Options, Results
from mainstem.bench.replay_logs import spam_log
from mainstem.bench.replay_ratio_plot import ratio_line
from mainstem.bench.replay_spark import SparkProcess
from mainstem.bench.replay_variants import Variants
from mainstem.bench.replay_ways import Role, Runs, Way
from mainstem.bench.report import Peak
from mainstem.bench.spam_answers import Answer, answer, open_log
from mainstem.bench.spam_loop import replay as loop_replay
from mainstem.errors import InputError, MainstemError
from mainstem.replay.hot import Balance
from mainstem.replay.model import Model, Point

EVENTS = 4_000


ON_EACH = {"Mainstem fused, one task", "one core, app.run serial", "one core, hand-written loop"}
ON_SPARK = {"Spark, single batch", "Spark, SQL windows", "Spark, micro-batches"}


def measured(folder: Path, *options: str) -> dict[str, Any]:
    """What the command wrote; without compiling, which would take longer than all the rest."""
    command = [sys.executable, "-m", "mainstem.bench", "replay", "--events", str(EVENTS), "--repeats", "1", *options]
    kept = ["--dir", str(folder / "logs"), "--json", str(folder / "out.json")]
    done = subprocess.run([*command, *kept], capture_output=True, text=True, env={**os.environ, "MAINSTEM_JIT": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All digests agree" in done.stdout
    found: dict[str, Any] = json.loads((folder / "out.json").read_text())
    assert len({figure["digest"] for figure in found["figures"] if figure["exact"]}) == 1
    return found


@pytest.mark.long
def test_end_to_end(tmp_path):
    found = measured(tmp_path, "--cores", "1", "--no-alternatives", "--alpha", "", "--memory-events", "")
    names = ON_EACH | {"Mainstem, 1 core", "Mainstem mvps, 1 core"}
    assert {(f["name"], f["scan"]) for f in found["figures"]} == {(n, s) for n in names for s in (True, False)}
    on_spark = {name for name in names if name.startswith("Mainstem")}
    assert set(found["first_turn_seconds"]) == {f"{n}, {s}" for n in on_spark for s in ("scan on", "scan off")}


@pytest.mark.long
def test_end_to_end_with_everything(tmp_path):
    logs = ["--alpha", "2", "--alpha-events", str(EVENTS), "--memory-events", "2k,4k", "--error-events", str(EVENTS)]
    found = measured(tmp_path, *logs, "--micro-batches", "2k,4k")
    names = ON_EACH | ON_SPARK | {"Mainstem, 2 cores", "Mainstem mvps, 2 cores", "Mainstem mvps, 1 core"}
    assert {figure["name"] for figure in found["figures"]} == names
    (alpha,) = found["alphas"]
    sizes = {(point["hosts"], point["hosts"] * point["batch"]) for point in alpha["points"]}
    assert sizes == {(1, 4_000), (2, 4_000), (1, 1_000), (2, 1_000)}
    assert found["model"]["one_host"] > 0
    assert [set(peak["bytes"]) for peak in found["peak_bytes"]] == [{"driver", "jvm", "workers"}] * 2
    assert all(0 < row["wrong"] < 0.5 for row in found["micro_batches"])


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return spam_log(tmp_path_factory.mktemp("logs"), EVENTS)


def test_a_task_of_a_process_and_its_memory(spark, log, tmp_path):
    task = {
        "call": "mvps",
        "log": str(log),
        "out": str(tmp_path / "out"),
        "watch": True,
        "options": {"scan": False},
    }
    found = replay_spark.run(spark, task)
    assert found["answer"]["digest"] == _by_loop(log, tmp_path / "truth").digest
    assert found["peak"]["workers"] > 0


def test_variants_leave_the_rule_of_the_app(spark, log, tmp_path):
    task = {"call": "variants", "log": str(log), "out": str(tmp_path / "out"), "watch": False, "options": {"number": 2}}
    found = replay_spark.run(spark, task)
    assert found["answer"]["digest"] == _by_loop(log, tmp_path / "truth").digest


def test_a_process_that_fails_says_why(tmp_path):
    # No cores: it fails before Spark starts.
    with SparkProcess(0, tmp_path) as spark, pytest.raises(MainstemError, match=r"(?s)mvps of .* failed.*Error"):
        spark.replay("mvps", tmp_path, tmp_path / "out")


def _by_loop(log: Path, out: Path) -> Answer:
    loop_replay(log, out, scan=False)
    return answer("loop", 1.0, open_log(log).events, out)


class StandIn:
    """A session whose replays are the hand-written loop, here: exact, unless it is told to be wrong."""

    wrong: frozenset[str] = frozenset()

    def __init__(self, cores: int, scratch: Path, *, heap: int = 1) -> None:
        self.cores, self.peak, self.state_bytes = cores, {"workers": 100}, 40
        self.balance, self.hot_keys = [Balance(1, "Friends", 0.9, 0.5)], ["Origin[7]: 60.0% of the accesses, split"]

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def replay(self, call, log, out, *, watch=False, scan=True, **options):
        found = _by_loop(log, out)
        if call not in self.wrong:
            return found
        return Answer(call, found.seconds, found.events, found.messages, found.spam + 1, "0" * 16)


@pytest.fixture
def stand_in(monkeypatch):
    """No Spark, and serial runs without processes of their own."""
    kind = type("StandInHere", (StandIn,), {})
    monkeypatch.setattr(replay, "SparkProcess", kind)
    for name in ("serial_run", "serial_loop"):
        monkeypatch.setattr(replay_ways.spam_plain, name, lambda log, out, scan: _by_loop(log, out))
    return kind


@pytest.fixture
def small(tmp_path):
    return [
        "replay", "--events", "2k", "--alpha", "1.5,3", "--alpha-events", "2k", "--memory-events", "1k,2k",
        "--micro-batches", "500,1k", "--error-events", "2k", "--hot-shares", "0.6", "--hot-events", "2k",
        "--dir", str(tmp_path / "logs"),
    ]  # fmt: skip


class TestCommand:
    def test_everything_is_printed_and_written(self, stand_in, small, tmp_path):
        stand_in.wrong = frozenset({"micro_batches"})
        files = ["--json", str(tmp_path / "out.json"), "--plot", str(tmp_path / "out.svg")]
        result = CliRunner().invoke(cli, [*small, *files])
        assert result.exit_code == 0, result.output
        found = json.loads((tmp_path / "out.json").read_text())
        assert len(found["figures"]) == 18
        assert {len(figure["seconds"]) for figure in found["figures"]} == {2}
        assert [target["bound"] for target in found["targets"]] == [
            5.0, 5.0, 1.5, 5.0, 5.0, 0.7, pytest.approx(1 / 1.8), 0.85
        ]  # fmt: skip
        assert (found["variants"]["number"], found["variants"]["cost"]) == (3, 1.0)  # stand-ins take a second each
        assert "3 versions of the rule in one replay take 1.00 ×" in result.output
        assert [row["batch"] for row in found["micro_batches"]] == [500, 1_000]
        assert [row["alpha"] for row in found["alphas"]] == [1.5, 3.0]
        paths = [row["critical_paths"]["2000"] for row in found["alphas"]]
        assert paths[0] > paths[1] > 0
        assert [(peak["events"], peak["state"]) for peak in found["peak_bytes"]] == [(1_000, 40), (2_000, 40)]
        assert [(row["share"], row["shards"], row["split"]) for row in found["skew"]] == [
            (0.6, shards, split) for shards in (2, 8) for split in (False, True)
        ]
        assert "Friends: 50%" in result.output and "Origin[7]: 60.0%" in result.output
        assert "16 ×" in result.output and "128 vCPUs" in result.output and "8 vCPUs, 1.4 ×" in result.output
        assert "too easy" not in result.output
        assert "The targets are meant for 10,000,000 events" in result.output
        assert "α = 1.5" in (tmp_path / "out.svg").read_text()
        assert "model, 2 cores" in (tmp_path / "out-ratio.svg").read_text()

    @pytest.mark.parametrize("wrong", ["auto", "mvps", "fused", "variants", "single_batch", "sql_windows"])
    def test_an_exact_contender_that_is_wrong_fails_the_command(self, stand_in, small, wrong):
        stand_in.wrong = frozenset({wrong, "micro_batches"})
        result = CliRunner().invoke(cli, [*small, "--alpha", "", "--memory-events", "", "--repeats", "1"])
        assert result.exit_code == 1
        assert "digests differ" in result.output

    def test_a_wrong_replay_shows_where_only_memory_and_alpha_are_looked_at(self, stand_in, small):
        stand_in.wrong = frozenset({"mvps", "micro_batches"})
        result = CliRunner().invoke(cli, [*small, "--no-alternatives", "--repeats", "1"])
        assert result.exit_code == 1
        assert "mvps while its memory was watched" in result.output
        assert "α 3, mvps on 2 cores, batches of 500" in result.output

    def test_an_approximation_that_is_right_is_told(self, stand_in, small):
        result = CliRunner().invoke(cli, [*small, "--alpha", "", "--memory-events", "", "--repeats", "1"])
        assert result.exit_code == 0
        assert "too easy to show its error" in result.output

    def test_one_core_has_no_model(self, stand_in, small, tmp_path):
        command = [*small, "--cores", "1", "--no-alternatives", "--json", str(tmp_path / "out.json")]
        assert CliRunner().invoke(cli, command).exit_code == 0
        found = json.loads((tmp_path / "out.json").read_text())
        assert found["model"] is None
        assert {point["hosts"] for row in found["alphas"] for point in row["points"]} == {1}

    @pytest.mark.parametrize(
        ("option", "text"),
        [
            ("--events", "many"),
            ("--events", "1.5"),
            ("--memory-events", "1M,-2"),
            ("--alpha", "1"),
            ("--alpha", "x"),
            ("--hot-shares", "0.5,2"),
            ("--hot-shares", "much"),
        ],
    )
    def test_options_that_make_no_sense(self, option, text):
        result = CliRunner().invoke(cli, ["replay", option, text])
        assert result.exit_code == 2
        assert repr(text.split(",")[-1]) in result.output

    def test_a_plot_without_points(self, tmp_path):
        result = CliRunner().invoke(cli, ["replay", "--alpha", "", "--plot", str(tmp_path / "a.png")])
        assert result.exit_code == 2
        assert "--alpha" in result.output


class TestOptions:
    def given(self, **changed):
        defaults = {
            "quick": False, "events": "10M", "cores": 2, "repeats": 2, "alternatives": True, "variants": 3,
            "alpha": "2", "alpha_events": None, "memory_events": None, "hot_shares": "0,0.5", "hot_events": None,
            "micro_batches": "12.5k", "error_events": None, "seed": 0, "folder": Path(),
        }  # fmt: skip
        return replay_options.options_of(**{**defaults, **changed})

    def test_numbers_as_one_types_them(self):
        options = self.given(memory_events="1_000, 500k,2M")
        assert options.events == 10_000_000
        assert options.memory_events == (1_000, 500_000, 2_000_000)
        assert options.micro_batches == (12_500,)

    def test_quick_is_quick(self):
        options = self.given(quick=True)
        assert (options.events, options.repeats, options.memory_events) == (500_000, 1, ())
        assert max(options.alpha_events, options.error_events) < options.events
        assert self.given(quick=True, events="1k", memory_events="3k").memory_events == (3_000,)
        assert self.given(quick=True, events="1k").events == 1_000

    def test_a_number_that_is_none(self):
        with pytest.raises(InputError, match="'12q' is no number of events"):
            replay_options.count_of("12q")


class TestResults:
    def results(self, mvps: float, serial: float, spark: float) -> Results:
        """Of 100 events, with these events per second."""
        rates = {Role.AUTO: mvps, Role.STAGED: mvps, Role.SERIAL: serial, Role.EXACT: spark}
        runs = [
            Runs(Way(role.name, role, 2, replay_ways.loop), scan, [Answer("", 100 / rate, 100, 90, 9, "d")])
            for scan in (True, False)
            for role, rate in rates.items()
        ]
        return Results(Options(), runs=runs)

    def test_targets_are_ratios(self):
        targets = self.results(mvps=150, serial=100, spark=50).targets
        assert [round(target.value, 3) for target in targets] == [3.0, 1.5, 3.0, 1.5]
        assert [target.met for target in targets] == [False, True, False, True]

    @pytest.mark.parametrize(("workers", "met"), [([100, 100], True), ([100, 110], True), ([100, 200], False)])
    def test_memory_is_flat_or_not(self, workers, met):
        results = self.results(1, 1, 1)
        results.peaks = [Peak(n, {"workers": size, "jvm": n}) for n, size in enumerate(workers)]
        assert results.targets[-1].met is met

    @pytest.mark.parametrize(("number", "bounds"), [(3, [1 / 1.8]), (5, [])])
    def test_only_three_variants_have_a_target(self, number, bounds):
        results, answer = self.results(1, 1, 1), Answer("", 1.0, 100, 90, 9, "d")
        results.variants = Variants(number, [answer], [answer])
        assert [target.bound for target in results.targets if "variant" in target.what] == bounds

    def test_memory_of_one_size_tells_nothing(self):
        results = self.results(1, 1, 1)
        results.peaks = [Peak(10, {"workers": 100})]
        assert not any("memory" in target.what for target in results.targets)

    def test_who_beats_one_thread(self):
        for mvps, said in ((150, "first to beat it: 2 cores"), (90, "none beats it")):
            printed = io.StringIO()
            replay_report.print_results(self.results(mvps, 100, 50), Console(width=200, file=printed))
            assert said in printed.getvalue()

    def test_the_median_is_that_of_the_times(self):
        runs = Runs(Way("x", Role.AUTO, 1, replay_ways.loop), True)
        runs.answers = [Answer("", seconds, 60, 0, 0, "") for seconds in (1.0, 2.0, 6.0)]
        assert (runs.best, runs.median) == (60, 30)


@pytest.mark.parametrize(("a", "said"), [(0.5, "a = 0.5,"), (2.0, "a ≥ 2,")])
def test_a_critical_path_that_never_limited_bounds_a_only(a, said):
    points = [Point(1, 100, 9_000.0, 1.0), Point(2, 50, 5.0, 1.0), Point(2, 50, 100.0, 1.0)]
    alpha = replay_causality.Alpha(2.0, 100, {100: 5.0}, points, [])
    assert said in replay_report._model(Results(Options(), alphas=[alpha], model=Model(1.0, a, 0.9)))


def test_logs_are_made_once(tmp_path):
    said: list[str] = []
    log = spam_log(tmp_path, 1_000, alpha=1.5, say=said.append)
    assert open_log(log).events == 1_000
    assert spam_log(tmp_path, 1_000, alpha=1.5, say=said.append) == log
    assert spam_log(tmp_path, 1_000, alpha=2.5, say=said.append) != log
    assert len(said) == 2
    assert len(list(tmp_path.iterdir())) == 2


def test_a_log_with_one_busy_user_has_a_long_critical_path(tmp_path):
    paths = []
    for alpha in (1.25, 3.0):
        batch = replay_causality._whole(spam_log(tmp_path, EVENTS, alpha=alpha))
        paths.append(replay_causality._paths(batch, [1_000, EVENTS, 10 * EVENTS]))
    assert [set(found) for found in paths] == [{1_000, EVENTS}] * 2
    assert paths[0][EVENTS] > 3 * paths[1][EVENTS]
    assert paths[0][1_000] < paths[0][EVENTS] <= 3 * EVENTS


def test_the_line_over_ratios_bends_at_a():
    model = Model(k=100.0, a=1.0, r2=1.0)
    line = dict(ratio_line(model, [Point(2, 100, 10.0, 1.0), Point(2, 100, 1_000.0, 1.0)]))
    assert min(line) < 0.1 and max(line) > 10
    assert {round(rate, 6) for ratio, rate in line.items() if ratio <= 1} == {400.0}
    assert line[max(line)] == pytest.approx(400 / max(line))
