"""The workload of `mainstem.apps.bidding`: its start, its events, and what must hold at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.apps.work import compiled_burn, turns_for
from mainstem.apps.workloads import check, common
from mainstem.errors import InputError
from mainstem.jit import kernel

ITEMS = 10_000
BIDS = 0.75  # six bids for each alter and each top request
CHUNK_ROWS = 1 << 13  # an event may have dozens of items
PRICE_MIN, PRICE_SPREAD = 10_000, 10_000  # asking prices, in cents: 100.00 to 199.99
QUANTITY_MAX = 10  # of an everyday bid or top request
START_QUANTITY = 1_000_000  # no run is so long that everyday bids use it up
QUANTITY_ABSURD = 10**15  # no item ever has as much

FIELDS = [("Item", "price"), ("Item", "quantity"), ("Item", "seal")]
BID, ALTER, TOP = 0, 1, 2


def initial(items: int = ITEMS) -> dict[str, pa.Table]:
    """The table at the start; no two items are alike."""
    keys = np.arange(items)
    price, quantity = PRICE_MIN + 7 * keys % PRICE_SPREAD, START_QUANTITY + 3 * keys
    return {"Item": pa.table({"key": keys, "price": price, "quantity": quantity, "seal": 1 + 11 * keys})}


def generate(
    events: int = 1_000_000,
    *,
    items: int = ITEMS,
    skew: float = 0.6,
    abort: float = 0.01,
    bids: float = BIDS,
    length: int = 20,
    cost: float = 0.0,
    turns: int | None = None,
    seed: int = 0,
) -> pa.Table:
    """`events` requests in one table: `ts`, `event` and the fields of all three (null where not used).

    `bids` is the share of bids; of the others, one half alters and one half tops up, `length` different items at a
    time. About a share of `abort` aborts, of each type: bids because they ask for more than there ever is, or because
    of the price at that moment (every second of those that offer less than the highest price), others because they are
    malformed. `cost` is the work per written item in microseconds of this machine, `turns` (instead) in turns of
    `burn`. A smaller log with the same arguments is a prefix of a larger one.
    """
    return pa.concat_tables(_chunks(events, items, skew, abort, bids, length, cost, turns, seed))


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
    log = [
        check.kind_codes(events, ["Bid", "Alter", "Top"]),
        *(check.numbers(events, name) for name in ("item", "price", "quantity", "work")),
        *check.list_parts(events, "items"),
        *check.list_parts(events, "prices"),
    ]
    committed, paid, left = np.zeros((3, events.num_rows), dtype=np.int64)
    arrays = [*log, *rows, committed, paid, left]
    _replay(*arrays)
    return check.same_rows(after, FIELDS, rows) and check.same_outputs(outputs, committed, price=paid, left=left)


@kernel
def _replay(
    kind: np.ndarray,
    item: np.ndarray,
    offer: np.ndarray,
    units: np.ndarray,
    work: np.ndarray,
    items_at: np.ndarray,
    items: np.ndarray,
    prices_at: np.ndarray,
    prices: np.ndarray,
    price: np.ndarray,
    quantity: np.ndarray,
    seal: np.ndarray,
    committed: np.ndarray,
    paid: np.ndarray,
    left: np.ndarray,
) -> None:
    """Runs the events on `price`, `quantity` and `seal`; fills `committed` and, for bids, `paid` and `left`."""
    for i in range(len(kind)):
        first, end = items_at[i], items_at[i + 1]
        if kind[i] == BID:
            k = item[i]
            if offer[i] < price[k] or quantity[k] < units[i]:
                continue
            quantity[k] -= units[i]
            seal[k] = compiled_burn(seal[k] * 3 + units[i], work[i])
            paid[i], left[i] = price[k], quantity[k]
        elif kind[i] == ALTER:
            if prices_at[i + 1] - prices_at[i] != end - first:
                continue
            for j in range(end - first):
                k = items[first + j]
                price[k] = prices[prices_at[i] + j]
                seal[k] = compiled_burn(seal[k] * 3 + price[k], work[i])
        else:
            if units[i] <= 0:
                continue
            for j in range(first, end):
                k = items[j]
                quantity[k] += units[i]
                seal[k] = compiled_burn(seal[k] * 3 + units[i], work[i])
        committed[i] = 1


def _chunks(
    events: int,
    items: int,
    skew: float,
    abort: float,
    bids: float,
    length: int,
    cost: float,
    turns: int | None,
    seed: int,
) -> Iterator[pa.Table]:
    common.share_of("abort", abort)
    common.share_of("bids", bids)
    if length < 1:
        raise InputError(f"length={length}: give at least one item per alter and top request")
    keys = common.ZipfKeys(items, skew, seed)
    work = turns_for(cost, turns)

    def prices(random: np.random.Generator, rows: int) -> np.ndarray:
        return random.integers(PRICE_MIN, PRICE_MIN + PRICE_SPREAD, rows)

    def make(random: np.random.Generator, first: int, rows: int) -> dict[str, pa.Array]:
        kind = np.where(random.random(rows) < bids, BID, random.integers(ALTER, TOP, rows, endpoint=True))
        is_bid, is_alter = kind == BID, kind == ALTER
        must_abort, coin = common.temptations(random, rows, abort)
        malformed = must_abort | (coin & (random.random(rows) < 0.5))
        offer = np.where(coin, prices(random, rows), PRICE_MIN + PRICE_SPREAD)
        quantity = random.integers(1, QUANTITY_MAX, rows, endpoint=True)
        quantity[is_bid & must_abort] = QUANTITY_ABSURD
        quantity[~is_bid & malformed] *= -1
        altered = np.where(malformed, length - 1, length)  # a malformed request lacks a price
        listed = keys.draw_sets(random, int((~is_bid).sum()), length)
        return {
            "event": common.kinds(["Bid", "Alter", "Top"], kind),
            "item": common.only(keys.draw(random, rows), is_bid),
            "price": common.only(offer, is_bid),
            "quantity": common.only(quantity, ~is_alter),
            "items": common.lists(listed.ravel(), np.full(rows, length), ~is_bid),
            "prices": common.lists(prices(random, int(altered[is_alter].sum())), altered, is_alter),
            "work": pa.array(np.full(rows, work)),
        }

    return common.chunks(events, seed, common.STEP_MAX, make, CHUNK_ROWS)
