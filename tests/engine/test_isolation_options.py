"""Names of levels and protocols, where they are said, what statistics and plans show; several levels in one batch."""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from isolation_support import WAYS, app, posts

import mainstem as ms
from mainstem.engine import auto
from mainstem.errors import MainstemError, ProgramError
from mainstem.testing import Outcome, assert_same, check_history
from mainstem.testing.serially import run_in_order, serial_order

REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unknown level": ({"isolation": "PL5"}, ("'PL5'", "PL1, PL2, PL3, PL4")),
    "lower case": ({"isolation": "pl3"}, ("'pl3'", "PL3")),
    "unknown protocol": ({"protocol": "locks"}, ("'locks'", "auto, lock, timestamp")),
    "engine at a weaker level": ({"engine": "mvlk", "isolation": "PL3"}, ("'mvlk'", "post", "PL3", "drop engine=")),
    "oracle at a weaker level": ({"engine": "oracle", "isolation": "PL1"}, ("'oracle'", "PL1", "isolation='PL4'")),
    "engine and protocol": ({"engine": "serial", "protocol": "lock"}, ("'serial'", "'lock'", "drop")),
    "history without a protocol": ({"history": True}, ("history=True", "post", "protocol='lock'")),
    "history of an engine": ({"history": True, "engine": "lock"}, ("history=True", "'lock'", "protocol='lock'")),
    "history of the oracle": ({"history": True, "engine": "oracle"}, ("history=True", "'oracle'", "protocol='lock'")),
}


@pytest.mark.parametrize("name", REFUSED)
def test_message_names_the_thing_and_the_remedy(name: str) -> None:
    options, fragments = REFUSED[name]
    with pytest.raises(ProgramError) as caught:
        app.run(posts(10), **options)
    message = str(caught.value)
    assert not [f for f in fragments if f not in message], message
    assert caught.value.remedy, f"no remedy: {message}"


def test_an_app_checks_its_level() -> None:
    with pytest.raises(ProgramError, match="'PL0'"):
        ms.App("bank", isolation="PL0")
    with pytest.raises(ProgramError, match="'2pl'"):
        ms.App("bank", protocol="2pl")


def test_a_run_without_history_says_how_to_get_one() -> None:
    result = app.run(posts(10), protocol="lock", threads=1)
    with pytest.raises(MainstemError, match="history=True"):
        _ = result.history


def test_why_needs_event_order() -> None:
    events = posts(10)
    with pytest.raises(MainstemError, match=r"PL3(.|\n)*isolation='PL4'"):
        app.run(events, isolation="PL3", protocol="lock", threads=1).why(3)
    assert app.run(events, isolation="PL3", threads=1).why(3).seq == 3  # cheap ones run in event order
    assert app.run(events, protocol="lock", threads=1).why(3).seq == 3


def bank(**level: str) -> Any:
    """A table for each of two functions, and one that both read and nobody writes."""
    made = ms.App("bank", **level)

    @made.event
    class Pay:
        source: int
        target: int
        amount: int

    @made.event
    class Visit:
        page: int

    @made.table(key=int)
    class Account:
        balance: int = 100

    @made.table(key=int)
    class Page:
        visits: int = 0

    @made.table(key=int)
    class Rate:
        percent: int = 7

    @made.on(Pay)
    def pay(e):
        amount = e.amount + Rate[0].percent
        Account[e.source].balance -= amount
        Account[e.target].balance += amount
        ms.require(Account[e.source].balance >= 0, "too poor")
        return {"left": Account[e.source].balance}

    @made.on(Visit)
    def visit(e):
        Page[e.page].visits += Rate[0].percent
        return {"visits": Page[e.page].visits}

    return made


def bank_events(count: int, seed: int = 0) -> pa.Table:
    draw = np.random.default_rng(seed)
    pays = draw.random(count) < 0.5
    only = lambda values, where: pa.array(values, mask=~where)
    return pa.table({
        "ts": np.arange(count),
        "event": np.where(pays, "Pay", "Visit"),
        "source": only(draw.integers(0, 4, count), pays),
        "target": only(draw.integers(4, 8, count), pays),
        "amount": only(draw.integers(0, 30, count), pays),
        "page": only(draw.integers(0, 3, count), ~pays),
    })  # fmt: skip


