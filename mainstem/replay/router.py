"""The range task: events of one range of the order become blocks, one per route, sorted by shard."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate import Columns, EventBatch
from mainstem.gate.batch import frozen
from mainstem.replay import kernels
from mainstem.replay.columns import INT32_MAX, is_plain, joined, plain_values, room, storage, to_arrow
from mainstem.replay.exchange import ExchangeWriter
from mainstem.replay.jobs import Clock, RangeBlocks
from mainstem.replay.routing import NOTHING, ROWS, Route, Routing, number_column, order_block, route_block, shard_column
from mainstem.replay.sampled import KeySample, hot_items
from mainstem.replay.sharding import shards_of
from mainstem.replay.split import Key
from mainstem.schema import EventSchema, Type


def route_range(batches: Iterable[EventBatch], routing: Routing, path: Path) -> RangeBlocks:
    """Writes the range file of some consecutive batches, of any sizes, that stand for one range."""
    clock, events = Clock(), _Range(routing)
    writer = ExchangeWriter(path)
    try:
        stream = iter(batches)
        while True:
            with clock.part("gate"):
                batch = next(stream, None)
            if batch is None:
                break
            with clock.part("route"):
                events.add(batch)
        with clock.part("route"):
            items = _write(events, writer, clock)
            hot = hot_items(routing, events.hot())
        size = writer.close()
    except BaseException:
        writer.discard()
        raise
    last = int(events.ts[-1]) if len(events.ts) else None
    return RangeBlocks(path, len(events.kind), last, items, size, clock.seconds, hot)


def _write(events: _Range, writer: ExchangeWriter, clock: Clock) -> dict[int, tuple[int, ...]]:
    routing = events.routing
    rows = pa.record_batch({"ts": to_arrow(events.ts, pa.int64()), "kind": to_arrow(events.kind, pa.uint8())})
    _add(writer, clock, ROWS, rows, np.array([0, len(events.kind)]))
    routed = [_Routed(events, route) for route in range(len(routing.routes))]
    for number, route in enumerate(routed):
        _add(writer, clock, route_block(number), route.batch(routed), route.starts)
    items = {}
    for stage in routing.flow.stages:
        routes = [routed[routing.route_of[piece.number]] for piece in stage.pieces]
        counts = np.zeros(routing.shards if stage.keyed else 1, np.int64)
        for route in routes:
            counts[: len(route.starts) - 1] += np.diff(route.starts)
        items[stage.number] = tuple(int(count) for count in counts)
        if len(stage.pieces) > 1:
            starts = np.concatenate([[0], np.cumsum(counts)])
            order = _order(events, [(p.kind, p.local) for p in stage.pieces], routes, starts)
            block = pa.record_batch({"kind": to_arrow(order, pa.uint8())})
            _add(writer, clock, order_block(stage.number), block, starts)
    return items


def _add(writer: ExchangeWriter, clock: Clock, name: str, batch: pa.RecordBatch, starts: np.ndarray) -> None:
    with clock.part("write"):
        writer.add(name, batch, starts.tolist())


def _order(events: _Range, pieces: list[tuple[int, int]], routes: list[_Routed], starts: np.ndarray) -> np.ndarray:
    """Which piece each item of a stage is, sorted by shard, then in order. `pieces`: (event type, number in stage)."""
    kinds = len(events.of_kind)
    count = np.zeros(kinds, np.int64)
    local, next_shard = np.zeros((kinds, len(pieces)), np.uint8), np.zeros((kinds, len(pieces)), np.int64)
    shards, before = [], 0
    for (kind, number), route in zip(pieces, routes, strict=True):
        turn = count[kind]
        local[kind, turn], next_shard[kind, turn] = number, before
        shards.append(route.shard if route.shard is not None else np.zeros(route.own.count, events.routing.shard_dtype))
        before += route.own.count
        count[kind] += 1
    out = room(before, np.uint8)
    kernels.interleave(frozen(events.kind), count, local, np.concatenate(shards), next_shard, starts[:-1].copy(), out)
    return out


@dataclass
class _Kind:
    """The events of one type, in the chunks that they came in."""

    event: EventSchema
    chunks: list[Columns] = field(default_factory=list)
    shard_chunks: dict[Route, list[np.ndarray]] = field(default_factory=dict)
    count: int = 0

    def type(self, name: str) -> Type:
        field = self.event.field(name)
        assert field is not None, f"event {self.event.name} has no field {name}"
        return field.type

    def column(self, chunk: Columns, name: str) -> pa.Array:
        """A column of a chunk without the rows of other types."""
        array, type_ = chunk.arrays[name], self.type(name)
        if chunk.dense:
            return array
        if not is_plain(type_):
            return array.take(pa.array(chunk.pos))
        out = room(len(chunk.pos), storage(type_))
        kernels.gather(plain_values(array), frozen(chunk.pos), out)
        return to_arrow(out, type_.arrow)

    def compact(self, name: str) -> pa.Array:
        return joined([self.column(chunk, name) for chunk in self.chunks], self.type(name).arrow)


class _Range:
    """All events of a range; their columns stay where the gate has put them."""

    def __init__(self, routing: Routing) -> None:
        self.routing = routing
        self.of_kind = [_Kind(event) for event in routing.flow.program.events]
        self._kinds: list[np.ndarray] = []
        self._times: list[np.ndarray] = []
        self._samples: dict[Route, KeySample] = {}
        self._count = 0

    def add(self, batch: EventBatch) -> None:
        if self._count + len(batch) > INT32_MAX:
            raise InputError(f"a range has more than {INT32_MAX:,} events\n  cut the log into shorter ranges")
        self._kinds.append(batch.kind)
        self._times.append(batch.ts)
        for kind, columns in enumerate(batch.columns):
            if columns is None or not len(columns.pos):
                continue
            own = self.of_kind[kind]
            own.chunks.append(columns)
            own.count += len(columns.pos)
            for route in self.routing.routes:
                if route.kind == kind and route.key:
                    own.shard_chunks.setdefault(route, []).append(self._shards(route, columns, batch))
        self._count += len(batch)

    def _shards(self, route: Route, columns: Columns, batch: EventBatch) -> np.ndarray:
        own = self.of_kind[route.kind]
        keys = [
            pa.array(batch.ts[batch.kind == route.kind]) if name == "ts" else own.column(columns, name)
            for name in route.key
        ]
        self._samples.setdefault(route, KeySample()).add(keys)
        return shards_of(keys, self.routing.shards, self.routing.shard_dtype)

    def hot(self) -> dict[int, dict[Key, int]]:
        """Per route: keys that many events have."""
        return {self.routing.routes.index(route): sample.hot() for route, sample in self._samples.items()}

    @cached_property
    def kind(self) -> np.ndarray:
        return np.concatenate(self._kinds) if self._kinds else np.zeros(0, np.uint8)

    def times(self, kind: int) -> np.ndarray:
        """The timestamps of the events of one type."""
        return self.ts if self.of_kind[kind].count == len(self.ts) else self.ts[self.kind == kind]

    @cached_property
    def ts(self) -> np.ndarray:
        return np.concatenate(self._times) if self._times else np.zeros(0, np.int64)


class _Routed:
    """The events of one type on one route."""

    def __init__(self, events: _Range, route: int) -> None:
        self.events, self.number_of_route = events, route
        routing = events.routing
        self.own = events.of_kind[routing.routes[route].kind]
        self.shard: np.ndarray | None = None
        self.number: np.ndarray | None = None  # its place among those of its shard; where all are in order: its own
        self.place: np.ndarray | None = None
        self.starts = np.array([0, self.own.count])
        if routing.spreads(route):
            self._sort(routing.routes[route])

    def _sort(self, route: Route) -> None:
        """Finds every event's shard, its number there, and its place in the block; one pass each."""
        chunks = self.own.shard_chunks.get(route)
        self.shard = frozen(np.concatenate(chunks) if chunks else np.zeros(0, self.events.routing.shard_dtype))
        counts = np.zeros(self.events.routing.shards, np.int64)
        number, place = room(self.own.count, np.int32), room(self.own.count, np.int32)
        kernels.rank(self.shard, counts, number)
        self.starts = np.concatenate([[0], np.cumsum(counts)])
        self.number = frozen(number)
        kernels.places(self.shard, self.number, self.starts, place)
        self.place = frozen(place)

    @cached_property
    def order(self) -> pa.Array:
        """For each place of the block, the event that stands there."""
        assert self.place is not None
        out = room(self.own.count, np.int32)
        kernels.put_places(self.place, 0, out)
        return to_arrow(out, pa.int32())

    def batch(self, routed: list[_Routed]) -> pa.RecordBatch:
        """Its block: what pieces take of the events, and addresses of those that they hand values to."""
        routing, route = self.events.routing, self.number_of_route
        found = {name: self._field(name) for name in routing.fields[route]}
        if route in routing.timed:
            found["ts"] = to_arrow(self._moved(self.events.times(routing.routes[route].kind)), pa.int64())
        for target in routing.targets[route]:
            other = routed[target]
            if other.shard is None or other.number is None:
                found[number_column(target)] = self.order
            else:
                kind = pa.from_numpy_dtype(routing.shard_dtype)
                found[shard_column(target)] = to_arrow(self._moved(other.shard), kind)
                found[number_column(target)] = to_arrow(self._moved(other.number), pa.int32())
        # Counts are known from the starts; a block without columns would have no rows to slice.
        return pa.record_batch(found or {NOTHING: pa.nulls(self.own.count)})

    def _moved(self, values: np.ndarray) -> np.ndarray:
        """One value per event, each to its place."""
        if self.place is None:
            return values
        out = room(self.own.count, values.dtype)
        kernels.put(self.place, frozen(values), out)
        return out

    def _field(self, name: str) -> pa.Array:
        own, type_ = self.own, self.own.type(name)
        if not is_plain(type_):
            column = own.compact(name)
            return column if self.place is None else column.take(self.order)
        out, first = room(own.count, storage(type_)), 0
        for chunk in own.chunks:
            end = first + len(chunk.pos)
            values = plain_values(chunk.arrays[name])
            if self.place is None:
                kernels.gather(values, frozen(chunk.pos), out[first:end])
            else:
                kernels.scatter(values, frozen(chunk.pos), self.place[first:end], out)
            first = end
        return to_arrow(out, type_.arrow)
