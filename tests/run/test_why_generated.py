"""`result.why` on generated programs: what it says an event saw and depended on is what the serial run shows."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from mainstem.engine.interpret import Interpreter
from mainstem.gate import open_events
from mainstem.testing import generate_case
from mainstem.why import Outcome, Why
from mainstem.why.report import ABORTED, OVERWRITES, READS

PROGRAMS, CHUNK, EVENTS = 25, 5, 24
BATCHES = (1, 5, 24)
Row = tuple[str, Any]


class Diary(Interpreter):
    """The oracle, with the state before each transaction and the rows that it changed."""

    def __init__(self, app: Any) -> None:
        super().__init__(app.spec, None)
        self.pages: list[tuple[dict[str, dict[Any, Any]], set[Row]]] = []

    def _transaction(self, name: str, function: Callable[..., Any], event: SimpleNamespace) -> dict[str, Any]:
        before = {table: dict(rows) for table, rows in self.rows.items()}
        for keys in self.changed.values():
            keys.clear()
        done = super()._transaction(name, function, event)
        self.pages.append((before, {(table, key) for table, keys in self.changed.items() for key in keys}))
        return done


def check_outcome(diary: Diary, at: int, first: int, outcome: Outcome, done: list[dict[str, Any]]) -> int:
    """Compares one transaction with the diary; gives the number of values that were traced to their writer."""
    before, _ = diary.pages[at]
    traced = 0
    for read in outcome.reads:
        record = before[read.table].get(read.key)
        assert read.exists == (record is not None)
        expected = record or diary.defaults[read.table]
        assert repr(read.fields) == repr({name: expected[name] for name in read.fields})
        writers = [j for j in range(first, at) if (read.table, read.key) in diary.pages[j][1]]
        named = [(d.seq, d.function) for d in outcome.depends_on if (d.table, d.key, d.how) == (read.table, read.key, READS)]
        assert named == [(done[j]["seq"], done[j]["function"]) for j in writers[-1:]]
        traced += len(named)
    for d in outcome.depends_on:
        j = next(j for j, row in enumerate(done) if (row["seq"], row["function"]) == (d.seq, d.function))
        assert first <= j < at and d.committed == (done[j]["status"] == "committed")
        assert ((d.table, d.key) in diary.pages[j][1]) or d.how not in (READS, OVERWRITES)
        assert (d.how == ABORTED) == (not d.committed)
    return traced


def check_program(seed: int) -> int:
    case = generate_case(seed, n=EVENTS)
    app, events, batch = case.module.app, case.stream.tables(1), BATCHES[seed % len(BATCHES)]
    result = app.run(events, batch=batch, jit=False, engine="serial" if app.program.compiled else "auto")
    diary = Diary(app)
    stream, _ = open_events(events, app.program.events, derives=app.program.derives, columns=app.program.used_columns)
    done = [row for piece in stream for row in diary.run(piece, 0)]
    traced = 0
    for seq in range(0, EVENTS, 3):
        why: Why = result.why(seq)
        own = [i for i, row in enumerate(done) if row["seq"] == seq]
        start = next(i for i, row in enumerate(done) if row["seq"] >= seq // batch * batch)
        assert [(f.function, f.status, f.reason) for f in why.functions] == [
            (done[i]["function"], done[i]["status"], done[i]["reason"]) for i in own
        ]
        for i, outcome in zip(own, why.functions, strict=True):
            assert (outcome.condition is not None) == (outcome.status == "aborted")
            traced += check_outcome(diary, i, start, outcome, done)
        assert str(why).startswith(f"event {seq}: ")
    return traced


@pytest.mark.parametrize("first", range(0, PROGRAMS, CHUNK))
def test_why_agrees_with_the_serial_run(first: int) -> None:
    assert sum(check_program(seed) for seed in range(first, first + CHUNK)) > CHUNK
