"""Which updates can be summed up without knowing what a row holds, and what is said about others."""

from __future__ import annotations

import pytest

from mainstem.apps import fraud, spam
from mainstem.lang.dataflow import dataflow
from mainstem.lang.folding import Folding
from mainstem.testing import load_program

PROGRAM = """
import mainstem as ms

app = ms.App("one")


@app.event
class E:
    k: int
    v: int
    b: bool
    f: float


@app.table(key=int)
class T:
    n: int = 0
    hi: int = -100
    o: bool = False
    s: float = 0.0
    t: str = ""
    a: ms.Array[int, 3]
{check}

@app.on(E)
def change(e):
    r = T[e.k]
    {body}
"""

CHECK = """
    @ms.check
    def positive(row):
        return row.n >= 0
"""


def found(body: str, check: str = "") -> Folding:
    source = PROGRAM.format(body=body.replace("; ", "\n    "), check=check)
    (stage,) = dataflow(load_program(source, "one").app.spec).stages
    return stage.folding


@pytest.mark.parametrize(
    ("body", "folds"),
    [
        ("r.n += 1", {"n": "sum"}),
        ("r.n -= e.v; r.hi = max(r.hi, e.v)", {"n": "sum", "hi": "max"}),
        ("r.hi = max(e.v, r.hi)", {"hi": "max"}),
        ("r.hi = min(r.hi, e.v, 3)", {"hi": "min"}),
        ("r.o = r.o or e.b", {"o": "or"}),
        ("r.o = r.o and e.v > 3", {"o": "and"}),
        ("r.o |= e.b", {"o": "or"}),
        ("r.n ^= e.v", {"n": "xor"}),
        ("r.n = r.n + e.v + 2", {"n": "sum"}),
        ("n = r.n + 1; r.n = n; return {'n': n * r.hi}", {"n": "sum"}),
        ("r.n = e.v; r.s = e.f", {"n": "set", "s": "set"}),
        ("if e.v > 3:\n        r.n += 1", {"n": "sum"}),
        ("ms.require(e.v < 5, 'large'); r.n += 1", {"n": "sum"}),
        ("return {'n': r.n}", {}),
    ],
)
def test_updates_that_fold(body: str, folds: dict[str, str]) -> None:
    folding = found(body)
    assert ({fold.field: fold.way for fold in folding.folds}, folding.why) == (folds, "")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("r.s += e.f", "T[e.k].s is a float, and float arithmetic depends on the order"),
        ("r.n += r.hi", "T[e.k].n is set to more than a sum, an extreme or a bit operation"),
        ("r.n = e.v - r.n", "T[e.k].n is set to more than a sum, an extreme or a bit operation"),
        ("r.n *= 2", "T[e.k].n is set to more than a sum, an extreme or a bit operation"),
        ("if r.n > 3:\n        r.n += 1", "a row decides whether T[e.k].n is set"),
        ("if r.n > 3:\n        return {'a': 1}\n    r.n += 1", "a row decides whether T[e.k].n is set"),
        ("ms.require(r.n < 5, 'full'); r.n += 1", "a row decides about an abort"),
        ("del T[e.k]", "T[e.k] is deleted"),
        ("r.n += 1; r.n = max(r.n, 3)", "T[e.k].n is updated in several ways: sum and max"),
        ("r.t = 'a'", "T[e.k].t is text"),
        ("r.a[1] += 1", "T[e.k].a is an array"),
        ("for i in range(3):\n        r.n += i", "T[e.k].n is set in a loop"),
    ],
)
def test_updates_that_do_not(body: str, why: str) -> None:
    assert found(body).why.startswith(f"change: {why} (line ")


def test_functions_that_disagree_and_checks() -> None:
    both = "r.n += 1\n\n\n@app.on(E)\ndef reset(e):\n    T[e.k].n = 0"
    assert found(both).why == "T.n is updated in several ways: sum and set"
    assert found("r.n += 1", CHECK).why == "a check of T may abort what change stores"


def test_the_counters_of_apps() -> None:
    assert all(not stage.folding.why for stage in dataflow(spam.app.spec).stages)
    assert [bool(stage.folding.why) for stage in dataflow(fraud.app.spec).stages] == [True, False]
