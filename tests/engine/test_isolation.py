"""Isolation levels under contention: nothing that a level forbids ever happens, and what it allows does."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from typing import Any

import pyarrow as pa
import pytest
from isolation_support import LEVELS, PROTOCOLS, UNDONE, WAYS, app, posts

import mainstem as ms
from mainstem.engine.entry import Bound, EntryPoint
from mainstem.testing import Outcome, assert_same, check_history
from mainstem.testing.serially import run_in_order, serial_order

TRANSACTIONS = 10_000
RUN = 2_500  # transactions; a run is repeated until there are enough, and until what is allowed was seen
RUNS_MAX = 240
LONGEST = 6  # doublings of a transaction's work
WORK = 700  # turns twice: some microseconds, in which others come along
SEEN = {"PL1": {"G1a", "G1b", "G1c"}, "PL2": {"G2"}, "PL3": set(), "PL4": set()}
"""What each level allows and the next one forbids. PL3 may leave the order of events, but threads that share a core
hardly ever overtake each other: tests of protocols in lockstep show that."""


def run(events: pa.Table, level: str, protocol: str, threads: int, **options: Any) -> ms.Result:
    return app.run(events, isolation=level, protocol=protocol, threads=threads, history=True, **options)


def grown(work: int, turn: int) -> int:
    """On a busy machine threads rarely meet: what was not seen yet gets longer and longer transactions."""
    return work << min(turn // 12, LONGEST)


def contend(level: str, protocol: str, threads: int, transactions: int, size: int, work: int = WORK) -> None:
    """Runs and checks; at PL4 also against the serial run."""
    counts: Counter[str] = Counter()
    done = 0
    for seed in range(RUNS_MAX):
        events = posts(size, work=grown(work, seed), seed=seed)
        result = run(events, level, protocol, threads)
        report = check_history(result.history, level, aborted=level in ("PL3", "PL4"))
        report.raise_if_broken()
        counts.update(report.counts)
        done += result.history.transactions
        if level == "PL4":
            assert result.digest == app.run(events, engine="serial").digest
        if done >= transactions and all(counts[kind] for kind in SEEN[level]):
            return
    assert done >= transactions
    assert {kind for kind in SEEN[level] if not counts[kind]} == set(), f"allowed, but never seen in {done:,}"


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize(("level", "protocol"), WAYS)
def test_what_is_forbidden_never_happens_and_what_is_allowed_does(level: str, protocol: str, threads: int) -> None:
    contend(level, protocol, threads, TRANSACTIONS, RUN)


@pytest.mark.long
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize(("level", "protocol"), WAYS)
def test_a_million_transactions(level: str, protocol: str, threads: int) -> None:
    contend(level, protocol, threads, 1_000_000, 50_000, work=100)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("level", ["PL3", "PL4"])
def test_results_are_those_of_a_serial_run(level: str, protocol: str, threads: int) -> None:
    """Not only the graph of the history: outputs and state are what the oracle gets in the order of the history."""
    for seed in range(3):
        events = posts(400, work=60, seed=seed)
        result = run(events, level, protocol, threads)
        order = serial_order(result.history)
        if level == "PL4":
            order = sorted(order)
        assert_same(run_in_order(app, events, order), Outcome(result.outputs, dict(app.state)))


def test_the_serial_run_tells_a_wrong_order() -> None:
    events = posts(50, work=0, slots=2)
    result = run(events, "PL3", "lock", 1)
    order = serial_order(result.history)
    with pytest.raises(AssertionError):
        assert_same(run_in_order(app, events, order[::-1]), Outcome(result.outputs, dict(app.state)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_dirty_reads_show_in_outputs(protocol: str) -> None:
    """What the recorder says about PL1 is true: committed transactions return values that nobody ever installed."""
    seen: set[str] = set()
    for seed in range(RUNS_MAX):
        events = posts(RUN, work=grown(WORK, seed), seed=seed)
        outputs = run(events, "PL1", protocol, 2).outputs
        late, value = outputs["late"].to_pylist(), events["value"].to_pylist()  # null where aborted
        of = {v: i for i, v in enumerate(value)}
        if UNDONE in late:
            seen.add("unfinished")
        if any(v in of and not events["good"][of[v]].as_py() for v in late if v is not None):
            seen.add("aborted")
        if any(v in of and late[of[v]] == value[i] for i, v in enumerate(late) if v is not None):
            seen.add("each other's")
        if len(seen) == 3:
            return
    pytest.fail(f"in {RUNS_MAX} runs only these were read: {seen}")


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("level", LEVELS[1:])
def test_from_pl2_on_outputs_are_clean(level: str, protocol: str) -> None:
    events = posts(RUN, work=WORK)
    outputs = run(events, level, protocol, 4).outputs
    seen = pa.concat_arrays([outputs[column].combine_chunks().drop_null() for column in ("early", "late")])
    committed = events["value"].filter(events["good"]).to_pylist()
    assert set(seen.to_pylist()) <= {0, *committed}
    assert outputs["early"].equals(outputs["late"]), "a transaction saw two values of one row"


def pace(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transaction 0 ends its body and stays uncommitted until transaction 2 has run, or can't; 1 runs in between."""
    bind, written, looked = EntryPoint.bind, threading.Event(), threading.Event()

    def bind_paced(self: EntryPoint, arrays: dict[str, Any]) -> Bound:
        bound = bind(self, arrays)

        def paced(context: Any, item: int, worker: int) -> int:
            if item == 1:
                written.wait(60)
            code = bound.function(context, item, worker)
            if item == 0:
                written.set()
                looked.wait(0.2)  # who is not let in at all runs afterwards, however long this is
            elif item == 2:
                looked.set()
            return code

        return Bound(paced, bound.context, bound.kept)

    monkeypatch.setattr(EntryPoint, "bind", bind_paced)


