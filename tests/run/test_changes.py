"""`changes=True`: every committed transaction tells which rows it installed, whatever engine ran it."""

from __future__ import annotations

import datetime
import json
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.engine.changes import CHANGES_FIELD
from mainstem.engine.options import SAFE
from mainstem.testing import Outcome, assert_same, generate_case, load_program

ENGINES = ("auto", "serial", "inflight", "lock", "pat", "components", "mvlk", "chains", "tpg")
PROGRAMS_DEFAULT, PROGRAMS_LONG, CHUNK = 24, 6_000, 12

BANK = """
import mainstem as ms

app = ms.App("bank")


@app.event
class Move:
    src: int
    dst: int
    amount: int


@app.table(key=int)
class Account:
    balance: int = 10

    @ms.check
    def solvent(row):
        return row.balance >= 0


@app.table(key=(int, str))
class Pair:
    count: int = 0


with app.atomic(Move):

    @app.on(Move)
    def note(e):
        if e.amount == 0:
            del Pair[e.src, "seen"]
        else:
            Pair[e.src, "seen"].count = 1

    @app.on(Move)
    def move(e):
        Account[e.src].balance -= e.amount
        Account[e.dst].balance += e.amount
        return {"left": Account[e.src].balance}
"""
MOVES = [(1, 2, 4), (1, 2, 7), (1, 1, 3), (2, 1, 0), (1, 2, 0), (1, 2, 0), (3, 1, 5)]


def bank() -> tuple[Any, list[Any]]:
    module = load_program(BANK, "changes_bank")
    return module.app, [module.Move(ts=t, src=s, dst=d, amount=a) for t, (s, d, a) in enumerate(MOVES)]


def shown(outputs: pa.Table) -> list[list[tuple[str, Any, Any]] | None]:
    return [
        None if row is None else [(c["table"], json.loads(c["key"]), c["row"] and json.loads(c["row"])) for c in row]
        for row in outputs["changes"].to_pylist()
    ]


EXPECTED = [
    [("Account", 1, {"balance": 6}), ("Account", 2, {"balance": 14}), ("Pair", [1, "seen"], {"count": 1})],
    None,  # aborted
    [],  # it takes and gives back, and the pair is as it was
    [],  # nothing is moved, and a row that is not there is deleted
    [("Pair", [1, "seen"], None)],
    [],
    [("Account", 1, {"balance": 11}), ("Account", 3, {"balance": 5}), ("Pair", [3, "seen"], {"count": 1})],
]


def test_changes_are_rows_that_hold_something_else() -> None:
    app, events = bank()
    result = app.run(events, engine="oracle", changes=True)
    assert result.outputs.column_names[-1] == "changes"
    assert result.outputs.schema.field("changes").type == CHANGES_FIELD.type
    assert shown(result.outputs) == EXPECTED


@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_changes(engine: str) -> None:
    app, events = bank()
    plain = app.run(events, engine="oracle")
    for batch in (100, 2):
        result = app.run(events, engine=engine, jit=False, threads=2, batch=batch, changes=True)
        assert shown(result.outputs) == EXPECTED
        assert_same(Outcome(plain.outputs), Outcome(result.outputs.drop(["changes"])))


@pytest.mark.parametrize("protocol", ["lock", "timestamp"])
@pytest.mark.parametrize("isolation", ["PL1", "PL3", "PL4"])
def test_protocols(isolation: str, protocol: str) -> None:
    """On one thread transactions run in event order at every level."""
    app, events = bank()
    result = app.run(events, isolation=isolation, protocol=protocol, threads=1, jit=False, changes=True)
    assert shown(result.outputs) == EXPECTED


def test_a_level_that_auto_would_run_in_place() -> None:
    app, events = bank()
    result = app.run(events, isolation="PL3", threads=1, jit=False, changes=True)
    assert shown(result.outputs) == EXPECTED


def test_interpreted_programs_have_changes() -> None:
    module = load_program(BANK.replace("balance += e.amount", "balance += sum([e.amount])"), "changes_interpreted")
    events = [module.Move(ts=t, src=s, dst=d, amount=a) for t, (s, d, a) in enumerate(MOVES)]
    for batch in (100, 2):
        result = module.app.run(events, changes=True, batch=batch)
        assert result.stats.engines == ("interpreted",) and shown(result.outputs) == EXPECTED


def test_changes_go_to_files_and_come_with_durable_state(tmp_path: Path) -> None:
    app, events = bank()
    result = app.run(events, jit=False, changes=True, state=tmp_path / "state", out=tmp_path / "out", batch=3)
    assert shown(result.outputs) == EXPECTED
    files = sorted((tmp_path / "out").glob("*.parquet"))
    assert shown(pa.concat_tables(pq.read_table(f).select(["changes"]) for f in files)) == EXPECTED


def test_no_events_and_no_changes() -> None:
    app, events = bank()
    for engine in ("oracle", "serial"):
        result = app.run(events[:0], engine=engine, jit=False, changes=True)
        assert result.outputs.num_rows == 0 and "changes" in result.outputs.column_names
    assert "changes" not in app.run(events, jit=False).outputs.column_names