def test_the_level_of_an_app_is_that_of_its_runs() -> None:
    made, events = bank(isolation="PL3", protocol="lock"), bank_events(200)
    assert made.run(events, threads=2).stats.engines == ("PL3(lock)",)
    assert made.run(events, threads=2, protocol="timestamp").stats.engines == ("PL3(timestamp)",)
    assert made.run(events, threads=2, isolation="PL4").stats.engines == ("PL4(lock)",)
    assert made.run(events, isolation="PL4", engine="serial").digest == bank().run(events).digest
    with pytest.raises(ProgramError, match="pay runs at isolation PL3"):
        made.run(events, engine="serial")


def test_plans_show_levels() -> None:
    assert "isolation: PL3, protocol lock for pay, visit" in bank(isolation="PL3", protocol="lock").explain()
    assert "isolation:" not in bank().explain()


def mixed() -> Any:
    made = bank()
    made.transaction(*(b.function for b in made._functions if b.name == "pay"), isolation="PL3", protocol="lock")
    return made


def test_functions_of_different_levels_run_beside_each_other() -> None:
    made, events = mixed(), bank_events(300)
    result = made.run(events, threads=4, batch=100)
    assert result.stats.engines == ("levels(visit: components; pay: PL3(lock))",)
    visits = lambda r: [v for v in r.outputs["visits"].to_pylist() if v is not None]
    expected = bank().run(events)
    assert visits(result) == visits(expected), "what is in event order stays so"
    balances = made.state["Account"]["balance"].to_pylist()
    assert sum(balances) == 100 * len(balances) and min(balances) >= 0


def test_histories_of_several_levels_are_one() -> None:
    made, events = mixed(), bank_events(300)
    with pytest.raises(ProgramError, match="visit runs in event order"):
        made.run(events, history=True)
    made.transaction(*(b.function for b in made._functions if b.name == "visit"), isolation="PL4", protocol="timestamp")
    result = made.run(events, threads=4, batch=100, history=True)
    check_history(result.history, "PL3").raise_if_broken()
    assert_same(run_in_order(made, events, serial_order(result.history)), Outcome(result.outputs, dict(made.state)))


@pytest.mark.parametrize(("level", "protocol"), WAYS)
def test_a_durable_run_goes_on_where_it_ended(level: str, protocol: str, tmp_path: Path) -> None:
    """On one thread every level is serial, so what is on disk is known."""
    events, how = posts(90, work=0), {"isolation": level, "protocol": protocol, "threads": 1, "jit": False}
    app.run(events.slice(0, 40), state=tmp_path / "state", batch=20, **how)
    app.run(events, state=tmp_path / "state", batch=20, resume=True, **how)
    with ms.open(tmp_path / "state") as database:
        stored = database.table("Slot")
    app.run(events, engine="serial")
    assert stored == app.state["Slot"]


def test_auto_stays_in_order_when_that_is_cheapest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "CHEAP_SECONDS", 1.0)  # whatever the machine is doing
    batch = bank(isolation="PL2").run(bank_events(300), threads=2).stats.batches[0]
    assert batch.engine == "serial" and "event order is right at every level" in batch.why


@pytest.mark.parametrize(("slots", "expected"), [(5_000, "PL2(lock)"), (3, "PL2(timestamp)")])
def test_auto_chooses_by_conflicts(slots: int, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto, "CHEAP_SECONDS", 0.0)
    monkeypatch.setattr(auto, "SHORT_SECONDS", 0.0)
    monkeypatch.setattr(auto, "default_threads", lambda: 2)
    batch = app.run(posts(2_000, slots=slots, work=0), isolation="PL2", threads=2).stats.batches[0]
    assert batch.engine == expected
    assert "of transactions need what one of the few before them makes" in batch.why


def test_interpreted_programs_run_in_order() -> None:
    made = ms.App("words", isolation="PL2")

    @made.event
    class Word:
        text: str

    @made.table(key=str)
    class Count:
        seen: int = 0

    @made.on(Word)
    def count(e):
        Count["".join(sorted(e.text))].seen += 1

    events = [Word(ts=1, text="tea"), Word(ts=2, text="eat")]
    assert made.run(events).stats.engines == ("interpreted",)
    assert made.state["Count"]["seen"].to_pylist() == [2]
    with pytest.raises(ProgramError, match="can't run compiled"):
        made.run(events, protocol="lock")
