"""Loops whose length state decides: no strategy may run one by a value that a transaction offered and then aborted."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.engine.options import CHOICES
from mainstem.testing import Outcome, assert_same

FOR_EVER = 10**15  # turns: a test that runs them does not end
PARTS: list[dict[str, Any]] = [
    {"engine": "chains"},
    *({"engine": "tpg", "explore": x, "abort": a} for x in CHOICES["explore"] for a in CHOICES["abort"]),
]

app = ms.App("loops")


@app.event
class Move:
    src: int
    dst: int
    amount: int


@app.event
class Count:
    who: int


@app.event
class Guarded:
    src: int
    dst: int


@app.table(key=int)
class Account:
    balance: int = 10


@app.table(key=int)
class Total:
    turns: int = 0


def sum_up_to(n: int) -> int:
    total = 0
    for i in range(n):
        total += i
    return total


def sum_of(n: int, step: int) -> int:
    return sum_up_to(n) + step


@app.on(Move)
def move(e):
    ms.require(Account[e.src].balance >= e.amount, "too little")
    Account[e.src].balance -= e.amount
    Account[e.dst].balance += e.amount


@app.on(Count)
def count(e):
    for _ in range(Account[e.who].balance):
        Total[e.who].turns += 1


@app.on(Guarded)
def guarded(e):
    ms.require(Account[e.src].balance < 100, "too long")
    Total[e.dst].turns += sum_of(Account[e.src].balance, 1)


def logs() -> dict[Any, pa.Table]:
    return {
        Move: pa.table({"ts": [1, 2, 3], "src": [1, 1, 1], "dst": [3, 3, 2], "amount": [1, 1, FOR_EVER]}),
        Count: pa.table({"ts": [4, 5], "who": [2, 3]}),
        Guarded: pa.table({"ts": [6, 7], "src": [2, 9], "dst": [1, 1]}),
    }


INITIAL = {"Account": pa.table({"key": [9], "balance": [FOR_EVER]})}


@pytest.mark.parametrize("how", PARTS, ids=lambda how: "-".join(how.values()))
@pytest.mark.parametrize("threads", [1, 2])
def test_a_loop_runs_by_values_that_stand(how: dict[str, Any], threads: int) -> None:
    wanted = Outcome(app.run(logs(), engine="oracle", initial=INITIAL).outputs, dict(app.state))
    result = app.run(logs(), initial=INITIAL, jit=False, threads=threads, **how)
    assert_same(wanted, Outcome(result.outputs, dict(app.state)))


def test_what_may_abort_runs_whole_beside_such_a_loop() -> None:
    assert {f.name: len(f.parts) for f in app.program.functions} == {"move": 0, "count": 0, "guarded": 0}


def test_helpers_know_which_argument_decides_about_their_loops() -> None:
    """`step` of `sum_of` does not: a program that gets only it from state is split."""
    other = ms.App("other")
    event = other.event(type("Guarded", (), {"__annotations__": {"src": int, "dst": int}}))
    account = other.table(key=int)(type("Account", (), {"__annotations__": {"balance": int}, "balance": 10}))
    total = other.table(key=int)(type("Total", (), {"__annotations__": {"turns": int}, "turns": 0}))

    @other.on(event)
    def split(e):
        ms.require(account[e.src].balance < 100, "too long")
        account[e.src].balance += 1
        total[e.dst].turns += sum_of(3, account[e.dst].balance)

    (function,) = other.program.functions
    assert len(function.parts) > 1
