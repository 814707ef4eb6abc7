"""A small program for tests of runs: transfers that abort, outputs, and a check."""

from __future__ import annotations

import random

import pyarrow as pa

import mainstem as ms

app = ms.App("bank")


@app.event
class Transfer:
    src: int
    dst: int
    amount: int


@app.table(key=int)
class Account:
    balance: int = 0

    @ms.check
    def solvent(row):
        return row.balance >= 0


@app.on(Transfer)
def transfer(e):
    ms.require(e.amount > 0, "amount must be positive")
    Account[e.src].balance -= e.amount
    Account[e.dst].balance += e.amount
    if Account[e.src].balance == 0:
        del Account[e.src]
    return {"left": Account[e.src].balance}


def initial() -> dict[str, pa.Table]:
    return {"Account": pa.table({"key": list(range(10)), "balance": [100 + 7 * k for k in range(10)]})}


def events(count: int, seed: int = 0) -> pa.Table:
    rng = random.Random(seed)
    rows = [
        {"ts": i // 3, "src": rng.randrange(12), "dst": rng.randrange(12), "amount": rng.randrange(-1, 60)}
        for i in range(count)
    ]
    return pa.Table.from_pylist(rows)
