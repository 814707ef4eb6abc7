"""What transactions ask for, without the links between operations: less than half of the time of laying them out.

A request is a row in the numbering of all tables, and in its lowest bit whether it may be written. A row may stand
among the requests of one transaction more than once. Nobody asks for rows of tables that no function writes. One
generated pass over the events of a batch (`lang/ask_source.py`) lists them, and numbers its transactions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mainstem.engine.buffers import Scratch
from mainstem.engine.entry import EntryPoint
from mainstem.engine.kernels import load
from mainstem.lang import Program
from mainstem.lang.ask_source import BASE, FOUND, MOST, NEAR
from mainstem.lang.asked import PLACE_WORDS

_EACH = 4  # requests of a transaction for which there is room at first
_SPARE = 1.25  # batches need a little more or less from one to the next
PLACES_MOST = 1 << 14  # for who asked for rows last; a quarter of a megabyte


@dataclass(frozen=True)
class Requests:
    """Those of transaction t are `of[lo[t] … lo[t + 1]]`. All keys of the batch have rows."""

    lo: np.ndarray
    of: np.ndarray
    fn: np.ndarray  # function of each transaction
    ev: np.ndarray  # its event's number among those of its type
    before: np.ndarray  # the last transaction before each that it may conflict with, or -1
    near: int  # transactions of which that is near (`WINDOW`)
    most: list[int]  # per table that keys in loops write: the largest number of them in one event

    @property
    def count(self) -> int:
        return len(self.of)


class Asking:
    """Lists the requests of batches of one program."""

    def __init__(self, program: Program, jit: bool) -> None:
        assert program.asks is not None
        self._entry = EntryPoint("asks", program.asks, jit)
        self._call = load("verdicts", jit).call
        self._tables = len(program.tables)
        self._room = 0  # as many requests as a batch had that did not fit, and some more
        self._last, self._stamp = np.zeros(0, np.int64), 0

    def list(
        self, arrays: dict[str, Any], transactions: int, scratch: Scratch, row_lo: np.ndarray, start: int = 0
    ) -> Requests | None:
        """Those of transactions from `start` on; None where a key has no row yet. `row_lo` has the number of the first
        row of each table."""
        self._make_places(int(row_lo[-1]))
        own = dict(arrays, last=self._last, row_lo=row_lo)
        count = self._ask(own, transactions, scratch, start)
        if count > len(own["request"]):
            self._room = int(_SPARE * count)
            self._ask(own, transactions, scratch, start)
        facts = own["facts"]
        if facts[FOUND] < 0:
            return None
        return Requests(
            own["request_lo"], own["request"][:count], own["fn"], own["ev"], own["before"], int(facts[NEAR]),
            facts[MOST:].tolist(),
        )  # fmt: skip

    def _make_places(self, rows: int) -> None:
        """One for each row, if they are not too many."""
        words = PLACE_WORDS * min(PLACES_MOST, 1 << max(0, rows - 1).bit_length())
        if len(self._last) < words:
            self._last = np.zeros(words, np.int64)

    def _ask(self, own: dict[str, Any], transactions: int, scratch: Scratch, start: int) -> int:
        for name in ("fn", "ev", "before"):
            own[name] = scratch.array(f"layout {name}", transactions, np.int32)
        own["request_lo"] = scratch.array("layout request_lo", transactions + 1, np.int64)
        own["request"] = scratch.array("layout request", max(1, _EACH * transactions, self._room), np.int32)
        own["facts"] = facts = np.zeros(MOST + self._tables, np.int64)
        facts[BASE], self._stamp = self._stamp, self._stamp + transactions
        bound = self._entry.bind(own)
        return int(self._call(bound.function, bound.context, start, 0))
