"""Keys that many events of a range have, found from a sample of them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from mainstem.replay.jobs import HotItems
from mainstem.replay.split import Key
from mainstem.state import stable_hash

if TYPE_CHECKING:
    from mainstem.replay.routing import Routing

SAMPLED = 1024  # keys per chunk of events: some thousand per range, so that shares are known to about one percent
SHARE_MIN = 1 / 32  # of the events of a route in a range; colder keys are nobody's problem
KEYS_MAX = 16  # per route


@dataclass
class KeySample:
    """Keys of one route."""

    _chunks: list[list[pa.Array]] = field(default_factory=list)
    _weights: list[np.ndarray] = field(default_factory=list)
    _count: int = 0

    def add(self, keys: list[pa.Array]) -> None:
        count = len(keys[0])
        chosen = np.arange(0, count, max(1, count // SAMPLED))
        self._chunks.append([column.take(pa.array(chosen)) for column in keys])
        self._weights.append(np.full(len(chosen), count / len(chosen)))
        self._count += count

    def hot(self) -> dict[Key, int]:
        """Keys with a large share, and about how many events have them."""
        if not self._chunks:
            return {}
        columns = [pa.concat_arrays(arrays) for arrays in zip(*self._chunks, strict=True)]
        _, first, inverse = np.unique(stable_hash(columns), return_index=True, return_inverse=True)
        weights = np.bincount(inverse, np.concatenate(self._weights))
        top = np.argsort(-weights, kind="stable")[:KEYS_MAX]
        found: dict[Key, int] = {}
        for at in top[weights[top] >= max(SHARE_MIN * self._count, 2)]:
            key = tuple(_part(column[int(first[at])]) for column in columns)
            if None not in key:
                found[key] = int(weights[at])
        return found


def _part(value: pa.Scalar) -> Any:
    """Times are numbers: Python's own end with the year 9999."""
    return (value.cast(pa.int64()) if pa.types.is_timestamp(value.type) else value).as_py()


def hot_items(routing: Routing, hot: dict[int, dict[Key, int]]) -> tuple[HotItems, ...]:
    """Per stage, from hot keys per route: an event may have several items in a stage, and a key several routes."""
    found: dict[tuple[int, Key], int] = {}
    for stage in routing.flow.stages:
        for piece in stage.pieces if stage.keyed else ():
            for key, count in hot.get(routing.route_of[piece.number], {}).items():
                found[stage.number, key] = found.get((stage.number, key), 0) + count
    return tuple(HotItems(stage, key, count) for (stage, key), count in found.items())
