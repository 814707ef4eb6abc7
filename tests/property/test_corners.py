"""Small programs at the corners where kernels and plain Python could part; found by generation or by reading."""

from __future__ import annotations

from typing import Any

import pytest

from mainstem.testing import Outcome, assert_same, load_program

HEAD = """
import math
import mainstem as ms

app = ms.App("corners")


@app.event
class Ev:
    a: int = 0
    b: int = 0
    f: float = 0.0
    t: bool = True
    s: str = ""
    ks: list[int] = ()
    opt: int | None = None
    ks_lo: int = 7
    ks_hi: int = 9
    ks_off: int = 3
    opt_ok: int = 4
    opt_null: bool = False


@app.table(key=int)
class T:
    x: int = 0
    y: float = 0.0
    z: bool = False
    cells: ms.Array[int, 3] = (1, 2, 3)


def raised(value, by=3, cap=20):
    return min(value + by, cap)


@app.on(Ev)
def f(e):
"""

EVENTS = [
    {"a": 1, "b": 1},
    {"a": 3, "b": 0, "ks": [1, 2, 3]},
    {"a": 3, "t": False, "ks": [4, 5], "opt": 2},
    {"a": 0, "s": "x", "opt": None, "opt_null": True},
    {"a": 2**53 + 1, "f": 2.0**53, "ks": [0], "opt": 0},
    {"a": -(2**63), "f": -(2.0**63), "ks": [], "opt": -1},
    {"a": 2**63 - 1, "b": -1, "f": 2.0**63, "ks": [9, 9]},
    {"a": 1, "b": 1, "f": -0.0, "ks": [1, 2]},
]

BODIES = {
    "names like generated ones": """
        for k in e.ks:
            T[k].x += e.ks_lo + e.ks_hi + e.ks_off
        m = e.opt
        m_null = e.opt_null
        if m is None:
            T[1].x += e.opt_ok
        if m_null:
            T[2].x += 1
    """,
    "state decides how often keys are reached": """
        T[e.a].x = T[e.a].x % 1000 + 3
        for i in range(T[e.a].x % 9):
            for k in e.ks:
                T[k].y += 1.0
        ms.require(not e.opt_null, "undone")
    """,
    "state decides which turn breaks": """
        if e.b == 1:
            T[e.a].x = 5
        for k in e.ks:
            if T[k].x > 0:
                continue
            T[k].y += 1.0
            if e.a > 2:
                break
    """,
    "one name for several loops": """
        for k in e.ks:
            if T[k].x > 0:
                break
            T[k].x += 1
        for k in e.ks:
            T[k].y += 1.0
        if T[e.b].x > 0:
            for k in e.ks:
                T[k].x += 1
    """,
    "one name in both branches": """
        if T[e.b].x > 0:
            k = e.b + 1
            T[k].x += 1
        else:
            k = e.b + 2
            T[k].x += 1
    """,
    "a null in the head of a loop that state decides": """
        if T[6].z or e.b == 0:
            n = 1
            while n <= 2 and e.opt >= e.b:
                n += 1
                T[n].x += 1
    """,
    "keys from constant loops": """
        for i in range(3):
            T[i].x += i
        n = 0
        while n < 4:
            n += 1
            T[n].cells[n % 3] += 1
    """,
    "exact comparison of int and float": """
        return {"eq": e.f == e.a, "lt": e.f < e.a, "ge": e.a >= e.f, "ne": e.a != e.f, "chain": -1 < e.f <= e.a}
    """,
    "overflow of constants": """
        n = 4611686018427387904 * 4 // 8
        T[e.b].x = n
    """,
    "all items are evaluated before `in`": """
        T[e.b].z = e.s in ("", "x" if T[e.b % e.b].z else "y")
    """,
    "all arguments are evaluated before a null aborts": """
        T[e.b].x = max(e.opt, e.ks[1], 1)
    """,
    "list index in a key": """
        row = T[e.ks[e.b]]
        row.x += 1
    """,
    "a key keeps its value": """
        n = e.b
        row = T[n]
        n += 1
        row.x += 1
        T[n].x += 10
        row = T[n]
        other = row
        other.x *= 2
        del T[e.b]
        return {"left": row.x, "gone": e.b in T, "size": len(row.cells)}
    """,
    "swap with oneself": """
        T[e.a].x = e.b
        T[e.b].x += 1
        T[e.a].x, T[e.b].x = T[e.b].x, T[e.a].x
    """,
    "helpers with defaults": """
        T[e.b].x = raised(e.b) + raised(e.b, cap=4) + raised(by=1, value=e.b)
    """,
    "signs of zero and infinity": """
        return {"a": min(e.f, 0.0), "b": max(-0.0, e.f), "c": -e.f, "d": e.f % 2.5, "e": e.f // -3.0, "f": abs(e.f)}
    """,
}


def program(body: str) -> Any:
    lines = [line[4:] for line in body.strip("\n").split("\n")]
    return load_program(HEAD + "\n".join(lines) + "\n", "corners")


@pytest.mark.parametrize("jit", [False, True], ids=["uncompiled", "compiled"])
@pytest.mark.parametrize("name", BODIES)
def test_kernels_agree_with_the_oracle(name: str, jit: bool) -> None:
    module = program(BODIES[name])
    app, events = module.app, [module.Ev(ts=i, **values) for i, values in enumerate(EVENTS)]
    outcomes = []
    for options in ({"engine": "oracle"}, {"engine": "serial", "jit": jit, "batch": 3}):
        outputs = app.run(events, **options).outputs
        outcomes.append(Outcome(outputs, dict(app.state)))
    assert_same(*outcomes, context=BODIES[name])
