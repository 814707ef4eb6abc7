"""Generated inputs of a live gate, threads that bring them at odd times, and the order that must come out."""

from __future__ import annotations

import random
import threading
import time
from typing import Any

import pyarrow as pa

from mainstem.gate import Gate

SCHEMA = pa.schema([("ts", pa.int64()), ("input", pa.int64()), ("offset", pa.int64())])
Step = tuple[str, Any]
Row = tuple[int, int, int]


def generated_input(random: random.Random, number: int) -> list[Step]:
    """What one input does: bursts of rows, heartbeats, and at last its end. Some inputs bring nothing."""
    steps: list[Step] = []
    ts, offset = random.choice([-5, 0, 3]), 0
    silent = random.random() < 0.15
    for _ in range(0 if silent else random.randint(1, 6)):
        rows = []
        for _ in range(random.choice([1, 2, 5, 20])):
            ts += random.choice([0, 0, 0, 1, 1, 3, 20])
            rows.append((ts, number, offset))
            offset += 1
        steps.append(("insert", rows))
        if random.random() < 0.3:
            ts += random.choice([0, 1, 7])
            steps.append(("heartbeat", ts))
    return [*steps, ("close", None)]


def table(rows: list[Row]) -> pa.Table:
    columns = [list(column) for column in zip(*rows, strict=True)]
    return pa.table(columns, schema=SCHEMA)


def expected(inputs: list[list[Step]]) -> list[Row]:
    """Sorting everything first."""
    return sorted(row for steps in inputs for step, rows in steps if step == "insert" for row in rows)


def serve(gate: Gate, lanes: list[tuple[int, list[Step]]], random: random.Random) -> None:
    """One thread that brings some inputs, a step of any of them at a time."""
    left = [(number, list(steps)) for number, steps in lanes]
    while left:
        at = random.randrange(len(left))
        number, steps = left[at]
        do(gate, number, steps.pop(0))
        if not steps:
            left.pop(at)
        pause(random)


def do(gate: Gate, number: int, step: Step) -> None:
    what, value = step
    if what == "insert":
        gate.insert(table(value), input=number)
    elif what == "heartbeat":
        gate.heartbeat(input=number, ts=value)
    else:
        gate.close(number)


def pause(random: random.Random) -> None:
    if random.random() < 0.3:
        time.sleep(random.choice([0.0, 0.0, 1e-5, 1e-4]))


def rows_of(tables: list[pa.Table]) -> list[Row]:
    return [row for t in tables for row in zip(*(t.column(name).to_pylist() for name in SCHEMA.names), strict=True)]


def run_case(kind: str, seed: int) -> tuple[list[Row], list[Row]]:
    """What came out of a gate that several threads fed at random times, and what should have come out."""
    chosen = random.Random(seed)
    inputs = [generated_input(chosen, number) for number in range(chosen.randint(1, 20))]
    gate = Gate(len(inputs), events=SCHEMA, kind=kind)
    count = min(len(inputs), chosen.randint(1, 4))
    shares = [[(n, inputs[n]) for n in range(w, len(inputs), count)] for w in range(count)]
    threads = [
        threading.Thread(target=serve, args=(gate, s, random.Random(seed * 31 + w))) for w, s in enumerate(shares)
    ]
    for thread in threads:
        thread.start()
    found: list[Row] = []
    while any(thread.is_alive() for thread in threads):
        before = gate.watermark
        rows = rows_of(gate.ready())
        assert before is None or all((ts, number) >= before for ts, number, _ in rows)
        found += rows
        pause(chosen)
    found += rows_of(gate.ready())
    assert gate.watermark == (2**63 - 1, len(inputs))
    return found, expected(inputs)
