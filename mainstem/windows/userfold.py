"""fold: a user's step over the events of a window, compiled by Numba where it can be.

A step takes one value at a time, so two panes can't be put together. Windows that overlap keep the values of their
events and fold each its own; windows that don't are folded as events come.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from mainstem.jit import JIT_ENABLED, kernel
from mainstem.schema import Type
from mainstem.windows.aggregates import Aggregate, stepped
from mainstem.windows.cells import CellTable
from mainstem.windows.folds import Kept, Rows
from mainstem.windows.kernels import NONE
from mainstem.windows.values import Pools, dtype_of, grown

Loop = Callable[..., None]
Loops = tuple[Loop, Loop]
OVER_CELLS, OVER_WINDOWS = 0, 1  # of events with cells; of windows with their first and last values
_EXAMPLES: dict[str, Any] = {"int": 0, "float": 0.0, "bool": False, "datetime": 0}  # of what steps are compiled for
_FITTING = {"int": ("int64", "bool"), "float": ("float64", "int64", "bool"), "bool": ("bool",)}  # by what a fold gives


class UserFold:
    """Values in order, linked by key, for windows that overlap; else the result so far of every cell."""

    def __init__(self, aggregate: Aggregate, column: Type, panes: int, pools: Pools) -> None:
        self.aggregate, self.base, self.panes, self.pools = aggregate, column.base, panes, pools
        self.dtype = dtype_of(aggregate.type(column).base)
        self.compiled, self.plain = loops_of(aggregate, aggregate.type(column).base, column.base)
        self.so_far = np.empty(0, self.dtype)
        self.count = 0
        self.cell, self.values, self.after = np.empty(0, np.int64), np.empty(0, dtype_of(self.base)), np.empty(0, int)
        self.first, self.last = np.empty(0, np.int64), np.empty(0, np.int64)  # by cell

    def add(self, cells: CellTable, cell: np.ndarray, values: np.ndarray) -> None:
        if self.panes == 1:
            self.so_far = grown(self.so_far, cells.room, self.aggregate.start)
            self._run(OVER_CELLS, cell, values, self.so_far)
        else:
            self._append(cells, cell, values)

    def _append(self, cells: CellTable, cell: np.ndarray, values: np.ndarray) -> None:
        used = np.flatnonzero(cell >= 0)
        stop = self.count + len(used)
        for name in ("cell", "values", "after"):
            setattr(self, name, grown(getattr(self, name), stop))
        self.first, self.last = grown(self.first, cells.room, NONE), grown(self.last, cells.room, NONE)
        self.cell[self.count : stop], self.values[self.count : stop] = cell[used], values[used]
        _link(self.cell, cells.arrays.before, self.first, self.last, self.after, self.count, stop)
        self.count = stop

    def results(self, cells: CellTable, rows: Rows) -> np.ndarray:
        if self.panes == 1:
            return self.so_far[rows.last]
        out = np.full(len(rows), self.aggregate.start, self.dtype)
        values = self.values[: self.count]
        self._run(OVER_WINDOWS, self.first[rows.first], self.last[rows.last], self.after, values, out)
        return out

    def _run(self, which: int, *arguments: np.ndarray) -> None:
        """Plain Python goes on where compiled code stops: with what 64 bits can't hold, or an error of the step."""
        *others, values, out = arguments
        out = out.view(np.bool_) if self.dtype is np.uint8 else out
        done = np.zeros(1, np.int64)
        if self.compiled is not None:
            try:
                self.compiled[which](*others, values.view(np.bool_) if self.base == "bool" else values, out, done)
                return
            except Exception:
                pass
        readable = self.pools.arrow(values, "int" if self.base == "datetime" else self.base).to_pylist()
        self.plain[which](*others, readable, out, int(done[0]))

    def kept(self, cells: CellTable, keep: np.ndarray) -> Kept:
        if self.panes == 1:
            return {"so_far": self.so_far[keep]}
        place = np.full(cells.count, NONE, np.int64)
        place[keep] = np.arange(len(keep))
        cell = place[self.cell[: self.count]]
        own = np.flatnonzero(cell >= 0)
        return {"cell": cell[own], "value": self.values[own]}

    def restore(self, cells: CellTable, kept: Kept) -> None:
        if self.panes == 1:
            self.so_far = grown(self.so_far, cells.room, self.aggregate.start)
            self.so_far[: len(kept["so_far"])] = kept["so_far"]
        else:
            self._append(cells, kept["cell"], kept["value"])


@kernel
def _link(
    cell: np.ndarray, before: np.ndarray, first: np.ndarray, last: np.ndarray, after: np.ndarray, start: int, stop: int
) -> None:
    for row in range(start, stop):
        at = cell[row]
        previous = last[at]
        if first[at] < 0:
            first[at] = row
            previous = last[before[at]] if before[at] >= 0 else NONE
        if previous >= 0:
            after[previous] = row
        last[at] = row


@lru_cache(maxsize=256)
def loops_of(aggregate: Aggregate, gives: str, base: str) -> tuple[Loops | None, Loops]:
    """The compiled loops, if there can be some, and the plain ones. Folds that start with 0, 0.0 and False are equal,
    and only the type that they give tells them apart."""
    compiled = _compiled_loops(aggregate, gives, base) if JIT_ENABLED and base in _EXAMPLES else None
    return compiled, _plain_loops(aggregate)


def _compiled_loops(aggregate: Aggregate, gives: str, base: str) -> Loops | None:
    import numba

    from mainstem.windows.checked import compiled_step

    assert aggregate.step is not None
    found = compiled_step(aggregate.step, aggregate.start, _EXAMPLES[base])
    if found is None or found[1] not in _FITTING[gives]:
        return None
    step, cast = found[0], {"int": np.int64, "float": np.float64, "bool": np.bool_}[gives]

    def over_cells(cell: np.ndarray, values: np.ndarray, out: np.ndarray, done: np.ndarray) -> None:
        for row in range(len(cell)):
            done[0] = row
            if cell[row] >= 0:
                out[cell[row]] = cast(step(out[cell[row]], values[row]))

    def over_windows(
        first: np.ndarray, last: np.ndarray, after: np.ndarray, values: np.ndarray, out: np.ndarray, done: np.ndarray
    ) -> None:
        for row in range(len(first)):
            done[0] = row
            at = first[row]
            result = cast(step(out[row], values[at]))
            while at != last[row]:
                at = after[at]
                result = cast(step(result, values[at]))
            out[row] = result

    return numba.njit(nogil=True)(over_cells), numba.njit(nogil=True)(over_windows)


def _plain_loops(aggregate: Aggregate) -> Loops:
    """From row or window `begin` on."""

    def over_cells(cell: np.ndarray, values: list[Any], out: np.ndarray, begin: int) -> None:
        for row, at in enumerate(cell[begin:].tolist(), begin):
            if at >= 0:
                out[at] = stepped(aggregate, out[at].item(), values[row])

    def over_windows(
        first: np.ndarray, last: np.ndarray, after: np.ndarray, values: list[Any], out: np.ndarray, begin: int
    ) -> None:
        for row in range(begin, len(first)):
            at, stop = int(first[row]), int(last[row])
            result = stepped(aggregate, out[row].item(), values[at])
            while at != stop:
                at = int(after[at])
                result = stepped(aggregate, result, values[at])
            out[row] = result

    return over_cells, over_windows
