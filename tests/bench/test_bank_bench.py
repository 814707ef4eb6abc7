"""The bank benchmark without compiling: every part in small, and that nothing wrong goes unnoticed."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from mainstem import run as embedded
from mainstem.bench import __main__ as command
from mainstem.bench import bank, bank_durable, bank_options, bank_own, bank_plot, bank_report, engines
from mainstem.bench.bank_figures import Chart, Measured, Results, Row
from mainstem.bench.bank_fit import fitting_count
from mainstem.bench.bank_levels import EVENT_ORDER, LEVELS, SWEPT, Level
from mainstem.bench.bank_options import PARTS, Options, options_of
from mainstem.bench.bank_own import OwnPeer, own_peers
from mainstem.bench.bank_peers import LATER, SYNCED, Config, PeerFigure, Turn, take_turn
from mainstem.bench.bank_scenario import Scenario, wrong_of
from mainstem.bench.bank_workload import Workload
from mainstem.engine import auto, make_executor
from mainstem.errors import InputError
from mainstem.store import durable

SMALL = Options(
    accounts=40, seconds=0.002, repeats=1, events_max=48, alone=20, levels=LEVELS, swept=SWEPT[-5:], keys=(10, 40),
    updates=(1, 2), aborts=(0.0, 0.5), work_ms=(0.0, 0.001), batches=(1, 8), selected=(1, 5), logged=(20, 40),
    per_commit=10, cores_work_us=0.001,
)  # fmt: skip
CHARTS = {
    "levels": 1, "chained": 2, "parallel": 2, "keys": 1, "queries": 1, "overhead": 1, "aborts": 1, "durability": 1,
    "recovery": 1, "cores": 2,
}  # fmt: skip


@pytest.fixture
def uncompiled(monkeypatch: pytest.MonkeyPatch) -> None:
    def make(*arguments: Any, **options: Any) -> Any:
        return make_executor(*arguments, **{**options, "jit": False})

    for module in (embedded, durable, bank_own, bank_durable):
        monkeypatch.setattr(module, "make_executor", make)
    monkeypatch.setattr(engines, "calibrate", lambda threads: None)
    monkeypatch.setattr(auto, "known_costs", lambda threads: None)
    monkeypatch.setenv("MAINSTEM_JIT", "0")  # of the writer and the server beside queries


def measured(**changes: Any) -> Results:
    return bank.benchmark(Options(**{**vars(SMALL), **changes}))


@pytest.mark.usefixtures("uncompiled")
def test_every_part_in_small(tmp_path):
    results = measured(parts=tuple(part for part in PARTS if part != "peers"))
    assert results.disagreements == []
    found = [chart.part for chart in results.charts]
    assert {part: found.count(part) for part in found} == CHARTS
    charts = {chart.title: chart for chart in results.charts}
    assert set(charts["Isolation levels, 2 threads"].lines) == {level.label for level in LEVELS}
    assert charts["Number of accounts"].xs == [10, 40] and charts["Share of transfers that abort"].xs == ["0%", "50%"]
    for chart in results.charts:
        assert all(point.rate > 0 for points in chart.lines.values() for point in points.values()), chart.title
    assert [row.system.split(",")[0] for row in results.rows] == ["Mainstem", "Mainstem", "TSpoon", "Flink", "VoltDB"]
    assert [target.bound for target in results.targets] == [53_900, 5_000]  # the logs were too short for the third
    bank_plot.draw(results, tmp_path / "bank.svg")
    assert (tmp_path / "bank.svg").read_text().count("<!-- PL4 timestamp -->") >= 8
    text = printed(results)
    assert "8,580" in text and "All digests agree" in text
    bank_report.write(results, tmp_path / "bank.json")
    assert len(json.loads((tmp_path / "bank.json").read_text())["charts"]) == sum(CHARTS.values())


@pytest.mark.usefixtures("uncompiled")
def test_mainstem_as_a_contender_ends_right_however_durable():
    workload = Workload(accounts=30, abort=0.2)
    with own_peers(workload) as (_, peers):
        for peer in peers:
            assert isinstance(peer, OwnPeer)
            peer._batch = peer.step = min(peer.step, 16)
            figure = PeerFigure(peer.config)
            take_turn(peer, figure, workload, 0.005)
            assert figure.wrong == [] and figure.latency is not None and figure.latency > 0
        assert [peer.config.durable for peer in peers[:3]] == [SYNCED, SYNCED, LATER]


@pytest.mark.usefixtures("uncompiled")
class TestWrong:
    scenario = Scenario(Workload(accounts=10, abort=0.3))

    def run(self, level: Level = EVENT_ORDER, events: Scenario | None = None) -> Any:
        return (events or self.scenario).run(40, level, 1)

    def test_nothing_is_wrong_with_a_run(self):
        for level in (Level("PL1", "lock"), Level("PL3", "timestamp"), EVENT_ORDER):
            assert wrong_of(self.scenario, level, self.run(level)) == []

    def test_a_balance_that_is_not_what_was_moved(self):
        result = self.run(events=Scenario(Workload(accounts=10, abort=0.3, seed=9)))
        found = wrong_of(self.scenario, EVENT_ORDER, result)
        assert any("table Account does not hold what was moved" in line for line in found)
        assert not any("what was moved" in line for line in wrong_of(self.scenario, Level("PL2", "lock"), result))

    def test_a_transfer_that_should_have_aborted(self):
        result = self.run(events=Scenario(Workload(accounts=10, abort=0.0)))
        (line, *_) = wrong_of(self.scenario, Level("PL1", "lock"), result)
        assert "0 aborted, not" in line


class TestFit:
    @pytest.mark.parametrize("rate", [50.0, 4_321.0, 2e7])
    def test_the_count_takes_about_as_long_as_wanted(self, rate):
        ran: list[int] = []
        count = fitting_count(lambda n: ran.append(n) or n / rate, 64, 1.0)
        assert count == pytest.approx(rate, rel=0.05)
        assert sum(ran) < max(6 * rate, 6 * 64)

    def test_counts_are_multiples_and_bounded(self):
        ran: list[int] = []
        count = fitting_count(lambda n: ran.append(n) or n / 1e6, 10, 1.0, step=7, count_max=70)
        assert count == 70 and all(n % 7 == 0 for n in ran)

    def test_the_first_run_does_not_count(self):
        seconds = iter([9.0, 0.1, 0.1, 1.0])
        assert fitting_count(lambda n: next(seconds), 10, 1.0) == 80


class TestOptions:
    def test_parts_keep_their_order(self):
        assert options_of(quick=False, only=["keys", "table1"], threads=2, seed=0).parts == ("table1", "keys")
        assert options_of(quick=False, only=[], threads=2, seed=0).parts == tuple(PARTS) == tuple(bank.RUN)

    def test_quick_is_both_ends(self):
        quick = options_of(quick=True, only=[], threads=4, seed=1)
        assert quick.keys == (100, 100_000) and quick.threads == 4 and quick.seconds < Options().seconds

    def test_an_unknown_part_is_named(self):
        with pytest.raises(InputError, match=r"no part 'queues'\n  parts: table1, peers"):
            options_of(quick=False, only=["queues"], threads=1, seed=0)
        done = CliRunner().invoke(command.cli, ["bank", "--only", "queues"])
        assert done.exit_code == 2 and "queues" in done.output


def figure(system: str, setting: str, rate: float, **config: Any) -> PeerFigure:
    return PeerFigure(Config(system, "somehow", setting, SYNCED, **config), [1_000], [Turn(1_000 / rate, 0.25)])


def some_results(**more: Any) -> Results:
    results = Results(Options(), versions={"Redis": "7.0"}, missing={"PostgreSQL": "no\n  apt-get install it"}, **more)
    results.peers += [figure("Mainstem", "durability=batch", 1e6), figure("Redis", "always", 1e5)]
    results.peers += [figure("SQLite", "at once", 5e5, upper_bound=True)]
    results.rows.append(Row("Mainstem", 1234567.0, 0.0005))
    chart = Chart("keys", "Number of accounts", "accounts", "Figure 10: …")
    chart.add("PL3 lock", 100, Measured(1234.0, 0.002, 0.25))
    chart.add("PL3 lock", 1_000, Measured(12.0))
    chart.add("event order", 1_000, Measured(9e6))
    results.charts.append(chart)
    return results


def printed(results: Results) -> str:
    console = Console(width=command.WIDTH_MIN_WIDE, file=io.StringIO())
    bank_report.print_results(results, console)
    return console.file.getvalue()


class TestReport:
    def test_ratios_stand_beside_what_they_must_reach(self):
        text = printed(some_results())
        assert "10.0 (≥ 20)" in text and "2.00" in text
        assert "PostgreSQL: not installed: no;  apt-get install it" in text
        assert "1.23 k (25% retried)" in text and "9.00 M" in text and "Figure 10: …" in text

    def test_json_has_the_same(self, tmp_path: Path):
        bank_report.write(some_results(), tmp_path / "bank.json")
        content = json.loads((tmp_path / "bank.json").read_text())
        assert [peer["ratio"] for peer in content["peers"]] == pytest.approx([1, 10, 2])
        assert content["not_installed"] == {"PostgreSQL": "no\n  apt-get install it"}
        (chart,) = content["charts"]
        assert chart["lines"]["PL3 lock"][0] == {
            "x": 100,
            "rate": 1234.0,
            "latency": 0.002,
            "retries": 0.25,
        }

    @pytest.mark.parametrize(("wrong", "code"), [([], 0), (["an account lost money"], 1)])
    def test_the_command_fails_when_something_is_wrong(self, monkeypatch, tmp_path, wrong, code):
        asked: list[Options] = []

        def benchmark(options: Options, progress: Any) -> Results:
            asked.append(options)
            return some_results(wrong=wrong)

        monkeypatch.setattr(command.bank_bench, "benchmark", benchmark)
        files = ["--json", str(tmp_path / "a.json"), "--plot", str(tmp_path / "a.svg")]
        done = CliRunner().invoke(command.cli, ["bank", "--quick", "--only", "keys", "--seed", "3", *files])
        assert done.exit_code == code, done.output
        assert asked == [options_of(quick=True, only=["keys"], threads=2, seed=3)]
        assert (tmp_path / "a.json").exists() and (tmp_path / "a.svg").exists()
        assert ("an account lost money" in done.output) == bool(wrong)


def test_every_part_has_a_line_in_the_help():
    assert set(bank.RUN) == set(bank_options.PARTS)
