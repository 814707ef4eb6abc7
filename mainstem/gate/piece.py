"""Rows of one input on their way from raw to accepted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import identity
from mainstem.gate.flaws import Flaws
from mainstem.gate.raw import Place

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
    arrays: Mapping[str, pa.Array]


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


@dataclass(frozen=True)
class Origin:
    """Where a piece comes from: what is needed to name its bad rows."""

    piece: Piece
    place: Place
    offset: int  # of its first row in the input


@dataclass(frozen=True)
class Disorder:
    """Rows that go back in time: the clock of each row does not, and a row may still turn out to be late."""

    clock: np.ndarray
    origin: Origin


@dataclass
class Chunk:
    """Accepted rows of one input, sorted by ts unless there is a `disorder`. `offsets` are their rows in the input; an
    int is the first of consecutive ones."""

    ts: np.ndarray
    kind: int | np.ndarray
    offsets: int | np.ndarray
    parts: list[Part] = field(default_factory=list)
    disorder: Disorder | None = None

    def __len__(self) -> int:
        return len(self.ts)

    @property
    def in_order(self) -> bool:
        """Whether no row has a smaller ts than an earlier row of the input."""
        return self.disorder is None

    @property
    def clock(self) -> np.ndarray:
        """For each row, the largest ts of the input up to and with it."""
        return self.ts if self.disorder is None else self.disorder.clock

    def consumed(self, count: int) -> int:
        """Rows of the input up to and with the count-th row of this chunk."""
        last = self.offsets + count - 1 if isinstance(self.offsets, int) else self.offsets[count - 1]
        return int(last) + 1

    def offsets_of(self, rows: np.ndarray) -> np.ndarray:
        """The rows of the input that some rows of this chunk are."""
        return self.offsets + rows if isinstance(self.offsets, int) else self.offsets[rows]

    def where(self, keep: np.ndarray) -> Chunk:
        """The rows where `keep` holds. Columns stay as they are: only positions change."""
        rank = np.cumsum(keep) - 1
        parts = []
        for part in self.parts:
            rows = identity(len(self)) if part.rows is None else part.rows
            pos = identity(len(rows)) if part.pos is None else part.pos
            kept = keep[rows]
            parts.append(Part(part.kind, None if part.rows is None else rank[rows[kept]], pos[kept], part.arrays))
        kind = self.kind if isinstance(self.kind, int) else self.kind[keep]
        disorder = None if self.disorder is None else replace(self.disorder, clock=self.disorder.clock[keep])
        return Chunk(self.ts[keep], kind, self.offsets_of(np.flatnonzero(keep)), parts, disorder)
