"""`auto`: every choice gives the same result, cheap programs stay serial, choices and reasons are recorded."""

from __future__ import annotations

import json
import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.apps import grep_sum, ledger
from mainstem.engine import auto, calibrate
from mainstem.engine.experience import LEARNING, Known
from mainstem.engine.model import Properties, predict
from mainstem.engine.options import SAFE, SERIAL, Strategy
from mainstem.engine.result import Breakdown, Ran
from mainstem.gate import open_events
from mainstem.state import State
from mainstem.testing import generate_case

FIGURES = {s.label: (1e-6, 1e-9) for s in SAFE}


@pytest.fixture
def parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets `auto` go parallel whatever the program costs, with made-up figures of the machine."""
    monkeypatch.setattr(auto, "CHEAP_SECONDS", 0.0)
    monkeypatch.setattr(auto, "SHORT_SECONDS", 0.0)
    monkeypatch.setattr(auto, "PARALLEL_UNCOMPILED", True)
    monkeypatch.setattr(auto, "known_costs", lambda threads: FIGURES)
    monkeypatch.setattr(auto, "_memories", {})
    monkeypatch.setattr(auto, "default_threads", lambda: 2)  # also on a machine with one core
    monkeypatch.setattr(auto, "TRIED", 1e9)  # every strategy is worth a try
    monkeypatch.setattr(auto, "CANDIDATES", len(SAFE))
    monkeypatch.setattr(auto, "TRIES_FIRST", 10**9)
    monkeypatch.setattr(auto, "GOOD_ENOUGH", -1.0)


@pytest.mark.usefixtures("parallel")
@pytest.mark.parametrize("block", range(8))
def test_every_choice_agrees_with_the_oracle(block: int) -> None:
    seen: set[str] = set()
    for seed in range(4 * block, 4 * block + 4):
        case = generate_case(f"auto {seed}", n=120)
        expected = case.run(engine="oracle")
        options: dict[str, Any] = {"batch": random.Random(seed).choice((1, 7, 15)), "threads": 2, "jit": False}
        case.check(expected, engine="auto", **options)
        if case.module.app.program.compiled:
            result = case.module.app.run(case.stream.tables(), engine="auto", **options)
            seen.update(result.stats.engines)
    assert len(seen) > 4, seen


@pytest.mark.usefixtures("parallel")
def test_changed_rows_of_a_sampled_batch_are_all_committed(tmp_path: Path) -> None:
    events = ledger.generate(3_000, accounts=300)
    ledger.app.run(events, initial=ledger.initial(300), engine="serial")
    expected = ledger.app.state.digest
    ledger.app.run(events, initial=ledger.initial(300), state=tmp_path / "state", batch=500, threads=2)
    assert ledger.app.state.digest == expected
    ledger.app.run(events.slice(0, 0), state=tmp_path / "state")
    assert ledger.app.state.digest == expected


def test_a_cheap_program_stays_serial_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "CHEAP_SECONDS", 1.0)  # whatever this machine is doing at the moment
    result = ledger.app.run(ledger.generate(20_000), initial=ledger.initial(), batch=5_000, threads=2)
    assert result.stats.engines == ("serial",)
    assert "ns per transaction" in result.stats.batches[-1].why


def test_one_thread_is_serial() -> None:
    result = ledger.app.run(ledger.generate(1_000), initial=ledger.initial(), threads=1)
    assert result.stats.batches[0].why == "one thread"


def test_a_dear_program_leaves_the_serial_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "CHEAP_SECONDS", 0.0)
    monkeypatch.setattr(auto, "known_costs", lambda threads: FIGURES)
    monkeypatch.setattr(auto, "_memories", {})
    monkeypatch.setattr(auto, "default_threads", lambda: 2)
    events = grep_sum.generate(4_000, turns=3_000)
    serial = grep_sum.app.run(events, initial=grep_sum.initial(), engine="serial")
    result = grep_sum.app.run(events, initial=grep_sum.initial(), batch=500, threads=2)
    assert result.digest == serial.digest
    parallel = [b for b in result.stats.batches if b.engine != "serial"]
    assert parallel and all("of work per transaction" in b.why for b in parallel)


def test_while_the_machine_is_measured_runs_are_serial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "known_costs", lambda threads: None)
    monkeypatch.setattr(auto, "_memories", {})
    monkeypatch.setattr(auto, "default_threads", lambda: 2)
    events = grep_sum.generate(1_000, turns=3_000)
    result = grep_sum.app.run(events, initial=grep_sum.initial(), threads=2)
    assert "not been measured" in result.stats.batches[0].why


def test_calibration_is_measured_kept_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(calibrate, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(calibrate, "SAFE", (Strategy("lock"), Strategy("components")))
    monkeypatch.setattr(calibrate, "_measure_meanwhile", asked.append)
    assert calibrate.known_costs(2) is None
    assert asked == [2]
    found = calibrate.calibrate(2)
    assert set(found) == {"lock", "components"} and all(each >= 0 for pair in found.values() for each in pair)
    assert calibrate.known_costs(2) == found
    next(tmp_path.glob("calibration-*.json")).write_text("torn")
    assert calibrate.known_costs(2) is None


def test_measuring_is_begun_again_when_it_died(monkeypatch: pytest.MonkeyPatch) -> None:
    children: list[Any] = []

    class Child:
        ended: int | None = None

        def __init__(self, *_: Any, **__: Any) -> None:
            children.append(self)

        def poll(self) -> int | None:
            return self.ended

    monkeypatch.setattr(calibrate.subprocess, "Popen", Child)
    monkeypatch.setattr(calibrate, "_started", {})
    monkeypatch.delenv("MAINSTEM_CALIBRATE", raising=False)
    counts = []
    calibrate._measure_meanwhile(3)
    children[-1].ended = 0  # well: nothing is repeated so soon
    calibrate._measure_meanwhile(3)
    assert len(children) == 1
    children.clear()
    for _ in range(6):
        calibrate._measure_meanwhile(2)
        calibrate._measure_meanwhile(2)  # on its way
        counts.append(len(children))
        children[-1].ended = 1
    assert counts == [1, 2, 3, 3, 3, 3]
    calibrate._measure_meanwhile(4)  # another number of threads
    assert len(children) == 4


def test_what_was_measured_meanwhile_is_not_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    monkeypatch.setattr(calibrate, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(calibrate, "calibrate", measured.append)
    calibrate._main(2)
    kept = {"seconds": FIGURES, "quiet": True, "turns": 1}
    calibrate._path(2).write_text(json.dumps(kept))
    calibrate._main(2)
    calibrate._main(4)
    assert measured == [2, 4]
    calibrate._path(2).write_text(json.dumps({**kept, "quiet": False}))  # somebody else used the machine
    calibrate._main(2)
    calibrate._path(2).write_text(json.dumps({**kept, "quiet": False, "turns": calibrate.BUSY_TURNS}))
    calibrate._main(2)
    assert measured == [2, 4, 2]


def test_the_lowest_figures_are_kept_and_a_busy_machine_is_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    turns = iter([((9e-6, 4e-3), False), ((8e-6, 5e-3), True), ((9e-6, 1e-3), False)])

    def measure(strategies: list[Strategy], threads: int) -> calibrate.Figures:
        pair, quiet = next(turns)
        return calibrate.Figures({s.label: pair for s in strategies}, quiet, 1)

    monkeypatch.setattr(calibrate, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(calibrate, "_measure_meanwhile", asked.append)
    monkeypatch.setattr(calibrate, "measure", measure)
    calibrate.calibrate(2)
    assert calibrate.known_costs(2) == calibrate.Figures({s.label: (9e-6, 4e-3) for s in SAFE}, False, 1).costs
    assert asked == [2]
    calibrate.calibrate(2)
    calibrate.calibrate(2)
    assert calibrate.known_costs(2) == calibrate.Figures({s.label: (8e-6, 1e-3) for s in SAFE}, True, 3).costs
    assert asked == [2]


def properties(**changes: Any) -> Properties:
    known: dict[str, Any] = {
        "transactions": 10_000, "operations": 20_000, "cost": 10e-6, "aborts": 0.0, "split": 1.0, "dependent": 0.2,
        "near": 0.0, "path_versions": 0.01, "path_locks": 0.01, "path_parts": 0.01, "strata": 10, "heaviest": 0.01,
    }  # fmt: skip
    return Properties(**{**known, **changes})


def best(batch: Properties) -> Strategy:
    return min((SERIAL, *SAFE), key=lambda s: predict(s, batch, FIGURES, 2))


def test_the_model_knows_when_not_to_parallelise() -> None:
    assert best(properties(cost=1e-9)) == SERIAL
    assert best(properties()) != SERIAL
    nothing_at_once = properties(path_versions=1.0, path_locks=1.0, path_parts=1.0, heaviest=1.0)
    assert best(nothing_at_once) == SERIAL


def test_the_model_weighs_conflicts_and_aborts() -> None:
    components, graph = Strategy("components"), Strategy("tpg", abort="lazy")

    def seconds(strategy: Strategy, **changes: Any) -> float:
        return predict(strategy, properties(**changes), FIGURES, 2)

    assert seconds(components, heaviest=0.9) > seconds(graph, heaviest=0.9)
    assert seconds(Strategy("lock"), near=0.5) > seconds(Strategy("lock"))
    assert seconds(graph, aborts=0.5) > seconds(components, aborts=0.5)
    assert seconds(graph, aborts=0.5, split=0.0) == seconds(graph, split=0.0) < seconds(graph)


def planned(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> auto.AutoExecutor:
    """Serial is the plan, and all strategies are predicted to take as long; nothing is known about them."""
    monkeypatch.setattr(auto, "_memories", {})
    monkeypatch.setattr(auto, "default_threads", lambda: 2)
    program = grep_sum.app.program
    state = State({table.name: table for table in program.tables})
    executor = auto.AutoExecutor(program, state, threads=2, jit=False)
    batch = properties(**changes)
    executor.memory.begin_plan(batch)
    executor.memory.cost = batch.cost
    per_operation = batch.work / batch.operations
    executor._plan = auto.Plan(SERIAL, batch, {s.label: per_operation for s in (SERIAL, *SAFE)}, 0.0, [])
    executor._warm.update(s.label for s in SAFE)
    return executor


def learn(executor: auto.AutoExecutor, strategy: Strategy, share: float, dearer: float = 1.0) -> None:
    """A batch took that share of the time of the serial run; its transactions were that much dearer than known."""
    assert executor._plan is not None
    batch = executor._plan.properties
    work = dearer * batch.work
    ran = Ran(strategy.label, "", 2, Breakdown(work, 0.0, 0.0, 0.0, 0.0, 0.0), 0)
    executor._learn(strategy, ran, share * work, batch.operations)


def test_a_try_that_beats_the_serial_run_ends_it(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = planned(monkeypatch)
    assert executor._stays_serial()
    learn(executor, Strategy("lock"), 0.5)
    assert not executor._stays_serial()
    assert executor._plan is not None and executor._plan.best == Strategy("lock")


def test_what_is_much_slower_is_tried_once_and_what_never_ran_is_not_taken_for_the_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor, slow = planned(monkeypatch), Strategy("tpg", explore="bfs")
    plan = executor._plan
    assert plan is not None
    plan.queue = [slow, slow, Strategy("pat")]
    learn(executor, Strategy("lock"), 0.6)
    learn(executor, slow, 0.9)
    assert plan.queue == [Strategy("pat")] and plan.best == Strategy("lock")
    for _ in range(20):
        learn(executor, Strategy("lock"), 0.85)  # worse than it was, and than all others are predicted to be
    plan.queue = []
    executor._prefer_best(plan)
    assert plan.best in (Strategy("lock"), slow)


def test_one_slow_batch_is_not_the_end_of_a_strategy_that_should_be_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, lock = planned(monkeypatch), Strategy("lock")
    plan = executor._plan
    assert plan is not None
    plan.best = lock
    plan.seconds["lock"] /= 2
    learn(executor, lock, 3.0)
    assert plan.best is SERIAL and plan.queue == [lock] and not executor._stays_serial()
    learn(executor, plan.queue.pop(), 0.6)
    assert plan.best == lock and plan.queue == []
    learn(executor, Strategy("pat"), 3.0)  # the model expected nothing of it
    assert plan.queue == []
    other = Strategy("components")
    plan.seconds["components"] /= 2
    executor.memory.strategies["components"] = Known(3.0)  # as it was in other batches
    learn(executor, other, 3.0, dearer=8.0)  # other work than what is known: not even a try
    assert executor.memory.tries("components") == 0 and plan.queue == []
    learn(executor, other, 3.0)
    assert plan.queue == [other]
    learn(executor, plan.queue.pop(), 3.0)
    assert executor.memory.tries("components") == 2 and plan.queue == []  # twice is enough


@pytest.mark.parametrize("overlapping", [True, False])
def test_a_batch_that_is_planned_says_nothing_about_strategies_that_overlap(
    monkeypatch: pytest.MonkeyPatch, overlapping: bool
) -> None:
    """It runs alone, and its operations are laid out for the plan."""
    monkeypatch.setattr(auto, "CHEAP_SECONDS", 0.0)
    monkeypatch.setattr(auto, "SHORT_SECONDS", 0.0)
    monkeypatch.setattr(auto, "known_costs", lambda threads: FIGURES)
    monkeypatch.setattr(auto, "_memories", {})
    monkeypatch.setattr(auto, "default_threads", lambda: 2)
    monkeypatch.setattr(auto, "REPLAN", 1)
    monkeypatch.setattr(auto, "PLANNING_SHARE", 1e9)  # every batch is planned
    monkeypatch.setattr(auto, "GOOD_ENOUGH", 1e9)  # by the favourite of the model
    program = grep_sum.app.program
    state = State({table.name: table for table in program.tables})
    state.load(grep_sum.initial())
    executor = auto.AutoExecutor(program, state, threads=2, track=not overlapping)
    stream, _ = open_events(grep_sum.generate(2_000, turns=2_000), program.events, batch_size=200)
    engines = {result.stats.engine for result in executor.run_all(stream)} - {"serial"}
    tried = {label for label, known in executor.memory.strategies.items() if known.tries}
    assert engines
    assert bool(tried) is not overlapping, (engines, tried)


def test_versions_do_not_make_the_work_look_like_more(monkeypatch: pytest.MonkeyPatch) -> None:
    executor, graph = planned(monkeypatch), Strategy("tpg", explore="ns")
    assert executor._plan is not None
    cost = executor.memory.cost
    for _ in range(3):
        learn(executor, graph, 0.6 / 1.4, dearer=1.4)
    assert executor.memory.cost == pytest.approx(cost)
    executor._plan.best, executor._plan.age = graph, auto.REPLAN
    assert executor._cost_unknown()  # before a new plan, a sample tells


def test_plans_of_short_batches_last_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making one may take half a percent of the time of its batches."""
    plan = planned(monkeypatch)._plan
    assert plan is not None
    plan.age, plan.making, plan.spent = auto.REPLAN, 500e-6, 90e-3
    assert not plan.is_old
    plan.spent = 120e-3
    assert plan.is_old
    plan.age = auto.REPLAN - 1
    assert not plan.is_old


