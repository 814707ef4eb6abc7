"""Where everything goes, as far as the dataflow alone tells: routes, blocks, and who hands what to whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mainstem.errors import ProgramError
from mainstem.replay.jobs import WaveTask

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow, Piece, Stage

SHARDS_MAX = 1 << 16
ROWS = "rows"  # block of a range file: ts and type of every event
NOTHING = "nothing>"  # column of a block that has no other
OWN = "own>"  # column of items that were picked from a block: their numbers there
NUMBER = "number>"  # column of a carry block: the number of the item that each value is for


@dataclass(frozen=True)
class Route:
    """How the events of one type are spread over shards: by a key, or not at all."""

    kind: int
    key: tuple[str, ...]  # (): all stand in one place, in order


@dataclass(frozen=True)
class Edge:
    """What one piece hands to another, for every event of their type."""

    producer: int
    consumer: int
    columns: tuple[str, ...]
    target: int  # route of the consumer
    dense: bool  # producer and consumer share their route: values arrive where they left, in order
    spread: bool  # the consumer is in several shards


class Routing:
    """Pieces that take the same route share a block of the range file."""

    def __init__(self, flow: Dataflow, shards: int) -> None:
        if not 1 <= shards <= SHARDS_MAX:
            raise ProgramError(f"shards={shards}", remedy=f"give a number from 1 to {SHARDS_MAX}")
        self.flow, self.shards = flow, shards
        self.shard_dtype: Any = np.uint8 if shards <= 256 else np.uint16
        self.routes: list[Route] = []
        self.route_of = {piece.number: self._route(piece) for piece in flow.pieces}
        self.edges = self._edges()
        self.edges_from = {p.number: [e for e in self.edges if e.producer == p.number] for p in flow.pieces}
        self.edges_to = {p.number: [e for e in self.edges if e.consumer == p.number] for p in flow.pieces}
        self.fields = [self._fields(route) for route in range(len(self.routes))]
        self.targets = [self._targets(route) for route in range(len(self.routes))]
        self.timed = {self.route_of[p.number] for s in flow.stages for p in s.pieces if takes_ts(s, p)}

    def spreads(self, route: int) -> bool:
        return bool(self.routes[route].key)

    def starts_of_one(self, shard: int, count: int) -> list[int]:
        """The starts of a block whose rows are all of one shard."""
        return [0] * (shard + 1) + [count] * (self.shards - shard)

    def _route(self, piece: Piece) -> int:
        route = Route(piece.kind, (piece.key or ()) if self.shards > 1 else ())
        if route not in self.routes:
            self.routes.append(route)
        return self.routes.index(route)

    def _edges(self) -> list[Edge]:
        handed: dict[tuple[int, int], dict[str, None]] = {}
        for piece in self.flow.pieces:
            for carry in piece.given:
                handed.setdefault((carry.producer, piece.number), {}).update(dict.fromkeys(carry.columns))
        return [
            Edge(
                producer,
                consumer,
                tuple(columns),
                self.route_of[consumer],
                self.route_of[producer] == self.route_of[consumer],
                self.spreads(self.route_of[consumer]),
            )
            for (producer, consumer), columns in handed.items()
        ]

    def _fields(self, route: int) -> tuple[str, ...]:
        """Columns of the route's block that come from the events."""
        taken = (p.fields for p in self.flow.pieces if self.route_of[p.number] == route)
        return tuple(dict.fromkeys(name for fields in taken for name in fields if name != "ts"))

    def _targets(self, route: int) -> tuple[int, ...]:
        """Other routes for which the route's block holds addresses."""
        own = (e for e in self.edges if self.route_of[e.producer] == route and not e.dense)
        return tuple(dict.fromkeys(e.target for e in own))


def takes_ts(stage: Stage, piece: Piece) -> bool:
    return "ts" in stage.program.functions[piece.local].fields


def used_columns(flow: Dataflow) -> dict[str, list[str]]:
    """Per event type of the original program: the columns that pieces take, the only ones worth reading."""
    used: dict[int, dict[str, None]] = {kind: {} for kind in range(len(flow.program.events))}
    for piece in flow.pieces:
        names = (*piece.fields, *(piece.key or ()))
        used[piece.kind].update(dict.fromkeys(name for name in names if name != "ts"))
    return {event.name: list(used[kind]) for kind, event in enumerate(flow.program.events)}


def wave_tasks(flow: Dataflow, wave: int, shards: int) -> list[WaveTask]:
    """The tasks of a wave: one per shard for all its keyed stages together, one for each other stage."""
    stages = [stage for stage in flow.stages if stage.wave == wave]
    keyed = tuple(stage.number for stage in stages if stage.keyed)
    tasks = [WaveTask(wave, keyed, shard, True) for shard in range(shards) if keyed]
    return tasks + [WaveTask(wave, (stage.number,), 0, False) for stage in stages if not stage.keyed]


def route_block(route: int) -> str:
    return f"route/{route}"


def order_block(stage: int) -> str:
    return f"order/{stage}"


def carry_block(number: int, edge: Edge) -> str:
    """`number`: of the range in its epoch."""
    return f"{number}/{edge.producer}/{edge.consumer}"


def shard_column(route: int) -> str:
    """Column of a producer's block: the shards of the consumer's items. Fields are identifiers, so they can't clash."""
    return f"shard>{route}"


def number_column(route: int) -> str:
    return f"number>{route}"
