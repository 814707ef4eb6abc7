"""Keys that most events have are split by time over all tasks, and nothing else changes."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from replay_support import ranges_of
from skewed import Skewed, skewed

import mainstem as ms
from mainstem.replay import RareAbort, WaveReport, staged
from mainstem.replay.hot import Policy, parts_of
from mainstem.replay.local import LocalReplay
from mainstem.replay.split import HotRows, SplitPart
from mainstem.schema import INT64_MAX
from mainstem.testing import Outcome, assert_same, load_program

ALWAYS = Policy(enabled=True, imbalance=1.0, items_min=0)
NEVER = Policy(enabled=False)


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.store.tablefile.sync", lambda fd: None)
    monkeypatch.setattr("mainstem.replay.states.sync_directory", lambda path: None)


def replay(
    app: ms.App, events: Any, folder: Path, *, shards: int = 4, size: int = 10, epoch: int = 4, policy: Policy = ALWAYS,
    initial: dict[str, pa.Table] | None = None, overflow: Any = "rare",
) -> tuple[Outcome, LocalReplay]:  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    flow = staged(app.spec, overflow, jit=False)
    run = LocalReplay(flow, shards, folder, False, policy=policy)
    outputs, tables = run.run(ranges_of(flow, events, size), epoch, initial or {})
    return Outcome(outputs[0], tables), run


# -- generated programs ---------------------------------------------------------------------------------------------


def check(case: Skewed, folder: Path, tally: Counter[str]) -> None:
    wanted, draw = case.oracle(), random.Random(case.seed)
    for shards in (1 + case.seed % 2, 4 * (1 + case.seed // 2 % 2)):
        size, epoch = draw.choice((4, 9, 20)), draw.choice((3, 5, 8))
        actual, run = replay(
            case.module.app, case.events, folder / str(shards), shards=shards, size=size, epoch=epoch
        )  # fmt: skip
        assert_same(wanted, actual, context=f"seed {case.seed}, {shards} shards of {size}, {epoch}\n{case.source}")
        for hot in run.hot.report():
            tally["split" if hot.split else "not split"] += 1
            tally[hot.tables] += bool(hot.split)
        tally["again"] += any("depends on their rows" in hot.why for hot in run.hot.report())
        tally["several waves"] += len(run.waves) > 1 and any(hot.split for hot in run.hot.report())


@pytest.mark.parametrize("first", range(0, 18, 6))
def test_skewed_programs_agree_with_the_oracle(first: int, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for seed in range(first, first + 6):
        check(skewed(seed, events=120), tmp_path / str(seed), tally)
    assert tally["split"] > 0 and tally["not split"] > 0 and tally["First"] > 0, tally
    assert not tally["again"], tally  # what analysis finds to fold does


@pytest.mark.long
@pytest.mark.parametrize("first", range(100, 1_100, 50))
def test_many_skewed_programs_agree_with_the_oracle(first: int, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for seed in range(first, first + 50):
        check(skewed(seed, events=60 + seed % 200), tmp_path / str(seed), tally)
    assert tally["Second"] > 0 and tally["several waves"] > 0 and not tally["again"], tally


# -- what is split --------------------------------------------------------------------------------------------------

COUNTS = """
import mainstem as ms

app = ms.App("counts")


@app.event
class Hit:
    k: int
    v: int


@app.table(key=int)
class Count:
    n: int = 0
    last: int = 0
    sum: float = 0.0


@app.on(Hit)
def hit(e):
    row = Count[e.k]
    {update}
    return {{"n": row.n, "last": row.last}}
