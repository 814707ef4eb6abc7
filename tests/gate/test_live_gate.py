"""What a gate promises: when rows are ready, what it refuses and why, and that `app.run` reads it like a log."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from gate_live_support import SCHEMA, rows_of, table

import mainstem as ms
from mainstem.gate import Gate
from mainstem.gate.live.blocks import Blocks
from mainstem.gate.live.kernels import tgate
from mainstem.gate.live.listed import Listed
from mainstem.gate.piece import Chunk
from mainstem.gate.raw import Raw

KINDS = ["blocks", "list", "queues", "skiplist"]


@pytest.fixture(params=KINDS)
def gate(request: pytest.FixtureRequest) -> Gate:
    return Gate(2, events=SCHEMA, kind=request.param)


def test_the_slowest_input_decides_and_ties_go_by_input(gate: Gate) -> None:
    gate.insert(table([(1, 0, 0), (5, 0, 1)]), input=0)
    assert gate.ready() == []
    assert gate.watermark is None
    gate.insert(table([(5, 1, 0)]), input=1)
    assert rows_of(gate.ready()) == [(1, 0, 0), (5, 0, 1)]  # input 0 may still bring a 5, before that of input 1
    assert gate.watermark == (5, 0)
    gate.insert(table([(5, 0, 2), (6, 0, 3)]), input=0)
    assert rows_of(gate.ready()) == [(5, 0, 2), (5, 1, 0)]
    assert gate.watermark == (5, 1)


def test_heartbeats_and_ends_release_what_waits(gate: Gate) -> None:
    gate.insert(table([(1, 0, 0), (9, 0, 1)]), input=0)
    gate.heartbeat(input=1, ts=5)
    assert rows_of(gate.ready()) == [(1, 0, 0)]
    assert gate.watermark == (5, 1)
    gate.close(1)
    assert rows_of(gate.ready()) == [(9, 0, 1)]
    gate.close(0)
    assert gate.closed and gate.ready() == []
    assert gate.watermark == (2**63 - 1, 2)


def test_a_row_that_goes_back_is_named_and_its_batch_leaves_no_trace(gate: Gate) -> None:
    gate.insert(table([(1, 0, 0)]), input=0)
    with pytest.raises(ms.InputError, match=r"input 0 \(live\), row 2: column 'ts' goes back: 3 comes after 7"):
        gate.insert(table([(7, 0, 1), (3, 0, 2)]), input=0)
    gate.insert(table([(2, 0, 1)]), input=0)
    gate.close(0)
    gate.close(1)
    assert rows_of(gate.ready()) == [(1, 0, 0), (2, 0, 1)]


def test_a_row_older_than_a_heartbeat_is_late(gate: Gate) -> None:
    gate.heartbeat(input=1, ts=50)
    with pytest.raises(ms.InputError, match=r"row 0: column 'ts' is 49, which is late: a heartbeat said .* before 50"):
        gate.insert(table([(49, 1, 0)]), input=1)
    gate.insert(table([(50, 1, 0)]), input=1)
    with pytest.raises(ms.InputError, match=r"heartbeat of input 1: ts=3 goes back, .* shown 50"):
        gate.heartbeat(input=1, ts=3)


def test_bad_rows_can_be_set_aside() -> None:
    gate = Gate(1, events=SCHEMA, on_bad="reject")
    gate.insert(table([(5, 0, 0), (4, 0, 1), (6, 0, 2)]), input=0)
    gate.heartbeat(input=0, ts=10)
    gate.insert(table([(7, 0, 3), (10, 0, 4)]), input=0)
    gate.close(0)
    assert rows_of(gate.ready()) == [(5, 0, 0), (6, 0, 2), (10, 0, 4)]
    assert gate.rejects.table.column("offset").to_pylist() == [1, 3]


@pytest.mark.parametrize("kind", KINDS)
def test_an_idle_input_no_longer_holds_up_others(kind: str) -> None:
    now = [0.0]
    gate = Gate(3, events=SCHEMA, kind=kind, idle=2.0, on_bad="reject", clock=lambda: now[0])
    gate.insert(table([(4, 0, 0)]), input=0)
    gate.insert(table([(1, 1, 0), (8, 1, 1)]), input=1)
    assert gate.ready() == []
    now[0] = 1.5
    gate.insert(table([(6, 0, 1)]), input=0)
    gate.insert(table([(9, 1, 2)]), input=1)
    now[0] = 3.0  # input 2 has been silent since 0
    assert rows_of(gate.ready()) == [(1, 1, 0), (4, 0, 0), (6, 0, 1)]
    gate.insert(table([(5, 2, 0), (7, 2, 1)]), input=2)
    assert "silent for too long" in gate.rejects.table.column("reason").to_pylist()[0]
    for number in range(3):
        gate.close(number)
    assert rows_of(gate.ready()) == [(7, 2, 1), (8, 1, 1), (9, 1, 2)]


def test_wrong_uses_are_named() -> None:
    with pytest.raises(ms.InputError, match=r"inputs=0: a gate has 1 to"):
        Gate(0, events=SCHEMA)
    with pytest.raises(ms.InputError, match="kind='fast'"):
        Gate(1, events=SCHEMA, kind="fast")
    with pytest.raises(ms.InputError, match="idle=0: an input is silent"):
        Gate(1, events=SCHEMA, idle=0)
    with pytest.raises(ms.InputError, match="no column ts"):
        Gate(1, events=pa.schema([("x", pa.int64())]))
    with pytest.raises(ms.InputError, match="column 'x' of type"):
        Gate(1, events=pa.schema([("ts", pa.int64()), ("x", pa.duration("s"))]))
    gate = Gate(2, events=SCHEMA)
    with pytest.raises(ms.InputError, match="input=2: the gate has the inputs 0 to 1"):
        gate.insert([], input=2)
    gate.close(1)
    with pytest.raises(ms.InputError, match="input 1 is closed"):
        gate.insert(table([(1, 1, 0)]), input=1)
    with pytest.raises(ms.InputError, match="can't be inserted"):
        gate.insert(5, input=0)


@pytest.mark.parametrize("kind", ["blocks", "list"])
def test_a_reader_that_meets_the_last_close_gets_the_last_rows(kind: str) -> None:
    gate = Gate(2, events=SCHEMA, kind=kind)
    gate.insert(table([(1, 0, 0), (2, 0, 1)]), input=0)
    gate.close(0)
    close_input, found = gate._order.close, []

    def slowly(number: int) -> None:
        found.append(gate.closed)  # what a reader would see now
        close_input(number)

    gate._order.close = slowly  # type: ignore[method-assign]
    gate.close(1)
    assert found == [False] and gate.closed
    assert sum(map(len, gate.batches(100))) == 2


def test_an_insert_under_way_is_not_yet_what_its_input_has_reached() -> None:
    now = [0.0]
    gate = Gate(2, events=SCHEMA, idle=1.0, clock=lambda: now[0])
    gate.insert(table([(1, 0, 0)]), input=0)
    gate.insert(table([(1, 1, 0)]), input=1)
    now[0] = 5.0
    validator = gate._lanes[0].validator
    accept = validator.accept

    def accept_and_read(raw: Raw) -> Chunk:
        chunk = accept(raw)
        gate.ready()
        return chunk

    validator.accept = accept_and_read  # type: ignore[method-assign]
    with pytest.raises(ms.InputError, match="80 comes after 90"):
        gate.insert(pa.concat_tables([table([(90, 0, 1)]), table([(80, 0, 2)])]), input=0)
    gate.insert(table([(2, 1, 1)]), input=1)  # input 1 was let wait for nothing beyond 1


def test_a_refused_insert_sets_nothing_aside() -> None:
    gate = Gate(1, events=SCHEMA, on_bad="reject")

    validator = gate._lanes[0].validator
    accept = validator.accept

    def accept_one(raw: Raw) -> Chunk:
        if validator.rejects.count:
            raise ms.InputError("no")
        return accept(raw)

    validator.accept = accept_one  # type: ignore[method-assign]
    twice = pa.concat_tables([table([(5, 0, 0), (3, 0, 1)])] * 2)
    with pytest.raises(ms.InputError, match="no"):
        gate.insert(twice, input=0)
    assert gate.rejects.count == 0
    validator.accept = accept  # type: ignore[method-assign]
    gate.insert(twice, input=0)
    assert gate.rejects.table.column("offset").to_pylist() == [1, 3]


def test_numbers_of_numpy_are_numbers_and_others_are_refused() -> None:
    gate = Gate(np.int64(2), events=SCHEMA)  # type: ignore[arg-type]
    gate.heartbeat(np.int64(1), np.int32(5))  # type: ignore[arg-type]
    for wrong in (1.5, True, "1"):
        with pytest.raises(ms.InputError, match="is no 64-bit integer"):
            gate.heartbeat(0, wrong)  # type: ignore[arg-type]
        with pytest.raises(ms.InputError, match="the gate has the inputs 0 to 1"):
            gate.close(wrong)  # type: ignore[arg-type]
        with pytest.raises(ms.InputError, match="a gate has 1 to"):
            Gate(wrong, events=SCHEMA)  # type: ignore[arg-type]
    for idle in ("2", True, float("nan"), float("inf")):
        with pytest.raises(ms.InputError, match="an input is silent for some time"):
            Gate(1, events=SCHEMA, idle=idle)  # type: ignore[arg-type]


def test_a_run_over_a_gate_takes_no_setting_that_the_gate_has_decided() -> None:
    app, _, _ = bank()
    gate = Gate(1, events=app)
    with pytest.raises(ms.InputError, match="on_bad='reject': a gate checks rows as they are inserted"):
        app.run(gate, on_bad="reject", jit=False)
    with pytest.raises(ms.InputError, match="unsorted='batch': the inputs of a gate are sorted"):
        app.run(gate, unsorted="batch", jit=False)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_blocks_take_no_more_than_asked_for_and_lose_nothing(limit: int) -> None:
    """One input in many short runs, one in a long one, one that has little: shares of the limit are uneven."""
    blocks = Blocks(3)
    for ts in range(40):
        blocks.add(0, np.array([ts // 2]))
    blocks.add(1, np.arange(25))
    blocks.add(2, np.array([3, 3, 24]))
    right = sorted([(ts // 2, 0) for ts in range(40)] + [(ts, 1) for ts in range(25)] + [(ts, 2) for ts in (3, 3, 24)])
    ready = [place for place in right if place <= (19, 0)]
    taken = 0
    while len(found := blocks.take(limit)):
        assert min(limit / 2, len(ready) - taken) <= len(found) <= limit
        part = [number for _, number in ready[taken : taken + len(found)]]
        assert found.counts == [part.count(number) for number in range(3)]
        taken += len(found)
        assert found.watermark == ready[taken - 1] or (taken == len(ready) and found.watermark == (19, 0))
    assert taken == len(ready)


def test_blocks_look_only_at_rows_that_can_be_ready() -> None:
    blocks = Blocks(2)
    for ts in range(1000):
        blocks.add(0, np.array([ts]))
    blocks.promise(1, 10)

    class Counted(deque[np.ndarray]):
        looked = 0

        def __iter__(self) -> Iterator[np.ndarray]:
            for run in super().__iter__():
                Counted.looked += 1
                yield run

    blocks._inputs[0].runs = Counted(blocks._inputs[0].runs)
    assert len(blocks.take(100)) == 11
    assert Counted.looked <= 2 * 12


def test_rows_beyond_the_ring_wait_as_columns() -> None:
    gate = Gate(2, events=SCHEMA, kind="list")
    gate._order = Listed(2, tgate, ring=8)
    many = [(ts, 0, ts) for ts in range(1000)]
    gate.insert(table(many), input=0)
    gate.heartbeat(input=1, ts=2000)
    gate.close(0)
    assert rows_of(gate.ready()) == many
    assert gate.watermark == (2000, 1)


def bank() -> tuple[ms.App, Any, Any]:
    app = ms.App("bank")

    @app.event
    class Deposit:
        account: int
        amount: int

    @app.event
    class Close:
        account: int

    @app.table(key=int)
    class Account:
        balance: int = 0

    @app.on(Deposit)
    def deposit(e):  # type: ignore[no-untyped-def]
        Account[e.account].balance = Account[e.account].balance * 3 + e.amount
        return {"balance": Account[e.account].balance}

    @app.on(Close)
    def close(e):  # type: ignore[no-untyped-def]
        Account[e.account].balance = 0

    return app, Deposit, Close


@pytest.mark.parametrize("kind", ["blocks", "list"])
def test_app_run_reads_a_gate_like_the_sorted_log(kind: str, tmp_path: Path) -> None:
    app, Deposit, Close = bank()
    inputs = [
        [Deposit(ts=t // 2, account=t % 5, amount=t) for t in range(200)],
        [Close(ts=t, account=t % 5) for t in range(0, 90, 9)],
    ]
    right = app.run(inputs, jit=False).outputs
    gate = ms.Gate(inputs=2, events=app, kind=kind)

    def feed(number: int) -> None:
        for first in range(0, len(inputs[number]), 7):
            gate.insert(inputs[number][first : first + 7], input=number)
        gate.close(number)

    threads = [threading.Thread(target=feed, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    assert app.run(gate, batch=32, jit=False).outputs.equals(right)
    assert list(gate) == []


def test_a_durable_run_goes_on_with_the_same_inputs(tmp_path: Path) -> None:
    app, Deposit, _ = bank()
    events = [Deposit(ts=t, account=t % 3, amount=t) for t in range(20)]
    right = app.run(events, jit=False).outputs

    def full(count: int) -> Gate:
        gate = ms.Gate(inputs=1, events=app)
        gate.insert(events[:count], input=0)
        gate.close(0)
        return gate

    first = app.run(full(8), state=tmp_path / "state", jit=False).outputs
    second = app.run(full(20), state=tmp_path / "state", resume=True, jit=False).outputs
    assert pa.concat_tables([first, second]).equals(right)
    with pytest.raises(ms.InputError, match="ended 15 events before"):
        app.run(full(5), state=tmp_path / "state", resume=True, jit=False)


def test_a_gate_of_other_events_is_refused() -> None:
    app, _, _ = bank()
    with pytest.raises(ms.InputError, match="the gate brings Event, and the app has other events"):
        app.run(Gate(1, events=SCHEMA), jit=False)


def test_tables_hold_all_event_types() -> None:
    app, Deposit, Close = bank()
    gate = ms.Gate(inputs=1, events=app)
    gate.insert([Deposit(ts=1, account=2, amount=3), Close(ts=1, account=4)], input=0)
    (found,) = gate.ready()
    assert found.to_pylist() == [
        {"ts": 1, "event": "Deposit", "account": 2, "amount": 3},
        {"ts": 1, "event": "Close", "account": 4, "amount": None},
    ]
