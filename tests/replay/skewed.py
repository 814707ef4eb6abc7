"""Programs of counters with a few keys that most events have: what keys split by time are for."""

from __future__ import annotations

import random
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from mainstem.testing import Outcome, load_program

HEAD = """
import mainstem as ms

app = ms.App("skewed")


@app.event
class Hit:
    k: {key}
    other: int
    v: int
    b: bool
    x: float


@app.event
class Look:
    k: {key}
    v: int


@app.table(key={key})
class First:
    n: int = 3
    top: int = -7
    low: int = 50
    bits: int = 0
    seen: bool = False
    whole: bool = True
    last: int = -1
    part: float = 0.0


@app.table(key=int)
class Second:
    n: int = 0
    top: int = 0
    heat: int = 1
    share: float = 0.0
"""

FOLDING = (
    "{r}.n += {v}", "{r}.n -= e.v % 3", "{r}.n += 1", "{r}.top = max({r}.top, {v})", "{r}.low = min({v}, {r}.low)",
    "{r}.bits |= 1 << (e.v % 8)", "{r}.bits |= 16 & e.v", "{r}.seen = {r}.seen or e.v > 15",
    "{r}.whole = {r}.whole and e.v != 7", "{r}.last = {v}", "if e.v % 3 == 0:\n        {r}.n += 2",
    "if e.v == 11:\n        {r}.last = 0", "{r}.part = {v} / 4",
)  # fmt: skip
HINDERING = (
    "{r}.n = {r}.n * 2 % 1000", "{r}.part += {v} / 7", "if {r}.n % 2 == 0:\n        {r}.top += 1",
    "ms.require({r}.n % 7 != 3, 'sevenths')", "if e.v == 3:\n        del First[e.k]", "{r}.n = 0",
    "{r}.low += 1",
)  # fmt: skip
ANSWERS = (
    "return {{'n': {r}.n, 'top': {r}.top}}", "return {{'gap': {r}.low - {r}.top, 'last': {r}.last}}",
    "return {{'there': e.k in First, 'bits': {r}.bits}}", "return {{'seen': {r}.seen and {r}.whole}}",
)  # fmt: skip
SECOND = (
    "second.n += row.n % 5", "second.top = max(second.top, row.top)", "second.heat += 1",
    "if row.seen:\n        second.n += 1", "second.share += row.part", "second.heat = second.heat * 3 % 101",
)  # fmt: skip


@dataclass(frozen=True)
class Skewed:
    """A program and its events, in order."""

    seed: int
    source: str
    module: ModuleType
    events: list[Any]

    def oracle(self) -> Outcome:
        result = self.module.app.run(self.events, engine="oracle")
        return Outcome(result.outputs, dict(self.module.app.state))


def skewed(seed: int, events: int = 160) -> Skewed:
    """One in three programs has an update that can't be split."""
    draw = random.Random(f"skewed {seed}")
    kind = draw.choice(("int", "str", "(int, str)"))
    source = _source(draw, kind, hindering=seed % 3 == 0)
    module = load_program(source, "skewed")
    return Skewed(seed, source, module, list(_events(draw, kind, module, events)))


def _source(draw: random.Random, kind: str, hindering: bool) -> str:
    operands = ("e.v", "e.v * 3", "(e.v - 9)")

    def line(form: str) -> str:
        return "    " + form.format(r="row", v=draw.choice(operands))

    body = [line(form) for form in draw.sample(FOLDING, draw.randint(1, 4))]
    if hindering:
        body.insert(draw.randrange(len(body) + 1), line(draw.choice(HINDERING)))
    if draw.random() < 0.4:
        body.insert(0, "    ms.require(e.v % 5 != 4, 'fourth')")
    if draw.random() < 0.6:
        body += ["    second = Second[e.other]", *("    " + form for form in draw.sample(SECOND, draw.randint(1, 2)))]
    hit = ["@app.on(Hit)", "def hit(e):", "    row = First[e.k]", *body, line(draw.choice(ANSWERS))]
    look = ["@app.on(Look)", "def look(e):", "    row = First[e.k]"]
    look += [line(draw.choice(FOLDING[:3]))] if draw.random() < 0.3 else []
    look += [line(draw.choice(ANSWERS))]
    annotation = {"(int, str)": "int"}.get(kind, kind)
    head = HEAD.format(key=annotation)
    if kind == "(int, str)":  # a key of two columns
        head = head.replace("@app.table(key=int)\nclass First", "@app.table(key=(int, str))\nclass First")
        head = head.replace("    k: int\n", "    k: int\n    s: str\n")
        hit, look = ([text.replace("First[e.k]", "First[e.k, e.s]") for text in lines] for lines in (hit, look))
        hit, look = ([text.replace("e.k in First", "(e.k, e.s) in First") for text in lines] for lines in (hit, look))
    return "\n\n\n".join([head, "\n".join(hit), "\n".join(look)]) + "\n"


def _events(draw: random.Random, kind: str, module: ModuleType, count: int) -> Any:
    share, hot = draw.choice((0.3, 0.6, 0.9)), draw.randint(1, 3)

    def key() -> dict[str, Any]:
        number = draw.randrange(hot) if draw.random() < share else draw.randrange(40)
        return {"k": f"key {number}"} if kind == "str" else {"k": number, **({"s": "süd"} if "(" in kind else {})}

    for ts in range(count):
        v = draw.randrange(20)
        if draw.random() < 0.75:
            other = 1 if draw.random() < share else draw.randrange(20)
            yield module.Hit(ts=ts, **key(), other=other, v=v, b=draw.random() < 0.5, x=v / 3)
        else:
            yield module.Look(ts=ts, **key(), v=v)
