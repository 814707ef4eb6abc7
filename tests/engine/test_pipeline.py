"""Batches that overlap: the next one is prepared, and outputs of the last one are made, while one runs."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from test_ahead import looped, tagged_with
from test_strategy_failures import Bug, fail_at

import mainstem as ms
from mainstem.apps import bidding, ledger_work
from mainstem.engine import auto, make_executor
from mainstem.engine.kernels.control import CONTROL_WORDS, LINE, STOP
from mainstem.engine.options import SERIAL, Strategy
from mainstem.engine.overlap import Way
from mainstem.engine.parallel import ParallelExecutor
from mainstem.engine.pipeline import Pipeline, Staged
from mainstem.engine.result import Breakdown, Ran
from mainstem.gate import EventBatch, open_events
from mainstem.state import State, digest
from mainstem.state.index import KeyIndex
from mainstem.team import team

APPS = {"bidding": bidding, "ledger_work": ledger_work}
OVERLAPPING = ("inflight", "lock", "pat")


def batches(name: str, events: int, size: int, **knobs: Any) -> list[EventBatch]:
    app, program = APPS[name], APPS[name].app.program
    log = app.generate(events, **{"skew": 0.8, "abort": 0.2, "turns": 50, "seed": 5, **knobs})
    stream, _ = open_events(log, program.events, batch_size=size, columns=program.used_columns)
    return list(stream)


def make(name: str, engine: str, **options: Any) -> tuple[Any, State]:
    app, program = APPS[name], APPS[name].app.program
    state = State({table.name: table for table in program.tables})
    state.load(app.initial())
    return make_executor(program, state, engine, **options), state


def ending(name: str, engine: str, stream: list[EventBatch], **options: Any) -> tuple[list[pa.RecordBatch], str]:
    executor, state = make(name, engine, **options)
    outputs = [result.outputs for result in executor.run_all(stream)]
    return outputs, digest(state.export())


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """What is done with batches, and whether another one is running then."""
    notes: list[tuple[str, bool]] = []
    running: set[int] = set()
    originals = {name: getattr(ParallelExecutor, name) for name in ("stage", "conclude")}
    start, join = Staged.start, Staged.join

    def noted(name: str) -> Any:
        def call(self: ParallelExecutor, *arguments: Any) -> Any:
            notes.append((name, bool(running)))
            return originals[name](self, *arguments)

        return call

    def noted_start(self: Staged) -> None:
        running.add(id(self))
        start(self)

    def noted_join(self: Staged, then: Staged | None = None) -> bool:
        begun = join(self, then)
        running.discard(id(self))
        if begun:
            running.add(id(then))
        return begun

    for name in originals:
        monkeypatch.setattr(ParallelExecutor, name, noted(name))
    monkeypatch.setattr(Staged, "start", noted_start)
    monkeypatch.setattr(Staged, "join", noted_join)
    return notes


@pytest.mark.parametrize("threads", [2, 3, 8])
@pytest.mark.parametrize("engine", OVERLAPPING)
@pytest.mark.parametrize("name", list(APPS))
def test_equals_the_serial_run(seen: list[tuple[str, bool]], name: str, engine: str, threads: int) -> None:
    stream = batches(name, 4_000, 300)
    assert ending(name, engine, stream, threads=threads) == ending(name, "serial", stream)
    assert seen.count(("stage", True)) == len(stream) - 1
    assert seen.count(("conclude", True)) == len(stream) - 1


@pytest.mark.parametrize("engine", OVERLAPPING)
def test_uncompiled(engine: str) -> None:
    stream = batches("ledger_work", 200, 30, turns=0)
    assert ending("ledger_work", engine, stream, threads=3, jit=False) == ending("ledger_work", "serial", stream)


def test_auto_overlaps_where_its_plan_permits(seen: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "REPLAN", 5)  # plans are made when no batch is running
    monkeypatch.setattr(auto, "PLANNING_SHARE", 1.0)
    monkeypatch.setattr(auto, "known_costs", lambda threads: dict.fromkeys(auto._BY_LABEL, (1e-6, 1e-9)))
    stream = batches("ledger_work", 12_000, 400, turns=400, skew=0.0)
    executor, state = make("ledger_work", "auto", threads=2)
    executor._at_once = 2
    plans: list[object] = []
    make_plan = executor._make_plan
    executor._make_plan = lambda *given: plans.append(make_plan(*given)) or plans[-1]
    results = list(executor.run_all(stream))
    expected = ending("ledger_work", "serial", stream)
    assert ([result.outputs for result in results], digest(state.export())) == expected
    assert len(plans) > 2
    assert ("stage", True) in seen and ("conclude", True) in seen
    assert {result.stats.why.partition(";")[0] for result in results if result.stats.engine != "serial"}


def test_auto_shares_cheap_batches_where_that_is_measured_to_be_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ways take turns, blocks of batches each; no plan is made. What they cost is learned in each of them."""
    monkeypatch.setattr(auto, "SERIAL_FIRST_SECONDS", 0.0)
    for name in ("SHARED_SECONDS", "SHORT_SECONDS", "OVERLAP_SECONDS"):
        monkeypatch.setattr(auto, name, 0.0)
    monkeypatch.setattr(auto, "CHEAP_SECONDS", 1.0)
    stream = batches("ledger_work", 12_000, 200, turns=0)
    executor, state = make("ledger_work", "auto", threads=2)
    executor._at_once = 2
    results = list(executor.run_all(stream))
    assert ([result.outputs for result in results], digest(state.export())) == ending("ledger_work", "serial", stream)
    whys = {result.stats.engine: result.stats.why for result in results}
    assert set(whys) == {"serial", "inflight"} and "faster than one thread" in whys["inflight"]
    assert executor._plan is None and executor.memory.cost > 0
    assert set(executor._ways._known) == set(Way)


