"""Corners of the language: the oracle, kernels uncompiled and kernels compiled agree, and on what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import mainstem as ms


def agreed(app: ms.App, events: list[Any]) -> list[dict[str, Any]]:
    """The outputs on which all three ways to run agree."""
    oracle = app.run(events, engine="oracle")
    for jit in (False, True):
        result = app.run(events, engine="serial", jit=jit)
        assert result.outputs.to_pylist() == oracle.outputs.to_pylist()
        assert result.digest == oracle.digest
    return oracle.outputs.to_pylist()


def double(x):
    return x * 2


def test_none_flows_through_and_or_helpers_and_loops() -> None:
    app = ms.App("nulls")

    @app.event
    class Event:
        a: int
        b: int | None
        flag: bool

    @app.table(key=int)
    class Total:
        n: int = 0

    @app.on(Event)
    def run(e):
        total = 0
        for _ in range(3):
            total = double(total) + (e.b if e.b is not None else 1)
        Total[e.a].n = total
        return {"x": e.a or 7, "y": e.flag and e.a > 2, "z": e.b or e.a or 5, "w": e.b and 3}

    rows = agreed(app, [Event(ts=i, a=i % 3, b=(None, 0, 4, 5)[i % 4], flag=i % 2 == 0) for i in range(12)])
    assert rows[0] | {"x": 7, "y": False, "z": 5, "w": None} == rows[0]


def test_names_of_users_and_of_generated_code_do_not_meet() -> None:
    app = ms.App("names")

    @app.event
    class Event:
        a: int | None
        a_null: bool
        items: list[int]
        items_lo: int

    @app.table(key=int)
    class Total:
        x: int = 0

    @app.on(Event)
    def run(e):
        m = e.a
        m_null = True
        for k in e.items:
            Total[k].x += e.items_lo
        if m is None:
            Total[1].x += 1
        if m_null:
            Total[2].x += 10
        return {"t": e.a_null, "S": len(e.items), "code": m}

    agreed(app, [Event(ts=i, a=None if i % 2 else i, a_null=i > 2, items=list(range(i)), items_lo=i) for i in range(6)])


def test_constant_keys_in_loops_are_found() -> None:
    app = ms.App("constants")

    @app.event
    class Event:
        n: int

    @app.table(key=int)
    class Total:
        x: int = 0

    @app.on(Event)
    def run(e):
        for i in range(3):
            Total[i].x += e.n
        return {"x": Total[2].x}

    rows = agreed(app, [Event(ts=i, n=i) for i in range(4)])
    assert [r["x"] for r in rows] == [0, 1, 3, 6]


def test_a_loop_that_state_decides_about_undoes_all_its_writes() -> None:
    app = ms.App("undo")

    @app.event
    class Event:
        k: int
        keys: list[int]

    @app.table(key=int)
    class Total:
        x: int = 0

        @ms.check
        def small(row):
            return row.x < 20

    @app.on(Event)
    def run(e):
        Total[e.k].x += 1
        for _ in range(Total[e.k].x):
            for k in e.keys:
                Total[k].x += 1

    rows = agreed(app, [Event(ts=i, k=i % 2, keys=[1, 2, 3, 1]) for i in range(12)])
    assert {r["reason"] for r in rows} == {None, "check Total.small failed"}


@pytest.mark.parametrize(
    ("value", "expected"),
    [(2**62, "integer overflow"), (0, "division by zero"), (-(2**63), "integer overflow"), (3, None)],
)
def test_what_does_not_fit_aborts(value: int, expected: str | None) -> None:
    app = ms.App("fits")

    @app.event
    class Event:
        n: int

    @app.table(key=int)
    class Total:
        x: int = 0

    @app.on(Event)
    def run(e):
        Total[1].x += 1
        same = float(e.n) == e.n
        return {"x": -(e.n * 2) + 100 // e.n, "same": same}

    (row,) = agreed(app, [Event(ts=1, n=value)])
    assert row["reason"] == expected


def test_a_name_may_be_used_again_for_something_else() -> None:
    app = ms.App("again")

    @app.event
    class Event:
        a: int
        b: int | None
        keys: list[int]

    @app.table(key=int)
    class Total:
        x: int = 0
        y: int = 0

    @app.on(Event)
    def run(e):
        for k in e.keys:
            if Total[k].x > 2:
                break
            Total[k].x += 1
        for k in e.keys:
            Total[k].y += 1
            Total[k].x += 1
        if Total[e.a].x > 3:
            k = e.a + 1
            Total[k].x += 1
        else:
            k = e.a + 2
            Total[k].y += k
        m = e.b
        if e.a > 1:
            m = None
        last = k
        for k in range(2):
            last += k
        return {"k": last, "m": m, "y": Total[e.a].y}

    agreed(app, [Event(ts=i, a=i % 4, b=i if i % 3 else None, keys=[i % 3, 1, i % 2]) for i in range(20)])


def test_arguments_are_computed_before_they_are_judged() -> None:
    app = ms.App("order")

    @app.event
    class Event:
        opt: int | None
        items: list[int]

    @app.table(key=(int, str))
    class Seen:
        n: int = 0

    @app.on(Event)
    def run(e):
        if (1, "a") in Seen:
            Seen[1, "a"].n += 1
        key = (1, "a")
        Seen[key].n += 1
        return {"n": max(e.opt, e.items[1], 1)}

    rows = agreed(
        app, [Event(ts=1, opt=None, items=[]), Event(ts=2, opt=None, items=[1, 2]), Event(ts=3, opt=3, items=[1, 2])]
    )
    assert [r["reason"] for r in rows] == ["index out of range", "null value", None]


def test_an_exit_inside_a_while_that_state_decides_about_ends_it() -> None:
    app = ms.App("exit")

    @app.event
    class Event:
        a: int
        opt: int | None

    @app.table(key=int)
    class Total:
        x: int = 0

    @app.on(Event)
    def run(e):
        Total[6].x += e.a
        if Total[6].x > 1:
            n = 1
            while n <= 2 and e.opt >= e.a:
                n += 1
                Total[n].x += 1
        return {"x": Total[2].x}

    rows = agreed(app, [Event(ts=i, a=i % 2, opt=(None, 0, 5)[i % 3]) for i in range(12)])
    assert {r["reason"] for r in rows} == {None, "null value"}


def uncompiled(app: ms.App, events: list[Any]) -> list[dict[str, Any]]:
    """`agreed` without compiling: for meanings that are not the compiler's."""
    oracle = app.run(events, engine="oracle")
    for engine in ("serial", "interpreted", "mvlk", "tpg"):
        result = app.run(events, engine=engine, jit=False)
        assert result.outputs.to_pylist() == oracle.outputs.to_pylist(), engine
        assert result.digest == oracle.digest, engine
    return oracle.outputs.to_pylist()


