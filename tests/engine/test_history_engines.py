"""Histories in every engine: windows, aborts and state equal the oracle's on random streams, also over restarts."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.testing import Outcome, assert_same

app = ms.App("cards")


@app.event
class Payment:
    card: int
    shop: int
    cents: int
    risk: float
    country: str
    span: int


@app.event
class Review:
    cards: list[int]
    span: int
    forget: bool


@app.history(key=int, keep=6)
class Payments:
    shop: int
    cents: int
    risk: float
    country: str
    online: bool


@app.history(key=int, keep=300)
class Sales:
    card: int


@app.table(key=int)
class Card:
    odd: int = 0
    spent: int = 0


@app.on(Payment)
def pay(e):
    recent = Payments[e.card]
    ms.require(recent.count(last=30) < 5, "too fast")
    usual = recent.mean("cents", last=e.span)
    recent.append(shop=e.shop, cents=e.cents, risk=e.risk, country=e.country, online=e.shop % 2 == 0)
    Sales[e.shop].append(card=e.card)
    ms.require(e.cents != 13, "unlucky")
    if usual is not None and e.cents > 2.0 * usual:
        Card[e.card].odd += 1
    Card[e.card].spent += recent.sum("cents", last=e.span)
    return {"usual": usual, "customers": Sales[e.shop].distinct("card", last=200), "risk": recent.sum("risk")}


@app.on(Payment)
def describe(e):
    recent = Payments[e.card]
    return {
        "n": recent.count(last=e.span), "kept": recent.count(), "least": recent.min("risk", last=20),
        "most": recent.max("cents"), "countries": recent.distinct("country", last=20), "home": recent.top("country"),
        "second": recent.top("shop", 2), "newest": recent.last("country"), "online": recent.mean("online", last=20),
        "spent": Card[e.card].spent,
    }  # fmt: skip


@app.on(Review)
def review(e):
    shops = 0
    for card in e.cards:
        shops += Payments[card].distinct("shop", last=e.span)
        if e.forget and Card[card].odd > 0:
            del Payments[card]
            Card[card].odd = 0
    return {"shops": shops}


def stream(seed: object, count: int = 160) -> list[Any]:
    draw, ts, events = random.Random(f"cards {seed}"), -100, []
    for _ in range(count):
        ts += draw.choice((0, 0, 1, 2, 6))
        if draw.random() < 0.15:
            cards = [draw.randrange(7) for _ in range(draw.randrange(4))]
            events.append(Review(ts=ts, cards=cards, span=draw.choice((1, 10, 25)), forget=draw.random() < 0.5))
        else:
            card, shop = min(draw.randrange(7), draw.randrange(7)), draw.randrange(4)
            risk = draw.choice((0.1, 0.7, -0.0, 0.0, 1e16, float("nan")))
            events.append(
                Payment(ts=ts, card=card, shop=shop, cents=draw.choice((5, 13, 20, 90)), risk=risk,
                        country=draw.choice(("DE", "FR", "", "Ünder")), span=draw.choice((1, 9, 30, 90)))
            )  # fmt: skip
    return events


def outcome(events: Any, **options: Any) -> Outcome:
    return Outcome(app.run(events, **options).outputs, dict(app.state))


STRATEGIES: list[dict[str, Any]] = [
    {"engine": "serial"},
    *({"engine": engine} for engine in ("inflight", "lock", "pat", "mvlk", "components", "auto")),
    *({"engine": "chains", "sharing": sharing} for sharing in ("nothing", "everything")),
    *({"engine": "tpg", "explore": e, "unit": u, "abort": a}
      for e in ("bfs", "dfs", "ns") for u in ("op", "group") for a in ("eager", "lazy")),
    {"engine": "nested", "groups": {"hot keys": "tpg", "cold keys": "components"}},
]  # fmt: skip


def named(options: dict[str, Any]) -> str:
    return " ".join(str(v) for v in options.values() if isinstance(v, str))


@pytest.mark.parametrize("options", STRATEGIES, ids=named)
def test_every_strategy_equals_the_oracle(options: dict[str, Any]) -> None:
    for number in range(3):
        events = stream(number)
        threads = 1 + (number + len(named(options))) % 4
        actual = outcome(events, jit=False, threads=threads, batch=(1_000, 30, 7)[number], **options)
        assert_same(outcome(events, engine="oracle"), actual, context=f"stream {number}, {options}")


@pytest.mark.parametrize("options", [o for o in STRATEGIES if o["engine"] in ("serial", "chains")], ids=named)
def test_compiled_strategies_equal_the_oracle(options: dict[str, Any]) -> None:
    for number in range(10, 14):
        events = stream(number, count=400)
        actual = outcome(events, jit=True, threads=2, batch=(1_000, 50)[number % 2], **options)
        assert_same(outcome(events, engine="oracle"), actual, context=f"stream {number}, {options}")


def test_the_streams_meet_every_kind_of_abort_and_full_rings() -> None:
    reasons: set[Any] = set()
    for number in range(3):
        result = outcome(stream(number), engine="oracle")
        reasons |= set(result.outputs["reason"].to_pylist())
        assert max(result.state["Payments"]["_count"].to_pylist()) > 6
    assert reasons == {None, "too fast", "unlucky", "history of Payments is full: keep more than 6 entries"}


def test_functions_with_histories_run_in_parts() -> None:
    pays = app.program.functions[0]
    assert len(pays.parts) > 1, app.explain()


@pytest.mark.parametrize("middle", [1, 57, 120])
def test_a_resumed_durable_run_equals_one_run(middle: int, tmp_path: Path) -> None:
    events = stream("durable")
    expected = outcome(events, engine="oracle")
    options: dict[str, Any] = {"state": tmp_path / "state", "batch": 16, "jit": False, "threads": 2}
    parts = [
        app.run(events[:middle], engine="serial", **options),
        app.run(events, engine="tpg", resume=True, **options),
    ]
    with ms.open(tmp_path / "state") as db:
        state = {name: db.table(name) for name in expected.state}
        newest = db.sql("select key, _count from Payments order by key").to_pylist()
    outputs = pa.concat_tables([part.outputs.unify_dictionaries() for part in parts])
    assert_same(expected, Outcome(outputs, state))
    assert [r["_count"] for r in newest] == expected.state["Payments"]["_count"].to_pylist()


def test_entries_are_the_newest_in_order() -> None:
    outcome(stream(1), engine="serial", jit=False)
    table = app.state["Payments"]
    rows = ms.entries(table)
    assert rows.num_rows == sum(min(n, 6) for n in table["_count"].to_pylist())
    for key in table["key"].to_pylist():
        times = [r["ts"] for r in rows.to_pylist() if r["key"] == key]
        assert times == sorted(times)
    pieces = pa.concat_tables([table.slice(i, 1) for i in range(table.num_rows)])
    assert np.array_equal(ms.entries(pieces)["ts"].to_numpy(), rows["ts"].to_numpy())
