"""Parts do together what the body does alone."""

from __future__ import annotations

import random
from collections import Counter
from types import ModuleType
from typing import Any

import pytest
from parts_support import Codes, Row, compare, missing_row, models

from mainstem.lang.frame import Uncompilable
from mainstem.testing import generate_events, generate_program, load_program

PROGRAMS, LOOPS, CHUNK, EVENTS = 200, 300, 50, 16
KEYS = 40  # few, so that transactions meet the rows of earlier ones; keys of one transaction must still differ often


def check(module: ModuleType, seed: int, source: str) -> Counter[str]:
    """Runs every function of a program that splits, whole and in parts; tells what happened how often."""
    counts: Counter[str] = Counter()
    codes = Codes()
    empty = [missing_row(t.schema, codes) for t in module.app.spec.tables]
    for model in models(module.app, codes):
        counts["parts"] += len(model.parts)
        counts["turn by turn"] += sum(part.turns for part in model.parts)
        state: dict[Row, Any] = {}
        schema = module.app.spec.events[model.body.kind]
        for event in generate_events([schema], seed, EVENTS, skew=0.2, keys=KEYS).ordered():
            try:
                counts[compare(model, state, empty, event.values)] += 1
            except Exception as error:
                error.add_note(f"program seed {seed}, function {model.body.name}, event {event.values}\n{source}")
                raise
    return counts


def check_program(seed: int) -> Counter[str]:
    source = generate_program(seed)
    try:
        return check(load_program(source), seed, source)
    except Uncompilable:
        return Counter()


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_parts_do_what_the_body_does(start: int) -> None:
    counts = sum((check_program(seed) for seed in range(start, start + CHUNK)), Counter[str]())
    assert min(counts["committed"], counts["aborted"]) > CHUNK, counts


HEAD = """
import mainstem as ms

app = ms.App("loops")


@app.event
class Ev:
    a: int
    b: int
    flag: bool
    keys: list[int]
    more: list[int]
    limit: int | None


@app.table(key=int)
class T:
    x: int = 0
    y: int = 1
    cells: ms.Array[int, 3] = (1, 2, 3)


@app.table(key=int)
class U:
    x: int = 0
    y: int = 2


def mixed(value, by):
    return (value * 7 + by) % 101


@app.on(Ev)
def f(e):
    total = 0
    last = e.a
"""
BEFORE = (
    ["ms.require(e.a != 1, 'one')"],
    ["ms.require(T[e.b].x < 60, 'full')"],
    ["step = e.a // e.b", "last = step"],
    ["if U[e.a].x > 30:", "    return {'out': e.b}"],
    ["if e.flag:", "    return"],
    ["U[e.b].y += e.a"],
    ["T[e.a].x = mixed(T[e.b].y, e.a)"],
    ["last = U[e.a + 7].x"],
    ["del T[e.b]", "U[e.a].y = T[e.b].y"],
    ["T[e.a].cells[e.b % 3] = 9", "T[e.a].cells[1] = 8", "U[e.a].x = T[e.a].cells[0]"],
    ["if T[e.a + 3].y > 9:", "    ms.abort('early')"],
    ["if e.flag:", "    n = T[e.b].x", "else:", "    if U[e.a].x > 3:", "        ms.abort('left')",
     "    else:", "        ms.abort('right')", "last = n"],
)  # fmt: skip
TURN = (
    ["T[k].x += e.a"],
    ["T[k].x = T[k].x * 3 % 50 + i"],
    ["T[k].x = mixed(T[k].x, T[k].y)"],
    ["T[k].y = T[e.b].x + last"],
    ["T[k].y = U[k].y + 1"],
    ["T[k].x += U[k % 3].y"],
    ["last = last + i", "U[k % 3].y = last"],
    ["U[k + 1].x += T[k].x"],
    ["U[k].y = U[k].x + T[k].y"],
    ["total += T[k].x"],
    ["total += 1"],
    ["last = T[k].x"],
    ["last = i", "U[k].x = last + 1"],
    ["U[k].x = last"],
    ["if T[k].x > 35:", "    continue"],
    ["if e.flag:", "    continue"],
    ["if T[k].x > 45:", "    break"],
    ["if k == 5:", "    break"],
    ["if U[k].x > 45:", "    return {'out': total}"],
    ["ms.require(T[k].x < 80, 'big')"],
    ["ms.require(k >= 0, 'negative')"],
    ["ms.require(i < e.limit, 'long')"],
    ["T[k].x += e.more[i]"],
    ["m = 0", "for s in e.more:", "    m += U[s * 3 + i].x", "T[k].y = m % 40"],
    ["for s in e.more:", "    U[k * 50 + s].x += i"],
    ["for s in e.more:", "    T[k].y += s"],
    ["for s in e.more:", "    U[k * 50 + s].x += T[k].y", "    T[k].y += s + 1"],
    ["del U[k]"],
    ["if k in U:", "    T[k].y += 1", "else:", "    U[k].x = 4"],
    ["U[e.b].x += 1"],
    ["U[e.b].y = T[k].x", "T[k].y = U[e.b].y % 9"],
    ["T[k].cells[i % 3] = T[e.a].cells[0]"],
    ["T[e.a].cells[i % 3] = k", "U[k].x = T[e.a].cells[e.b % 3]"],
)
AFTER = (
    ["ms.require(total < 300, 'sum')"],
    ["U[e.a].x = total"],
    ["T[e.b + 40].y = last"],
    ["ms.require(e.a != 2, 'two')"],
    ["if total > 20:", "    return {'out': 0}"],
)  # fmt: skip
RETURNS = (["return {'out': total}"], ["return {'out': last}"], ["return {'out': U[e.b].x}"], ["return {'out': 1}"], [])


def loop_program(seed: int) -> str:
    """A function with a loop over keys: what such loops do, in many combinations."""
    draw = random.Random(f"loops {seed}")

    def some(pieces: Any, most: int, indent: str) -> list[str]:
        return [indent + line for piece in draw.sample(pieces, draw.randint(0, most)) for line in piece]

    before, after = some(BEFORE, 2, "    "), some(AFTER, 2, "    ")
    turn = some(TURN, 4, " " * 8) + [" " * 8 + line for line in draw.choice(TURN[:5])]
    result = ["    " + line for line in draw.choice(RETURNS)]
    loop = ["    for i, k in enumerate(e.keys):"]
    return HEAD + "\n".join([*before, *loop, *turn, *after, *result]) + "\n"


def check_loop(seed: int) -> Counter[str]:
    source = loop_program(seed)
    return check(load_program(source), seed, source)


@pytest.mark.parametrize("start", range(0, LOOPS, CHUNK))
def test_turns_do_what_the_loop_does(start: int) -> None:
    counts = sum((check_loop(seed) for seed in range(start, start + CHUNK)), Counter[str]())
    assert min(counts["committed"], 2 * counts["aborted"]) > CHUNK, counts
    assert counts["turn by turn"] > CHUNK // 2, counts
