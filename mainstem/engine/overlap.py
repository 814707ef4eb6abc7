"""Whether serial batches gain by overlapping, when another thread runs one while the caller prepares the next.

What the caller has prepared is in the cache of its core, and the tables are in that of the other: programs that look at
much and compute little lose more by that than they win. So both ways are measured, some batches at a time.
"""

from __future__ import annotations

from mainstem.engine.experience import Known

BLOCK = 4  # batches in a row that go the same way; the first of them is no measure of it
FIRST_BLOCKS = 4  # the two ways take turns
LOOK_AGAIN = 64  # blocks of the better way until the other one has its turn


class Overlap:
    """Counts batches, and knows which way was faster."""

    def __init__(self) -> None:
        self._batches = 0
        self._known: dict[bool, Known] = {}  # seconds per transaction, by whether batches overlapped
        self._last: bool | None = None

    def next(self) -> bool:
        """Whether the next batch is to overlap."""
        block = self._batches // BLOCK
        self._batches += 1
        if block < FIRST_BLOCKS:
            return block % 2 == 0
        return self.pays != (block % LOOK_AGAIN == 0)

    @property
    def pays(self) -> bool:
        known = self._known
        return len(known) < 2 or known[True].factor <= known[False].factor

    def learn(self, overlapped: bool, seconds: float, transactions: int) -> None:
        """A batch made the run so many seconds longer."""
        if overlapped == self._last and transactions > 0:
            each = seconds / transactions
            self._known.setdefault(overlapped, Known(each)).learn(each, 0)
        self._last = overlapped
