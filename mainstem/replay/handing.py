"""What pieces hand on: results of a kernel call, split by the shard that takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.engine.result import RawResult
from mainstem.gate.batch import frozen, identity
from mainstem.replay import kernels
from mainstem.replay.columns import numbers, room, to_arrow
from mainstem.replay.exchange import ExchangeWriter
from mainstem.replay.routing import NUMBER, OWN, Edge, Routing, carry_block, number_column, shard_column
from mainstem.schema import Type
from mainstem.state import State

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Piece, Stage


class Sender:
    """Writes the carry blocks of one stage in one shard."""

    def __init__(self, routing: Routing, stage: Stage, shard: int, state: State, writer: ExchangeWriter) -> None:
        self.routing, self.stage, self.shard, self.state, self.writer = routing, stage, shard, state, writer
        self._outputs = {name: (n, type_) for n, (name, type_) in enumerate(stage.program.outputs)}
        returns = [(), *(columns for f in stage.program.functions for columns in f.returns)]
        # Per piece: the number of each of the program's returns among those of its own function; 0 is none.
        number, dtype = np.arange(len(returns)), np.uint8 if len(returns) <= 256 else np.uint16
        self._own_returns = {
            p.number: np.where(number < p.first_return, 0, number - p.first_return + 1).astype(dtype)
            for p in stage.pieces
        }
        self._given = {name: np.array([name in columns for columns in returns]) for name in self._outputs}

    def send(
        self, number: int, piece: Piece, raw: RawResult, rows: np.ndarray | None, items: pa.RecordBatch | None
    ) -> None:
        """The results of some items of a piece.

        `rows`: where they stand in the results, None when they are all; `items`: their rows of the route's block.
        """
        ways: dict[int, _Way] = {}
        for edge in self.routing.edges_from[piece.number]:
            way = ways.get(edge.target)
            if way is None:
                way = ways[edge.target] = self._way(edge, len(raw.code) if rows is None else len(rows), items)
            columns = {} if way.number is None else {NUMBER: to_arrow(way.number, pa.int32())}
            for name in edge.columns:
                columns[name] = self._column(name, piece, raw, rows, way)
            self.writer.add(carry_block(number, edge), pa.record_batch(columns), way.starts)

    def _way(self, edge: Edge, count: int, items: pa.RecordBatch | None) -> _Way:
        if edge.dense:
            picked = items is not None and OWN in items.schema.names
            own = numbers(items.column(OWN)) if items is not None and picked else None
            return _Way(self.routing.starts_of_one(self.shard, count) if edge.spread else [0, count], own)
        assert items is not None
        number = numbers(items.column(number_column(edge.target)))
        if not edge.spread:
            return _Way([0, count], number)
        return _Way.sorted(numbers(items.column(shard_column(edge.target))), number, self.routing.shards)

    def _column(self, name: str, piece: Piece, raw: RawResult, rows: np.ndarray | None, way: _Way) -> pa.Array:
        if name == piece.emits_code:
            return to_arrow(way.moved(raw.code, rows), pa.int16())
        if name == piece.emits_return:
            own = self._own_returns[piece.number]
            return to_arrow(own.take(way.moved(raw.ret, rows)), pa.from_numpy_dtype(own.dtype))
        at, type_ = self._outputs[name]
        null = raw.nulls[at]
        values = way.moved(raw.columns[at], rows)
        if null is None and not type_.pooled:
            return to_arrow(values, type_.arrow)
        valid = self._given[name].take(way.moved(raw.ret, rows))
        if null is not None:
            valid &= way.moved(null, rows) == 0
        return self._with_nulls(values, type_, valid)

    def _with_nulls(self, values: np.ndarray, type_: Type, valid: np.ndarray) -> pa.Array:
        if type_.pooled:
            pool = self.state.strings if type_.base == "str" else self.state.binaries
            return pool.decode(np.where(valid, values, -1))
        return to_arrow(values, type_.arrow, valid)


class _Way:
    """How the values of some items go to the shards of a consumer."""

    def __init__(self, starts: list[int], number: np.ndarray | None = None, place: np.ndarray | None = None) -> None:
        self.starts, self.number, self.place = starts, number, place

    @classmethod
    def sorted(cls, shard: np.ndarray, number: np.ndarray, shards: int) -> _Way:
        """A counting sort by the consumer's shard; items of one shard stay in order."""
        counts = np.zeros(shards, np.int64)
        before, place, ordered = (room(len(shard), np.int32) for _ in range(3))
        kernels.rank(shard, counts, before)
        starts = np.concatenate([[0], np.cumsum(counts)])
        kernels.places(shard, frozen(before), starts, place)
        kernels.put(frozen(place), number, ordered)
        return cls(starts.tolist(), ordered, frozen(place))

    def moved(self, values: np.ndarray, rows: np.ndarray | None) -> np.ndarray:
        """`values[rows]`, each at its place."""
        if self.place is None:
            return values if rows is None else values[rows]
        count = len(self.place)
        out = room(count, values.dtype)
        source = frozen((values if values.dtype.itemsize < 8 else values.view(np.int64)).view())
        kernels.scatter(source, identity(count) if rows is None else frozen(rows), self.place, out.view(source.dtype))
        return out
