"""Histories: what windows hold, when they abort, what an abort takes back; all ways to run agree."""

from __future__ import annotations

import math
import pickle
from datetime import datetime
from typing import Any

import pytest

import mainstem as ms


def agreed(app: ms.App, events: list[Any]) -> list[dict[str, Any]]:
    """The outputs on which the oracle and kernels, compiled and not, agree; so do their states."""
    oracle = app.run(events, engine="oracle")
    for jit in (False, True):
        result = app.run(events, engine="serial", jit=jit)
        assert result.outputs.to_pylist() == oracle.outputs.to_pylist()
        assert result.digest == oracle.digest
    return oracle.outputs.to_pylist()


def column(rows: list[dict[str, Any]], name: str) -> list[Any]:
    return [row[name] for row in rows]


def clicks(keep: int) -> tuple[ms.App, Any, Any]:
    """An app with a history that the tests fill."""
    app = ms.App("clicks")

    @app.event
    class Click:
        user: int
        page: int
        amount: float = 0.0

    @app.history(key=int, keep=keep)
    class Clicks:
        page: int
        amount: float

    return app, Click, Clicks


def test_a_window_reaches_back_less_than_last_and_ends_with_the_event() -> None:
    app, Click, Clicks = clicks(keep=8)

    @app.on(Click)
    def click(e):
        row = Clicks[e.user]
        before = row.count(last=10)
        row.append(page=e.page, amount=e.amount)
        return {"before": before, "now": row.count(last=10), "ever": row.count(), "other": Clicks[e.user + 1].count()}

    rows = agreed(app, [Click(ts=ts, user=1, page=0) for ts in (0, 9, 10, 10, 19, 20, 100)])
    assert column(rows, "before") == [0, 1, 1, 2, 2, 1, 0]  # at 10 the one of 0 is out, at 20 those of 10
    assert column(rows, "now") == [1, 2, 2, 3, 3, 2, 1]
    assert column(rows, "ever") == [1, 2, 3, 4, 5, 6, 7]
    assert set(column(rows, "other")) == {0}


def test_every_read_of_a_small_history() -> None:
    app, Click, Clicks = clicks(keep=16)

    @app.on(Click)
    def click(e):
        row = Clicks[e.user]
        row.append(page=e.page, amount=e.amount)
        return {
            "sum": row.sum("amount", last=3), "pages": row.sum("page", last=3), "mean": row.mean("page", last=3),
            "min": row.min("amount", last=3), "max": row.max("page", last=3), "distinct": row.distinct("page", last=3),
            "top": row.top("page"), "second": row.top("page", 2), "third": row.top("page", rank=3, last=4),
            "last": row.last("amount"), "since": e.ts - row.min("ts"),
        }  # fmt: skip

    pages, amounts = [7, 8, 8, 7, 9], [0.5, -1.0, 2.5, 4.0, 1.0]
    rows = agreed(app, [Click(ts=i, user=3, page=pages[i], amount=amounts[i]) for i in range(5)])
    assert column(rows, "sum") == [0.5, -0.5, 2.0, 5.5, 7.5]
    assert column(rows, "pages") == [7, 15, 23, 23, 24]
    assert column(rows, "mean") == [7.0, 7.5, 23 / 3, 23 / 3, 8.0]
    assert column(rows, "min") == [0.5, -1.0, -1.0, -1.0, 1.0]
    assert column(rows, "max") == [7, 8, 8, 8, 9]
    assert column(rows, "distinct") == [1, 2, 2, 2, 3]
    assert column(rows, "top") == [7, 7, 8, 7, 7]  # a tie goes to the one seen first
    assert column(rows, "second") == [None, 8, 7, 8, 8]
    assert column(rows, "third") == [None, None, None, None, 9]
    assert column(rows, "last") == amounts
    assert column(rows, "since") == [0, 1, 2, 3, 4]


def test_an_empty_window_sums_to_zero_and_has_no_other_values() -> None:
    app, Click, Clicks = clicks(keep=4)

    @app.on(Click)
    def click(e):
        row = Clicks[e.user]
        mean, newest = row.mean("amount", last=5), row.last("page")
        known = 0 if newest is None else newest
        row.append(page=e.page, amount=e.amount)
        if mean is not None and mean > 1.0:
            known += 100
        other = Clicks[e.user + 1]
        return {"mean": mean, "sum": other.sum("amount"), "n": other.distinct("page"), "min": other.min("page"),
                "top": other.top("amount"), "known": known}  # fmt: skip

    rows = agreed(app, [Click(ts=i * 4, user=1, page=i + 1, amount=2.0 * i) for i in range(3)])
    assert column(rows, "mean") == [None, 0.0, 2.0]
    assert column(rows, "known") == [0, 1, 102]
    assert all(r["sum"] == 0.0 and r["n"] == 0 and r["min"] is None and r["top"] is None for r in rows)


