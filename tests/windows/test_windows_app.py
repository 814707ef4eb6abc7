"""Windows of an app: events, outputs and tables; in transactions, kept between runs, and refused when wrong."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms

bank = ms.App("bank")


@bank.event
class Transfer:
    src: int
    dst: int
    amount: int


@bank.event
class Close:
    account: int


spent = bank.window(
    Transfer, size=60, advance=20, by="src", name="spent",
    n=ms.count(), total=ms.sum("amount"), largest=ms.max("amount"), targets=ms.distinct("dst"),
)  # fmt: skip
lately = bank.window(Transfer, size=4, advance=2, by="src", name="lately", unit="events", mean=ms.avg("amount"))


@bank.table(key=int)
class Account:
    balance: int = 100
    alarms: int = 0

    @ms.check
    def solvent(row):
        return row.balance >= 0


@bank.history(key=int, keep=16)
class Sent:
    amount: int


@bank.on(Transfer)
def transfer(e):
    ms.require(Sent[e.src].count(last=30) < 5, "more than 5 transfers in the last half minute")
    ms.require(e.amount <= spent[e.src].largest + 4, "far more than in the last minute")
    Sent[e.src].append(amount=e.amount)
    Account[e.src].balance -= e.amount
    Account[e.dst].balance += e.amount
    return {"left": Account[e.src].balance, "seen": spent[e.src].n}


@bank.on(spent)
def alarm(e):
    if e.targets > 2 and lately[e.src].mean > 4.0:
        Account[e.src].alarms += 1


@bank.on(Close)
def close(e):
    ms.require(spent[e.account].total < 40, "busy")
    del Account[e.account]


def transfers(seed: int, count: int) -> list[Any]:
    draw, ts, found = random.Random(seed), -100, []
    for _ in range(count):
        ts += draw.choice((0, 1, 2, 9))
        account = draw.randint(0, 4)
        if draw.random() < 0.05:
            found.append(Close(ts=ts, account=account))
        else:
            found.append(Transfer(ts=ts, src=account, dst=draw.randint(0, 4), amount=draw.randint(0, 12)))
    return found


def outcome(events: Any, **options: Any) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    result = bank.run(events, **{"progress": None, "jit": False, **options})
    return result.outputs.to_pylist(), {name: bank.state[name].to_pylist() for name in bank.state}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("how", [{"engine": "serial"}, {"engine": "tpg", "threads": 2}, {"engine": "interpreted"}])
def test_transactions_that_read_windows_are_those_of_the_oracle(seed: int, how: dict[str, Any]) -> None:
    events = transfers(seed, 200)
    wanted = outcome(events, engine="oracle")
    reasons = {row["reason"] for row in wanted[0]}
    assert {"more than 5 transfers in the last half minute", "far more than in the last minute"} <= reasons
    for batch in (1, 37, 1000):
        assert outcome(events, batch=batch, jit=False, **how) == wanted


def test_compiled_transactions_are_those_of_the_oracle() -> None:
    events = transfers(5, 3_000)
    assert outcome(events, batch=256, engine="serial", jit=True) == outcome(events, engine="oracle")


def test_a_closed_window_is_an_output_right_before_the_first_event_after_it() -> None:
    rows, state = outcome([Transfer(ts=t, src=1, dst=2, amount=3) for t in (5, 20, 61, 80)])
    shown = [(row["ts"], row["event"], row["function"], row["start"]) for row in rows]
    assert shown[:7] == [
        (5, "Transfer", "transfer", None),
        (20, "spent", "spent", -40),
        (20, "spent", "alarm", None),
        (20, "Transfer", "transfer", None),
        (40, "spent", "spent", -20),
        (40, "spent", "alarm", None),
        (60, "spent", "spent", 0),
    ]
    assert [row["n"] for row in rows if row["event"] == "spent" and row["function"] == "spent"] == [1, 2, 2, 2, 2, 2, 1]
    assert state["spent"] == [{"key": 1, "start": 80, "end": 140, "n": 1, "total": 3, "largest": 3, "targets": 1}]


def test_windows_of_events_close_when_they_are_full() -> None:
    events = [Transfer(ts=t, src=1, dst=2, amount=a) for t, a in ((1, 2), (1, 4), (3, 6), (7, 8), (7, 0), (9, 6))]
    rows, state = outcome(events, complete=False)
    closed = [
        (row["seq"], row["ts"], row["start"], row["end"], row["mean"]) for row in rows if row["event"] == "lately"
    ]
    assert closed == [(4, 7, 1, 7, 5.0), (7, 9, 3, 9, 5.0)]
    assert "spent" in state and state["spent"] == []


@pytest.mark.parametrize("unsorted", ["error", "batch"])
def test_a_later_run_goes_on_with_open_windows(tmp_path: Path, unsorted: Any) -> None:
    events = transfers(7, 400)
    wanted = outcome(events, complete=True)
    cuts = [0, 1, 150, 233, 400]
    rows = []
    for first, last in pairwise(cuts):
        found, state = outcome(
            events[first:last], state=tmp_path / "state", batch=50, unsorted=unsorted, complete=last == 400
        )
        rows += found
    assert (rows, state) == wanted
    with ms.open(tmp_path / "state") as db:
        assert db.get("spent", 1) == {k: v for k, v in state["spent"][1].items() if k != "key"}
        assert db.sql('select count(*) as n from spent where "end" > "start"').to_pylist() == [{"n": 5}]


@pytest.mark.parametrize("unsorted", ["error", "batch"])
def test_a_run_that_stopped_is_resumed_with_the_same_log(tmp_path: Path, unsorted: Any) -> None:
    events = transfers(8, 400)
    wanted = outcome(events, complete=True)

    class Stop(Exception):
        pass

    def after_some(count: int) -> None:
        after_some.batches -= 1  # type: ignore[attr-defined]
        if not after_some.batches:  # type: ignore[attr-defined]
            raise Stop

    places: dict[str, Any] = {"state": tmp_path / "state", "out": tmp_path / "out", "batch": 50, "unsorted": unsorted}
    for stop in (1, 3, 2):
        after_some.batches = stop  # type: ignore[attr-defined]
        with pytest.raises(Stop):
            bank.run(events, **places, resume=stop != 1, complete=True, progress=after_some, jit=False)
    bank.run(events, **places, resume=True, complete=True, progress=None, jit=False)
    again = bank.run(events, **places, resume=True, complete=True, progress=None, jit=False)
    assert again.stats.events == 0
    assert pq.read_table(tmp_path / "out").to_pylist() == wanted[0]
    assert {name: bank.state[name].to_pylist() for name in bank.state} == wanted[1]


def test_progress_counts_the_events_of_the_log(tmp_path: Path) -> None:
    told: list[int] = []
    bank.run(transfers(1, 100), batch=30, progress=told.append, jit=False)
    assert told == [30, 30, 30, 10, 0]


def test_why_runs_the_windows_again() -> None:
    result = bank.run(transfers(3, 200), progress=None, jit=False)
    closed = next(row for row in result.outputs.to_pylist() if row["event"] == "spent")
    assert result.why(closed["seq"]).event == "spent"


def test_state_of_another_window_is_refused(tmp_path: Path) -> None:
    def app_with(size: int) -> tuple[ms.App, Any]:
        app = ms.App("changing")

        @app.event
        class Tick:
            value: int

        app.window(Tick, size=size, name="sums", total=ms.sum("value"))
        return app, Tick

    first, tick = app_with(10)
    first.run([tick(ts=1, value=1)], state=tmp_path / "s", progress=None, jit=False)
    second, tick = app_with(20)
    with pytest.raises(ms.StoreError, match=r"kept for another window sums\n.*size=10.*\n.*size=20"):
        second.run([tick(ts=2, value=1)], state=tmp_path / "s", progress=None, jit=False)


def test_derived_columns_can_be_grouped_by_and_be_conditions() -> None:
    app = ms.App("derived")

    @app.event
    class Line:
        text: str

    @app.derive(Line, words=int, long=bool)
    def count_words(rows: pa.RecordBatch) -> dict[str, Any]:
        words = [len(text.split()) for text in rows["text"].to_pylist()]
        return {"words": words, "long": [n > 1 for n in words]}

    app.window(Line, size=10, name="lines", by=["words", "long"], where="long", n=ms.count(), last=ms.last("text"))
    events = [Line(ts=t, text=text) for t, text in enumerate(["a", "b c", "d", "e f", "g h i", "ä ö"])]
    result = app.run(events, progress=None, jit=False)
    assert result.outputs.select(["words", "long", "n", "last"]).to_pylist() == [
        {"words": 2, "long": True, "n": 3, "last": "ä ö"},
        {"words": 3, "long": True, "n": 1, "last": "g h i"},
    ]
    assert app.state["lines"].select(["key_0", "key_1", "n"]).to_pylist() == [
        {"key_0": 2, "key_1": 1, "n": 3},
        {"key_0": 3, "key_1": 1, "n": 1},
    ]
    assert app.run(events, engine="oracle").outputs.to_pylist() == result.outputs.to_pylist()


def wrong_step(so_far: int, value: int) -> float:
    return value / 2


def failing_step(so_far: int, value: int) -> int:
    return 1 // (so_far - value)


NAMES: Sequence[tuple[dict[str, Any], str]] = [
    ({"advance": 0}, "window w has advance=0\n  give a positive int for advance"),
    ({"size": -1}, "window w has size=-1"),
    ({"size": 1.5}, "window w has size=1.5"),
    ({"by": "metre"}, "by='metre' names no column of Reading\n  its columns are: meter, kwh, text, maybe"),
    ({"by": "kwh"}, "by='kwh' is a column of type float"),
    ({"by": ["meter", "meter"]}, "window w groups by meter, meter"),
    ({"x": ms.sum("text")}, "x: sum\\('text'\\) takes a column of int, float without null, and this one is str"),
    ({"x": ms.min("maybe")}, "x: min\\('maybe'\\) takes a column of .* and this one is int \\| None"),
    ({"x": ms.avg("nothing")}, "x=avg\\('nothing'\\): 'nothing' names no column"),
    ({"x": 3}, "x=3 is no aggregate"),
    ({"x": ms.any("meter")}, "any\\('meter'\\) takes a column of bool"),
    ({"start": ms.count()}, "would have a column 'start', which is one of Mainstem's own"),
    ({"meter": ms.count(), "by": "meter"}, "'meter' as a column of by= and as an aggregate"),
    ({"n": None, "drop": True}, "window w has no aggregate"),
    ({"unit": "days"}, "unit='days'"),
    ({"where": "kwh"}, "where='kwh' is a column of Reading of type float"),
    ({"name": "Reading"}, "Reading is declared twice in app errors"),
    ({"name": "two words"}, "a window named 'two words'"),
    ({"name": "class"}, "a window named 'class'"),
    ({"name": "int"}, "a window named 'int'"),
    ({"name": 3}, "a window named 3"),
    ({"by": 5}, "window w has by=5"),
    ({"by": [5]}, "by=5 names no column"),
    ({"class": ms.count()}, "would have a column 'class', which is one of Mainstem's own or of Python's"),
]


@pytest.mark.parametrize(("changed", "message"), NAMES, ids=[str(number) for number in range(len(NAMES))])
def test_declarations_that_are_refused(changed: dict[str, Any], message: str) -> None:
    app = ms.App("errors")

    @app.event
    class Reading:
        meter: int
        kwh: float
        text: str
        maybe: int | None

    options: dict[str, Any] = {"size": 10, "name": "w", "n": ms.count()} | changed
    if options.pop("drop", False):
        del options["n"]
    with pytest.raises(ms.ProgramError, match=message) as error:
        app.window(Reading, **options)
    assert error.value.file == __file__


def test_a_window_may_have_any_other_name() -> None:
    app = ms.App("named")

    @app.event
    class Tick:
        ok: bool

    for name in ("TABLE", "e", "match"):
        app.window(Tick, size=5, by="ok", name=name, n=ms.count())
    found = app.run([Tick(ts=1, ok=True)], progress=None, jit=False).outputs.to_pylist()
    assert [(row["event"], row["n"]) for row in found] == [("TABLE", 1), ("e", 1), ("match", 1)]


def test_event_types_and_windows_have_a_limit_together() -> None:
    app = ms.App("many")
    ticks = [app.event(type(f"E{n}", (), {"__annotations__": {"v": int}, "__module__": __name__})) for n in range(127)]
    app.window(ticks[0], size=5, name="first_window", n=ms.count())
    assert app.run([ticks[0](ts=1, v=1)], progress=None, jit=False).outputs.num_rows == 1
    app.window(ticks[0], size=5, name="second_window", n=ms.count())
    with pytest.raises(ms.ProgramError, match="129 event types and windows, and outputs tell 128 apart"):
        app.run([ticks[0](ts=1, v=1)], progress=None, jit=False)


def test_what_windows_are_not() -> None:
    app = ms.App("nesting")

    @app.event
    class Tick:
        value: int

    sums = app.window(Tick, size=5, name="sums", total=ms.sum("value"))
    with pytest.raises(ms.ProgramError, match=r"app.window\(sums\) names a window"):
        app.window(sums, size=10, name="more", n=ms.count())
    with pytest.raises(ms.ProgramError, match=r"@app.derive\(sums\) names a window"):
        app.derive(sums, extra=int)
    with pytest.raises(ms.ProgramError, match="sums is declared twice"):
        app.window(Tick, size=5, name="sums", total=ms.sum("value"))
    with pytest.raises(ms.ProgramError, match=r"explain\(what_if=…\) can't run app nesting: it has windows \(sums\)"):
        app.explain(what_if={"hosts": 2}, log=[])
    with pytest.raises(ms.ProgramError, match=r"ms\.sum of 3"):
        ms.sum(3)  # type: ignore[arg-type]
    with pytest.raises(ms.ProgramError, match="starts with 'a', a str"):
        ms.fold(wrong_step, "a", "value")  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", ["serial", "oracle"])
def test_values_that_can_not_be(engine: str) -> None:
    app = ms.App("limits")

    @app.event
    class Tick:
        value: int

    app.window(Tick, size=5, advance=2, name="sums", total=ms.sum("value"))
    with pytest.raises(ms.InputError, match=r"sum\('value'\) of window sums that starts at -4 is 9223372036854775808"):
        app.run([Tick(ts=0, value=2**62), Tick(ts=0, value=2**62)], engine=engine, progress=None, jit=False)
    with pytest.raises(ms.InputError, match="has ts 4611686018427387905"):
        app.run([Tick(ts=2**62 + 1, value=1)], engine=engine, progress=None, jit=False)
    for step, error, message in (
        (wrong_step, ms.ProgramError, "wrong_step, the step of fold"),
        (failing_step, ms.UserCodeError, "failing_step, the step of fold.*ZeroDivisionError"),
    ):
        other = ms.App("steps")

        @other.event
        class Tock:
            value: int

        other.window(Tock, size=5, name="folded", value=ms.fold(step, 0, "value"))
        with pytest.raises(error, match=message):
            other.run([Tock(ts=0, value=0)], engine=engine, jit=False, progress=None)


class TestOperators:
    """`operator=` and windows from tables alone."""

    @pytest.mark.parametrize("operator", ["auto", "panes"])
    def test_what_an_app_can_run(self, operator: str) -> None:
        app = ms.App("choosing")

        @app.event
        class Tick:
            level: int

        ticks = app.window(Tick, size=2, name="ticks", operator=operator, n=ms.count())
        app.run([Tick(ts=1, level=1)], progress=None, jit=False)
        assert app.state["ticks"].to_pylist() == [{"key": 0, "start": 0, "end": 2, "n": 1}]
        assert ticks.operator(operator)[0] == "panes"
        table = pa.table({"ts": [1, 1, 3], "level": [4, 5, 6]})
        assert ticks.aggregate([table], "wiml").equals(ticks.aggregate([table], threads=1))

    @pytest.mark.parametrize("operator", ["mq", "mq_lf", "tuml_sc", "tuml_mc", "wiml"])
    def test_what_needs_whole_inputs_is_refused(self, operator: str) -> None:
        with pytest.raises(ms.ProgramError, match=rf"operator='{operator}' works on whole inputs(.|\n)*u.aggregate\("):
            bank.window(Transfer, size=2, name="u", operator=operator, n=ms.count())

    def test_an_unknown_one(self) -> None:
        with pytest.raises(ms.ProgramError, match=r"no operator 'tea'(.|\n)*choose one of mq, .*, panes, auto"):
            bank.window(Transfer, size=2, name="u", operator="tea", n=ms.count())
