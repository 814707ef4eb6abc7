"""A program with windows, inputs that stall and burst, and a live run over them that is handed micro-batches."""

# mypy: ignore-errors

from __future__ import annotations

import os
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from spark_support import stored

import mainstem as ms
from mainstem.spark.execute import decoded_schema
from mainstem.spark.job import Job
from mainstem.spark.live_one import OneStage
from mainstem.spark.live_rows import INPUT, LiveInput
from mainstem.testing import Outcome

sys.path.insert(0, str(Path(__file__).parent.parent / "store"))  # where crash_plug.py is

INPUTS = 4
payments = ms.App("payments")
"""Transactions read a window that ends with the event (`Sent`), the last closed one (`spent`), and run when one closes;
updates do not commute."""


@payments.event
class Transfer:
    src: int
    dst: int
    amount: int


@payments.event
class Audit:
    account: int
    note: str


spent = payments.window(
    Transfer, size=40, advance=10, by="src", name="spent",
    n=ms.count(), total=ms.sum("amount"), latest=ms.last("amount"), targets=ms.distinct("dst"),
)  # fmt: skip
lately = payments.window(Transfer, size=6, advance=2, by="src", name="lately", unit="events", mean=ms.avg("amount"))
audits = payments.window(Audit, size=100, name="audits", n=ms.count(), first=ms.first("note"))


@payments.table(key=int)
class Account:
    balance: int = 100
    alarms: int = 0


@payments.history(key=int, keep=64)
class Sent:
    amount: int


@payments.on(Transfer)
def transfer(e):
    ms.require(Sent[e.src].count(last=25) < 5, "more than 5 transfers lately")
    ms.require(e.amount <= spent[e.src].latest + 9, "far more than before")
    Sent[e.src].append(amount=e.amount)
    source = Account[e.src]
    source.balance = source.balance * 3 % 1_000_003 - e.amount
    Account[e.dst].balance += e.amount
    return {"left": source.balance, "seen": spent[e.src].n}


@payments.on(spent)
def alarm(e):
    if e.targets > 2 and lately[e.src].mean > 4.0:
        Account[e.src].alarms += 1


@payments.on(Audit)
def audit(e):
    ms.require(spent[e.account].total < 40, "busy")
    Account[e.account].balance = 0


SCHEMA = pa.schema(
    [("ts", pa.int64()), ("event", pa.string()), ("note", pa.string())]
    + [(name, pa.int64()) for name in ("src", "dst", "amount", "account")]
)