@pytest.mark.parametrize("good", [True, False])
@pytest.mark.parametrize(("level", "protocol"), WAYS)
def test_who_sees_what_is_not_committed(level: str, protocol: str, good: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One transaction has written and not committed, another one reads its row."""
    columns = {"slot": [0, 5, 1], "peer": [9, 9, 0], "value": [1, 2, 3], "work": [0] * 3, "good": [good, True, True]}
    events = pa.table({"ts": [0, 1, 2], **columns})
    pace(monkeypatch)
    result = run(events, level, protocol, 2, jit=False)
    committed = 1 if good else 0
    assert result.outputs["late"][2].as_py() == {"PL1": 1, "PL2": 0}.get(level, committed)
    report = check_history(result.history, level)
    assert report.ok
    assert ("G1a" in report.kinds) == (level == "PL1" and not good)


@pytest.mark.parametrize(("level", "protocol"), WAYS)
def test_histories_go_on_from_batch_to_batch(level: str, protocol: str) -> None:
    events = posts(600, work=0, slots=4)
    whole = run(events, level, protocol, 1).history
    pieces = run(events, level, protocol, 1, batch=70).history
    for name in ("txn_seq", "txn_committed", "read_txn", "write_txn", "write_place", "write_final"):
        assert getattr(whole, name).tolist() == getattr(pieces, name).tolist(), name
    names = [history.row_name(int(row)) for history in (whole, pieces) for row in history.write_row[:20]]
    assert names[:20] == names[20:]
    assert set(names) <= {f"{table}[{slot}]" for table in ("Slot", "Sink") for slot in range(4)}
    # On one thread every level is serial: a transaction reads what the one before it installed.
    assert check_history(pieces, "PL4").kinds == set()
    assert pieces.functions == ("post",)


def test_retries_are_counted() -> None:
    """Timestamps at PL3: transactions on one row can't all be the first."""
    total = 0
    for seed in range(RUNS_MAX):
        result = run(posts(RUN, slots=2, work=WORK, seed=seed), "PL3", "timestamp", 2)
        total += result.stats.retries
        assert result.stats.retries == sum(b.retries for b in result.stats.batches)
        if total:
            break
    assert total
    app.run(posts(RUN, slots=2, work=10), isolation="PL3", protocol="timestamp", threads=2)
    assert "retries: " in app.explain(analyze=True)


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize(("level", "protocol"), WAYS)
def test_an_error_comes_out_and_the_next_run_is_right(
    level: str, protocol: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = posts(60, work=0)
    for at, error in ((0, RuntimeError("first")), (17, KeyboardInterrupt("on the way")), (45, MemoryError("late"))):
        with monkeypatch.context() as patch:
            fail_at(patch, at, error)
            with pytest.raises(type(error), match=str(error)):
                run(events, level, protocol, threads, jit=False)
    result = run(events, level, protocol, threads, jit=False)
    check_history(result.history, level).raise_if_broken()
    assert result.stats.events == 60


def fail_at(monkeypatch: pytest.MonkeyPatch, run: int, error: BaseException) -> None:
    """The transaction that is run as number `run` raises, in whatever thread that is."""
    bind, runs = EntryPoint.bind, itertools.count()

    def bind_failing(self: EntryPoint, arrays: dict[str, Any]) -> Bound:
        bound = bind(self, arrays)

        def failing(context: Any, item: int, worker: int) -> int:
            if next(runs) == run:
                raise error
            return bound.function(context, item, worker)

        return Bound(failing, bound.context, bound.kept)

    monkeypatch.setattr(EntryPoint, "bind", bind_failing)
