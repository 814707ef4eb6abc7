"""While a batch is laid out, its first events run: every strategy goes on from there."""

from __future__ import annotations

import functools
import gc
import time
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.apps import bidding, ledger_work
from mainstem.engine import ahead, make_executor
from mainstem.engine.ahead import Ahead, HeadStart, Laid
from mainstem.engine.executor import Executor
from mainstem.engine.parallel import ParallelExecutor
from mainstem.gate import EventBatch, open_events
from mainstem.state import State, digest

EVENTS, BATCH = 6_000, 1_500
APPS = {"bidding": bidding, "ledger_work": ledger_work}
STRATEGIES = [
    {"engine": "inflight"},
    {"engine": "lock"},
    {"engine": "mvlk"},
    {"engine": "components"},
    {"engine": "chains"},
    {"engine": "tpg", "explore": "ns", "unit": "op", "abort": "eager"},
    {"engine": "tpg", "explore": "bfs", "unit": "group", "abort": "lazy"},
    {"engine": "auto"},
]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> list[Laid]:
    """Every batch but the first runs events ahead, and none overlaps with another; gives what was laid out."""
    monkeypatch.setattr(ParallelExecutor, "run_all", Executor.run_all)
    monkeypatch.setattr(ahead, "LEAST_SECONDS", 0.0)
    monkeypatch.setattr(HeadStart, "events", lambda self, events, transactions: events // 5 if self._cost else 0)
    seen: list[Laid] = []
    whole = ParallelExecutor.lay_out

    def lay_out(self, *arguments) -> Laid:
        seen.append(whole(self, *arguments))
        return seen[-1]

    monkeypatch.setattr(ParallelExecutor, "lay_out", lay_out)
    return seen


def make(name: str, engine: str, **options) -> tuple[Executor, State, Iterator[EventBatch]]:
    app, program = APPS[name], APPS[name].app.program
    state = State({table.name: table for table in program.tables})
    state.load(app.initial())
    executor = make_executor(program, state, engine, track=True, **options)
    stream, _ = open_events(
        app.generate(EVENTS, skew=0.8, abort=0.2, cost=1.0, seed=5),
        program.events,
        batch_size=BATCH,
        derives=program.derives,
        columns=program.used_columns,
    )
    return executor, state, stream


def run(name: str, engine: str, **options) -> list[tuple]:
    """After each batch: outputs, changed rows, state."""
    executor, state, stream = make(name, engine, **options)
    seen, seq = [], 0
    for batch in stream:
        done = executor.run(batch, seq)
        seq += len(batch)
        changed = {table: rows.sort_by("key").to_pydict() for table, rows in done.deltas().items()}
        seen.append((done.outputs.to_pydict(), changed, digest(state.export())))
    return seen


@pytest.mark.parametrize("options", STRATEGIES, ids=lambda o: "-".join(o.values()))
@pytest.mark.parametrize("name", list(APPS))
def test_equals_the_serial_run(always: list[Laid], name: str, options: dict[str, str]) -> None:
    expected = run(name, "serial")
    options = dict(options)
    assert run(name, options.pop("engine"), threads=2, **options) == expected
    if always:  # `auto` may have found that nothing pays
        assert [laid.ahead.transactions > 0 for laid in always[1:]] == [True] * (len(always) - 1)


@pytest.mark.parametrize("inner", ["serial", "lock", "mvlk"])
@pytest.mark.parametrize("groups", [("bid", "top"), ("hot keys", "cold keys")])
def test_groups_of_a_nested_run_begin_after_what_runs_ahead(
    always: list[Laid], groups: tuple[str, str], inner: str
) -> None:
    """Also where all transactions of a batch are in one of them."""
    chosen = {groups[0]: {"engine": inner}, groups[1]: {"engine": "serial"}}
    for _ in range(5):
        assert run("bidding", "nested", threads=2, groups=chosen) == run("bidding", "serial")
    assert any(laid.ahead.transactions for laid in always)


tagged = ms.App("tagged")


@tagged.event
class Post:
    author: int
    tags: list[int]


@tagged.table(key=int)
class Tag:
    last: int = -1
    seen: int = 0


@tagged.on(Post)
def tag(e):
    for key in e.tags:
        row = Tag[key]
        row.last = row.last * 3 + e.author
        row.seen += 1
    ms.require(Tag[e.tags[0]].seen % 5 != 0, "every fifth")


looped = ms.App("looped")
"""Keys in loops only: they are listed while the first events run."""


@looped.event
class Note:
    author: int
    tags: list[int]


@looped.table(key=int)
class Word:
    last: int = -1
    seen: int = 0


@looped.on(Note)
def word(e):
    for key in e.tags:
        row = Word[key]
        row.last = row.last * 3 + e.author
        row.seen += 1
        ms.require(row.seen % 5 != 0, "every fifth")


def tagged_with(name: str, tags: list[list[int]]) -> pa.Table:
    rows = [{"ts": n, "event": name, "author": n, "tags": own} for n, own in enumerate(tags)]
    return pa.Table.from_pylist(rows)


@pytest.mark.parametrize("app", [tagged, looped], ids=lambda app: app.name)
@pytest.mark.parametrize("new", ["first", "last", "many"])
@pytest.mark.parametrize("options", STRATEGIES[:-1], ids=lambda o: "-".join(o.values()))
def test_keys_that_are_new_while_events_run_ahead(
    always: list[Laid], options: dict[str, str], new: str, app: ms.App
) -> None:
    """Tables and indices grow in the middle: those who run ahead, and those after them, work on the same rows."""
    tags = []
    for n in range(400):
        place = n % 100
        is_new = {"first": place < 5, "last": place > 94, "many": place % 2 == 0}[new]
        fresh = [1_000 * (n + 1) + k for k in range(40)] if is_new else []
        tags.append([n % 7, *fresh, (n * n) % 11])
    events = tagged_with("Post" if app is tagged else "Note", tags)
    expected = app.run(events, engine="oracle").digest
    options = dict(options)
    assert app.run(events, batch=100, threads=2, engine=options.pop("engine"), **options).digest == expected
    assert any(laid.ahead.transactions for laid in always)


def slowly(run: Callable[[], None]) -> Callable[[], None]:
    def slow() -> None:
        time.sleep(0.2)
        run()

    return slow


def test_waiting_for_new_keys_is_no_room_to_run_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    """One new key in each batch: rows are added when all that runs ahead has ended. If that counted as preparing, more
    would run ahead from batch to batch."""
    seen: list[float] = []
    monkeypatch.setattr(ParallelExecutor, "run_all", Executor.run_all)
    monkeypatch.setattr(HeadStart, "events", lambda self, events, transactions: events // 4 if self._cost else 0)
    monkeypatch.setattr(HeadStart, "learn_room", lambda self, seconds, transactions: seen.append(seconds))
    honest = Executor._serial_call
    monkeypatch.setattr(Executor, "_serial_call", lambda *given: slowly(honest(*given)))
    tags = [[n % 7, 1_000 + n // 100 if n % 100 == 99 else 0] for n in range(400)]
    result = looped.run(tagged_with("Note", tags), batch=100, threads=2, engine="lock")
    assert len(seen) == 4 and min(seen[1:]) < 0.1, seen
    assert min(batch.seconds_keys for batch in result.stats.batches[1:]) < 0.1


def test_what_ran_ahead_keeps_nothing_of_its_batch() -> None:
    batch = np.zeros(10)
    kept = weakref.ref(batch)
    runs = Ahead(1, functools.partial(batch.sum))
    del batch
    runs.start()
    runs.wait()
    gc.collect()
    assert kept() is None


quiet_end = ms.App("quiet_end")


@quiet_end.event
class Counted:
    name: int


@quiet_end.event
class Ignored:
    name: int


@quiet_end.table(key=int)
class Name:
    seen: int = 0


@quiet_end.on(Counted)
def count(e):
    Name[e.name].seen += 1


@pytest.mark.parametrize("options", [{"engine": "lock"}, {"engine": "nested", "groups": {"count": "lock"}}])
def test_something_is_left_for_the_strategy(always: list[Laid], options: dict[str, Any]) -> None:
    """Most events have no function, so a few events may be all transactions of a batch."""
    kinds = (["Counted"] * 10 + ["Ignored"] * 90) * 3
    events = pa.table({"ts": range(len(kinds)), "event": kinds, "name": [n % 4 for n in range(len(kinds))]})
    expected = quiet_end.run(events, engine="oracle").digest
    assert quiet_end.run(events, batch=100, threads=2, **options).digest == expected
    assert [laid.ahead.transactions for laid in always] == [0, 0, 0]


def test_a_small_batch_is_laid_out_alone() -> None:
    head = HeadStart()
    head.learn_room(50e-6, 500)
    head.learn_cost(5e-3, 500)
    assert head.events(500, 500) == 0


def test_as_many_events_as_laying_out_takes() -> None:
    head = HeadStart()
    head.learn_room(1e-3, 10_000)
    head.learn_cost(50e-3, 10_000)
    assert head.events(5_000, 10_000) == pytest.approx(5_000 * 1 / 50, abs=1)


def test_an_interruption_does_not_count_in_full() -> None:
    head = HeadStart()
    for seconds in (1e-3, 50e-3):
        head.learn_room(seconds, 10_000)
    head.learn_cost(50e-3, 10_000)
    assert head.events(5_000, 10_000) == pytest.approx(2 * 5_000 * 1 / 50, abs=1)


def test_cheap_transactions_do_not_all_run_ahead() -> None:
    head = HeadStart()
    head.learn_room(1e-3, 10_000)
    head.learn_cost(1e-3, 10_000)
    assert head.events(8_000, 10_000) == 2_000


def test_nothing_runs_ahead_where_single_transactions_are_asked_for(always: list[Laid]) -> None:
    result = bidding.app.run(
        bidding.generate(3_000), initial=bidding.initial(), batch=500, threads=2, history=True, protocol="lock"
    )
    assert result.history.transactions == 3_000
    assert always and not any(laid.ahead.transactions for laid in always)
