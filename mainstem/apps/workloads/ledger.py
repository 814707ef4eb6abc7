"""The workload of `mainstem.apps.ledger`: its start, its events, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.apps.workloads import common

ACCOUNTS = 10_000
AMOUNT_MAX = 100  # of an everyday deposit or transfer
START_BALANCE, START_UNITS = 1_000, 500
STEP_MAX = 2  # `ts` rises by 0, 1 or 2: a third of the events share their timestamp with the one before


def initial(accounts: int = ACCOUNTS) -> dict[str, pa.Table]:
    """The tables at the start; no two accounts (or assets) have the same balance."""
    keys = np.arange(accounts)
    return {
        "Account": pa.table({"key": keys, "balance": START_BALANCE + 7 * keys}),
        "Asset": pa.table({"key": keys, "units": START_UNITS + 3 * keys}),
    }


def generate(
    events: int = 1_000_000,
    *,
    accounts: int = ACCOUNTS,
    skew: float = 0.6,
    transfers: float = 0.5,
    abort: float = 0.01,
    seed: int = 0,
) -> pa.Table:
    """`events` deposits and transfers in one table: `ts`, `event` and the fields of both (null where not used).

    `transfers` is their share of the events. About a share of `abort` aborts: half of these have an amount that is
    not positive, half ask for more than the account or the asset holds at that moment. A smaller
    log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, accounts, skew, transfers, abort, seed))


def write_log(
    path: str | Path,
    events: int,
    *,
    accounts: int = ACCOUNTS,
    skew: float = 0.6,
    transfers: float = 0.5,
    abort: float = 0.01,
    seed: int = 0,
    files: int = common.FILES,
    row_group: int = common.ROW_GROUP,
    progress: Callable[[int], None] | None = None,
) -> list[Path]:
    """Write what `generate` returns into a folder of Parquet files, in the memory of a few row groups."""
    tables = _chunks(events, accounts, skew, transfers, abort, seed)
    return common.write_log(path, tables, events, files=files, row_group=row_group, progress=progress)


def conserved(
    before: Mapping[str, pa.Table], events: pa.Table, outputs: pa.Table, after: Mapping[str, pa.Table]
) -> bool:
    """Whether `after` holds exactly what `before` held plus all committed deposits, and nothing is below zero."""
    deposited = pc.and_(
        pc.equal(outputs["status"].cast(pa.string()), "committed"),
        pc.equal(events["event"].cast(pa.string()), "Deposit"),
    )
    for table, field, column in (("Account", "balance", "amount"), ("Asset", "units", "units")):
        added = pc.sum(events[column].filter(deposited)).as_py() or 0
        if pc.sum(before[table][field]).as_py() + added != pc.sum(after[table][field]).as_py():
            return False
        if pc.min(after[table][field]).as_py() < 0:
            return False
    return True


def _chunks(events: int, accounts: int, skew: float, transfers: float, abort: float, seed: int) -> Iterator[pa.Table]:
    common.share_of("transfers", transfers)
    common.share_of("abort", abort)
    keys = common.ZipfKeys(accounts, skew, seed)
    start = {name: table.column(1).to_numpy() for name, table in initial(accounts).items()}
    deposit_mean = (1 - transfers) * (1 + AMOUNT_MAX) / 2

    def amounts(
        random: np.random.Generator, key: np.ndarray, first: int, balance: np.ndarray, tempted: np.ndarray
    ) -> np.ndarray:
        """Everyday amounts, and for `tempted` rows up to twice of what the key is expected to hold by then."""
        amount = random.integers(1, AMOUNT_MAX, key.size, endpoint=True)
        (rows,) = np.nonzero(tempted)
        expected = balance[key[rows]] + deposit_mean * keys.share[key[rows]] * (first + rows)
        amount[rows] = np.maximum(1, random.random(rows.size) * 2 * expected).astype(np.int64)
        return amount

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        is_transfer = random.random(rows) < transfers
        account, asset, to_account, to_asset = (keys.draw(random, rows) for _ in range(4))
        # A tempted transfer fails about every second time; it is tempted in one of money and units.
        chance = random.random(rows)
        tempted = is_transfer & (chance < (abort / max(transfers, abort)))
        money = random.random(rows) < 0.5
        amount = amounts(random, account, first, start["Account"], tempted & money)
        units = amounts(random, asset, first, start["Asset"], tempted & ~money)
        amount[random.random(rows) < abort / 2] *= -1
        return {
            "event": common.kinds(["Deposit", "Transfer"], is_transfer),
            "account": pa.array(account),
            "asset": pa.array(asset),
            "to_account": common.only(to_account, is_transfer),
            "to_asset": common.only(to_asset, is_transfer),
            "amount": pa.array(amount),
            "units": pa.array(units),
        }

    return common.chunks(events, seed, STEP_MAX, make)
