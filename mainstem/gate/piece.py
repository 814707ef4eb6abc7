"""Rows of one input on their way from raw to accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import identity
from mainstem.gate.flaws import Flaws

UNKNOWN = 255  # the kind of a row whose event type is not known


@dataclass
class Part:
    """The rows of one event type.

    `rows` are their rows in the piece, ascending (None: all rows); `pos` their rows in `arrays`, ascending (None: the
    first is row 0, the second row 1, …).
    """

    kind: int
    rows: np.ndarray | None
    pos: np.ndarray | None
    arrays: dict[str, pa.Array]


@dataclass
class Piece:
    """Consecutive rows of one input with exact types; rows in `flaws` hold anything."""

    length: int
    ts: pa.Array  # int64; null where it is null or wrong
    kind: int | np.ndarray  # one event type for all rows, or uint8 per row
    parts: list[Part]
    flaws: Flaws
    as_json: Callable[[np.ndarray], list[str]]

    def kinds_at(self, rows: np.ndarray) -> np.ndarray:
        if isinstance(self.kind, int):
            return np.full(len(rows), self.kind, dtype=np.uint8)
        return self.kind[rows]


@dataclass
class Chunk:
    """Accepted rows of one input, sorted by ts. `offsets` are their rows in the input; an int is the first of
    consecutive ones."""

    ts: np.ndarray
    kind: int | np.ndarray
    offsets: int | np.ndarray
    parts: list[Part] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.ts)

    def consumed(self, count: int) -> int:
        """Rows of the input up to and with the count-th row of this chunk."""
        last = self.offsets + count - 1 if isinstance(self.offsets, int) else self.offsets[count - 1]
        return int(last) + 1


def narrowed(piece: Piece, ts: np.ndarray, keep: np.ndarray, offset: int) -> Chunk:
    """The rows of `piece` where `keep` holds. Columns stay as they are: only positions change."""
    rank = np.cumsum(keep) - 1
    parts = []
    for part in piece.parts:
        rows = identity(piece.length) if part.rows is None else part.rows
        pos = identity(len(rows)) if part.pos is None else part.pos
        kept = keep[rows]
        parts.append(Part(part.kind, None if part.rows is None else rank[rows[kept]], pos[kept], part.arrays))
    kind = piece.kind if isinstance(piece.kind, int) else piece.kind[keep]
    return Chunk(ts[keep], kind, np.flatnonzero(keep) + offset, parts)
