"""Random windows over random streams, and their results as rows that compare exactly."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa

import mainstem as ms
from mainstem.gate import EventBatch, open_events
from mainstem.schema import EventSchema, Field, Type
from mainstem.windows import Operators, PlainOperators, Window, window_of

READING = EventSchema(
    "Reading",
    (
        Field("meter", Type("int")),
        Field("place", Type("str")),
        Field("ok", Type("bool")),
        Field("kwh", Type("float")),
        Field("units", Type("int")),
        Field("note", Type("bytes")),
        Field("made", Type("datetime")),
    ),
)
TICK = EventSchema("Tick", (Field("level", Type("int")),))
SCHEMAS = (TICK, READING)
SIZES = (1, 2, 3, 5, 6, 10, 12, 30, 64)
FLOATS = (0.1, 0.2, 0.3, -0.1, 1e16, -1e16, 1e-9, -0.0, 0.0, float("inf"), float("-inf"), float("nan"), 3.5)
PLACES = ("", "a", "b", "ä", "\U0001f300", "zz", "Ωmega")


def alternating(so_far: float, value: float) -> float:
    """Depends on the order of events."""
    return value - so_far / 2


def polynomial(so_far: int, value: int) -> int:
    return (so_far * 31 + value) % 1_000_003


def longest(so_far: int, value: str) -> int:
    """What Numba is not given: text."""
    return max(so_far, len(value))


AGGREGATES: dict[str, Any] = {
    "n": ms.count(),
    "sum_i": ms.sum("units"),
    "sum_f": ms.sum("kwh"),
    "avg_i": ms.avg("units"),
    "avg_f": ms.avg("kwh"),
    "min_i": ms.min("units"),
    "max_f": ms.max("kwh"),
    "min_f": ms.min("kwh"),
    "max_t": ms.max("made"),
    "different_i": ms.distinct("units"),
    "different_f": ms.distinct("kwh"),
    "different_s": ms.distinct("place"),
    "some": ms.any("ok"),
    "every": ms.all("ok"),
    "first_s": ms.first("place"),
    "last_f": ms.last("kwh"),
    "first_b": ms.first("note"),
    "last_t": ms.last("made"),
    "last_ok": ms.last("ok"),
    "fold_f": ms.fold(alternating, 0.0, "kwh"),
    "fold_i": ms.fold(polynomial, 7, "units"),
    "fold_s": ms.fold(longest, 0, "place"),
}


def random_window(draw: random.Random, number: int) -> Window:
    size, advance = draw.choice(SIZES), draw.choice((*SIZES, 100))
    names = draw.sample(sorted(AGGREGATES), draw.randint(1, 5))
    by = draw.sample(["meter", "place", "ok"], draw.choice((0, 1, 1, 1, 2, 3)))
    chosen = {name: AGGREGATES[name] for name in names if name not in by}
    unit = draw.choice(("time", "time", "events"))
    where = draw.choice((None, None, "ok"))
    return window_of(READING, 1, f"window_{number}", size, advance, by, unit, where, chosen)


def random_events(draw: random.Random, count: int) -> list[dict[str, Any]]:
    keys = draw.choice((1, 3, 20, 200))
    ts, rows = draw.randint(-200, 50), []
    stride, ties, leaps = draw.choice((1, 3, 40)), draw.random(), draw.choice((0.0, 0.02))
    tame = draw.random() < 0.7
    for _ in range(count):
        if draw.random() >= ties:
            ts += draw.randint(1, stride)
        if draw.random() < leaps:
            ts += draw.choice((10**3, 10**12))
        if draw.random() < 0.1:
            rows.append({"event": "Tick", "ts": ts, "level": 1})
            continue
        rows.append({
            "event": "Reading", "ts": ts, "meter": draw.randint(-1, keys) * draw.choice((1, 1, 10**9)),
            "place": draw.choice(PLACES), "ok": draw.random() < 0.6,
            "kwh": draw.randint(-9, 9) / 10 if tame else draw.choice(FLOATS),
            "units": draw.randint(-5, 5) * draw.choice((1, 1, 2**40)), "note": draw.choice((b"", b"\x00", b"xy")),
            "made": draw.randint(-9, 9),
        })  # fmt: skip
    return rows


def table_of(rows: Sequence[dict[str, Any]]) -> pa.Table:
    fields = [("event", pa.string()), ("ts", pa.int64())]
    fields += [(f.name, f.type.arrow) for schema in SCHEMAS for f in schema.fields]
    return pa.Table.from_pylist(list(rows), schema=pa.schema(fields))


def batches_of(table: pa.Table, size: int) -> Iterator[EventBatch]:
    return open_events(table, SCHEMAS, batch_size=size)[0]


def exact(value: Any) -> Any:
    """Floats by their bits, and every nan alike."""
    if isinstance(value, float):
        return "nan" if value != value else struct.pack("d", value)
    return value


def rows_of(batches: Iterator[EventBatch], windows: Sequence[Window]) -> list[tuple[Any, ...]]:
    """Every event in order: its kind and time; of a closed window also its columns."""
    found: list[tuple[Any, ...]] = []
    for batch in batches:
        readers = []
        for number, window in enumerate(windows):
            columns = batch.columns[len(SCHEMAS) + number]
            names = [f.name for f in window.closed.fields]
            values = [columns.arrays[name].to_pylist() for name in names] if columns is not None else []
            readers.append(zip(*values, strict=True))
            for field in window.closed.fields if columns is not None else ():
                assert columns is not None and columns.arrays[field.name].type == field.type.arrow
        for kind, ts in zip(batch.kind.tolist(), batch.ts.tolist(), strict=True):
            closed = tuple(map(exact, next(readers[kind - len(SCHEMAS)]))) if kind >= len(SCHEMAS) else ()
            found.append((kind, ts, *closed))
        assert all(next(reader, None) is None for reader in readers)
    return found


def plain_rows(windows: Sequence[Window], table: pa.Table, complete: bool = True) -> list[tuple[Any, ...]]:
    operators = PlainOperators(windows)
    batches = batches_of(table, 64)
    return rows_of(operators.follow(batches, len(SCHEMAS), complete=complete), windows)


def pane_rows(
    windows: Sequence[Window], table: pa.Table, size: int, *, complete: bool = True, garbage: int | None = None,
    restarts: random.Random | None = None,
) -> list[tuple[Any, ...]]:  # fmt: skip
    """`garbage`: from how many cells on to clean up; `restarts`: go on from what was kept after some batches."""
    batches = list(batches_of(table, size))
    found: list[tuple[Any, ...]] = []
    operators = _fresh(windows, garbage)
    while batches:
        take = restarts.randint(1, len(batches)) if restarts is not None else len(batches)
        part, batches = batches[:take], batches[take:]
        found += rows_of(operators.follow(iter(part), len(SCHEMAS), complete=complete and not batches), windows)
        kept = json.loads(json.dumps(operators.kept()))
        operators = _fresh(windows, garbage)
        operators.restore(kept)
    return found


def _fresh(windows: Sequence[Window], garbage: int | None) -> Operators:
    operators = Operators(windows)
    for operator in operators.operators:
        operator.garbage_min = operator.garbage_min if garbage is None else garbage
    return operators