@pytest.mark.parametrize("dearer", [8.0, 0.1])
def test_transactions_that_cost_something_else_are_not_the_strategys_fault(
    monkeypatch: pytest.MonkeyPatch, dearer: float
) -> None:
    executor, lock = planned(monkeypatch), Strategy("lock")
    learn(executor, lock, 0.6)
    for _ in range(6):
        learn(executor, lock, 0.6, dearer)
        assert executor.memory.factor("lock") == pytest.approx(0.6, rel=0.25)
    assert executor.memory.cost == pytest.approx(dearer * properties().cost, rel=0.2)


def test_a_strategy_that_makes_every_transaction_dearer_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """As threads do that share a core, or its cache; serial batches in between say what transactions really cost."""
    executor, lock = planned(monkeypatch), Strategy("lock")
    assert executor._plan is not None and executor.memory.cost is not None
    for _ in range(auto.DOUBTS + 1):
        assert executor.memory.tries("lock") == 0
        executor.memory.learn_cost(executor.memory.cost)
        learn(executor, lock, 0.7, dearer=2.0)
    assert executor.memory.factor("lock") == pytest.approx(1.4)
    assert executor._plan.best is SERIAL


def test_executors_of_one_program_turn_to_their_own_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    one = planned(monkeypatch)
    kind = one.memory.strategies
    other = auto.AutoExecutor(one.program, one.state, threads=2, jit=False)
    other.memory.begin_plan(properties(cost=1e-3, heaviest=1.0))
    learn(one, Strategy("lock"), 0.5)
    assert one.memory.strategies is kind and kind["lock"].tries == 1
    assert other.memory.tries("lock") == 0
    other.memory.begin_plan(properties())
    assert other.memory.tries("lock") == 1  # what it took is known to both


