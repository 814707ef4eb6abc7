"""Streaming Ledger with work: the ledger, where every row that is written also costs some computation.

The program is that of `ledger.py`, made heavier. Every account and asset has a `seal` that sums up all that happened to
it, in order; computing it takes as long as the event says (`work`). The seal of a receiver is computed from that of its
sender, so a transfer ties its rows together. An account has an upper limit, so a deposit can fail as well.

    import mainstem as ms
    from mainstem.apps import ledger_work

    events = ledger_work.generate(100_000, turns=20)
    result = ledger_work.app.run(events, initial=ledger_work.initial())
    result.outputs                     # one row per event: committed or aborted, why, and what is left
    ledger_work.app.state["Account"]   # key, balance, seal
    assert ledger_work.conserved(ledger_work.initial(), events, result.outputs, ledger_work.app.state)

Its workload has the knobs of MorphStream's evaluation and, without the cost, its defaults; `workloads/dynamic.py` turns
them while the stream runs.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.work import burn
from mainstem.apps.workloads.ledger_work import BALANCE_MAX, conserved, generate, initial, write_log

__all__ = ["app", "conserved", "generate", "initial", "write_log"]

app = ms.App("ledger_work")


@app.event
class Deposit:
    account: int
    asset: int
    amount: int
    units: int
    work: int


@app.event
class Transfer:
    account: int
    asset: int
    to_account: int
    to_asset: int
    amount: int
    units: int
    work: int


@app.table(key=int)
class Account:
    balance: int = 0
    seal: int = 0


@app.table(key=int)
class Asset:
    units: int = 0
    seal: int = 0


@app.on(Deposit)
def deposit(e):
    account = Account[e.account]
    asset = Asset[e.asset]
    ms.require(e.amount > 0 and e.units > 0, "amounts must be positive")
    ms.require(account.balance <= BALANCE_MAX - e.amount, "account is full")
    account.balance += e.amount
    account.seal = burn(account.seal * 3 + e.amount, e.work)
    asset.units += e.units
    asset.seal = burn(asset.seal * 3 + e.units, e.work)


@app.on(Transfer)
def transfer(e):
    account = Account[e.account]
    asset = Asset[e.asset]
    to_account = Account[e.to_account]
    to_asset = Asset[e.to_asset]
    left = account.balance - e.amount
    ms.require(e.amount > 0 and e.units > 0, "amounts must be positive")
    ms.require(left >= 0, "insufficient funds")
    ms.require(asset.units >= e.units, "insufficient units")
    account_seal, asset_seal = account.seal, asset.seal
    account.balance = left
    account.seal = burn(account_seal * 3 + e.amount, e.work)
    asset.units -= e.units
    asset.seal = burn(asset_seal * 3 + e.units, e.work)
    to_account.balance += e.amount
    to_account.seal = burn(to_account.seal * 3 + account_seal, e.work)
    to_asset.units += e.units
    to_asset.seal = burn(to_asset.seal * 3 + asset_seal, e.work)
    return {"left": left}