"""


def counts(update: str, values: list[tuple[int, int]]) -> tuple[ms.App, list[Any], Outcome]:
    module = load_program(COUNTS.format(update=update), "counts")
    events = [module.Hit(ts=ts, k=k, v=v) for ts, (k, v) in enumerate(values)]
    result = module.app.run(events, engine="oracle")
    return module.app, events, Outcome(result.outputs, dict(module.app.state))


def mostly(key: int, count: int = 200) -> list[tuple[int, int]]:
    """Four of five events have the key."""
    return [(key if n % 5 else 100 + n % 37, n) for n in range(count)]


def fullest(run: LocalReplay) -> float:
    return run.hot.balance()[0].actual


def test_a_hot_key_is_spread_over_all_tasks(tmp_path: Path) -> None:
    app, events, wanted = counts("row.n += e.v", mostly(7))
    alone, unsplit = replay(app, events, tmp_path / "alone", policy=NEVER, epoch=8)
    split, run = replay(app, events, tmp_path / "split", epoch=8)
    assert_same(wanted, alone)
    assert_same(wanted, split)
    (balance,) = run.hot.balance()
    assert fullest(unsplit) == balance.unsplit > 0.8
    assert fullest(run) < 0.45 < fullest(unsplit)
    (hot,) = run.hot.report()
    assert (hot.tables, hot.key, hot.split, hot.why) == ("Count", (7,), 1.0, "")
    assert abs(hot.share - 0.8) < 0.01
    assert str(hot) == "Count[7]: 80.0% of the accesses, split"
    assert run.hot.report()[0].share == unsplit.hot.report()[0].share
    assert str(unsplit.hot.report()[0]).endswith("not split: splitting is switched off")
    reports = [report for report in run.reports if isinstance(report, WaveReport)]
    assert sum(report.items + report.hot_items for report in reports) == len(events)
    assert len([report for report in reports if report.hot_items]) > 3


@pytest.mark.parametrize(
    ("update", "why"),
    [
        ("row.sum += e.v / 3", "float arithmetic depends on the order"),
        ("row.n = row.n * 3 % 17", "set to more than a sum, an extreme or a bit operation"),
        ("row.n = 5 if row.n > 9 else row.n + 1", "set to more than a sum, an extreme or a bit operation"),
        ("ms.require(row.n < 50, 'full')\n    row.n += 1", "a row decides about an abort"),
        ("if row.n % 2:\n        row.last = e.v\n    row.n += 1", "a row decides whether"),
    ],
)
def test_what_cannot_be_split_is_told(update: str, why: str, tmp_path: Path) -> None:
    app, events, wanted = counts(update, mostly(7))
    actual, run = replay(app, events, tmp_path)
    assert_same(wanted, actual)
    (hot,) = run.hot.report()
    assert hot.split == 0 and why in hot.why and "(line 2" in hot.why


def test_keys_without_skew_are_left_alone(tmp_path: Path) -> None:
    app, events, wanted = counts("row.n += e.v", [(n % 97, n) for n in range(400)])
    actual, run = replay(app, events, tmp_path, policy=Policy(enabled=True, items_min=0), epoch=12)
    assert_same(wanted, actual)
    assert all(not hot.split for hot in run.hot.report())
    assert not any(r.hot_items for r in run.reports if isinstance(r, WaveReport))


def test_a_key_starts_from_the_initial_state(tmp_path: Path) -> None:
    app, events, _ = counts("row.n += e.v", mostly(7))
    initial = {"Count": pa.table({"key": [7, 8], "n": [1_000, 5], "last": [3, 4], "sum": [0.5, 0.25]})}
    result = app.run(events, engine="oracle", initial=initial)
    actual, run = replay(app, events, tmp_path, initial=initial)
    assert_same(Outcome(result.outputs, dict(app.state)), actual)
    assert run.hot.report()[0].split == 1


def test_a_field_that_may_be_overwritten_with_the_mark(tmp_path: Path) -> None:
    """Totals tell "not written" from "written with what a fold starts from"."""
    app, events, wanted = counts("row.n += 1\n    if e.v % 9 == 4:\n        row.last = 0 if e.v % 2 else 1", mostly(7))
    actual, run = replay(app, events, tmp_path)
    assert_same(wanted, actual)
    assert run.hot.report()[0].split == 1


@pytest.mark.parametrize("overflow", ["rare", "tied"])
def test_a_sum_that_overflows_on_the_way_is_run_again(overflow: str, tmp_path: Path) -> None:
    """The totals of parts fit, the way there does not: a transaction aborts that a fold knows nothing of."""
    big = INT64_MAX // 2
    values = [(7, v) for v in (big, big, *[0] * 10, 5, -big, *[0] * 20)]
    app, events, wanted = counts("row.n += e.v", values)
    assert wanted.outputs["status"].to_pylist().count("aborted") > 0
    actual, run = replay(app, events, tmp_path, size=5, epoch=8, overflow=overflow)
    assert_same(wanted, actual)
    (hot,) = run.hot.report()
    assert not hot.split and "depends on their rows" in hot.why


def test_a_wrong_total_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app, events, wanted = counts("row.n += e.v", mostly(7))
    total = HotRows.total

    def off_by_one(self: HotRows, *arguments: Any) -> Any:
        found = total(self, *arguments)
        found["Count"].fields["n"] += 1
        return found

    monkeypatch.setattr(HotRows, "total", off_by_one)
    actual, run = replay(app, events, tmp_path)
    assert_same(wanted, actual)
    assert "depends on their rows" in run.hot.report()[0].why


def test_rare_failures_still_start_a_replay_again(tmp_path: Path) -> None:
    """A split does not hide them: two tables are written, and one of the sums fails."""
    other = "@app.table(key=int)\nclass Other:\n    n: int = 0\n\n\n@app.on"
    source = COUNTS.format(update="row.n += 1").replace("@app.on", other)
    source = source.replace("    return", "    Other[e.v % 3].n += e.v\n    return")
    module = load_program(source, "counts")
    events = [module.Hit(ts=n, k=7, v=INT64_MAX // 3) for n in range(60)]
    with pytest.raises(RareAbort):
        replay(module.app, events, tmp_path / "rare")
    result = module.app.run(events, engine="oracle")
    actual, _ = replay(module.app, events, tmp_path / "tied", overflow="tied")
    assert_same(Outcome(result.outputs, dict(module.app.state)), actual)


def test_parts_follow_the_room_that_tasks_have() -> None:
    parts = parts_of(np.full(8, 100), np.array([0, 300, 100, 50]), 300.0)
    assert parts == (SplitPart(0, 0, 3), SplitPart(2, 3, 5), SplitPart(3, 5, 8))
