"""A bank: requests are validated against an account's history, then booked, in one transaction.

Two tables, as in TSpoon's running example. `History` is the request validator: it adds up what went in and out of
an account this month and blocks the request that exceeds a limit. `Account` holds the balances, with the
integrity constraint that none is negative. Each table has functions of its own; those of one request are a transaction
group (`app.atomic`). Both constraints are checks (`@ms.check`): when one fails, nothing of the request remains, neither
in the balances nor in the history that had already counted it.

    import mainstem as ms
    from mainstem.apps import bank

    events = bank.generate(100_000)
    result = bank.app.run(events, initial=bank.initial())
    result.outputs                     # reasons: "check Account.solvent failed", "check History.within_limit failed"
    bank.app.state["Account"]          # key, balance
    assert bank.conserved(bank.initial(), events, result.outputs, bank.app.state)

Timestamps are seconds. The workload has TSpoon's knobs: the number of accounts (few: many conflicts), the share of
transfers (1.0: every request touches two accounts) and the share of requests that abort. TSpoon's own default is
`accounts=100_000, transfers=1.0`.
"""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import mainstem as ms
from mainstem.apps.workloads.bank import conserved, generate, initial, write_log

__all__ = ["app", "conserved", "generate", "initial", "write_log"]

MONTH = 30 * 24 * 3600
LIMIT = 3_000  # what may go in and out of one account in one month

app = ms.App("bank")


@app.event
class Deposit:
    account: int
    amount: int


@app.event
class Withdrawal:
    account: int
    amount: int


@app.event
class Transfer:
    account: int
    to_account: int
    amount: int


@app.table(key=int)
class History:
    month: int = -1
    moved: int = 0

    @ms.check
    def within_limit(row):
        return row.moved <= LIMIT


@app.table(key=int)
class Account:
    balance: int = 0

    @ms.check
    def solvent(row):
        return row.balance >= 0


def moved_so_far(month, counted_month, counted):
    return counted if month == counted_month else 0


with app.atomic(Deposit, name="deposit"):

    @app.on(Deposit)
    def validate_deposit(e):
        ms.require(e.amount > 0, "amount must be positive")
        month = e.ts // MONTH
        history = History[e.account]
        history.moved = moved_so_far(month, history.month, history.moved) + e.amount
        history.month = month

    @app.on(Deposit)
    def book_deposit(e):
        Account[e.account].balance += e.amount
        return {"balance": Account[e.account].balance}


with app.atomic(Withdrawal, name="withdraw"):

    @app.on(Withdrawal)
    def validate_withdrawal(e):
        ms.require(e.amount > 0, "amount must be positive")
        month = e.ts // MONTH
        history = History[e.account]
        history.moved = moved_so_far(month, history.month, history.moved) + e.amount
        history.month = month

    @app.on(Withdrawal)
    def book_withdrawal(e):
        Account[e.account].balance -= e.amount
        return {"balance": Account[e.account].balance}


with app.atomic(Transfer, name="transfer"):

    @app.on(Transfer)
    def validate_transfer(e):
        ms.require(e.amount > 0, "amount must be positive")
        month = e.ts // MONTH
        sender = History[e.account]
        sender.moved = moved_so_far(month, sender.month, sender.moved) + e.amount
        sender.month = month
        receiver = History[e.to_account]
        receiver.moved = moved_so_far(month, receiver.month, receiver.moved) + e.amount
        receiver.month = month

    @app.on(Transfer)
    def book_transfer(e):
        Account[e.account].balance -= e.amount
        Account[e.to_account].balance += e.amount
        return {"balance": Account[e.account].balance}
