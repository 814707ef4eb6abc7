"""Two event types, their classes, and batches as plain rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.gate import EventBatch, open_events
from mainstem.schema import EventSchema, Field, Type

MOVE = EventSchema(
    "Move",
    (
        Field("src", Type("int")),
        Field("rate", Type("float")),
        Field("note", Type("str", nullable=True)),
        Field("keys", Type("int", is_list=True)),
    ),
)
PING = EventSchema("Ping", (Field("src", Type("int")),))
BOTH = [MOVE, PING]


class _Event:
    """What an app generates for an event type: fields by keyword, nothing checked."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"


class Move(_Event):
    __mainstem_event__ = "Move"


class Ping(_Event):
    __mainstem_event__ = "Ping"


Row = tuple[str, int, dict[str, Any]]


def move(ts: Any, number: Any) -> dict[str, Any]:
    """A row of Move whose every field depends on a number, so that a mix-up of rows shows."""
    note = None if number % 3 == 0 else f"n{number}"
    return {"ts": ts, "src": number, "rate": number / 2, "note": note, "keys": list(range(number % 4))}


def moves(rows: Iterable[dict[str, Any]]) -> pa.Table:
    schema = pa.schema([("ts", pa.int64()), *((f.name, f.type.arrow) for f in MOVE.fields)])
    return pa.Table.from_pylist(list(rows), schema=schema)


def pings(ts: list[int | None], src: list[int | None] | None = None) -> pa.Table:
    numbers = list(range(len(ts))) if src is None else src
    return pa.table({"ts": pa.array(ts, pa.int64()), "src": pa.array(numbers, pa.int64())})


def mixed(rows: Iterable[tuple[str | None, dict[str, Any]]]) -> pa.Table:
    """A table with a column `event`; columns that a type does not have are null."""
    schema = pa.schema([("event", pa.string()), ("ts", pa.int64()), *((f.name, f.type.arrow) for f in MOVE.fields)])
    return pa.Table.from_pylist([{"event": event, **row} for event, row in rows], schema=schema)


def rows_of(batches: Iterable[EventBatch], schemas: list[EventSchema]) -> list[Row]:
    """The events as plain values, in order; checks on the way what every batch promises."""
    return [row for batch in batches for row in batch_rows(batch, schemas)]


def batch_rows(batch: EventBatch, schemas: list[EventSchema]) -> list[Row]:
    assert len(batch) == len(batch.ts) == len(batch.kind) > 0
    assert batch.kind.dtype == np.uint8
    assert batch.ts.dtype == np.int64
    assert not batch.kind.flags.writeable
    assert not batch.ts.flags.writeable
    assert (batch.ts[1:] >= batch.ts[:-1]).all()
    values: list[list[dict[str, Any]]] = []
    for kind, (schema, columns) in enumerate(zip(schemas, batch.columns, strict=True)):
        count = int((batch.kind == kind).sum())
        if columns is None:
            assert count == 0
            values.append([])
            continue
        assert columns.pos.dtype == np.int64
        assert not columns.pos.flags.writeable
        assert len(columns.pos) == count > 0
        taken = {name: array.take(pa.array(columns.pos)) for name, array in columns.arrays.items()}
        for name, array in taken.items():
            field = schema.field(name)
            assert field is not None
            assert array.type == field.type.arrow
            assert field.type.nullable or not array.null_count
        plain = {name: array.to_pylist() for name, array in taken.items()}
        values.append([{name: column[at] for name, column in plain.items()} for at in range(count)])
    of_type = [iter(rows) for rows in values]
    return [
        (schemas[kind].name, ts, next(of_type[kind]))
        for kind, ts in zip(batch.kind.tolist(), batch.ts.tolist(), strict=True)
    ]


def read(events: Any, schemas: list[EventSchema] | None = None, **options: Any) -> list[Row]:
    schemas = BOTH if schemas is None else schemas
    batches, _ = open_events(events, schemas, **options)
    return rows_of(batches, schemas)
