"""One input inside a range: which rows of the row groups at its ends belong to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Protocol

import numpy as np
import pyarrow.parquet as pq

from mainstem.gate import Rejects
from mainstem.gate.cast import to_ts
from mainstem.gate.prefetch import prefetched
from mainstem.gate.raw import Input, Raw, Request
from mainstem.gate.validate import Validator
from mainstem.replay.footers import RowGroup, Stretch, read_stretches, stretches_of


class Bounds(Protocol):
    """A range of time, `[ts_from, ts_to)`; `ts_to` None: to the end."""

    @property
    def ts_from(self) -> int: ...
    @property
    def ts_to(self) -> int | None: ...


class PartInput(Input):
    """The rows of an input between two times.

    Rows that can't be accepted have no sure place in time. Where there are some, a bound falls on the first *accepted*
    row that is not before it, so that both sides of a bound agree on it, and every row is in one range.
    """

    def __init__(
        self, what: str, event: str | None, groups: Sequence[RowGroup], first_row: int, bounds: Bounds
    ) -> None:
        self.what, self.event, self._groups, self.first_row, self._bounds = what, event, groups, first_row, bounds

    def read(self, request: Request) -> Iterator[Raw]:
        if not self._groups:
            return iter(())
        first, last, end = self._groups[0], self._groups[-1], self._bounds.ts_to
        skip = _Times(first, self, request).rows_before(self._bounds.ts_from)
        stop = last.rows if end is None else _Times(last, self, request).rows_before(end)
        self.first_row += skip
        stretches = list(stretches_of(self._groups))
        stretches[-1] = _shorter(stretches[-1], last.rows - stop)
        stretches[0] = replace(stretches[0], skip=skip, rows=stretches[0].rows - skip)
        return prefetched(read_stretches([stretch for stretch in stretches if stretch.rows], request))


def _shorter(stretch: Stretch, rows: int) -> Stretch:
    return replace(stretch, rows=stretch.rows - rows)


class _Times:
    """The times of the rows of one row group, read when a bound is inside of it."""

    def __init__(self, group: RowGroup, source: Input, request: Request) -> None:
        self._group, self._source, self._request = group, source, request

    def rows_before(self, ts: int) -> int:
        """How many rows come before a bound."""
        if ts <= self._group.low:
            return 0
        if ts > self._group.high:
            return self._group.rows
        times, rows = self._accepted
        at = int(np.searchsorted(times, ts))
        return self._group.rows if at == len(times) else int(rows[at])

    @cached_property
    def _accepted(self) -> tuple[np.ndarray, np.ndarray]:
        """Times in order, and their rows: of all rows where these are in order, else of those that are accepted."""
        with pq.ParquetFile(self._group.file) as file:
            column = file.read_row_group(self._group.number, columns=["ts"])["ts"].combine_chunks()
        cast = to_ts(column, "typed")
        if not cast.array.null_count:
            times = cast.array.to_numpy()
            if bool(np.all(times[1:] >= times[:-1])):
                return times, np.arange(len(times))
        return self._checked()

    def _checked(self) -> tuple[np.ndarray, np.ndarray]:
        validator = Validator(0, self._source, self._request, "reject", Rejects(), "error")
        chunks = [validator.accept(raw) for raw in read_stretches(stretches_of([self._group]), self._request)]
        rows = [chunk.offsets_of(np.arange(len(chunk))) for chunk in chunks]
        return np.concatenate([chunk.ts for chunk in chunks]), np.concatenate(rows)
