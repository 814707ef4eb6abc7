"""The items of a stage's shard in one range: the block of their route, with what earlier pieces handed on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import constant_kind, frozen
from mainstem.replay.columns import numbers, to_arrow, words
from mainstem.replay.exchange import ExchangeFile
from mainstem.replay.given import Arrivals
from mainstem.replay.routing import NOTHING, OWN, Routing, order_block, route_block, takes_ts
from mainstem.replay.split import Key, held

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Piece, Stage


class Block:
    def __init__(self, stage: Stage, routing: Routing, file: ExchangeFile, shard: int) -> None:
        self.stage, self.shard = stage, shard
        self.items: list[pa.RecordBatch | None] = []
        self.columns: list[dict[str, pa.Array]] = []
        self.counts = np.zeros(len(stage.pieces), np.int64)
        for piece in stage.pieces:
            name = route_block(routing.route_of[piece.number])
            self.counts[piece.local] = file.count(name, shard)
            items = next(iter(file.rows(name, shard)), None)
            self.items.append(items)
            self.columns.append({} if items is None else {n: items.column(n) for n in piece.fields if n != "ts"})
        self.count = int(self.counts.sum())
        self.kind = self._kinds(file)
        self.ts = self._times()

    def give(self, arrivals: Arrivals, number: int) -> None:
        for piece, columns in zip(self.stage.pieces, self.columns, strict=True):
            event, count = self.stage.program.events[piece.local], int(self.counts[piece.local])
            columns.update(arrivals.columns(piece.number, event, number, self.shard, count))

    def pick(self, keys: Sequence[Key], inside: bool) -> None:
        """Leave only items with these keys, or only those without. Items then know their numbers (`OWN`)."""
        picked = np.zeros(self.count, bool)
        for piece in self.stage.pieces:
            wanted = self._picked(piece, keys, inside)
            if len(wanted) == self.count:
                picked = wanted
            elif len(wanted):
                picked[self.kind == piece.local] = wanted
        if not picked.all():
            self.kind, self.ts = frozen(self.kind[picked]), frozen(self.ts[picked])
        self.count = len(self.kind)

    def _picked(self, piece: Piece, keys: Sequence[Key], inside: bool) -> np.ndarray:
        items, columns = self.items[piece.local], self.columns[piece.local]
        if items is None or not items.num_rows:
            return np.zeros(0, bool)
        assert piece.key, "a stage whose keys are split is keyed"
        wanted = held([columns[name] for name in piece.key], keys) == inside
        chosen = np.flatnonzero(wanted)
        addresses = {name: items.column(name) for name in items.schema.names if ">" in name and name != NOTHING}
        if len(chosen) < len(wanted):
            columns.update({name: _taken(column, chosen) for name, column in columns.items()})
            addresses = {name: _taken(column, chosen) for name, column in addresses.items()}
        self.items[piece.local] = pa.record_batch({**addresses, OWN: to_arrow(chosen.astype(np.int32), pa.int32())})
        self.counts[piece.local] = len(chosen)
        return wanted

    def _kinds(self, file: ExchangeFile) -> np.ndarray:
        present = np.flatnonzero(self.counts)
        if len(present) == 1:
            return constant_kind(int(present[0]), self.count)
        found = file.rows(order_block(self.stage.number), self.shard)
        return numbers(found[0].column("kind")) if found else np.zeros(0, np.uint8)

    def _times(self) -> np.ndarray:
        """The timestamps of the items of pieces that ask for them; zeros for others."""
        ts = np.zeros(self.count, np.int64)
        for piece, items in zip(self.stage.pieces, self.items, strict=True):
            if items is not None and takes_ts(self.stage, piece):
                own = words(items.column("ts"))
                if len(own) == self.count:
                    return own
                ts[self.kind == piece.local] = own
        return frozen(ts)


def _taken(column: pa.Array, chosen: np.ndarray) -> pa.Array:
    """Numbers are taken by NumPy, several times as fast as by Arrow."""
    if pa.types.is_primitive(column.type) and column.type != pa.bool_() and not column.null_count:
        return to_arrow(numbers(column)[chosen], column.type)
    return column.take(pa.array(chosen))