def test_what_shared_batches_take_is_not_what_transactions_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads wait for each other's caches: that must not make a cheap program look dear."""
    executor, _ = make("ledger_work", "auto", threads=2)
    executor.memory.cost, cost = 170e-9, []
    for useful in (900e-9, 290e-9, 290e-9, 290e-9, 290e-9, 145e-9):  # the first one loads code
        executor._learn_shared(Ran("inflight", breakdown=Breakdown(useful=useful * 1_000)), 1_000)
        cost.append(executor.memory.cost)
    assert cost[:5] == pytest.approx([170e-9] * 5)
    assert cost[5] < 170e-9


def test_results_of_executors_that_track_stand_when_they_come(seen: list[tuple[str, bool]]) -> None:
    stream = batches("bidding", 1_000, 200)
    runs = []
    for engine in ("serial", "lock"):
        executor, state = make("bidding", engine, track=True)
        runs.append(
            [
                ({n: t.sort_by("key").to_pydict() for n, t in done.deltas().items()}, digest(state.export()))
                for done in executor.run_all(stream)
            ]
        )
    assert runs[0] == runs[1]
    assert seen == []


@pytest.mark.parametrize("new", [False, True])
def test_seconds_of_batches_add_up_to_those_of_the_run(new: bool) -> None:
    """Also where each batch has new keys, and so waits for the one before it."""
    stream = batches("ledger_work", 8_000, 1_000, turns=500, accounts=100_000)
    executor, state = make("ledger_work", "lock", threads=2)
    if not new:
        list(executor.run_all(stream))
    known = sum(table.index.count for table in state.tables.values())
    start = time.perf_counter()
    stats = [result.stats for result in executor.run_all(stream)]
    assert sum(batch.seconds for batch in stats) <= time.perf_counter() - start
    assert all(batch.seconds_run > 0 and batch.breakdown.useful > 0 for batch in stats)
    assert (sum(table.index.count for table in state.tables.values()) > known) == new


def test_time_of_others_does_not_count_as_the_strategys() -> None:
    """What its threads took is the same, however slowly batches come and results go."""
    stream, taken = batches("ledger_work", 4_000, 500, turns=100), list[float]()

    class Noting(ParallelExecutor):
        def _learn_staged(self, staged: Staged, ran: Any, aborts: float) -> None:
            taken.append(staged.seconds_threads)

    executor, _ = make("ledger_work", "lock", threads=2)
    executor.__class__ = Noting

    def slowly() -> Iterator[EventBatch]:
        for batch in stream:
            time.sleep(0.1)
            yield batch

    for _ in executor.run_all(slowly()):
        time.sleep(0.1)
    assert len(taken) == len(stream) and max(sorted(taken)[:-2]) < 0.1


