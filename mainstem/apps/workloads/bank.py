"""The workload of `mainstem.apps.bank`: its start, its events, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.apps.workloads import common

ACCOUNTS = 10_000
AMOUNT_MAX = 100  # of an everyday request
START_BALANCE, START_SPREAD = 500, 1_009
REQUEST_INTERVAL_S = 36 * 3600  # of one account: 20 requests per month; sets the pace of `ts`


def initial(accounts: int = ACCOUNTS) -> dict[str, pa.Table]:
    """The balances at the start, unlike those of the neighbours; the history is empty."""
    keys = np.arange(accounts)
    return {"Account": pa.table({"key": keys, "balance": START_BALANCE + 7 * keys % START_SPREAD})}


def generate(
    events: int = 1_000_000,
    *,
    accounts: int = ACCOUNTS,
    skew: float = 0.0,
    transfers: float = 0.6,
    abort: float = 0.01,
    seed: int = 0,
) -> pa.Table:
    """`events` requests in one table: `ts`, `event` and the fields of all three (null where not used).

    `transfers` is their share; of the others, one half deposits and one half withdraws. At least a share of `abort`
    aborts: half of these have an amount that is not positive, half ask for more than the account holds at
    that moment. Requests beyond the monthly limit come on top, the more the higher the skew. A smaller log
    with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, accounts, skew, transfers, abort, seed))


def write_log(
    path: str | Path,
    events: int,
    *,
    accounts: int = ACCOUNTS,
    skew: float = 0.0,
    transfers: float = 0.6,
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
    """Whether `after` holds what `before` held plus committed deposits minus committed withdrawals, none below zero."""
    kind = events["event"].cast(pa.string()).filter(pc.equal(outputs["status"].cast(pa.string()), "committed"))
    amount = events["amount"].filter(pc.equal(outputs["status"].cast(pa.string()), "committed"))
    added, taken = (pc.sum(amount.filter(pc.equal(kind, name))).as_py() or 0 for name in ("Deposit", "Withdrawal"))
    balances = after["Account"]["balance"]
    total = pc.sum(before["Account"]["balance"]).as_py() + added - taken
    return pc.sum(balances).as_py() == total and pc.min(balances).as_py() >= 0


def _chunks(events: int, accounts: int, skew: float, transfers: float, abort: float, seed: int) -> Iterator[pa.Table]:
    common.share_of("transfers", transfers)
    common.share_of("abort", abort)
    keys = common.ZipfKeys(accounts, skew, seed)
    balances = initial(accounts)["Account"]["balance"].to_numpy()

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        kind = np.where(random.random(rows) < transfers, 2, random.integers(0, 2, rows))
        account, to_account = keys.draw(random, rows), keys.draw(random, rows)
        amount = random.integers(1, AMOUNT_MAX, rows, endpoint=True)
        # Up to twice of what the account had at the start: fails about every second time.
        (tempted,) = np.nonzero((kind != 0) & (random.random(rows) < abort / max((1 + transfers) / 2, abort)))
        amount[tempted] = np.maximum(1, random.random(tempted.size) * 2 * balances[account[tempted]]).astype(np.int64)
        amount[random.random(rows) < abort / 2] *= -1
        return {
            "event": common.kinds(["Deposit", "Withdrawal", "Transfer"], kind),
            "account": pa.array(account),
            "to_account": common.only(to_account, kind == 2),
            "amount": pa.array(amount),
        }

    step_max = max(1, 2 * REQUEST_INTERVAL_S // accounts)
    return common.chunks(events, seed, step_max, make)
