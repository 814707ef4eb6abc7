"""The `schedule` benchmark: its grid, its stages, its report."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from typer.testing import CliRunner

from mainstem.bench import grid, schedule
from mainstem.bench.__main__ import cli
from mainstem.bench.engines import WAYS, Runner
from mainstem.bench.grid import DEFAULTS, Point, Series
from mainstem.bench.measure import Ending, Figure, Stopwatch
from mainstem.bench.schedule import Choice, Measured, Options, Results

TINY = (
    Series("TP", "skew", tuple(Point("TP", skew=skew, cost=0.0, batch=60) for skew in (0.0, 1.0))),
    Series("GS", "length", (Point("GS", cost=0.0, length=2, reads=1, batch=60),)),
)


class TestGrid:
    def test_knobs_cover_their_ranges(self):
        points = grid.points_of(grid.SERIES)
        assert len(points) >= 60
        assert {point.app for point in points} == {"GS", "SL", "OB", "TP"}
        spans = {knob: {getattr(p, knob) for p in points if p.app == "GS"} for knob in grid.KNOBS}
        assert {knob: (min(values), max(values)) for knob, values in spans.items()} == {
            "skew": (0.0, 1.0),
            "abort": (0.0, 0.9),
            "cost": (0.0, 100.0),
            "length": (1, 10),
            "reads": (1, 10),
            "batch": (500, 80_000),
        }

    def test_a_series_turns_its_knob_and_goes_through_the_default(self):
        for series in grid.SERIES:
            if series.vary == grid.CROSSED:
                assert len(series.turned) == 2 or len(series.points) < 4
            else:
                assert series.vary in series.turned
                defaults = {getattr(DEFAULTS[series.app], series.vary)}
                assert defaults & {getattr(point, series.vary) for point in series.points}

    def test_a_run_is_some_whole_batches(self):
        for point in grid.points_of(grid.SERIES):
            events = point.events(0.2)
            assert events % point.batch == 0
            assert events // point.batch >= grid.BATCHES_MIN
            assert events <= max(grid.EVENTS_MAX, grid.BATCHES_MIN * point.batch)

    def test_points_say_what_they_are(self):
        assert str(DEFAULTS["GS"]) == "GS θ 0.2, a 1%, C 10 µs, l 1, r 2, T 10,240"
        assert str(DEFAULTS["TP"]) == "TP θ 0.2, a 1%, C 10 µs, T 5,120"
        assert TINY[0].title == "TP (toll), θ; a 1%, C 0 µs, T 60"

    def test_selecting_and_thinning(self):
        assert {series.app for series in grid.selected(["OB"])} == {"OB"}
        assert {series.vary for series in grid.selected(vary=["reads"])} == {"reads"}
        every, some = grid.points_of(grid.SERIES), grid.points_of(grid.thinned(grid.SERIES, 5))
        assert set(some) == set(every[::5])


@pytest.mark.usefixtures("uncompiled")
class TestCommand:
    @pytest.fixture(autouse=True)
    def tiny(self, monkeypatch):
        monkeypatch.setattr(grid, "SERIES", TINY)

    def run(self, *words: str):
        return CliRunner().invoke(cli, ["schedule", "--seconds", "0", "--repeats", "1", *words])

    def test_every_strategy_at_every_point(self, tmp_path):
        done = self.run("--app", "TP", "--json", str(tmp_path / "out.json"))
        assert done.exit_code == 0, done.output
        for text in ("TP (toll), θ", "auto chose", "regret", "× serial", "Targets", "All digests agree", "[2/2]"):
            assert text in done.output
        report = json.loads((tmp_path / "out.json").read_text())
        assert [(point["app"], point["skew"]) for point in report["points"]] == [("TP", 0.0), ("TP", 1.0)]
        for point in report["points"]:
            assert list(point["strategies"]) == list(WAYS)
            assert len({s["state_digest"] for s in point["strategies"].values() if s["safe"]}) == 1
            assert point["choice"]["engine"] in WAYS
            assert point["best"] not in ("nolock", "auto")
        assert [target["points"] for target in report["targets"]] == [2, 1, 0, 2]
        assert report["disagreements"] == []

    def test_strategies_can_be_chosen(self, tmp_path):
        done = self.run("--vary", "length", "--strategy", "lock", "--json", str(tmp_path / "out.json"))
        assert done.exit_code == 0, done.output
        (point,) = json.loads((tmp_path / "out.json").read_text())["points"]
        assert list(point["strategies"]) == ["serial", "lock", "auto"]
        assert point["strategies"]["lock"]["loss_to_nolock"] is None

    def test_a_wrong_result_fails_the_command(self, monkeypatch):
        honest = Runner.digest

        def forgetful(self):
            return "0123456789abcdef" if self.way.engine == "lock" else honest(self)

        monkeypatch.setattr(Runner, "digest", forgetful)
        done = self.run("--vary", "length", "--strategy", "lock")
        assert done.exit_code == 1
        assert "digests differ" in done.output

    @pytest.mark.parametrize("words", [["--app", "XX"], ["--vary", "cots"], ["--strategy", "tgp"], ["--vary", "reads"]])
    def test_wrong_names_are_refused(self, words):
        assert self.run(*words).exit_code == 2


US = {"serial": 20.0, "lock": 21.0, "mvlk": 12.0, "components": 11.0, "pat": 1_000.0, "nolock": 10.0, "auto": 11.5}
"""What an event takes with each strategy, in microseconds."""


class FakeRunner:
    """Takes a fixed time per event and always ends alike."""

    def __init__(self, calls, way):
        self.calls, self.way, self.last = calls, way, []

    def run(self, batches):
        self.last = [type("Stats", (), {"engine": "components", "why": "largest component 1%"})] * len(batches)

    def turn(self, batches):
        self.run(batches)
        events = sum(map(len, batches))
        self.calls.setdefault(self.way.label, []).append(events)
        seconds = events * US[self.way.label] * 1e-6
        state = "wrong" if self.way.label == "nolock" else "right"
        return Stopwatch(seconds, seconds), Ending(f"{state}{events}", "")


def test_stages_spend_their_turns_where_it_is_decided(monkeypatch):
    calls: dict[str, list[int]] = {}
    monkeypatch.setattr(schedule, "Runner", lambda app, way, threads: FakeRunner(calls, way))
    monkeypatch.setattr(schedule, "FINAL_SECONDS", 0.0)
    point = Point("TP", cost=0.0, batch=2_000)
    options = Options([], [WAYS[label] for label in US], seconds=0.003, repeats=3)
    found = schedule.measure(point, options)
    trial, full = 4_000, 10_000  # 2 batches of at least 2,048 events; 0.003 s of 0.3 µs
    assert calls == {
        "pat": [trial] * 2,  # hopeless
        "lock": [trial] * 2 + [full] * 2,
        "mvlk": [trial] * 2 + [full] * 5,  # in the finals
        **{label: [trial] * 2 + [full] * 11 for label in ("serial", "nolock", "auto")},  # in the rematch
        "components": [trial] * 2 + [full] * 14,  # in both
    }
    assert found.fewer == {"pat"}
    assert found.best == "components"
    assert found.regret == pytest.approx(1 - 11 / 11.5)
    assert found.of_serial == pytest.approx(20 / 11.5)
    assert found.loss("lock") == pytest.approx(1 - 10 / 21)
    assert (found.disagreements, found.nolock_differs) == ([], True)
    assert str(found.choice) == "components"


def test_a_return_match_makes_up_for_a_bad_time(monkeypatch):
    """The machine held up `auto` in all turns of the rematch, but not later."""
    slow = 2.0

    class HeldUp(FakeRunner):
        def turn(self, batches):
            watch, ending = super().turn(batches)
            return Stopwatch(watch.seconds * (slow if self.way.label == "auto" else 1.0)), ending

    calls: dict[str, list[int]] = {}
    monkeypatch.setattr(schedule, "Runner", lambda app, way, threads: HeldUp(calls, way))
    options = Options([], [WAYS[label] for label in US], seconds=0.003, repeats=3)
    found = schedule.measure(Point("TP", cost=0.0, batch=2_000), options)
    assert found.of_serial == pytest.approx(20 / 23)
    calls.clear()
    slow = 1.0
    schedule.return_match(found, options)
    assert found.of_serial == pytest.approx(20 / 11.5)
    assert calls == {label: [10_000] * found.turns for label in ("serial", "components", "nolock", "auto")}
    assert found.disagreements == []


def test_what_was_fast_by_chance_has_to_be_fast_once_more(monkeypatch):
    """`lock` had one lucky run in the heats: it counts as its best, but not against `auto`."""
    runs: dict[str, int] = {}

    class Lucky(FakeRunner):
        def turn(self, batches):
            watch, ending = super().turn(batches)
            runs[self.way.label] = number = runs.get(self.way.label, 0) + 1
            luck = 0.5 if self.way.label == "lock" and number == 3 else 1.0
            return Stopwatch(watch.seconds * luck, watch.cpu_seconds), ending

    monkeypatch.setattr(schedule, "Runner", lambda app, way, threads: Lucky({}, way))
    options = Options([], [WAYS[label] for label in US], seconds=0.003, repeats=3)
    found = schedule.measure(Point("TP", cost=0.0, batch=2_000), options)
    assert found.best == "lock"
    assert found.rates["lock"] == pytest.approx(2e6 / 21)  # a lucky run
    assert found.regret == pytest.approx(1 - 21 / 11.5)


def test_short_runs_take_more_turns():
    def heats(seconds: float) -> dict[str, Figure]:
        return {"lock": Figure("lock", 1, [Stopwatch(2.0)], []), "auto": Figure("auto", 1, [Stopwatch(seconds)], [])}

    assert [schedule._turns(heats(seconds), 4) for seconds in (1.0, 0.05, 0.001)] == [4, 10, schedule.TURNS_MOST]


def measured(point: Point, auto: float, serial: float, best: float) -> Measured:
    rates = {"serial": serial, "components": best, "auto": auto}
    figures = {name: Figure(name, 1, [Stopwatch(1 / rate)], [Ending("", "")]) for name, rate in rates.items()}
    return Measured(
        point, figures, schedule._fastest(figures), figures, 1, set(), Choice("components", 1, 1, ""), [], False, 1.9
    )


def test_goals_name_what_misses_them():
    base = DEFAULTS["TP"]
    found = [
        measured(base, auto=1.85, serial=1.0, best=1.9),
        measured(replace(base, skew=0.6), auto=1.7, serial=1.0, best=2.0),
        measured(replace(base, skew=0.8), auto=1.0, serial=1.0, best=1.0),
        measured(replace(base, cost=0.0), auto=0.94, serial=1.0, best=0.5),
    ]
    results = Results([], {m.point: m for m in found})
    within, median, gain, free = results.goals
    assert (within.points, within.misses) == (4, ["TP θ 0.6, a 1%, C 10 µs, T 5,120: 15.0% behind components"])
    assert (median.points, len(median.misses)) == (1, 1)  # (2.6% + 6%) / 2
    assert (gain.points, gain.misses) == (2, ["TP θ 0.6, a 1%, C 10 µs, T 5,120: 1.70 × serial (plain threads 1.90 ×)"])
    assert (free.points, free.misses) == (1, ["TP θ 0.2, a 1%, C 0 µs, T 5,120: 0.94 × serial (plain threads 1.90 ×)"])