EVERYTHING = """
from datetime import datetime

import mainstem as ms

app = ms.App("everything")


@app.event
class Put:
    name: str
    blob: bytes
    when: datetime
    number: float
    pick: int


@app.table(key=(str, bytes, datetime))
class Kept:
    text: str
    blob: bytes
    when: datetime
    number: float
    yes: bool
    numbers: ms.Array[float, 3]
    flags: ms.Array[bool, 2]


@app.on(Put)
def put(e):
    row = Kept[e.name, e.blob, e.when]
    row.text = e.name
    row.blob = e.blob
    row.when = e.when
    row.number = e.number
    row.yes = e.pick > 0
    row.numbers[e.pick] = e.number
    row.flags[1] = True
"""


def test_all_types_as_json() -> None:
    module = load_program(EVERYTHING, "changes_everything")
    when = datetime.datetime(2024, 2, 29, 12, 30, 1, 500_000)
    texts = ['a"b\\c\n\x01', "süd 東", ""]
    numbers = [math.nan, -math.inf, -0.0]
    events = [
        module.Put(ts=i, name=texts[i], blob=bytes([0, 255]), when=when, number=numbers[i], pick=i) for i in range(3)
    ]
    events.append(module.Put(ts=9, name="", blob=b"", when=datetime.datetime(1, 1, 1), number=1e300, pick=2))
    result = module.app.run(events, engine="oracle", changes=True)
    for engine in ("serial", "tpg"):
        other = module.app.run(events, engine=engine, jit=False, changes=True)
        assert other.outputs["changes"].to_pylist() == result.outputs["changes"].to_pylist()
    found = [changes[0] for changes in shown(result.outputs) if changes]
    written = ["NaN", "-Infinity", -0.0]
    for i in range(3):
        _, key, row = found[i]
        assert key == [texts[i], "AP8=", "2024-02-29T12:30:01.5"]
        assert datetime.datetime.fromisoformat(row["when"]) == when
        assert (row["text"], row["number"], row["yes"]) == (texts[i], written[i], i > 0)
        assert row["numbers"] == [written[i] if n == i else 0.0 for n in range(3)] and row["flags"] == [False, True]
    assert math.copysign(1, found[2][2]["number"]) == -1
    assert found[3][1] == ["", "", "0001-01-01T00:00:00"] and found[3][2]["number"] == 1e300


def test_a_nan_that_stays_one_is_no_change_but_minus_zero_is() -> None:
    module = load_program(EVERYTHING, "changes_nan")
    when = datetime.datetime(2024, 1, 1)
    events = [
        module.Put(ts=t, name="x", blob=b"", when=when, number=number, pick=0)
        for t, number in enumerate([math.nan, -math.nan, 0.0, -0.0, -0.0])
    ]
    for engine in ("oracle", "serial"):
        result = module.app.run(events, engine=engine, jit=False, changes=True)
        assert [len(changes or ()) for changes in shown(result.outputs)] == [1, 0, 1, 1, 0]


def test_times_that_no_calendar_has() -> None:
    far = EVERYTHING.replace("row.when = e.when", "row.when = e.when + 9_000_000_000_000_000_000")
    module = load_program(far, "changes_far")
    event = module.Put(ts=1, name="x", blob=b"", when=datetime.datetime(1970, 1, 1), number=0.5, pick=0)
    ((change,),) = shown(module.app.run([event], jit=False, changes=True).outputs)
    assert change[2]["when"] == 9_000_000_000_000_000_000


def test_refusals() -> None:
    module = load_program(BANK.replace('"left"', '"changes"'), "changes_taken")
    events = [module.Move(ts=1, src=1, dst=2, amount=3)]
    for engine in ("auto", "oracle"):
        with pytest.raises(ms.ProgramError, match="functions of app bank return one of that name"):
            module.app.run(events, engine=engine, jit=False, changes=True)
    for run in (module.app.replay, module.app.stream):
        with pytest.raises(ms.ProgramError, match="has no changes="):
            run(None, None, changes=True)


def check(seed: int, tally: Counter[str]) -> None:
    case, draw = generate_case(f"changes {seed}", n=30, groups=0.4, statements=(2, 5)), random.Random(seed)
    expected = case.run(engine="oracle", changes=True)
    changes = expected.outputs["changes"].to_pylist()
    tally["aborted"] += sum(c is None for c in changes)
    tally["nothing"] += sum(c == [] for c in changes)
    tally["several"] += sum(len(c) > 1 for c in changes if c)
    tally["deleted"] += sum(one["row"] is None for c in changes if c for one in c)
    if not case.module.app.program.compiled:
        case.check(expected, changes=True)
        return
    strategy = draw.choice(SAFE)
    named = {"tpg": ("explore", "unit", "abort"), "chains": ("sharing",)}.get(strategy.engine, ())
    how = {name: getattr(strategy, name) for name in named}
    case.check(expected, engine=strategy.engine, **how, jit=False, changes=True, batch=draw.choice((100, 7)))
    protocol = draw.choice(("lock", "timestamp"))
    case.check(expected, isolation="PL4", protocol=protocol, jit=False, changes=True, threads=2)


@pytest.mark.parametrize("first", range(0, PROGRAMS_DEFAULT, CHUNK))
def test_generated_programs(first: int) -> None:
    tally: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        check(seed, tally)
    assert all(tally[kind] > 0 for kind in ("aborted", "nothing", "several", "deleted")), tally


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS_DEFAULT, PROGRAMS_DEFAULT + PROGRAMS_LONG, CHUNK))
def test_generated_programs_long(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check(seed, Counter())
