"""Streaming Ledger: money and assets wired between accounts.

The program: two event types, two tables, one function for each event type. A deposit tops up an account and an asset.
A transfer moves money from one account to another and units from one asset to another: all four rows change, or none
does. Money is never made or lost by a transfer, and nobody goes below zero.

    import mainstem as ms
    from mainstem.apps import ledger

    events = ledger.generate(100_000)
    result = ledger.app.run(events, initial=ledger.initial())
    result.outputs                     # one row per event: committed or aborted, why, and what is left
    ledger.app.state["Account"]        # key, balance
    assert ledger.conserved(ledger.initial(), events, result.outputs, ledger.app.state)

The default workload is that of TStream's evaluation: 10,000 accounts and 10,000 assets, as many deposits as transfers,
Zipf skew 0.6. Unlike there, every account starts with another balance and some events must abort, so that a run which
mixes up the order of events gives other results. It is made and checked in `workloads/ledger.py`.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.workloads.ledger import conserved, generate, initial, write_log

__all__ = ["app", "conserved", "generate", "initial", "write_log"]

app = ms.App("ledger")


@app.event
class Deposit:
    account: int
    asset: int
    amount: int
    units: int


@app.event
class Transfer:
    account: int
    asset: int
    to_account: int
    to_asset: int
    amount: int
    units: int


@app.table(key=int)
class Account:
    balance: int = 0


@app.table(key=int)
class Asset:
    units: int = 0


@app.on(Deposit)
def deposit(e):
    ms.require(e.amount > 0 and e.units > 0, "amounts must be positive")
    Account[e.account].balance += e.amount
    Asset[e.asset].units += e.units


@app.on(Transfer)
def transfer(e):
    source = Account[e.account]
    goods = Asset[e.asset]
    ms.require(e.amount > 0 and e.units > 0, "amounts must be positive")
    ms.require(source.balance >= e.amount, "insufficient funds")
    ms.require(goods.units >= e.units, "insufficient units")
    source.balance -= e.amount
    goods.units -= e.units
    Account[e.to_account].balance += e.amount
    Asset[e.to_asset].units += e.units
    return {"left": source.balance}
