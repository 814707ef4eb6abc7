"""How batches of cheap transactions run best. Caches decide that more than work does, so all ways are measured, some
batches at a time.

Where another thread runs a batch while the caller prepares the next, what the caller has prepared is in the cache of
its core, and the tables are in that of the other: programs that look at much and compute little lose more by that than
they win. Where threads share a batch, they also have to ask for rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import Enum

from mainstem.engine.experience import Known

BLOCK = 4  # batches in a row that go the same way; the first of them is no measure of it
FIRST_TURNS = 2  # blocks of each way before the fastest is known
LOOK_AGAIN = 64  # blocks of the fastest way until another one has its turn


class Way(Enum):
    OVERLAPPING = "one thread runs a batch while the caller prepares the next"
    ALONE = "one batch after the other"
    SHARED = "overlapping, and all threads run a batch"


HANDICAPS = {Way.OVERLAPPING: 1.0, Way.ALONE: 1.0, Way.SHARED: 1.05}  # both cores are wanted for other work, too


class Ways:
    """Counts batches, and knows which way was the fastest."""

    def __init__(self) -> None:
        self._batches = 0
        self._way: Way | None = None  # of the block at hand
        self._turns: Counter[Way] = Counter()
        self._when: dict[Way, int] = {}  # batches before its last turn
        self._known: dict[Way, Known] = {}  # seconds per transaction
        self._last: Way | None = None
        self._row: list[float] = []  # of the last way, seconds per transaction that are not learned yet

    def next(self, ways: Sequence[Way]) -> Way:
        """How the next batch is to run, of these ways."""
        if self._batches % BLOCK == 0 or self._way not in ways:
            self._way = self._pick(ways)
            self._turns[self._way] += 1
            self._when[self._way] = self._batches
        self._batches += 1
        assert self._way is not None
        return self._way

    def _pick(self, ways: Sequence[Way]) -> Way:
        new = [way for way in ways if self._turns[way] < FIRST_TURNS]
        if new:
            return min(new, key=lambda way: self._turns[way])
        best = self.best(ways)
        if self._batches // BLOCK % LOOK_AGAIN:
            return best
        return min((way for way in ways if way is not best), key=lambda way: self._when[way])

    def best(self, ways: Sequence[Way]) -> Way:
        known = [way for way in ways if way in self._known]
        return min(known, key=lambda way: self._known[way].factor * HANDICAPS[way], default=ways[0])

    def learn(self, way: Way, seconds: float, transactions: int) -> None:
        """A batch made the run so many seconds longer. Of some in a row, the shortest counts: noise only adds."""
        if way is not self._last:
            self._last, self._row = way, []
        elif transactions > 0:
            self._row.append(seconds / transactions)
        if len(self._row) == BLOCK - 1:
            least = min(self._row)
            self._known.setdefault(way, Known(least)).learn(least, 0)
            self._row = []
