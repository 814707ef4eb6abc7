"""Random inputs of operators, and what the definition of windows gives for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import mainstem as ms
from mainstem.schema import EventSchema, Field, Type
from mainstem.windows.operators import OPERATORS, Timing, prepare, run, summed
from mainstem.windows.operators.sliced import aggregate_slices
from mainstem.windows.plain import PlainEvent, closed_windows
from mainstem.windows.window import Window, window_of

EVENT = EventSchema(
    "Reading",
    tuple(
        Field(name, Type(base))
        for name, base in (("meter", "int"), ("zone", "str"), ("wh", "int"), ("ok", "bool"), ("price", "float"))
    ),
)
COMMUTATIVE = {
    "n": ms.count(), "total": ms.sum("wh"), "mean": ms.avg("wh"), "low": ms.min("wh"), "high": ms.max("wh"),
    "some": ms.any("ok"), "every": ms.all("ok"),
}  # fmt: skip
IN_ORDER = {"first": ms.first("wh"), "last": ms.last("price"), "place": ms.first("zone"), "again": ms.count()}


def window(size: int = 30, advance: int = 3, by=("meter",), where: str | None = None, **aggregates) -> Window:
    return window_of(EVENT, 0, "usage", size, advance, by, "time", where, aggregates or COMMUTATIVE)


def inputs_of(random: np.random.Generator, inputs: int, rows: int, keys: int) -> list[pa.Table]:
    """Sorted inputs with ties, bursts and gaps; some are empty, some short."""
    tables = []
    for _ in range(inputs):
        n = int(random.integers(0, rows + 1)) if random.random() < 0.85 else 0
        steps = random.choice([0, 0, 0, 1, 2, 7, 60], n, p=random.dirichlet(np.ones(7)))
        zone = pa.array(["north", "süd", "", "zürich"]).take(pa.array(random.integers(0, 4, n)))
        columns = {"ts": np.cumsum(steps) - int(random.integers(0, 90)), "meter": random.integers(0, keys, n)}
        columns |= {"zone": zone, "wh": random.integers(-50, 50, n), "ok": random.random(n) < 0.6}
        tables.append(pa.table(columns | {"price": random.random(n)}))
    return tables


def defined(window: Window, inputs: list[pa.Table]) -> list[dict]:
    """What the plain definition gives."""
    rows = [(row["ts"], i, n, row) for i, table in enumerate(inputs) for n, row in enumerate(table.to_pylist())]
    events = [PlainEvent(at, row[0], row[3]) for at, row in enumerate(sorted(rows, key=lambda row: row[:3]))]
    return [
        dict(zip((f.name for f in window.by), found.key, strict=True))
        | {"start": found.start, "end": found.end}
        | found.values
        for found in closed_windows(window, events)
    ]


def stalls(random: np.random.Generator, inputs: list[pa.Table]) -> np.ndarray:
    """Ticks at which the rows of each input arrive: some come at once, some after a pause of up to a millisecond."""
    due = []
    for table in inputs:
        pauses = random.integers(0, 2_000_000, table.num_rows) * (
            random.random(table.num_rows) < 3 / (1 + table.num_rows)
        )
        due.append(np.cumsum(pauses))
    return np.concatenate(due)


def agree_in_slices(seed: int, rows: int = 120) -> None:
    """`panes` over tables, cut into any number of slices."""
    random = np.random.default_rng(seed)
    inputs = inputs_of(random, int(random.integers(1, 21)), int(random.integers(1, rows)), int(random.integers(1, 12)))
    if seed % 5 == 0:  # keys that are too far apart to be their own numbers
        inputs = [t.set_column(1, "meter", pc.multiply(t["meter"], 10**15)) for t in inputs]
    by = [("meter",), (), ("zone",), ("zone", "meter"), ("ok",)][seed % 5 if seed % 5 else seed % 2]
    where = "ok" if seed % 3 == 0 else None
    aggregates = COMMUTATIVE | IN_ORDER | {"least": ms.min("wh"), "latest": ms.last("ok")}
    shape = window(int(random.integers(1, 50)), int(random.integers(1, 60)), by, where, **aggregates)
    for slices in (None, 1, 2, 9):
        found = aggregate_slices(shape, inputs, int(random.integers(1, 4)), slices)
        assert found.to_pylist() == defined(shape, inputs), f"seed {seed}, {slices} slices"


def agree_in_sums(seed: int, rows: int = 120) -> None:
    """Windows with sums only: whether a matrix is never taken, whenever it is no larger than the events, or always."""
    random = np.random.default_rng(seed)
    inputs = inputs_of(random, int(random.integers(1, 21)), int(random.integers(1, rows)), int(random.integers(1, 12)))
    shift, factor = int(random.integers(-20, 20)), 2**49 if seed % 4 == 0 else 1  # may need two words
    inputs = [t.set_column(1, "meter", pc.add(t["meter"], shift)) for t in inputs]
    inputs = [t.set_column(3, "wh", pc.multiply(t["wh"], factor)) for t in inputs]
    count, mean, total = {"n": ms.count()}, {"mean": ms.avg("wh")}, {"total": ms.sum("wh")}
    shown = [count, mean, total, count | total]
    by, where = [("meter",), ("meter",), (), ("zone", "meter"), ("ok",)][seed % 5], "ok" if seed % 3 == 0 else None
    aggregates = shown[int(random.integers(0, 4))]
    shape = window(int(random.integers(1, 50)), int(random.integers(1, 60)), by, where, **aggregates)
    wanted = defined(shape, inputs)
    for share in (0, summed.MATRIX_SHARE, 10**6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(summed, "MATRIX_SHARE", share)
            for slices in (None, 2, 9):
                found = aggregate_slices(shape, inputs, 2, slices).to_pylist()
                assert found == wanted, f"seed {seed}, {slices} slices, share {share}"


@dataclass(frozen=True)
class Case:
    """Inputs, a window over them, and what the definition gives for all aggregates; operators are asked for some."""

    inputs: list[pa.Table]
    size: int
    advance: int
    by: tuple[str, ...]
    where: str | None
    wanted: list[dict]

    def window(self, aggregates: dict) -> Window:
        return window(self.size, self.advance, self.by, self.where, **aggregates)

    def check(self, found: pa.Table, said: str) -> None:
        names = found.column_names
        assert found.to_pylist() == [{name: row[name] for name in names} for row in self.wanted], said


def case(random: np.random.Generator, seed: int, rows: int) -> Case:
    inputs = inputs_of(random, int(random.integers(1, 21)), int(random.integers(1, rows)), int(random.integers(1, 12)))
    size, advance = int(random.integers(1, 50)), int(random.integers(1, 15))
    by, where = [("meter",), (), ("zone",), ("zone", "meter")][seed % 4], "ok" if seed % 3 == 0 else None
    wanted = defined(window(size, advance, by, where, **COMMUTATIVE, **IN_ORDER), inputs)
    return Case(inputs, size, advance, by, where, wanted)


def agree(seed: int, rows: int = 120) -> None:
    """Every operator, with random timing of the inputs in every other case, and `panes` in random slices."""
    random = np.random.default_rng(seed)
    given = case(random, seed, rows)
    prepared = {
        in_order: prepare(given.window(COMMUTATIVE | (IN_ORDER if in_order else {})), given.inputs)
        for in_order in (False, True)
    }
    for name, operator in OPERATORS.items():
        timing = Timing(stalls(random, given.inputs)) if seed % 2 else None
        found = run(prepared[operator.in_order], name, threads=int(random.integers(1, 4)), timing=timing)
        given.check(found, f"seed {seed}, {name}")
    for aggregates in (COMMUTATIVE | IN_ORDER, {"n": ms.count(), "total": ms.sum("wh")}):
        slices = int(random.integers(1, 10))
        found = aggregate_slices(given.window(aggregates), given.inputs, int(random.integers(1, 4)), slices)
        given.check(found, f"seed {seed}, {len(aggregates)} aggregates in {slices} slices")