def test_none_of_an_empty_window_aborts_arithmetic() -> None:
    app, Click, Clicks = clicks(keep=4)

    @app.on(Click)
    def click(e):
        above = e.amount - Clicks[e.user].mean("amount")
        return {"above": above}

    assert column(agreed(app, [Click(ts=1, user=1, page=1)]), "reason") == ["null value"]


def test_a_window_that_lost_an_entry_aborts_and_one_that_did_not_is_exact() -> None:
    app, Click, Clicks = clicks(keep=3)

    @app.on(Click)
    def click(e):
        if e.page > 0:
            Clicks[e.user].append(page=e.page, amount=e.amount)
        return {"n": Clicks[e.user].count(last=10), "kept": Clicks[e.user].count()}

    asks = [Click(ts=ts, user=1, page=page) for ts, page in ((0, 1), (1, 1), (2, 1), (3, 0), (3, 1), (10, 0), (13, 1))]
    rows = agreed(app, asks)
    full = "history of Clicks is full: keep more than 3 entries"
    # The append at 3 overwrites the entry of 0: all three that are left lie in the window, and one is missing there.
    # It is taken back. At 13 the entry of 0 goes for good, and no window of 10 misses it.
    assert column(rows, "reason") == [None, None, None, None, full, None, None]
    assert column(rows, "n") == [1, 2, 3, 3, None, 2, 1]
    assert column(rows, "kept") == [1, 2, 3, 3, None, 3, 3]


def test_a_limit_per_window_needs_no_more_entries_than_the_limit() -> None:
    app, Click, Clicks = clicks(keep=2)

    @app.on(Click)
    def click(e):
        ms.require(Clicks[e.user].count(last=10) < 2, "too many")
        Clicks[e.user].append(page=e.page, amount=e.amount)

    rows = agreed(app, [Click(ts=ts, user=1, page=0) for ts in (0, 5, 9, 10, 11, 15, 20, 24, 25)])
    late = "too many"
    assert column(rows, "reason") == [None, None, late, None, late, None, None, late, None]


def test_an_abort_takes_entries_back() -> None:
    app, Click, Clicks = clicks(keep=2)

    @app.on(Click)
    def click(e):
        row = Clicks[e.user]
        row.append(page=e.page, amount=e.amount)
        row.append(page=-e.page, amount=e.amount)
        ms.require(row.sum("page") == 0, "never")
        ms.require(e.page != 3, "three")
        return {"n": row.count(), "last": row.last("page")}

    rows = agreed(app, [Click(ts=ts, user=1, page=p) for ts, p in enumerate((3, 1, 3, 2))])
    assert column(rows, "reason") == ["three", None, "three", None]
    assert column(rows, "n") == [None, 2, None, 2]
    kept = ms.entries(app.state["Clicks"])
    assert kept.to_pylist() == [
        {"key": 1, "ts": 3, "page": 2, "amount": 0.0}, {"key": 1, "ts": 3, "page": -2, "amount": 0.0}
    ]  # fmt: skip


def test_deleted_and_missing_rows_are_empty_and_the_first_append_makes_one() -> None:
    app, Click, Clicks = clicks(keep=2)

    @app.on(Click)
    def click(e):
        there = e.user in Clicks
        asked = Clicks[e.user].count(last=5)
        if e.page == 0:
            del Clicks[e.user]
        if e.page == 1:
            Clicks[e.user].append(page=1, amount=0.5)
        return {"there": there, "asked": asked, "n": Clicks[e.user].count(), "after": e.user in Clicks}

    rows = agreed(app, [Click(ts=ts, user=1, page=p) for ts, p in enumerate((2, 1, 1, 1, 0, 1))])
    full = "history of Clicks is full: keep more than 2 entries"
    assert column(rows, "reason") == [None, None, None, None, full, full]
    rows = agreed(app, [Click(ts=10 * ts, user=1, page=p) for ts, p in enumerate((2, 1, 1, 1, 0, 1))])
    assert column(rows, "there") == [False, False, True, True, True, False]
    assert column(rows, "n") == [0, 1, 2, 2, 0, 1]
    assert column(rows, "after") == [False, True, True, True, False, True]


