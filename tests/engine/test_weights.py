"""What functions cost, as measured: threads get about the same work, not the same number of transactions."""

from __future__ import annotations

import pyarrow as pa
import pytest

import mainstem as ms
from mainstem.engine import make_executor
from mainstem.engine.weights import STEPS, Weights
from mainstem.gate import open_events
from mainstem.state import State

app = ms.App("weights")


@app.event
class Light:
    key: int


@app.event
class Heavy:
    key: int


@app.table(key=int)
class Cell:
    value: int = 0


@app.on(Light)
def light(e):
    Cell[e.key].value += 1


@app.on(Heavy)
def heavy(e):
    total = 0
    for i in range(2_000):
        total += i % 7
    Cell[e.key].value += total


def test_unknown_functions_weigh_as_much_as_each_other_and_then_as_the_known_ones() -> None:
    weights = Weights(3)
    assert weights.whole_numbers().tolist() == [STEPS] * 3
    sheet = weights.sheet(2)
    sheet[0, 0], sheet[0, 1] = (100, 10), (900, 30)
    weights.learn(sheet)
    assert weights.whole_numbers().tolist() == [STEPS, 3 * STEPS, 2 * STEPS]


def test_the_least_of_all_workers_counts_and_news_are_averaged() -> None:
    weights = Weights(2)
    sheet = weights.sheet(2)
    sheet[0, 0], sheet[0, 1], sheet[1, 0] = (10, 1), (40, 1), (10**9, 1)  # worker 1 lost its core
    weights.learn(sheet)
    assert weights.whole_numbers().tolist() == [STEPS, 4 * STEPS]
    sheet[:] = 0
    sheet[1, 1] = (80, 1)
    weights.learn(sheet)
    assert weights.whole_numbers().tolist() == [STEPS, 6 * STEPS]


@pytest.mark.parametrize("jit", [False, True])
def test_components_measure_what_functions_cost(jit: bool) -> None:
    program = app.program
    state = State({table.name: table for table in program.tables})
    executor = make_executor(program, state, "components", threads=2, jit=jit)
    events = {"Light": range(400), "Heavy": range(400, 800)}
    tables = [pa.table({"ts": range(400), "key": keys, "event": [name] * 400}) for name, keys in events.items()]
    (batch,), _ = open_events(tables, program.events, columns=program.used_columns)
    executor.run(batch, 0)
    found = dict(zip((f.name for f in program.functions), executor.weights.whole_numbers().tolist(), strict=True))
    assert found["light"] == STEPS and found["heavy"] > 3 * STEPS, found
