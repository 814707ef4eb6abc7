"""A dataflow made by hand equals the serial run, whatever the shards, ranges and epochs."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from pathlib import Path

import by_hand
import pyarrow as pa
import pytest
from replay_support import ranges_of, replayed

from mainstem.lang.dataflow import Dataflow
from mainstem.replay import LocalReplay, RangeBlocks, WaveReport, replay_local, wave_tasks
from mainstem.replay import blocks as block_module
from mainstem.testing import Outcome, assert_same


@pytest.fixture(scope="module")
def flow() -> Dataflow:
    return by_hand.flow()


def serial(events: pa.Table, initial: dict[str, pa.Table] | None = None) -> Outcome:
    result = by_hand.app.run(events, initial=initial)
    return Outcome(result.outputs, dict(by_hand.app.state))


@pytest.mark.parametrize("shards", [1, 2, 4, 8])
@pytest.mark.parametrize(("size", "batches_per_range", "epoch"), [(1000, 1, 1), (50, 1, 3), (17, 3, 2), (7, 1, 100)])
def test_stages_equal_the_serial_run(
    flow: Dataflow, tmp_path: Path, shards: int, size: int, batches_per_range: int, epoch: int
) -> None:
    events = by_hand.events(seed=shards * size, count=300)
    actual = replayed(
        flow, events, tmp_path, shards=shards, size=size, epoch=epoch, batches_per_range=batches_per_range
    )
    assert_same(serial(events), actual)


@pytest.mark.parametrize("keyed", list(itertools.product([True, False], repeat=3)))
def test_stages_that_are_not_keyed_run_in_one_task(tmp_path: Path, keyed: tuple[bool, bool, bool]) -> None:
    events = by_hand.events(seed=5, count=200)
    actual = replayed(by_hand.flow(keyed), events, tmp_path, shards=4, size=40, epoch=2)
    assert_same(serial(events), actual)


def test_many_seeds(flow: Dataflow, tmp_path: Path) -> None:
    for seed in range(12):
        events = by_hand.events(seed, 120, users=(2, 30)[seed % 2], links=(0.0, 0.5, 1.0)[seed % 3])
        cut = {"shards": 1 + seed % 5, "size": 1 + 13 * seed, "epoch": 1 + seed % 3, "keep": seed % 2 == 0}
        actual = replayed(flow, events, tmp_path / str(seed), **cut)
        assert_same(serial(events), actual, context=f"seed {seed}")


def test_blocks_are_run_in_parts(flow: Dataflow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_module, "CALL_ITEMS", 8)
    events = by_hand.events(2, 250)
    assert_same(serial(events), replayed(flow, events, tmp_path, shards=3, size=100, epoch=2))


def test_starts_from_given_tables(flow: Dataflow, tmp_path: Path) -> None:
    earlier = serial(by_hand.events(3, 150))
    events = by_hand.events(4, 150)
    expected = serial(events, dict(earlier.state))
    actual = replayed(flow, events, tmp_path, shards=4, size=40, epoch=2, initial=dict(earlier.state))
    assert_same(expected, actual)
    assert expected.state["Host"]["total"].to_pylist() != serial(events).state["Host"]["total"].to_pylist()


@pytest.mark.parametrize("ranges", [[], [[]], [[], []]])
def test_nothing_to_replay(flow: Dataflow, tmp_path: Path, ranges: list[list]) -> None:
    outputs, tables = replay_local(flow, ranges, shards=2, epoch=1, folder=tmp_path)
    assert outputs[0].schema == by_hand.app.program.output_schema and outputs[0].num_rows == 0
    assert {name: table.num_rows for name, table in tables.items()} == {"Friends": 0, "Sender": 0, "Host": 0}


def test_reports_add_up(flow: Dataflow, tmp_path: Path) -> None:
    events = by_hand.events(6, 200)
    replay = LocalReplay(flow, 3, tmp_path)
    replay.run(ranges_of(flow, events, 50), 2, {})
    mails = events["event"].to_pylist().count("Mail")
    links = 200 - mails
    ranges = [report for report in replay.reports if isinstance(report, RangeBlocks)]
    waves = [report for report in replay.reports if isinstance(report, WaveReport)]
    assert sum(report.events for report in ranges) == 200
    assert {report.last_ts is None for report in ranges} == {True, False}
    for stage, items in enumerate((mails + links, 2 * mails, mails)):
        assert sum(sum(report.items[stage]) for report in ranges) == items
        assert sum(report.items for report in waves if report.task.wave == stage + 1) == items
    bad = replay.outputs[0]
    aborted = sum(batch.column("status").to_pylist().count("aborted") for batch in bad)
    assert aborted == sum(report.aborted for report in waves if report.task.wave == 3) > 0
    assert set(waves[0].seconds) >= {"load", "read", "put", "run", "write", "state"}


def test_tasks_of_a_wave() -> None:
    mixed = by_hand.flow((True, False, True))
    assert [(t.wave, t.stages, t.shard, t.keyed) for t in wave_tasks(mixed, 1, 2)] == [
        (1, (0,), 0, True), (1, (0,), 1, True)
    ]  # fmt: skip
    assert [(t.stages, t.shard, t.keyed) for t in wave_tasks(mixed, 2, 2)] == [((1,), 0, False)]


def test_everything_is_compiled_before_tasks_run(flow: Dataflow, tmp_path: Path) -> None:
    """In processes of their own: signatures of this one may come from other tests."""
    script = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import by_hand
from mainstem.replay import compile_tasks, kernels, sharding
from mainstem.state import hashing
from replay_support import replayed

flow = by_hand.flow()
compile_tasks(flow, 3)
moves = [getattr(module, name) for module in (kernels, sharding, hashing) for name in dir(module)]
moves = [move for move in moves if hasattr(move, "signatures")]
assert len(moves) > 8
before = {{str(move): len(move.signatures) for move in moves}}
replayed(flow, by_hand.events(1, 100), Path({str(tmp_path)!r}), shards=3, size=30, epoch=2)
after = {{str(move): len(move.signatures) for move in moves}}
print([(name, before[name], after[name]) for name in before if before[name] != after[name]])
"""
    environment = {**os.environ, "MAINSTEM_JIT": "1"}
    assert subprocess.check_output([sys.executable, "-c", script], text=True, env=environment) == "[]\n"
