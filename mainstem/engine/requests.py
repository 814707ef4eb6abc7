"""What transactions ask locks for, without the links between operations: less than half of the time of laying them out.

A request is a row in the numbering of all tables, and in its lowest bit whether it may be written; -1 where a site is
not reached. A row may stand among the requests of one transaction more than once. Tables that no function writes need
no locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from mainstem.engine.kernels import load
from mainstem.engine.operations import Listed
from mainstem.lang import Program

if TYPE_CHECKING:
    from mainstem.engine.layout import Numbered


@dataclass(frozen=True)
class Requests:
    """Those of transaction t are `of[lo[t] … lo[t + 1]]`."""

    lo: np.ndarray
    of: np.ndarray

    @property
    def count(self) -> int:
        return len(self.of)


class RequestLayout:
    """Lists the requests of batches of one program."""

    def __init__(self, program: Program, jit: bool) -> None:
        self._link = load("link", jit)
        written = {s.table for f in program.functions for s in f.sites if s.writes}
        sites = [[s for s in f.sites if s.table in written] for f in program.functions]
        self._static = [[s for s in own if not s.dynamic] for own in sites]
        self._static_count = np.array([len(own) for own in self._static], np.int64)
        self._listed = [
            (f.index, table) for f, own in zip(program.functions, sites, strict=True)
            for table in sorted({s.table for s in own if s.dynamic})
        ]  # fmt: skip
        self._writes = [np.array([int(s.writes) for s in f.sites], np.int64) for f in program.functions]

    def list(self, numbered: Numbered, table_lo: Sequence[int]) -> Requests:
        """`table_lo` has the number of the first row of each table."""
        fn, txns, start, arrays = numbered.fn, numbered.txns, numbered.start, numbered.arrays

        def room(name: str, count: int) -> np.ndarray:
            return numbered.scratch.array(f"requests {name}", count, np.int64)

        listed: list[tuple[int, int, Listed]] = [(f, i, arrays[f"listed{f}_{i}"]) for f, i in self._listed]
        count = room("count", len(fn))
        count.fill(0)
        for f, _, keys in listed:
            self._link.count_listed(start, txns[f], keys.ends, count)
        lo, at = room("lo", len(fn) + 1), room("at", len(fn))
        found = room("of", self._link.lay_out(start, count, self._static_count, fn, lo, at))
        for f, sites in enumerate(self._static):
            for k, s in enumerate(sites):
                rows = arrays[f"R{f}_{s.index}"]
                self._link.request_static(start, txns[f], k, rows, table_lo[s.table], int(s.writes), lo, found)
        for f, i, keys in listed:
            self._link.request_listed(
                start, txns[f], keys.ends, keys.rows, keys.sites, table_lo[i], self._writes[f], at, found
            )
        return Requests(lo, found)
