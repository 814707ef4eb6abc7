"""Several live inputs in one order: any schedule, killed anywhere, gives the outputs and windows of the sorted run."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from inputs_support import SCHEMA, Handing, Pieces, oracle, payments, schedule, tables

from mainstem import tools
from mainstem.errors import CorruptError, InputError, StoreError
from mainstem.gate.live.held import Reached, pass_silent
from mainstem.store.carried import carried_files, waiting
from mainstem.store.store import Store
from mainstem.testing import assert_same

from crash_plug import Plug, armed  # isort: skip  # inputs_support has put its folder on the path

SEEDS, SEEDS_LONG = 12, 2_000


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here loses power."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


def assert_sorted_run(run: Handing, given: list[pa.Table]) -> None:
    wanted, rejects = oracle(payments, given)
    assert_same(wanted, run.outcome())
    assert run.rejects() == rejects
    assert not list((run.state / "carried").glob(".*"))


STEPS = (
    "output.stage.start", "commit.start", "output.stage.synced", "log.append.half",
    "log.append.synced", "commit.logged", "output.publish.renamed", "output.publish.start", "recover.cleaned",
)  # fmt: skip


def check(seed: int, folder: Path, crashes: int) -> None:
    draw = random.Random(seed)
    given = tables(seed, draw.choice((5, 20, 60)), bad=draw.choice((0.0, 0.1)))
    pieces = schedule(seed, given, draw.choice((3, 12, 40)))
    run = Handing(folder / "state", pieces, durability=draw.choice(("sync", "batch")))
    for _ in range(crashes):
        with armed(Plug(draw.choice(STEPS), draw.randint(1, 12))):
            run.run()
            run.finish()
    if waits(run.state) or run.answered < len(pieces):
        run.run()
    run.finish()
    assert_sorted_run(run, given)


def meta_of(state: Path) -> dict[str, Any]:
    if not (state / "FORMAT").exists():
        return {}
    with Store.open(state, payments.program.tables) as store:
        return store.meta


def waits(state: Path) -> int:
    return waiting(meta_of(state))


@pytest.mark.parametrize("seed", range(SEEDS))
def test_any_schedule_with_crashes_is_the_sorted_run(tmp_path: Path, seed: int) -> None:
    check(seed, tmp_path, crashes=seed % 4)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(SEEDS, SEEDS_LONG, 20))
def test_many_schedules_with_crashes_are_the_sorted_run(tmp_path: Path, seed: int) -> None:
    for number in range(seed, seed + 20):
        check(number, tmp_path / str(number), crashes=number % 6)


def test_killed_at_every_step_of_every_micro_batch(tmp_path: Path) -> None:
    """Each time the store crashes once, and a new run goes on from what is on disk."""
    given = tables(3, 9, bad=0.1)
    pieces = schedule(3, given, 5)
    with armed(Plug()) as plug:
        calm = Handing(tmp_path / "calm", pieces)
        calm.run()
    assert waits(calm.state)
    with armed(plug):
        calm.finish()
    assert set(STEPS) <= set(plug.seen)
    assert_sorted_run(calm, given)
    for step in STEPS:
        for count in range(1, plug.seen[step] + 1):
            run = Handing(tmp_path / f"{step}-{count}", pieces)
            with armed(Plug(step, count)) as pulled:
                run.run()
                run.finish()
            assert pulled.pulled
            if run.answered < len(pieces):
                run.run()
            run.finish()
            assert_sorted_run(run, given)


def rows(*found: tuple[int, int], event: str = "Transfer") -> pa.Table:
    """(ts, amount) of transfers."""
    made = [{"ts": ts, "event": event, "src": 1, "dst": 2, "amount": amount} for ts, amount in found]
    return pa.Table.from_pylist(made, schema=SCHEMA)


def beat(ts: int) -> pa.Table:
    return pa.Table.from_pylist([{"ts": ts}], schema=SCHEMA)


def times(run: Handing) -> list[int]:
    """Of the transfers that have run."""
    outputs = run.outcome().outputs
    return outputs.filter(pa.array([e == "Transfer" for e in outputs["event"].to_pylist()]))["ts"].to_pylist()


def handed(folder: Path, pieces: Pieces, inputs: int = 2, **options: Any) -> Handing:
    run = Handing(folder / "state", pieces, inputs, **options)
    run.run(options.pop("upto", None))
    return run


def test_events_run_when_no_input_can_bring_an_earlier_one(tmp_path: Path) -> None:
    run = handed(tmp_path, [{0: rows((1, 1), (4, 1)), 1: rows((4, 2), (6, 2))}])
    assert times(run) == [1, 4]  # 4 of input 1 waits: another 4 may come from input 0
    assert waits(run.state) == 2
    run.pieces.append({0: rows((4, 3), (7, 1))})
    run.run()
    assert times(run) == [1, 4, 4, 4, 6]
    assert waits(run.state) == 1


def test_a_heartbeat_lets_others_go_on_and_is_no_event(tmp_path: Path) -> None:
    run = handed(tmp_path, [{0: rows((1, 1), (5, 1))}, {1: beat(3)}, {1: beat(2)}, {1: beat(9)}])
    assert times(run) == [1, 5]
    assert run.rejects() == [] and waits(run.state) == 0
    run.pieces.append({1: rows((8, 1))})
    run.run()
    assert run.rejects() == [
        {
            "input": 1,
            "offset": 3,
            "reason": "column 'ts' is 8, which is late: a heartbeat said that nothing before 9 would come",
        }
    ]


def test_a_row_older_than_its_own_input_is_bad(tmp_path: Path) -> None:
    pieces = [{0: rows((5, 1)), 1: rows((9, 1))}, {0: rows((7, 1), (6, 1)), 1: rows((8, 1), (9, 2))}]
    run = handed(tmp_path, pieces)
    assert times(run) == [5, 6, 7]
    assert run.rejects() == [{"input": 1, "offset": 1, "reason": "column 'ts' goes back: 8 comes after 9"}]
    with pytest.raises(InputError, match=r"input 1 \(DataFrame\), row 1: column 'ts' goes back: 8 comes after 9"):
        handed(tmp_path / "again", pieces, on_bad="raise")


def test_silent_inputs_do_not_hold_up_others_for_ever(tmp_path: Path) -> None:
    run = Handing(tmp_path / "state", [{0: rows((1, 1), (5, 1))}, {0: rows((6, 1))}, {1: rows((2, 1), (6, 2))}], 2)
    run.run(upto=1)
    assert waits(run.state) == 2
    run.run(upto=2, idle=1e-9)  # whoever is not in this micro-batch is silent for longer than that
    assert times(run) == [1, 5, 6]
    run.run()
    assert [row["reason"].split(":")[1].strip() for row in run.rejects()] == [
        "the input was silent for too long, others went on to 6"
    ]


def test_silent_inputs_promise_no_more_than_others_have_reached() -> None:
    reached = [Reached(), Reached(7), Reached(9), Reached(3)]
    pass_silent(reached, [0, 3])
    assert [(r.clock, r.by) for r in reached] == [(8, "silence"), (7, "row"), (9, "row"), (7, "silence")]
    pass_silent(reached, [0, 1, 2, 3])
    assert reached[3].clock == 7


def test_what_waits_is_not_written_again_and_again(tmp_path: Path) -> None:
    """A silent input: files stay few, and all that was ever written is a small multiple of what waits."""
    ticks = [{0: rows(*((10 * n + i, 1) for i in range(10)))} for n in range(64)]
    run = Handing(tmp_path / "state", ticks, 2)
    written = []

    def note(meta: dict[str, Any]) -> None:
        told = carried_files(meta)
        assert len(told) <= 7
        assert {file.name for file in (run.state / "carried").iterdir()} == {file["name"] for file in told}
        written.append(sum(told[-1]["rows"]))  # the newest is the only one that this micro-batch wrote

    run.run(told=note)
    assert waits(run.state) == 640
    assert sum(written) < 640 * 5
    run.pieces.append({1: beat(10_000)})
    run.run()
    assert waits(run.state) == 0
    assert not list((run.state / "carried").glob(".*"))


def _damage(state: Path) -> None:
    file = next((state / "carried").glob(".*"))
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)


def _remove(state: Path) -> None:
    next((state / "carried").glob(".*")).unlink()


@pytest.mark.parametrize(("harm", "word"), [(_damage, "damaged"), (_remove, "missing")])
def test_damaged_events_are_noticed(tmp_path: Path, harm: Callable[[Path], None], word: str) -> None:
    run = handed(tmp_path, [{0: rows((1, 1), (5, 1))}])
    assert tools.verify(run.state).ok
    harm(run.state)
    damages = tools.verify(run.state).damages
    assert len(damages) == 1 and word in damages[0].what
    assert damages[0].lost == "2 events of live inputs that wait for others"
    with pytest.raises(CorruptError, match=word):
        run.run()
    with pytest.raises(CorruptError, match=word):
        run.finish()


@pytest.mark.parametrize("exported", [False, True])
def test_a_restored_directory_has_what_waits(tmp_path: Path, exported: bool) -> None:
    run = handed(tmp_path, [{0: rows((1, 1), (5, 1)), 1: rows((2, 1))}, {1: rows((9, 1))}], upto=1)
    assert tools.inspect(run.state).waiting == waits(run.state) == 1
    source = tools.export(run.state, tmp_path / "saved").path if exported else run.state
    tools.restore(source, tmp_path / "restored")
    other = Handing(tmp_path / "restored", run.pieces, 2)
    other.answered = 1
    for going_on in (run, other):
        going_on.run()
        going_on.finish()
    assert run.outcome().state == other.outcome().state


def test_runs_that_would_lose_what_waits_are_refused(tmp_path: Path) -> None:
    run = handed(tmp_path, [{0: rows((1, 1), (5, 1))}])
    later = rows((99, 1))
    for options in ({}, {"resume": True, "complete": True}):
        with pytest.raises(StoreError, match=r"holds 2 events of live inputs that wait .* this run would lose them"):
            payments.run(later, state=run.state, jit=False, progress=None, **options)
    with pytest.raises(StoreError, match="of 2 live inputs that wait for each other, and now there are 3"):
        Handing(run.state, [], 3).run()
    with pytest.raises(StoreError, match=r"holds 2 events .* this run would lose them"):
        Handing(run.state, [], 0).run()
    result = payments.run(later, state=run.state, complete=True, jit=False, progress=None)
    ran = [row["ts"] for row in result.outputs.to_pylist() if row["event"] == "Transfer"]
    assert ran == [1, 5, 99]