def test_an_empty_reason_aborts(tmp_path: Path) -> None:
    app = ms.App("silent")

    @app.event
    class Event:
        a: int

    @app.table(key=int)
    class Total:
        n: int = 0

    @app.on(Event)
    def run(e):
        Total[e.a].n += 1
        if e.a == 1:
            ms.abort("")
        ms.require(e.a != 2, "")
        Total[e.a].n += 100

    events = [Event(ts=i, a=i % 3) for i in range(6)]
    rows = uncompiled(app, events)
    assert [row["reason"] for row in rows] == [None, "", "", None, "", ""]
    assert app.state["Total"].to_pylist() == [{"key": 0, "n": 202}]
    written = app.run(events, out=tmp_path / "out", jit=False)
    assert written.outputs.to_pylist() == rows


def test_defaults_of_arrays_are_of_the_type_of_their_cells() -> None:
    app = ms.App("cells")

    @app.event
    class Event:
        a: int

    @app.table(key=int)
    class Cell:
        n: int = 0
        w: ms.Array[float, 2] = (1, 2)

    @app.on(Event)
    def run(e):
        Cell[e.a].n += 1
        return {"o": Cell[e.a].w[0] * e.a * e.a}

    assert uncompiled(app, [Event(ts=1, a=2**40)])[0]["o"] == 2.0**80
