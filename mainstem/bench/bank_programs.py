"""The programs of the `bank` benchmark: a transfer, one that takes long, and one that goes through several ledgers."""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import functools

import mainstem as ms
from mainstem.apps.work import burn

__all__ = ["ledgers", "linked", "transfers", "worked"]

FEES = 3  # the amount that a chained ledger books depends on what the ledger before holds, modulo this


transfers = ms.App("transfers")
"""TSpoon's default scenario: a withdrawal and a deposit in one transaction, and no balance below zero."""


@transfers.event
class Transfer:
    src: int
    dst: int
    amount: int


@transfers.table(key=int)
class Account:
    balance: int = 0

    @ms.check
    def solvent(row):
        return row.balance >= 0


@transfers.on(Transfer)
def transfer(e):
    Account[e.src].balance -= e.amount
    Account[e.dst].balance += e.amount
    return {"left": Account[e.src].balance}


worked = ms.App("worked_transfers")
"""The same with work inside: each of the two rows is marked with the result of `work` turns on its old mark."""


@worked.event
class WorkedTransfer:
    src: int
    dst: int
    amount: int
    work: int


@worked.table(key=int)
class WorkedAccount:
    balance: int = 0
    mark: int = 0

    @ms.check
    def solvent(row):
        return row.balance >= 0


@worked.on(WorkedTransfer)
def worked_transfer(e):
    sender = WorkedAccount[e.src]
    receiver = WorkedAccount[e.dst]
    sender.balance -= e.amount
    sender.mark = burn(sender.mark, e.work)
    receiver.balance += e.amount
    receiver.mark = burn(receiver.mark, e.work)
    return {"left": sender.balance}


linked = ms.App("linked_ledgers")
"""One ledger of a chain whose ledgers have transactions of their own: what it puts out is an event of the next one."""


@linked.event
class Booking:
    src: int
    dst: int
    amount: int


@linked.table(key=int)
class Ledger:
    balance: int = 0

    @ms.check
    def solvent(row):
        return row.balance >= 0


@linked.on(Booking)
def book(e):
    Ledger[e.src].balance -= e.amount
    Ledger[e.dst].balance += e.amount
    return {"src": e.src, "dst": e.dst, "amount": e.amount + Ledger[e.src].balance % FEES}


@functools.cache
def ledgers(count: int, *, chained: bool = False, one_group: bool = True) -> ms.App:
    """A transfer that is booked in `count` ledgers, each of which has all accounts.

    `chained`: what a ledger books depends on what the one before it holds after its own booking; else the bookings
    have nothing to do with each other. `one_group`: all bookings are one transaction; else each is its own.
    """
    app = ms.App(f"{'chained' if chained else 'parallel'}_{count}_{'one' if one_group else 'own'}")

    @app.event
    class Transfer:
        src: int
        dst: int
        amount: int

    tables = [app.table(key=int)(_ledger(number)) for number in range(count)]
    bookings = [
        _booking(number, table, tables[number - 1] if chained and number else None)
        for number, table in enumerate(tables)
    ]
    for booking in bookings:
        app.on(Transfer)(booking)
    if one_group and count > 1:
        app.transaction(*bookings, name="book")
    return app


def _ledger(number: int) -> type:
    class Ledger:
        balance: int = 0

        @ms.check
        def solvent(row):
            return row.balance >= 0

    Ledger.__name__ = Ledger.__qualname__ = f"Ledger{number}"
    return Ledger


def _booking(number, table, before):
    def first(e):
        table[e.src].balance -= e.amount
        table[e.dst].balance += e.amount

    def next(e):
        amount = e.amount + before[e.src].balance % FEES
        table[e.src].balance -= amount
        table[e.dst].balance += amount

    book = first if before is None else next
    book.__name__ = f"book{number}"
    return book
