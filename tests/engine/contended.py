"""A small program with much contention, and everything that can be said about a run of it at some isolation level."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

import numpy as np

import mainstem as ms
from mainstem.engine.history import History
from mainstem.errors import HistoryError
from mainstem.testing import Outcome, assert_same, check_history

ROWS = (3, 3, 4)  # few, so that transactions meet; the seed decides
THREADS = 4
SEEN = ("a", "b", "c")

app = ms.App("contended")


@app.table(key=int)
class Row:
    writer: int = -1  # number of the event that wrote it last
    writes: int = 0


@app.event
class Move:
    number: int
    a: int
    b: int
    c: int


@app.event
class Copy:
    number: int
    a: int
    b: int
    c: int


@app.event
class Audit:
    number: int
    a: int
    b: int
    c: int


@app.on(Move)
def move(e):
    """Reads and writes two rows; aborts now and then, depending on what it read."""
    a = Row[e.a]
    b = Row[e.b]
    seen_a = a.writer
    a.writer = e.number
    a.writes += 1
    seen_b = b.writer
    b.writer = e.number
    b.writes += 1
    ms.require((a.writes + b.writes) % 5 != 0, "five")
    return {"seen_a": seen_a, "seen_b": seen_b}


@app.on(Copy)
def copy(e):
    """Reads two rows and writes a third: what write skew is made of."""
    seen_a = Row[e.a].writer
    b = Row[e.b]
    seen_b = b.writer
    b.writer = e.number
    b.writes += 1
    seen_c = Row[e.c].writer
    ms.require((b.writes + seen_a) % 4 != 0, "four")
    return {"seen_a": seen_a, "seen_b": seen_b, "seen_c": seen_c}


@app.on(Audit)
def audit(e):
    return {"seen_a": Row[e.a].writer, "seen_b": Row[e.b].writer, "seen_c": Row[e.c].writer}


@dataclass(frozen=True)
class Work:
    events: list[Move | Copy | Audit]
    serial: Outcome


def work(seed: int, events: int = 40) -> Work:
    random = Random(seed)
    made, rows = [], range(ROWS[seed % len(ROWS)])
    for number in range(events):
        a, b, c = random.sample(rows, 3)
        made.append(random.choice((Move, Move, Copy, Copy, Audit))(ts=number, number=number, a=a, b=b, c=c))
    result = app.run(made, engine="oracle")
    return Work(made, Outcome(result.outputs, dict(app.state)))


def executed(work: Work, level: str, protocol: str) -> tuple[Outcome, History]:
    how = {"isolation": level, "protocol": protocol, "history": True}
    result = app.run(work.events, **how, jit=False, threads=THREADS, batch=len(work.events))
    return Outcome(result.outputs, dict(app.state)), result.history


def broken_rule(work: Work, level: str, protocol: str) -> str:
    """What is wrong with a run at that level; "" when nothing is."""
    outcome, history = executed(work, level, protocol)
    try:
        report = check_history(history, level, aborted=level in ("PL3", "PL4"))
    except HistoryError as error:
        return f"history: {error}"
    if not report.ok:
        return f"checker: {report}"
    if wrong := content_unlike_history(work, outcome, history, level):
        return f"content: {wrong}"
    if level == "PL4":
        try:
            assert_same(work.serial, outcome)
        except AssertionError as difference:
            return f"oracle: {difference}"
    return ""


def content_unlike_history(work: Work, outcome: Outcome, history: History, level: str) -> str:
    """What transactions and tables saw must be what the history says that they saw."""
    names = [history.row_name(row) for row in range(_rows(history))]
    last = dict.fromkeys(names, -1)
    for version in np.argsort(history.write_place, kind="stable"):
        if history.write_place[version] > 0:
            last[names[history.write_row[version]]] = int(history.txn_seq[history.write_txn[version]])
    for row in outcome.state["Row"].to_pylist():
        name = f"Row[{row['key']}]"
        if row["writer"] != last.get(name, -1):
            return f"{name} was left by event {row['writer']}, and its last version is of event {last[name]}"
    return "" if level == "PL1" else _reads_unlike_history(work, outcome, history, names)


def _reads_unlike_history(work: Work, outcome: Outcome, history: History, names: list[str]) -> str:
    """At PL1 a version may be seen before its own transaction has put its number in."""
    writer = history.txn_seq[history.write_txn]
    told: dict[tuple[int, str], int] = {}
    for txn, version in zip(history.read_txn, history.read_version, strict=True):
        row = history.write_row[version] if version >= 0 else -1 - version
        told[int(history.txn_seq[txn]), names[row]] = int(writer[version]) if version >= 0 else -1
    for row in outcome.outputs.to_pylist():
        if row["status"] == "committed":
            seq, event = row["seq"], work.events[row["seq"]]
            for column in SEEN:
                name, seen = f"Row[{getattr(event, column)}]", row[f"seen_{column}"]
                if seen is not None and seen != told[seq, name]:
                    return f"event {seq} saw {name} of event {seen}, and read that of event {told[seq, name]}"
    return ""


def _rows(history: History) -> int:
    return 1 + max(int(history.write_row.max(initial=-1)), -1 - int(history.read_version.min(initial=0)))
