"""What transactions ask for: the same rows as their operations, found in one pass; and whom they may conflict with."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from mainstem import apps
from mainstem.engine import make_executor
from mainstem.engine.kernels import load
from mainstem.engine.layout import Batch, Layout
from mainstem.engine.requests import PLACES_MOST, Requests
from mainstem.gate import EventBatch, open_events
from mainstem.lang.ask_source import WINDOW
from mainstem.lang.asked import PLACE_WORDS, asked
from mainstem.state import State

APPS = ("ledger", "grep_sum", "bidding", "toll", "fraud")


def batch_of(app: Any, events: int, **knobs: Any) -> tuple[Any, EventBatch]:
    """An executor on the app's first state, and a batch for it."""
    program = app.app.program
    state = State({table.name: table for table in program.tables})
    state.load(app.initial() if hasattr(app, "initial") else {})
    executor = make_executor(program, state, "inflight", threads=2, jit=False)
    stream, _ = open_events(app.generate(events, seed=3, **knobs), program.events, derives=program.derives)
    return executor, next(iter(stream))


def asked_for(executor: Any, batch: EventBatch) -> tuple[Layout, Requests, Batch]:
    """Requests of a batch, found without its operations, and these."""
    operations = executor.operations
    count, arrays = executor.outputs.transactions(batch), operations.build(batch)
    executor._result_arrays(count, arrays)
    requests = executor._numbered(arrays, count, lambda: None).requests
    executor.list_keys(arrays)
    return executor.layout, requests, executor.layout.batch(arrays, count, operations.scratch)


def rows_of(requests: Requests, t: int) -> dict[int, int]:
    """Rows of a transaction, and whether it may write them."""
    found: dict[int, int] = defaultdict(int)
    for request in requests.of[requests.lo[t] : requests.lo[t + 1]].tolist():
        found[request >> 1] |= request & 1
    return found


@pytest.mark.parametrize("name", APPS)
def test_requests_are_the_operations_on_tables_that_somebody_writes(name: str) -> None:
    app = apps.load(name)
    layout, requests, operations = asked_for(*batch_of(app, 400))
    written = {s.table for f in app.app.program.functions for s in f.sites if s.writes}
    assert requests.fn.tolist() == operations.fn.tolist() and requests.ev.tolist() == operations.ev.tolist()
    for t in range(operations.transactions):
        own = range(operations.txn_lo[t], operations.txn_lo[t + 1])
        local = {int(operations.op_row[o]): int(operations.op_write[o]) for o in own}
        expected = {
            int(layout._table_lo[operations.row_table[r]] + operations.row_at[r]): write
            for r, write in local.items()
            if operations.row_table[r] in written
        }
        assert rows_of(requests, t) == expected


@pytest.mark.parametrize("name", APPS)
def test_who_comes_before_is_the_last_one_with_a_conflict(name: str) -> None:
    """Or a later one: for who reads a row and then writes it, and where rows share places."""
    layout, requests, operations = asked_for(*batch_of(apps.load(name), 300))
    shared = layout.all_rows > PLACES_MOST
    assert shared == (name == "ledger")
    rows = [rows_of(requests, t) for t in range(operations.transactions)]
    near = 0
    for t, own in enumerate(rows):
        meeting = [b for b in range(t) if any(r in rows[b] and own[r] | rows[b][r] for r in own)]
        expected, found = max(meeting, default=-1), int(requests.before[t])
        assert found == expected or (found > expected and (shared or reads_and_writes(requests, t)))
        near += found >= 0 and t - found < WINDOW
    assert requests.near == near


def reads_and_writes(requests: Requests, t: int) -> bool:
    own = requests.of[requests.lo[t] : requests.lo[t + 1]]
    return bool(set(own[own & 1 == 0] >> 1) & set(own[own & 1 == 1] >> 1))


def test_a_batch_with_a_new_key_is_asked_again_when_it_has_a_row() -> None:
    app = apps.load("grep_sum")
    executor, batch = batch_of(app, 50, records=20_000)  # the table has half of them
    operations = executor.operations
    arrays = operations.build(batch)
    assert executor.layout.ask(arrays, len(batch), operations.scratch) is None
    executor._result_arrays(len(batch), arrays)
    numbered = executor._numbered(arrays, len(batch), lambda: None)
    assert min(len(rows_of(numbered.requests, t)) for t in range(len(batch))) >= 2


def test_more_requests_than_ever_before_get_room() -> None:
    executor, batch = batch_of(apps.load("grep_sum"), 60, length=8, reads=4)
    _, requests, operations = asked_for(executor, batch)
    assert requests.count > 10 * operations.transactions
    assert requests.most == [40]  # of eight keys with four sources each
    assert executor.operations.room[0] >= 40


def test_a_long_list_takes_no_room_of_other_batches() -> None:
    """Nor does it count as what every transaction of a larger batch asks for."""
    app = apps.load("grep_sum")
    executor, long = batch_of(app, 1, length=900, writes=1.0)
    _, requests, _ = asked_for(executor, long)
    assert requests.count == 1 + 900 * 3
    _, many = batch_of(app, 3_000)
    asked_for(executor, many)
    assert len(executor.operations.scratch.array("layout request", 4 * 3_000, np.int64).base) < 20_000


@pytest.mark.parametrize(
    ("transactions", "near", "claim"), [(10_000, 0, 32), (10_000, 2_000, 4), (600, 0, 8), (600, 300, 4), (100, 0, 1)]
)
def test_claims_are_long_where_conflicts_are_far_and_batches_large(transactions: int, near: int, claim: int) -> None:
    assert load("claims", True).choose_claim(transactions, 2, near) == claim


def conflicts(places: int, *requests: tuple[int, int, int]) -> list[int]:
    """The last conflict of each of (stamp, row, writes); those of one transaction follow one another."""
    last, noted = np.zeros(places * PLACE_WORDS, np.int64), np.zeros(1, np.int64)
    found: dict[int, int] = defaultdict(int)
    answers = []
    for stamp, row, writes in requests:
        _, found[stamp] = asked(noted, 0, last, found[stamp], stamp, row, writes)
        answers.append(int(found[stamp]))
    return answers


def test_reads_conflict_with_writes_only() -> None:
    assert conflicts(8, (1, 5, 0), (2, 5, 0), (3, 5, 1), (4, 5, 0), (5, 5, 0)) == [0, 0, 2, 3, 3]


def test_who_reads_a_row_and_then_writes_it_does_not_hide_earlier_readers() -> None:
    assert conflicts(8, (1, 5, 0), (3, 5, 0), (3, 5, 1)) == [0, 0, 2]


def test_who_writes_a_row_twice_conflicts_with_those_before() -> None:
    assert conflicts(8, (1, 5, 0), (7, 5, 1), (7, 5, 1), (7, 5, 0)) == [0, 1, 1, 1]


def test_rows_that_share_a_place_count_as_one() -> None:
    assert conflicts(2, (1, 4, 1), (2, 6, 1), (3, 5, 1)) == [0, 1, 0]