def test_fields_of_every_type_and_keys_of_two_parts() -> None:
    app = ms.App("types")

    @app.event
    class Visit:
        who: str
        place: int
        name: str
        raw: bytes
        good: bool
        at: datetime

    @app.history(key=(str, int), keep=3)
    class Visits:
        name: str
        raw: bytes
        good: bool
        at: datetime

    @app.on(Visit)
    def visit(e):
        row = Visits[e.who, e.place]
        row.append(name=e.name, raw=e.raw, good=e.good, at=e.at)
        return {"names": row.distinct("name"), "top": row.top("name"), "raw": row.last("raw"), "good": row.sum("good"),
                "share": row.mean("good", last=100), "mostly": row.top("good"), "at": row.max("at"),
                "same": row.last("name") == "b"}  # fmt: skip

    events = [
        Visit(ts=i, who="ann", place=2, name=n, raw=n.encode(), good=n == "b", at=datetime(2024, 1, 1 + i))
        for i, n in enumerate("abbc")
    ]
    with pytest.raises(ms.ProgramError, match="at"):
        Visits["ann", 2].count()
    rows = agreed(app, events)
    assert column(rows, "reason") == [None, None, None, "history of Visits is full: keep more than 3 entries"]
    assert [rows[2][n] for n in ("names", "top", "raw", "good", "share", "mostly", "same")] == [
        2, "b", b"b", 2, 2 / 3, True, True
    ]  # fmt: skip
    assert ms.entries(app.state["Visits"])["at"].to_pylist() == [datetime(2024, 1, 1 + i) for i in range(3)]
    assert ms.entries(app.state["Visits"]).column_names == ["key_0", "key_1", "ts", "name", "raw", "good", "at"]


def test_keys_of_a_loop() -> None:
    app = ms.App("loops")

    @app.event
    class Seen:
        tags: list[int]
        span: int

    @app.history(key=int, keep=4)
    class Tags:
        size: int

    @app.on(Seen)
    def seen(e):
        most = 0
        for tag in e.tags:
            Tags[tag].append(size=len(e.tags))
            most = max(most, Tags[tag].sum("size", last=e.span))
        return {"most": most}

    rows = agreed(app, [Seen(ts=i, tags=t, span=2) for i, t in enumerate(([1], [1, 2], [2, 2], [], [1, 2, 3]))])
    assert column(rows, "most") == [1, 3, 6, 0, 3]


def test_sums_are_those_of_a_loop_to_the_last_bit() -> None:
    app, Click, Clicks = clicks(keep=64)

    @app.on(Click)
    def click(e):
        Clicks[e.user].append(page=e.page, amount=e.amount)
        return {"sum": Clicks[e.user].sum("amount", last=50), "max": Clicks[e.user].max("amount"),
                "n": Clicks[e.user].distinct("amount", last=50)}  # fmt: skip

    amounts = [0.1, 1e16, 0.2, -1e16, 0.3, -0.0, 0.0, 1e300]
    rows = agreed(app, [Click(ts=i, user=1, page=0, amount=a) for i, a in enumerate(amounts * 5)])
    total = 0.0
    for amount in amounts:
        total += amount
    assert rows[7]["sum"] == total and rows[7]["n"] == 7  # 0.0 and -0.0 are equal


def test_nan_equals_nothing() -> None:
    app, Click, Clicks = clicks(keep=8)

    @app.on(Click)
    def click(e):
        Clicks[e.user].append(page=e.page, amount=e.amount)
        return {"n": Clicks[e.user].distinct("amount"), "odd": Clicks[e.user].top("amount") != 1.0}

    rows = agreed(app, [Click(ts=i, user=1, page=0, amount=a) for i, a in enumerate((math.nan, math.nan, 1.0, 1.0))])
    assert column(rows, "n") == [1, 2, 3, 3]
    assert column(rows, "odd") == [True, True, True, False]


def test_sums_of_integers_abort_when_they_leave_64_bits() -> None:
    app, Click, Clicks = clicks(keep=4)

    @app.on(Click)
    def click(e):
        Clicks[e.user].append(page=e.page, amount=e.amount)
        return {"sum": Clicks[e.user].sum("page")}

    rows = agreed(app, [Click(ts=i, user=1, page=p) for i, p in enumerate((2**62, 2**62, 2**62 - 1, -1))])
    assert column(rows, "reason") == [None, "integer overflow", None, None]
    assert column(rows, "sum") == [2**62, None, 2**63 - 1, 2**63 - 2]


