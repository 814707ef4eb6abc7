"""The limit: the ledger as a hand-written loop over arrays, with nothing around it.

It does what the program in `mainstem.apps.ledger` does, for that program only: the keys are already row numbers, the
columns already NumPy arrays, all checks come before the first write (so there is nothing to roll back), and additions
are not checked for overflow. No general engine can be faster; the benchmark says how close it comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.jit import kernel

COMMITTED, NOT_POSITIVE, NO_FUNDS, NO_UNITS = range(4)
REASONS = (None, "amounts must be positive", "insufficient funds", "insufficient units")
COLUMNS = ("account", "asset", "to_account", "to_asset", "amount", "units")


@kernel
def loop(
    is_transfer: np.ndarray,
    account: np.ndarray,
    asset: np.ndarray,
    to_account: np.ndarray,
    to_asset: np.ndarray,
    amount: np.ndarray,
    units: np.ndarray,
    balances: np.ndarray,
    stocks: np.ndarray,
    code: np.ndarray,
    left: np.ndarray,
    has_left: np.ndarray,
) -> None:
    """Every event in order; `code` says how it ended, `left` what the sender kept (where `has_left`)."""
    for i in range(is_transfer.size):
        a, g, money, goods = account[i], asset[i], amount[i], units[i]
        has_left[i] = 0
        left[i] = 0
        if money <= 0 or goods <= 0:
            code[i] = NOT_POSITIVE
        elif not is_transfer[i]:
            balances[a] += money
            stocks[g] += goods
            code[i] = COMMITTED
        elif balances[a] < money:
            code[i] = NO_FUNDS
        elif stocks[g] < goods:
            code[i] = NO_UNITS
        else:
            balances[a] -= money
            stocks[g] -= goods
            balances[to_account[i]] += money
            stocks[to_asset[i]] += goods
            left[i] = balances[a]
            has_left[i] = 1
            code[i] = COMMITTED


@dataclass
class Ledger:
    """The tables as arrays; keys are 0 to n-1, so a key is its row number."""

    balances: np.ndarray
    stocks: np.ndarray

    @classmethod
    def of(cls, tables: Mapping[str, pa.Table]) -> Ledger:
        return cls(*(tables[name].column(1).to_numpy().copy() for name in ("Account", "Asset")))

    def export(self) -> dict[str, pa.Table]:
        keys = np.arange(self.balances.size)
        return {
            "Account": pa.table({"key": keys, "balance": self.balances}),
            "Asset": pa.table({"key": keys, "units": self.stocks}),
        }


@dataclass
class Outcome:
    """One entry per event; `ts`, `seq` and the event's name are those of the input."""

    code: np.ndarray
    left: np.ndarray
    has_left: np.ndarray

    @classmethod
    def empty(cls, events: int) -> Outcome:
        return cls(np.empty(events, np.uint8), np.empty(events, np.int64), np.empty(events, np.uint8))


def arrays(events: pa.Table) -> list[np.ndarray]:
    """The events as the loop wants them: is_transfer, then COLUMNS, without nulls."""
    is_transfer = pc.equal(events["event"].cast(pa.string()), "Transfer").to_numpy().astype(np.uint8)
    return [is_transfer, *(events[name].fill_null(0).to_numpy() for name in COLUMNS)]


def run(columns: list[np.ndarray], ledger: Ledger, outcome: Outcome) -> None:
    arguments = [*columns, ledger.balances, ledger.stocks, outcome.code, outcome.left, outcome.has_left]
    loop(*arguments)
