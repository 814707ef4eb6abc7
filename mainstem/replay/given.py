"""Values that earlier pieces handed on, put where their consumer's items are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from mainstem.errors import MainstemError
from mainstem.replay import kernels
from mainstem.replay.columns import is_plain, joined, numbers, plain_values, room, storage, to_arrow
from mainstem.replay.exchange import ExchangeFile
from mainstem.replay.routing import NUMBER, Edge, Routing, carry_block
from mainstem.schema import EventSchema, Type


class Arrivals:
    """The carry files that a task reads."""

    def __init__(self, routing: Routing, files: Sequence[ExchangeFile]) -> None:
        self.routing, self.files = routing, files

    def columns(self, piece: int, event: EventSchema, number: int, shard: int, count: int) -> dict[str, pa.Array]:
        """All that a piece with `count` items in this shard is given in range `number` of the epoch."""
        found: dict[str, pa.Array] = {}
        if not count:
            return found
        for edge in self.routing.edges_to[piece]:
            parts = self._parts(edge, number, shard, count)
            in_order = edge.dense and NUMBER not in parts[0].schema.names
            moves = None if in_order else _Moves([part.column(NUMBER) for part in parts], count)
            for name in edge.columns:
                field = event.field(name)
                assert field is not None, f"event {event.name} has no field {name}"
                found[name] = _placed([part.column(name) for part in parts], field.type, moves, count)
        return found

    def _parts(self, edge: Edge, number: int, shard: int, count: int) -> list[pa.RecordBatch]:
        name = carry_block(number, edge)
        own = shard if edge.spread else 0
        parts = [part for file in self.files for part in file.rows(name, own)]
        arrived = sum(part.num_rows for part in parts)
        if arrived != count:
            raise MainstemError(
                f"range {number}, shard {own}: piece {edge.consumer} has {count} items, and piece {edge.producer} "
                f"handed on values for {arrived}\n"
                "  give the carry files of all tasks of earlier waves, one attempt of each"
            )
        return parts


class _Moves:
    """Where the values of several parts go."""

    def __init__(self, columns: list[pa.Array], count: int) -> None:
        self.numbers = [numbers(column) for column in columns]
        self.count = count
        self._order: pa.Array | None = None

    @property
    def order(self) -> pa.Array:
        """For each item, where its value stands in the parts joined."""
        if self._order is None:
            out, first = room(self.count, np.int32), 0
            for number in self.numbers:
                kernels.put_places(number, first, out)
                first += len(number)
            self._order = to_arrow(out, pa.int32())
        return self._order


def _placed(parts: list[pa.Array], type_: Type, moves: _Moves | None, count: int) -> pa.Array:
    if not is_plain(type_):
        column = joined(parts, type_.arrow)
        return column if moves is None else column.take(moves.order)
    if moves is None and len(parts) == 1 and parts[0].type == type_.arrow:
        return parts[0]
    out, first = room(count, storage(type_)), 0
    for n, part in enumerate(parts):
        values = plain_values(part)
        if moves is None:
            out[first : first + len(values)] = values
        else:
            kernels.put(moves.numbers[n], values, out)
        first += len(values)
    return to_arrow(out, type_.arrow)
