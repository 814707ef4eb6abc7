"""Random functions over random histories: kernels, whole and in parts, equal the oracle."""

from __future__ import annotations

import math
import random
from typing import Any

from mainstem.testing import Outcome, assert_same, load_program

PROGRAMS = 40
EVENTS = 60
ENGINES: tuple[dict[str, Any], ...] = (
    {"engine": "serial"},
    {"engine": "chains", "threads": 2, "batch": 20},
    {"engine": "tpg", "explore": "bfs", "unit": "op", "abort": "lazy", "threads": 3},
)
FIELDS = {"n": "int", "x": "float", "s": "str", "b": "bool", "d": "datetime"}
READS = {"sum": "nxb", "mean": "nxb", "min": "nxd", "max": "nxd", "distinct": "nxsbd", "top": "nxsbd", "last": "nxsbd"}
VALUES = {
    "n": ("0", "e.a", "-e.k", "e.a * 2**61"),
    "x": ("e.f", "e.f * 0.1", "float(e.a)", "e.a"),
    "s": ("e.t", '"x"'),
    "b": ("e.f > 0.5", "e.a == 1", "True"),
    "d": ("e.a", "e.ts"),
}
SPANS = ("1", "5", "e.w", "e.w + 3", "2**40")
HEAD = """import mainstem as ms
from datetime import datetime
app = ms.App("random")

@app.event
class E:
    a: int
    k: int
    f: float
    t: str
    w: int

@app.table(key=int)
class T:
    n: int = 0
"""


class Writer:
    """Writes one program; all that it draws follows from the seed."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(f"histories {seed}")
        self.columns = 0
        self.keep = {name: self.draw.choice((1, 2, 3, 5, 8, 300)) for name in "HG"}
        self.fields = {name: sorted(self.draw.sample("nxsbd", self.draw.randint(1, 5))) for name in "HG"}

    def program(self) -> str:
        lines = [HEAD]
        for name, fields in self.fields.items():
            lines += [f"@app.history(key=int, keep={self.keep[name]})", f"class {name}:"]
            lines += [f"    {f}: {FIELDS[f]}" for f in fields] + [""]
        for number in range(self.draw.randint(1, 2)):
            lines += ["@app.on(E)", f"def f{number}(e):", *self.body(), ""]
        return "\n".join(lines)

    def name(self) -> str:
        return self.draw.choice("HHG")

    def row(self, name: str) -> str:
        return f"{name}[{self.draw.choice(('e.a', 'e.a', 'e.k', '0'))}]"

    def last(self) -> str:
        return f"last={self.draw.choice(SPANS)}"

    def count(self) -> str:
        return f"{self.row(self.name())}.count({self.last()})"

    def append(self) -> str:
        name = self.name()
        given = [f"{f}={self.draw.choice(VALUES[f])}" for f in self.fields[name]]
        self.draw.shuffle(given)
        return f"{self.row(name)}.append({', '.join(given)})"

    def read(self) -> str:
        name = self.name()
        method = self.draw.choice([m for m, able in READS.items() if set(able) & set(self.fields[name])])
        field = self.draw.choice([f for f in self.fields[name] if f in READS[method]])
        arguments = [repr("ts" if self.draw.random() < 0.1 and method not in ("sum", "mean") else field)]
        if method == "top" and self.draw.random() < 0.6:
            arguments.append(str(self.draw.randint(1, min(3, self.keep[name]))))
        if method != "last" and self.draw.random() < 0.7:
            arguments.append(self.last())
        return f"{self.row(name)}.{method}({', '.join(arguments)})"

    def statement(self) -> str:
        some = self.draw.randint(1, 4)
        forms = (
            self.append(), self.append(), f"if {self.count()} < {some}:\n        {self.append()}",
            f"T[e.k].n += {self.count()}", f"if e.f > 0.7:\n        del {self.row(self.name())}",
            f'ms.require({self.count()} <= {some}, "many")',
        )  # fmt: skip
        return f"    {self.draw.choice(forms)}"

    def body(self) -> list[str]:
        outputs = []
        for _ in range(self.draw.randint(1, 5)):
            self.columns += 1
            outputs.append(f'"c{self.columns}": {self.read()}')
        statements = [self.statement() for _ in range(self.draw.randint(2, 6))]
        return [*statements, f"    return {{{', '.join(outputs)}}}"]


def stream(module: Any, seed: int) -> list[Any]:
    draw, ts, events = random.Random(f"stream {seed}"), -20, []
    for _ in range(EVENTS):
        ts += draw.choice((0, 0, 1, 4))
        f, t, w = draw.choice((0.1, 0.6, 0.9, -0.0, math.inf)), draw.choice(("", "x", "y")), draw.choice((-1, 1, 6, 30))
        events.append(module.E(ts=ts, a=draw.randrange(3), k=draw.randrange(3), f=f, t=t, w=w))
    return events


def test_kernels_equal_the_oracle() -> None:
    reasons: set[str | None] = set()
    for seed in range(PROGRAMS):
        source = Writer(seed).program()
        module = load_program(source, f"history_{seed}")
        events = stream(module, seed)
        result = module.app.run(events, engine="oracle")
        expected = Outcome(result.outputs, dict(module.app.state))
        reasons |= set(result.outputs["reason"].to_pylist())
        for options in ENGINES:
            actual = Outcome(module.app.run(events, jit=False, **options).outputs, dict(module.app.state))
            assert_same(expected, actual, context=f"program {seed}, {options}\n{source}")
    assert {None, "many", "integer overflow"} < reasons
    assert {reason.split(":")[0] for reason in reasons if reason} >= {"history of H is full", "history of G is full"}
