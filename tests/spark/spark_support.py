"""Programs, logs and comparisons for the tests of Spark."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark import cloudpickle
from pyspark.sql import DataFrame

import mainstem as ms
from mainstem.app import App
from mainstem.testing import Outcome, assert_same

# Derive functions travel to workers by value: workers do not have the tests' folder on their path.
cloudpickle.register_pickle_by_value(__import__(__name__))

meters = ms.App("meters")
"""Every event touches one key: the keyed plan is legal. Updates do not commute, so a wrong order shows."""


@meters.event
class Reading:
    meter: str
    amount: int


@meters.event
class Close:
    meter: str


@meters.table(key=str)
class Meter:
    total: int = 0
    count: int = 0


@meters.on(Reading)
def add(e):
    meter = Meter[e.meter]
    ms.require(e.amount >= 0, "negative amount")
    meter.total = meter.total * 3 % 1_000_003 + e.amount
    meter.count += 1
    return {"total": meter.total}


@meters.on(Reading)
def peek(e):
    return {"count": Meter[e.meter].count}


@meters.on(Close)
def close(e):
    ms.require(e.meter in Meter, "no such meter")
    count = Meter[e.meter].count
    del Meter[e.meter]
    return {"count": count}


bank = ms.App("bank")
"""Events touch two keys: one state stage only."""


@bank.event
class Transfer:
    source: int
    target: int
    amount: int


@bank.table(key=int)
class Account:
    balance: int = 100

    @ms.check
    def solvent(row):
        return row.balance >= 0


@bank.on(Transfer)
def transfer(e):
    Account[e.source].balance -= e.amount
    Account[e.target].balance += e.amount
    return {"left": Account[e.source].balance}


words = ms.App("words")
"""A derive function makes the key and a number out of text."""


@words.event
class Message:
    user: int
    text: str


@words.derive(Message, first=str, length=int)
def parse(batch):
    return {"first": pc.utf8_slice_codeunits(batch["text"], 0, 1), "length": pc.utf8_length(batch["text"])}


@words.table(key=str)
class Letter:
    longest: int = 0
    last_user: int = -1


@words.on(Message)
def note(e):
    letter = Letter[e.first]
    before = letter.last_user
    letter.longest = max(letter.longest, e.length)
    letter.last_user = e.user
    return {"before": before, "longest": letter.longest}


def meter_log(rows: int = 3000, seed: int = 0) -> pa.Table:
    """Readings and closings with ties in ts."""
    random = np.random.default_rng(seed)
    closing = random.random(rows) < 0.05
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, rows)),
            "event": pa.array(np.where(closing, "Close", "Reading")),
            "meter": pa.array([f"m{k}" for k in random.integers(0, 40, rows)]),
            "amount": pa.array(random.integers(-1, 50, rows), mask=closing),
        }
    )


def bank_log(rows: int = 3000, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, rows)),
            "source": random.integers(0, 30, rows),
            "target": random.integers(0, 30, rows),
            "amount": random.integers(0, 60, rows),
        }
    )


def word_log(rows: int = 2000, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, rows)),
            "user": random.integers(0, 9, rows),
            "text": pa.array(["abcdefgh"[k : k + 1 + k % 4] * (1 + k) for k in random.integers(0, 8, rows)]),
        }
    )


def write_files(folder: Path, table: pa.Table, files: int, row_group: int = 400, *, ties: bool = True) -> str:
    """The table as Parquet files in order; times of modification rise, as a live source expects.

    Without `ties` no two files share a ts: Spark reads the files of one micro-batch in an order of its own.
    """
    folder.mkdir(parents=True)
    cuts = [table.num_rows * i // files for i in range(files + 1)]
    if not ties:
        ts = table["ts"].to_numpy()
        cuts = [cut if cut == len(ts) else int(np.searchsorted(ts, ts[cut])) for cut in cuts]
    for i, (first, end) in enumerate(pairwise(cuts)):
        path = folder / f"{i:03d}.parquet"
        pq.write_table(table.slice(first, end - first), path, row_group_size=row_group)
        os.utime(path, (1_000_000 + i, 1_000_000 + i))
    return str(folder)


def expected(app: App, events: object, **options: object) -> Outcome:
    """What the oracle says."""
    result = app.run(events, engine="oracle", **options)
    return Outcome(result.outputs, dict(app.state))


def stored(app: App, state: Path) -> dict[str, pa.Table]:
    with ms.open(state) as database:
        return {table.name: database.table(table.name) for table in app.program.tables}


def outputs_of(df: DataFrame) -> pa.Table:
    return df.orderBy("seq").toArrow() if "function" not in df.columns else _by_function(df)


def _by_function(df: DataFrame) -> pa.Table:
    """Several functions of one event share its seq; they ran as declared, which here is the order of their names."""
    return df.orderBy("seq", "function").toArrow()


def assert_outputs(wanted: Outcome, df: DataFrame) -> None:
    assert_same(Outcome(wanted.outputs), Outcome(outputs_of(df)))


def assert_run(wanted: Outcome, app: App, df: DataFrame, state: Path) -> None:
    assert_same(wanted, Outcome(outputs_of(df), stored(app, state)))
