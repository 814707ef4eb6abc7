"""The workload of `mainstem.apps.ledger_work`: its start, its events, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.apps.work import compiled_burn, turns_for
from mainstem.apps.workloads import check, common
from mainstem.jit import kernel

ACCOUNTS = 10_000
CHUNK_ROWS = 1 << 13  # small, because the dynamic workload is made in many short steps
AMOUNT_MAX = 100  # of an everyday deposit or transfer
START_BALANCE, START_UNITS = 1_000_000, 500_000  # everyday transfers do not use it up
BALANCE_MAX = 10**12  # of an account
AMOUNT_ABSURD = 10**15  # more than any account may hold
COINS_MAX = 0.1  # share of transfers that take a large part of a balance: more would make balances too unequal

FIELDS = [("Account", "balance"), ("Account", "seal"), ("Asset", "units"), ("Asset", "seal")]
DEPOSIT, TRANSFER = 0, 1


def initial(accounts: int = ACCOUNTS) -> dict[str, pa.Table]:
    """The tables at the start; no two accounts (or assets) are alike."""
    keys = np.arange(accounts)
    return {
        "Account": pa.table({"key": keys, "balance": START_BALANCE + 7 * keys, "seal": 1 + 11 * keys}),
        "Asset": pa.table({"key": keys, "units": START_UNITS + 3 * keys, "seal": 5 + 13 * keys}),
    }


def generate(
    events: int = 1_000_000,
    *,
    accounts: int = ACCOUNTS,
    skew: float = 0.2,
    transfers: float = 0.5,
    abort: float = 0.01,
    cost: float = 0.0,
    turns: int | None = None,
    distinct: bool = True,
    seed: int = 0,
) -> pa.Table:
    """`events` deposits and transfers in one table: `ts`, `event` and the fields of both (null where not used).

    `transfers` is their share of the events. With `distinct`, nothing is transferred to where it comes from. About a
    share of `abort` aborts, of deposits and of transfers: most ask for more than there can be, some transfers for up to
    twice of what the account or asset should hold by then. `cost` is the work per written row in microseconds of this
    machine, `turns` (instead) in turns of `burn`. A smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, accounts, skew, transfers, abort, cost, turns, distinct, seed))


def write_log(
    path: str | Path,
    events: int,
    *,
    files: int = common.FILES,
    row_group: int = common.ROW_GROUP,
    progress: Callable[[int], None] | None = None,
    **knobs: Any,
) -> list[Path]:
    """Write what `generate(events, **knobs)` returns into a folder of Parquet files, in the memory of a few chunks."""
    tables = _chunks(events, **common.with_defaults(generate, knobs))
    return common.write_log(path, tables, events, files=files, row_group=row_group, progress=progress)


def conserved(
    before: Mapping[str, pa.Table], events: pa.Table, outputs: pa.Table, after: Mapping[str, pa.Table]
) -> bool:
    """Whether `outputs` and `after` are what `events`, one by one in this order, make of `before`.

    Does all the work of the events once more: it takes about as long as a serial run.
    """
    rows = check.rows(before, FIELDS)
    columns = ("account", "to_account", "asset", "to_asset", "amount", "units", "work")
    log = [check.kind_codes(events, ["Deposit", "Transfer"]), *(check.numbers(events, name) for name in columns)]
    committed, left = np.zeros((2, events.num_rows), dtype=np.int64)
    arrays = [*log, *rows, committed, left]
    _replay(*arrays)
    return check.same_rows(after, FIELDS, rows) and check.same_outputs(outputs, committed, left=left)


@kernel
def _replay(
    kind: np.ndarray,
    source: np.ndarray,
    target: np.ndarray,
    asset: np.ndarray,
    to_asset: np.ndarray,
    amount: np.ndarray,
    many: np.ndarray,
    work: np.ndarray,
    balance: np.ndarray,
    balance_seal: np.ndarray,
    units: np.ndarray,
    units_seal: np.ndarray,
    committed: np.ndarray,
    left: np.ndarray,
) -> None:
    """Runs the events on the state (`balance` to `units_seal`); fills `committed` and, for transfers, `left`."""
    for i in range(len(kind)):
        account, goods = source[i], asset[i]
        if amount[i] <= 0 or many[i] <= 0:
            continue
        if kind[i] == DEPOSIT and balance[account] > BALANCE_MAX - amount[i]:
            continue
        if kind[i] == TRANSFER and (balance[account] < amount[i] or units[goods] < many[i]):
            continue
        committed[i] = 1
        sign = 1 if kind[i] == DEPOSIT else -1
        sender, giver = balance_seal[account], units_seal[goods]
        balance[account] += sign * amount[i]
        left[i] = balance[account]
        units[goods] += sign * many[i]
        balance_seal[account] = compiled_burn(sender * 3 + amount[i], work[i])
        units_seal[goods] = compiled_burn(giver * 3 + many[i], work[i])
        if kind[i] == TRANSFER:
            account, goods = target[i], to_asset[i]
            balance[account] += amount[i]
            units[goods] += many[i]
            balance_seal[account] = compiled_burn(balance_seal[account] * 3 + sender, work[i])
            units_seal[goods] = compiled_burn(units_seal[goods] * 3 + giver, work[i])


def _chunks(
    events: int,
    accounts: int,
    skew: float,
    transfers: float,
    abort: float,
    cost: float,
    turns: int | None,
    distinct: bool,
    seed: int,
) -> Iterator[pa.Table]:
    common.share_of("transfers", transfers)
    common.share_of("abort", abort)
    keys = common.ZipfKeys(accounts, skew, seed)
    start = {name: table.column(1).to_numpy() for name, table in initial(accounts).items()}
    deposit_mean = (1 - transfers) * (1 - abort) * (1 + AMOUNT_MAX) / 2
    work = turns_for(cost, turns)

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
        account, to_account = keys.draw_sets(random, rows, 2, distinct=distinct).T
        asset, to_asset = keys.draw_sets(random, rows, 2, distinct=distinct).T
        must_abort, coin = common.temptations(random, rows, abort, COINS_MAX)
        heads = random.random(rows) < 0.5
        must_abort |= ~is_transfer & coin & heads
        # What is too much, for a transfer: money or units; for a deposit: money, which alone has an upper limit.
        money = (random.random(rows) < 0.5) | ~is_transfer
        amount = amounts(random, account, first, start["Account"], coin & money & is_transfer)
        units = amounts(random, asset, first, start["Asset"], coin & ~money)
        amount[must_abort & money] = AMOUNT_ABSURD
        units[must_abort & ~money] = AMOUNT_ABSURD
        return {
            "event": common.kinds(["Deposit", "Transfer"], is_transfer),
            "account": pa.array(account),
            "asset": pa.array(asset),
            "to_account": common.only(to_account, is_transfer),
            "to_asset": common.only(to_asset, is_transfer),
            "amount": pa.array(amount),
            "units": pa.array(units),
            "work": pa.array(np.full(rows, work)),
        }

    return common.chunks(events, seed, common.STEP_MAX, make, CHUNK_ROWS)
