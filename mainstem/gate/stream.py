"""One input, row after row: what is checked but not taken yet."""

from __future__ import annotations

import numpy as np

from mainstem.errors import InputError
from mainstem.gate.assemble import Slice
from mainstem.gate.piece import Chunk
from mainstem.gate.raw import Input, Raw, Request
from mainstem.gate.validate import Validator
from mainstem.schema import INT64_MIN

_NO_ROWS = np.empty(0, dtype=np.int64)


class Stream:
    """The accepted rows of one input: `head` holds rows that are checked but not taken yet."""

    def __init__(self, source: Input, request: Request, validator: Validator, skip: int) -> None:
        self.validator, self._skip = validator, skip
        self._reader = source.read(request)
        validator.offset = source.first_row
        self._raw: Raw | None = None
        self._cursor = 0
        self._head: Chunk | None = None
        self._at = 0
        self.finished = False
        self.consumed = max(skip, source.first_row)
        self.reached = INT64_MIN
        """The clock of the last row that was taken or skipped."""

    @property
    def clock(self) -> np.ndarray:
        """For each row at hand, the largest `ts` of the input up to it; its own `ts` where the input is sorted."""
        return self._head.clock[self._at :] if self._head is not None else _NO_ROWS

    @property
    def ts(self) -> np.ndarray:
        """Times of the rows at hand."""
        return self._head.ts[self._at :] if self._head is not None else _NO_ROWS

    @property
    def at_hand(self) -> int:
        """How many rows are at hand."""
        return len(self._head) - self._at if self._head is not None else 0

    @property
    def in_order(self) -> bool:
        """Whether no row at hand goes back in time."""
        return self._head is None or self._head.in_order

    def fill(self, limit: int) -> bool:
        """Have at least one row at hand, reading at most `limit` rows at once; False when the input is finished."""
        while self._head is None or self._at >= len(self._head):
            raw = self._next_raw(limit)
            if raw is None:
                return False
            self._head = self.validator.accept(raw)
            self._at = self._skipped(self._head)
            if self._at:
                self.reached = int(self._head.clock[self._at - 1])
        return True

    def take(self, count: int) -> Slice:
        assert self._head is not None
        start, self._at = self._at, self._at + count
        self.consumed = self._head.consumed(self._at)
        self.reached = int(self._head.clock[self._at - 1])
        return Slice(self._head, start, self._at)

    def report_late(self, rows: np.ndarray, released: np.ndarray) -> None:
        """Name rows at hand that come after a punctuation, and up to which `ts` events were released before each."""
        assert self._head is not None
        self.validator.report_late(self._head, rows + self._at, released)

    def close(self) -> None:
        close = getattr(self._reader, "close", None)
        if close is not None:
            close()

    def _next_raw(self, limit: int) -> Raw | None:
        while self._raw is None or self._cursor >= len(self._raw):
            if self.finished:
                return None
            self._raw, self._cursor = next(self._reader, None), 0
            if self._raw is None:
                self._finish()
        part = self._raw.slice(self._cursor, limit)
        self._cursor += len(part)
        return part

    def _finish(self) -> None:
        self.finished, self._head = True, None
        if self.validator.offset < self._skip:
            raise InputError(
                f"{self.validator.label} has {self.validator.offset} rows, but {self._skip} of its rows were "
                "already processed\n  give the same inputs as before"
            )

    def _skipped(self, chunk: Chunk) -> int:
        """Rows of the chunk that an earlier run has processed."""
        if isinstance(chunk.offsets, int):
            return min(max(self._skip - chunk.offsets, 0), len(chunk))
        return int(np.searchsorted(chunk.offsets, self._skip))