def test_serial_batches_tell_how_many_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    executor = planned(monkeypatch, aborts=0.5)
    executor.memory.aborts = 0.5
    monkeypatch.setattr(executor, "_timed_serially", lambda *_: executor.memory.cost)
    arrays = {"kind": np.zeros(4, np.uint8), "code": np.array([0, 3, 0, 0], np.uint16)}
    executor._serial(arrays, 4, 0, "")
    assert executor.memory.aborts == pytest.approx((1 - LEARNING) * 0.5 + LEARNING * 0.25)


@pytest.mark.usefixtures("parallel")
def test_batches_that_reach_no_row_spoil_no_figures() -> None:
    app = ms.App("rowless")
    event = app.event(type("Ask", (), {"__annotations__": {"x": int}}))

    @app.on(event)
    def answer(e):
        return {"y": e.x * 2}

    app.run(pa.table({"ts": range(2_000), "x": range(2_000)}), batch=50, threads=2, jit=False)
    (memory,) = auto._memories.values()
    assert memory.strategies and all(known.factor < 1e5 for known in memory.strategies.values()), memory
    assert memory.cost is not None and memory.cost < 1e-3  # of one transaction, not of a batch


@pytest.mark.parametrize(("seconds", "queue", "learned"), [(1e-3, 0, 2), (1e-3, 1, 8), (5e-3, 0, 8)])
def test_of_short_batches_that_run_as_planned_each_fourth_is_learned_from(
    seconds: float, queue: int, learned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = planned(monkeypatch)
    plan = executor._plan
    assert plan is not None
    plan.queue = [Strategy("lock")] * queue
    told: list[float] = []
    monkeypatch.setattr(executor.memory, "learn_aborts", told.append)
    arrays = {"code": np.zeros(10, np.int16)}
    staged: Any = SimpleNamespace(work=None, arrays=arrays, seconds_threads=seconds, strategy=SERIAL, shared=False)
    for _ in range(8):
        plan.age += 1
        executor._learn_staged(staged, Ran("serial"), 0.5)
    assert len(told) == learned and plan.spent == pytest.approx(8 * seconds)
