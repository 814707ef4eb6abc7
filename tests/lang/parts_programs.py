"""Small functions to split, and parts as a reader sees them."""

from __future__ import annotations

import textwrap
from typing import Any, NamedTuple

from parts_support import lowered

from mainstem.lang import emit, ir
from mainstem.lang.flow import Flow
from mainstem.lang.parts import Part, decompose
from mainstem.testing import load_program

HEAD = """
import mainstem as ms

app = ms.App("hand")


@app.event
class Ev:
    a: int
    b: int
    c: int
    flag: bool
    keys: list[int]
    sources: list[int]
    limit: int | None


@app.table(key=int)
class T:
    x: int = 0
    y: int = 0
    cells: ms.Array[int, 3] = (0, 0, 0)


@app.table(key=int)
class U:
    x: int = 0


@app.table(key=int)
class Checked:
    x: int = 0

    @ms.check
    def positive(row):
        return row.x >= 0


def heavy(value):
    return value * 3 + 1


@app.on(Ev)
def f(e):
"""


class Shape(NamedTuple):
    """A part as a reader sees it."""

    owned: tuple[str, ...] = ()
    private: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    turns: bool = False


def split(text: str) -> tuple[emit.Body, tuple[Part, ...]]:
    module = load_program(HEAD + textwrap.indent(textwrap.dedent(text), "    "))
    return split_function(module.app, 0)


def split_function(app: Any, number: int) -> tuple[emit.Body, tuple[Part, ...]]:
    builder, bodies = lowered(app)
    body = bodies[number]
    before = repr(body.block)
    parts = decompose(body, set(builder.checks), Flow(body.block))
    assert repr(body.block) == before, "the body was changed"
    assert [p.answers for p in parts] == [True, *[False] * (len(parts) - 1)][: len(parts)]
    return body, parts


def shapes(body: emit.Body, parts: tuple[Part, ...]) -> list[Shape]:
    def texts(sites: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(body.sites[i].text for i in sites)

    return [Shape(texts(p.owned), texts(p.private), texts(p.read), p.turns) for p in parts]


def shapes_of(text: str) -> list[Shape]:
    return shapes(*split(text))


def kinds(part: Part, *wanted: type[ir.Statement]) -> int:
    return sum(isinstance(s, wanted) for s in ir.walk(part.block))


def reasons(part: Part) -> list[str]:
    """The conditions of the aborts that a part holds, those that are precise with a star."""
    return [
        s.expected + "*" * (n in part.precise) for n, s in enumerate(ir.walk(part.block)) if isinstance(s, ir.AbortIf)
    ]
