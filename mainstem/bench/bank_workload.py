"""The transfers of the `bank` benchmark: TSpoon's default scenario, made so that every contender can make them itself.

Transfer number i is a function of i: its accounts, its amount and whether it must abort come from a hash that pgbench
has as well (`hash_murmur2`). So a C client that generates its own load runs the very transfers that Mainstem reads from
a table, and all of them can be compared by the balances that they end in.

Accounts start with more than a run can move out of them. A transfer that has to abort asks for more than all money
there is. So the share of aborts is exact, and the final balances are the same in every serial order: what differs has
lost or doubled an update.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstem.state import digest

ACCOUNTS = 100_000
AMOUNT_MAX = 100
START_BALANCE, START_SPREAD = 1_000_000_000, 1_009  # neighbours start with different balances
HOPELESS_AMOUNT = 10**15  # no account ever holds it
ABORT_STEPS = 1_000  # aborts are dialled in steps of 0.1 %

_MULTIPLIER, _MULTIPLIER_8, _SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(0x35253C9ADE8F4CA8), np.uint64(47)


@dataclass(frozen=True)
class Transfers:
    """Columns of consecutive transfers."""

    first: int
    src: np.ndarray
    dst: np.ndarray
    amount: np.ndarray

    def __len__(self) -> int:
        return self.src.size

    @property
    def events(self) -> pa.Table:
        """As events of Mainstem: the timestamp is the number of the transfer."""
        ts = np.arange(self.first, self.first + len(self))
        return pa.table({"ts": ts, "src": self.src, "dst": self.dst, "amount": self.amount})

    @property
    def aborts(self) -> int:
        return int(np.count_nonzero(self.amount == HOPELESS_AMOUNT))


@dataclass(frozen=True)
class Workload:
    """Uniform transfers between `accounts`, a share `abort` of which aborts."""

    accounts: int = ACCOUNTS
    abort: float = 0.0
    seed: int = 0

    @property
    def abort_steps(self) -> int:
        return round(self.abort * ABORT_STEPS)

    def hash_seed(self, stream: int) -> int:
        """Of the four independent streams of numbers: source, destination, amount, abort."""
        return 4 * self.seed + stream

    def transfers(self, count: int, first: int = 0) -> Transfers:
        number = np.arange(first, first + count, dtype=np.int64)
        src, distance, amount, fate = (self._drawn(number, stream) for stream in range(4))
        src %= self.accounts
        dst = (src + 1 + distance % (self.accounts - 1)) % self.accounts
        amount = np.where(fate % ABORT_STEPS < self.abort_steps, HOPELESS_AMOUNT, 1 + amount % AMOUNT_MAX)
        return Transfers(first, src, dst, amount)

    def _drawn(self, number: np.ndarray, stream: int) -> np.ndarray:
        return np.abs(murmur2(number, self.hash_seed(stream)))

    def start(self) -> np.ndarray:
        """The balances of accounts 0, 1, … before the first transfer."""
        return START_BALANCE + 7 * np.arange(self.accounts, dtype=np.int64) % START_SPREAD

    def balances_after(self, count: int) -> np.ndarray:
        """What every contender must end in after the first `count` transfers, by arithmetic alone."""
        balances, transfers = self.start(), self.transfers(count)
        kept = transfers.amount != HOPELESS_AMOUNT
        np.subtract.at(balances, transfers.src[kept], transfers.amount[kept])
        np.add.at(balances, transfers.dst[kept], transfers.amount[kept])
        return balances


def account_table(balances: np.ndarray) -> dict[str, pa.Table]:
    """Balances as the state of a program with one table of accounts."""
    return {"Account": pa.table({"key": np.arange(balances.size), "balance": balances})}


def digest_of(balances: np.ndarray) -> str:
    return digest(account_table(balances))


def murmur2(values: np.ndarray, seed: int) -> np.ndarray:
    """pgbench's `hash_murmur2(value, seed)` of each value: int64 to int64."""
    mixed = values.astype(np.uint64) * _MULTIPLIER
    mixed ^= mixed >> _SHIFT
    mixed *= _MULTIPLIER
    result = (np.uint64(seed) ^ _MULTIPLIER_8 ^ mixed) * _MULTIPLIER
    result ^= result >> _SHIFT
    result *= _MULTIPLIER
    result ^= result >> _SHIFT
    return result.view(np.int64)
