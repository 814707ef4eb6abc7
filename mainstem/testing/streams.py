"""Random streams for given event types: several inputs, each sorted, out of step with each other, with ties."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import ModuleType
from typing import Any

import pyarrow as pa

from mainstem.schema import INT64_MAX, INT64_MIN, EventSchema, Type
from mainstem.testing.model import BLOBS, TEXTS, Draw, Knobs

_EXTREME_INTS = (INT64_MIN, INT64_MIN + 1, -(2**53) - 1, 2**31, 2**53 + 1, 2**62, INT64_MAX - 1, INT64_MAX)
_EXTREME_FLOATS = (float("inf"), float("-inf"), -0.0, 1e308, -1e308, 5e-324, 2.0**53, 2.0**63, 0.1)
_WIDE_INTS = (-5, 40)
_EPOCH = datetime.datetime(1970, 1, 1)


@dataclass(frozen=True)
class Event:
    """One event: the name of its type and its values, `ts` among them."""

    kind: str
    values: dict[str, Any]


@dataclass(frozen=True)
class Stream:
    """Inputs of events in input order. The same data in every form that a run accepts."""

    schemas: tuple[EventSchema, ...]
    inputs: tuple[tuple[Event, ...], ...]
    _tables: dict[int, list[pa.Table]] = field(default_factory=dict, compare=False, repr=False)  # by number of chunks

    def objects(self, module: ModuleType) -> list[list[Any]]:
        """Instances of the module's event classes."""
        return [[getattr(module, e.kind)(**e.values) for e in events] for events in self.inputs]

    def tables(self, chunks: int = 1) -> list[pa.Table]:
        """Arrow tables with the columns of all event types and a column `event`; cut into chunks that do not begin
        at the start of their buffers when `chunks` is more than 1."""
        if chunks not in self._tables:
            self._tables[chunks] = self._made(chunks)
        return self._tables[chunks]

    def _made(self, chunks: int) -> list[pa.Table]:
        columns = {f.name: f.type.arrow for s in self.schemas for f in s.fields}
        schema = pa.schema([("event", pa.string()), ("ts", pa.int64()), *columns.items()])
        tables = [
            pa.Table.from_arrays([pa.array([_cell(e, f.name) for e in rows], f.type) for f in schema], schema=schema)
            for rows in self.inputs
        ]
        return [_cut(table, chunks) for table in tables] if chunks > 1 else tables

    def ordered(self) -> list[Event]:
        """All events in the total order (ts, input, offset)."""
        keyed = [(e.values["ts"], i, o, e) for i, events in enumerate(self.inputs) for o, e in enumerate(events)]
        return [e for *_, e in sorted(keyed, key=lambda item: item[:3])]


def _cell(event: Event, column: str) -> Any:
    return event.kind if column == "event" else event.values.get(column)


def _cut(table: pa.Table, chunks: int) -> pa.Table:
    cuts = [table.num_rows * i // chunks for i in range(chunks + 1)]
    return pa.concat_tables([table.slice(a, b - a) for a, b in pairwise(cuts)])


def generate_events(
    events: Any,
    seed: object,
    n: int = 40,
    *,
    skew: float = 0.8,
    inputs: int = 1,
    ties: float = 0.4,
    keys: int = 6,
    nulls: float = 0.25,
    extremes: float = 0.02,
) -> Stream:
    """`n` events of the given types (an app, or its event schemas), spread over `inputs` sorted inputs.

    `keys` small values carry most of the data, the r-th with weight 1 / r ** skew; `ties` is the chance that an event
    has the timestamp of the one before it, `nulls` that a nullable field is null, `extremes` that a number is near a
    limit.
    """
    schemas = _schemas(events)
    values = _Values(Draw(f"stream {seed}", Knobs(extremes=extremes)), skew, keys, nulls)
    draw = values.draw
    clocks = [draw.between((-20, 20)) for _ in range(inputs)]
    rows: list[list[Event]] = [[] for _ in range(inputs)]
    for _ in range(n):
        i = draw.between((0, inputs - 1))
        clocks[i] += 0 if draw.chance(ties) else draw.between((1, 3))
        schema = draw.one(schemas)
        rows[i].append(Event(schema.name, {"ts": clocks[i], **{f.name: values.value(f.type) for f in schema.fields}}))
    return Stream(schemas, tuple(tuple(r) for r in rows))


def _schemas(events: Any) -> tuple[EventSchema, ...]:
    if isinstance(events, Sequence):
        return tuple(events)
    return tuple(events.spec.inputs)


class _Values:
    """Draws field values; small ones by a Zipf law, so that keys collide as often as `skew` says."""

    def __init__(self, draw: Draw, skew: float, keys: int, nulls: float) -> None:
        self.draw, self.nulls = draw, nulls
        self.small = [(1 / (rank + 1) ** skew, rank) for rank in range(keys)]

    def value(self, t: Type) -> Any:
        if t.nullable and self.draw.chance(self.nulls):
            return None
        if t.is_list:
            return [self.scalar(t.base) for _ in range(self.draw.weighted(((2, 0), (2, 1), (3, 2), (2, 3), (1, 5))))]
        return self.scalar(t.base)

    def scalar(self, base: str) -> Any:
        rank = self.draw.weighted(self.small)
        extreme = self.draw.chance(self.draw.knobs.extremes)
        if base == "int":
            return self.draw.one(_EXTREME_INTS) if extreme else self._int(rank)
        if base == "float":
            return self.draw.one(_EXTREME_FLOATS) if extreme else self._int(rank) / 4
        if base == "bool":
            return self.draw.chance(0.5)
        if base == "datetime":
            return _EPOCH + datetime.timedelta(microseconds=self._int(rank))
        choices: Sequence[Any] = TEXTS if base == "str" else BLOBS
        return choices[rank % len(choices)]

    def _int(self, rank: int) -> int:
        return rank if self.draw.chance(0.85) else self.draw.between(_WIDE_INTS)