def test_an_executor_does_one_thing_at_a_time() -> None:
    stream = batches("ledger_work", 600, 100)
    executor, state = make("ledger_work", "lock", threads=2)
    results = executor.run_all(stream)
    next(results)
    for other in (
        lambda: executor.run(stream[0], 0),
        lambda: executor.run_raw(stream[0]),
        lambda: next(executor.run_all(stream)),
    ):
        with pytest.raises(ms.MainstemError, match="run_all is on its way"):
            other()
    assert len(list(results)) == 5
    assert digest(state.export()) == ending("ledger_work", "serial", stream)[1]
    executor.run(stream[0], 0)


def test_a_process_ends_while_results_are_left() -> None:
    script = (
        "from test_pipeline import batches, make\n"
        "executor, _ = make('ledger_work', 'lock', threads=2)\n"
        "results = executor.run_all(batches('ledger_work', 600, 100))\n"
        "next(results)\n"
        "print('left')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path])}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (0, "left\n"), done.stderr


def test_who_hands_over_events_one_by_one_gets_results_before_it_goes_on() -> None:
    """A source that is paced by the progress of what it has handed over."""
    told: list[int] = []
    log = ledger_work.generate(60, turns=0).to_pylist()
    classes = {name: getattr(ledger_work, name) for name in {row["event"] for row in log}}

    def paced() -> Iterator[Any]:
        for n, row in enumerate(log):
            assert sum(told) == n - n % 20
            names = classes[row["event"]].__annotations__
            yield classes[row["event"]](**{name: row[name] for name in names})

    result = ledger_work.app.run(
        paced(), initial=ledger_work.initial(), batch=20, engine="lock", threads=2, progress=told.append
    )
    assert result.stats.events == 60


tagged = ms.App("tagged in turns")


@tagged.event
class Post:
    author: int
    main: int
    tags: list[int]


@tagged.table(key=int)
class Tag:
    last: int = -1


@tagged.on(Post)
def tag(e):
    main = Tag[e.main]
    main.last = main.last * 3 + e.author
    half = Tag[e.main // 2 + 5]
    half.last = half.last * 5 + e.author
    for key in e.tags:
        row = Tag[key]
        row.last = row.last * 3 + main.last


@pytest.mark.parametrize("engine", OVERLAPPING)
@pytest.mark.parametrize("new", ["main", "half", "tags", "all"])
def test_no_key_is_added_while_transactions_run(
    seen: list[tuple[str, bool]], monkeypatch: pytest.MonkeyPatch, engine: str, new: str
) -> None:
    """Every third batch has new keys; the others overlap."""
    settle, staged = KeyIndex._settle, list[Staged]()

    def checked(self: KeyIndex, *arguments: Any, **named: Any) -> None:
        assert all(batch.seconds_run > 0 for batch in staged), "a batch was running"
        settle(self, *arguments, **named)

    start, join = Staged.start, Staged.join

    def joined(self: Staged, then: Staged | None = None) -> bool:
        begun = join(self, then)
        if begun and then is not None:
            staged.append(then)
        return begun

    monkeypatch.setattr(KeyIndex, "_settle", checked)
    monkeypatch.setattr(Staged, "start", lambda self: (staged.append(self), start(self))[1])
    monkeypatch.setattr(Staged, "join", joined)
    rows = []
    for n in range(2_000):
        fresh = 1_000 + 7 * n if n // 100 % 3 == 2 else n % 11
        main = fresh if new == "main" else 10 * fresh if new in ("half", "all") else n % 7
        rows.append(
            {
                "ts": n,
                "event": "Post",
                "author": n,
                "main": main,
                "tags": [n % 5, fresh if new in ("tags", "all") else 3],
            }
        )
    events = pa.Table.from_pylist(rows)
    expected = tagged.run(events, engine="oracle").digest
    assert tagged.run(events, batch=100, threads=2, engine=engine).digest == expected
    assert seen.count(("conclude", True)) > 10


@pytest.mark.parametrize("serial", [{0, 1, 2, 3}, {0, 1, 3}, {1, 2}])
@pytest.mark.parametrize("jit", [True, False])
def test_serial_batches_overlap_too(monkeypatch: pytest.MonkeyPatch, serial: set[int], jit: bool) -> None:
    """They find keys of loops by themselves, and where one is new, tables grow when the next batch is prepared."""
    turns, calls = iter(range(1_000)), list[str]()
    lock = ParallelExecutor._strategy_ahead
    monkeypatch.setattr(
        ParallelExecutor,
        "_strategy_ahead",
        lambda self, n: (SERIAL, "") if next(turns) % 4 in serial else lock(self, n),
    )
    for name in ("_go_on_serially", "stage_again"):
        whole = getattr(ParallelExecutor, name)
        monkeypatch.setattr(
            ParallelExecutor,
            name,
            lambda self, given, name=name, whole=whole: (calls.append(name), whole(self, given))[1],
        )
    tags = [[n % 7, *(range(20 * n, 20 * n + 11) if n // 60 % 3 else ()), n * n % 11] for n in range(1_200)]
    events = tagged_with("Note", tags)
    expected = looped.run(events, engine="oracle")
    found = looped.run(events, batch=60, threads=2, engine="lock", jit=jit)
    assert found.digest == expected.digest
    assert found.outputs.drop_columns("reason").to_pydict() == expected.outputs.drop_columns("reason").to_pydict()
    assert set(calls) == {"_go_on_serially", "stage_again"}
    assert set(found.stats.engines) == {"serial", "lock"} if len(serial) < 4 else {"serial"}


def test_what_comes_before_bad_input_has_its_results() -> None:
    stream = batches("ledger_work", 900, 100)

    def torn() -> Iterator[EventBatch]:
        yield from stream[:3]
        raise ms.InputError("the file is torn")

    executor, state = make("ledger_work", "lock", threads=2)
    results: list[Any] = []
    with pytest.raises(ms.InputError, match="torn"):
        results.extend(executor.run_all(torn()))
    assert ([result.outputs for result in results], digest(state.export())) == ending(
        "ledger_work", "serial", stream[:3]
    )


@pytest.mark.parametrize("at", [0, 25, 70, 95])
@pytest.mark.parametrize("error", [Bug("in a thread"), KeyboardInterrupt("in a thread")], ids=["bug", "interrupt"])
def test_a_failure_in_a_batch_comes_out_after_the_results_before_it(
    monkeypatch: pytest.MonkeyPatch, at: int, error: BaseException
) -> None:
    fail_at(monkeypatch, at, error)
    stream = batches("ledger_work", 100, 20, turns=0)
    executor, _ = make("ledger_work", "lock", threads=3, jit=False)
    results: list[Any] = []
    with pytest.raises(type(error), match="in a thread"):
        results.extend(executor.run_all(stream))
    assert at // 20 - 1 <= len(results) <= at // 20


def test_who_stops_early_leaves_the_state_after_a_whole_batch() -> None:
    stream = batches("ledger_work", 2_000, 200)
    executor, state = make("ledger_work", "inflight", threads=2)
    results = executor.run_all(stream)
    for _ in range(4):
        next(results)
    results.close()
    ran = digest(state.export())
    assert ran in {ending("ledger_work", "serial", stream[:n])[1] for n in (4, 5)}
    assert [result.stats.events for result in executor.run_all(stream[:1])] == [200]


@pytest.mark.parametrize("overlapping", [True, False])
def test_time_of_the_source_and_of_who_takes_results_is_no_batchs(
    monkeypatch: pytest.MonkeyPatch, overlapping: bool
) -> None:
    """By a clock that goes on only there, and by 1 for each batch that is prepared or run."""
    stream, clock, laps = batches("ledger_work", 600, 100), [0.0], list[tuple[bool, float]]()
    executor, _ = make("ledger_work", "inflight", threads=2)
    work = executor.stage if overlapping else executor.run

    def timed(*arguments: Any) -> Any:
        clock[0] += 1
        return work(*arguments)

    def source() -> Iterator[EventBatch]:
        for batch in stream:
            clock[0] += 1_000
            yield batch

    monkeypatch.setattr("mainstem.engine.pipeline.time.perf_counter", lambda: clock[0])
    monkeypatch.setattr(executor, "stage", timed if overlapping else lambda *_: None)
    monkeypatch.setattr(executor, "run", executor.run if overlapping else timed)
    monkeypatch.setattr(executor, "note_lap", lambda stats, overlapped, seconds: laps.append((overlapped, seconds)))
    for _ in executor.run_all(source()):
        clock[0] += 1_000_000
    assert [overlapped for overlapped, _ in laps] == [overlapping] * 6
    assert sum(seconds for _, seconds in laps) == 6


def test_an_interrupt_stops_what_is_running() -> None:
    """Ctrl-C while the next batch is read: the running one, of some seconds, does not go on."""
    stream = batches("ledger_work", 40_000, 20_000, turns=100_000)

    def interrupted() -> Iterator[EventBatch]:
        yield stream[0]
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(5)
        yield stream[1]

    executor, _ = make("ledger_work", "lock", threads=2)
    with pytest.raises(KeyboardInterrupt):
        list(executor.run_all(interrupted()))
    assert all(thread.idle for thread in team(2)._others)


@pytest.mark.parametrize("strategy", [SERIAL, Strategy("inflight")], ids=lambda s: s.label)
def test_nothing_of_a_batch_lives_on(monkeypatch: pytest.MonkeyPatch, strategy: Strategy) -> None:
    """Also without the collector: nothing refers to itself."""
    kept: list[weakref.ref] = []
    conclude = ParallelExecutor.conclude

    def noted(self: ParallelExecutor, staged: Staged) -> Any:
        kept.append(weakref.ref(staged))
        return conclude(self, staged)

    monkeypatch.setattr(ParallelExecutor, "conclude", noted)
    monkeypatch.setattr(ParallelExecutor, "_strategy_ahead", lambda self, count: (strategy, ""))
    executor, _ = make("ledger_work", "inflight", threads=2)
    stream = batches("ledger_work", 600, 100)
    gc.disable()
    try:
        kept += [weakref.ref(result.outputs) for result in executor.run_all(stream)]
        assert [ref() for ref in kept] == [None] * 12
    finally:
        gc.enable()


def test_batches_without_transactions() -> None:
    quiet = ms.App("quiet")

    @quiet.event
    class Ignored:
        name: int

    @quiet.event
    class Counted:
        name: int

    @quiet.table(key=int)
    class Name:
        seen: int = 0

    @quiet.on(Counted)
    def count(e):
        Name[e.name].seen += 1

    kinds = ["Counted"] * 50 + ["Ignored"] * 100 + ["Counted"] * 50 + ["Ignored"] * 50
    events = pa.table({"ts": range(len(kinds)), "event": kinds, "name": [n % 4 for n in range(len(kinds))]})
    expected = quiet.run(events, engine="oracle")
    found = quiet.run(events, batch=50, threads=2, engine="inflight")
    assert found.digest == expected.digest and found.outputs.to_pydict() == expected.outputs.to_pydict()
    assert len(found.stats.batches) == 5


class TestTogether:
    def test_the_caller_comes_later(self) -> None:
        begun, seen = threading.Event(), dict[int, int]()

        def task(worker: int) -> None:
            seen[worker] = threading.get_ident()
            begun.set()

        run = team(2).together(task)
        run.start()
        assert begun.wait(10) and list(seen) == [1]
        run.join()
        assert sorted(seen) == [0, 1] and seen[0] == threading.get_ident()

    def test_nobody_has_started(self) -> None:
        seen: list[int] = []
        team(2).together(seen.append).join()
        assert seen == [0]

    def test_another_run_in_between_waits(self) -> None:
        order: list[str] = []

        def slow(worker: int) -> None:
            time.sleep(0.05)
            order.append("slow")

        run = team(2).together(slow)
        run.start()
        team(2).run(lambda worker: order.append("other"))
        run.join()
        assert order == ["slow", "other", "other", "slow"]

    @pytest.mark.parametrize("culprit", [0, 1])
    def test_errors(self, culprit: int) -> None:
        control = np.zeros(CONTROL_WORDS, np.int64)

        def task(worker: int) -> None:
            if worker == culprit:
                raise ValueError(f"worker {worker}")
            while control[STOP * LINE] == 0:
                time.sleep(0)

        run = team(2).together(task, control)
        run.start()
        with pytest.raises(ValueError, match=f"worker {culprit}"):
            run.join()

    def test_stop(self) -> None:
        control = np.zeros(CONTROL_WORDS, np.int64)

        def task(worker: int) -> None:
            while control[STOP * LINE] == 0:
                time.sleep(0)

        run = team(2).together(task, control)
        run.start()
        run.give_up(KeyboardInterrupt())
        run.wait()
        assert control[STOP * LINE] == 1


def test_a_pipeline_runs_what_can_not_be_staged(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every second batch runs alone: results keep their order."""
    turns = iter(range(100))
    ahead = ParallelExecutor._strategy_ahead
    monkeypatch.setattr(
        ParallelExecutor, "_strategy_ahead", lambda self, count: ahead(self, count) if next(turns) % 2 else None
    )
    stream = batches("bidding", 1_000, 100)
    executor, state = make("bidding", "lock", threads=2)
    results = [result.outputs for result in Pipeline(executor).run(stream, 0)]
    assert (results, digest(state.export())) == ending("bidding", "serial", stream)