def test_last_may_be_missing_or_reach_beyond_time() -> None:
    app = ms.App("last")

    @app.event
    class Ask:
        span: int | None

    @app.history(key=int, keep=2)
    class Asked:
        n: int

    @app.on(Ask)
    def ask(e):
        return {"n": Asked[0].count(last=e.span)}

    rows = agreed(app, [Ask(ts=-2, span=None), Ask(ts=-2, span=2**63 - 1), Ask(ts=-2, span=-5), Ask(ts=-2, span=1)])
    assert column(rows, "reason") == ["null value", "integer overflow", None, None]


def test_long_histories_look_windows_up_by_halving() -> None:
    app, Click, Clicks = clicks(keep=300)

    @app.on(Click)
    def click(e):
        Clicks[e.user].append(page=e.page, amount=e.amount)
        return {"n": Clicks[e.user].count(last=e.page), "s": Clicks[e.user].sum("page", last=e.page)}

    rows = agreed(app, [Click(ts=i // 2, user=1, page=1 + i % 140) for i in range(700)])
    assert {r["reason"] for r in rows} == {None}
    for i in (0, 5, 299, 300, 301, 650, 699):
        window = [j for j in range(i + 1) if j // 2 > i // 2 - (1 + i % 140)]
        assert (rows[i]["n"], rows[i]["s"]) == (len(window), sum(1 + j % 140 for j in window))


def test_an_event_before_the_newest_entry_of_an_earlier_run_aborts(tmp_path: Any) -> None:
    app, Click, Clicks = clicks(keep=4)

    @app.on(Click)
    def click(e):
        Clicks[e.user].append(page=e.page, amount=e.amount)
        return {"n": Clicks[e.user].count()}

    app.run([Click(ts=10, user=1, page=0)])
    before = {"Clicks": app.state["Clicks"]}
    for options in ({"engine": "oracle"}, {"engine": "serial", "jit": False}, {"engine": "serial", "jit": True}):
        rows = app.run([Click(ts=9, user=u, page=0) for u in (1, 2)], initial=before, **options).outputs.to_pylist()
        assert column(rows, "reason") == ["history of Clicks is ahead of this event", None]


def test_an_interpreted_program_does_the_same() -> None:
    app = ms.App("interpreted")

    @app.event
    class Word:
        text: str

    @app.history(key=str, keep=3)
    class Words:
        size: int

    @app.on(Word)
    def word(e):
        row = Words[e.text.lower()]
        row.append(size=len(e.text))
        ms.require(e.text != "NO", "no")
        return {"n": row.count(last=6), "mean": row.mean("size", last=6), "top": row.top("size")}

    events = [Word(ts=i, text=t) for i, t in enumerate(("a", "A", "no", "NO", "a", "A", "A"))]
    expected = app.run(events, engine="oracle")
    result = app.run(events, batch=2)
    assert result.stats.engines == ("interpreted",)
    assert result.outputs.to_pylist() == expected.outputs.to_pylist() and result.digest == expected.digest
    full = "history of Words is full: keep more than 3 entries"
    assert column(result.outputs.to_pylist(), "reason") == [None, None, None, "no", None, full, None]


def test_why_shows_entries_in_order() -> None:
    app, Click, Clicks = clicks(keep=2)

    @app.on(Click)
    def click(e):
        Clicks[e.user].append(page=e.page, amount=e.amount)
        ms.require(Clicks[e.user].count(last=3) < 2, "busy")

    result = app.run([Click(ts=ts, user=1, page=ts) for ts in (1, 5, 9, 10)])
    assert "Clicks[1]: ts = [5, 9], page = [5, 9], amount = [0.0, 0.0]" in str(result.why(3))


def test_explain_names_the_entries_and_how_many_are_kept() -> None:
    app, Click, Clicks = clicks(keep=5)

    @app.on(Click)
    def click(e):
        Clicks[e.user].append(page=e.page, amount=e.amount)

    assert "Clicks[int]  page: int, amount: float; a history of 5 entries\n" in app.explain()
    assert repr(pickle.loads(pickle.dumps(Clicks))) == "<history Clicks, keeps 5>"


def test_entries_of_a_plain_table_are_refused() -> None:
    app, Click, _ = clicks(keep=2)

    @app.table(key=int)
    class Plain:
        n: int = 0

    @app.on(Click)
    def click(e):
        Plain[e.user].n += 1

    app.run([Click(ts=1, user=1, page=1)])
    with pytest.raises(ms.InputError, match=r"columns key, n is no history; pass app.state\[name\]"):
        ms.entries(app.state["Plain"])