def tables(seed: int, rows: int, inputs: int = INPUTS, bad: float = 0.0) -> list[pa.Table]:
    """One sorted table per input, with ties inside and across them; some rows lack what they must have."""
    draw = random.Random(seed)
    found = []
    for number in range(inputs):
        ts, made = draw.randint(-20, 5), []
        for row in range(draw.choice((1, rows // 2, rows, rows * 2))):
            ts += draw.choice((0, 0, 1, 2, 9, 30 if number else 3))
            if draw.random() < 0.1:
                made.append({"event": "Audit", "account": draw.randint(0, 5), "note": f"{number}/{row}"})
            else:
                amount = None if draw.random() < bad else draw.randint(0, 12)
                made.append({"event": "Transfer", "src": draw.randint(0, 5), "dst": draw.randint(0, 5)})
                made[-1]["amount"] = amount
            made[-1]["ts"] = ts
        found.append(pa.Table.from_pylist(made, schema=SCHEMA))
    return found


Pieces = list[dict[int, pa.Table]]


def schedule(seed: int, given: list[pa.Table], steps: int) -> Pieces:
    """Micro-batches: in each of them some inputs bring something. Some are silent for long, then all comes at once."""
    draw = random.Random(seed)
    at, pieces = [0] * len(given), []
    busy = [draw.random() for _ in given]
    for _ in range(steps):
        piece = {}
        if draw.random() < 0.2:
            busy = [draw.choice((0.0, 0.3, 1.0)) for _ in given]
        for number, table in enumerate(given):
            if draw.random() < busy[number]:
                count = draw.choice((1, 3, 20))
                piece[number] = table.slice(at[number], count)
                at[number] += count
        pieces.append(piece)
    pieces.append({number: table.slice(at[number]) for number, table in enumerate(given)})
    return [brought for piece in pieces if (brought := {n: t for n, t in piece.items() if t.num_rows})]


class MicroBatch:
    """What the run asks of the DataFrame that Spark hands out."""

    def __init__(self, piece: dict[int, pa.Table]) -> None:
        numbered = [t.append_column(INPUT, pa.array(np.full(len(t), n, np.int32))) for n, t in sorted(piece.items())]
        self._table = pa.concat_tables(numbered) if numbered else _EMPTY
        self.sparkSession = self.sparkContext = self

    def getLocalProperty(self, name: str) -> str:
        return "the query"

    def toArrow(self) -> pa.Table:
        return self._table


_EMPTY = SCHEMA.append(pa.field(INPUT, pa.int32())).empty_table()


class Handing:
    """A live run without Spark: micro-batches are handed out in order, and again when one was not answered."""

    def __init__(self, state: Path, pieces: Pieces, inputs: int = INPUTS, app: Any = payments, **options: Any) -> None:
        self.state, self.pieces, self.app, self.answered = state, pieces, app, 0
        self.inputs = [LiveInput(n, None, tuple(SCHEMA.names)) for n in range(inputs)]
        self.options = options

    def run(self, upto: int | None = None, idle: float | None = None, told: Any = lambda meta: None) -> None:
        """`told` gets the meta of every commit."""
        job = Job(self.app.program, 1 << 62, self.options.get("on_bad", "reject"), jit=False)
        kept = {"durability": self.options.get("durability", "sync"), "keep": 1}
        live = OneStage(job, str(self.state), str(self.state / "outputs"), None, None, kept, self.inputs, idle)
        try:
            while self.answered < (len(self.pieces) if upto is None else upto):
                live(MicroBatch(self.pieces[self.answered]), self.answered)
                self.answered += 1
                told(live.store.meta)
        finally:
            live.close()

    def finish(self) -> None:
        """Nothing more comes from any input."""
        out = self.state / "outputs"
        self.app.run([], state=self.state, complete=True, out=out, jit=False, progress=None, engine="serial")

    def outcome(self) -> Outcome:
        """Files are named by the first `seq` in them, so they are read in order."""
        return Outcome(plain(pq.read_table(self.state / "outputs")), stored(self.app, self.state))

    def rejects(self) -> list[dict[str, Any]]:
        folder = self.state / "rejects"
        return rejected(pq.read_table(folder)) if folder.is_dir() and any(folder.iterdir()) else []


def rejected(table: pa.Table) -> list[dict[str, Any]]:
    by = [("input", "ascending"), ("offset", "ascending")]
    return table.select(["input", "offset", "reason"]).sort_by(by).to_pylist()


def oracle(app: Any, given: Any, **options: Any) -> tuple[Outcome, list[dict[str, Any]]]:
    """The sorted run."""
    result = app.run(given, engine="oracle", on_bad="reject", progress=None, **options)
    return Outcome(plain(result.outputs), dict(app.state)), rejected(result.rejects)


def plain(outputs: pa.Table) -> pa.Table:
    """Texts as texts: files and tables differ in their dictionaries."""
    return outputs.cast(decoded_schema(outputs.schema))


def write_pieces(folder: Path, pieces: Pieces, first: int, stop: int) -> None:
    """The rows of some micro-batches as files, one per input; times of modification rise, as a live source expects."""
    for number in range(INPUTS):
        (folder / f"in{number}").mkdir(parents=True, exist_ok=True)
    for at in range(first, min(stop, len(pieces))):
        for number, table in pieces[at].items():
            path = folder / f"in{number}" / f"{at:03d}.parquet"
            hidden = folder / f"in{number}" / f".{at:03d}"
            pq.write_table(table, hidden)
            os.utime(hidden, (1_000_000 + at, 1_000_000 + at))
            hidden.rename(path)


def live_files(spark: SparkSession, folder: Path, app: Any = payments, **options: Any) -> None:
    """A live run over the folders of files: of each input one file at a time, until nothing more is there."""
    schema = "ts long, event string, note string, src long, dst long, amount long, account long"
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    sources = [reader.parquet(str(folder / f"in{number}")) for number in range(INPUTS)]
    options = {"on_bad": "reject", "jit": False, "trigger": {"availableNow": True}, **options}
    app.stream(spark, sources, state=folder / "state", checkpoint=folder / "checkpoint", **options).awaitTermination()
