"""fold: a user's step over the events of a window, compiled by Numba where it can be.

A step takes one value at a time, so two panes can't be put together. Windows that overlap keep the values of their
events and fold each its own; windows that don't are folded as events come.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from mainstem.errors import MainstemError
from mainstem.jit import JIT_ENABLED, kernel
from mainstem.schema import Type
from mainstem.windows.aggregates import Aggregate, failed_step, stepped, wrong_step
from mainstem.windows.cells import Cells
from mainstem.windows.folds import Kept, Rows
from mainstem.windows.kernels import NONE
from mainstem.windows.values import Pools, dtype_of, grown

Loop = Callable[..., None]
_COMPILED_BASES = ("int", "float", "bool", "datetime")


class UserFold:
    """Values in order, linked by key, for windows that overlap; else the result so far of every cell."""

    def __init__(self, aggregate: Aggregate, column: Type, panes: int, pools: Pools) -> None:
        self.aggregate, self.base, self.panes, self.pools = aggregate, column.base, panes, pools
        self.dtype = dtype_of(aggregate.type(column).base)
        self.loops = loops_of(aggregate, column.base)
        self.so_far = np.empty(0, self.dtype)
        self.count = 0
        self.cell, self.values, self.after = np.empty(0, np.int64), np.empty(0, dtype_of(self.base)), np.empty(0, int)
        self.first, self.last = np.empty(0, np.int64), np.empty(0, np.int64)  # by cell

    def add(self, cells: Cells, new: int, cell: np.ndarray, values: np.ndarray) -> None:
        if self.panes == 1:
            self.so_far = grown(self.so_far, cells.room, self.aggregate.start)
            self._run(self.loops[0], cell, values, self.so_far)
        else:
            self._append(cells, cell, values)

    def _append(self, cells: Cells, cell: np.ndarray, values: np.ndarray) -> None:
        used = np.flatnonzero(cell >= 0)
        stop = self.count + len(used)
        for name in ("cell", "values", "after"):
            setattr(self, name, grown(getattr(self, name), stop))
        self.first, self.last = grown(self.first, cells.room, NONE), grown(self.last, cells.room, NONE)
        self.cell[self.count : stop], self.values[self.count : stop] = cell[used], values[used]
        _link(self.cell, cells.before, self.first, self.last, self.after, self.count, stop)
        self.count = stop

    def complete(self, cells: Cells, full: np.ndarray, ends: np.ndarray) -> None:
        pass

    def results(self, cells: Cells, rows: Rows) -> np.ndarray:
        if self.panes == 1:
            return self.so_far[rows.last]
        out = np.full(len(rows), self.aggregate.start, self.dtype)
        values = self.values[: self.count]
        self._run(self.loops[1], self.first[rows.first], self.last[rows.last], self.after, values, out)
        return out

    def _run(self, loop: Loop, *arguments: np.ndarray) -> None:
        *others, values, out = arguments
        readable: Any = values
        if loop.__name__.startswith("_plain"):
            readable = self.pools.arrow(values, "int" if self.base == "datetime" else self.base).to_pylist()
        elif self.base == "bool":
            readable = values.view(np.bool_)
        out = out.view(np.bool_) if self.dtype is np.uint8 else out
        try:
            loop(*others, readable, out)
        except MainstemError:
            raise
        except Exception as error:
            raise failed_step(self.aggregate, error) from error

    def kept(self, cells: Cells, keep: np.ndarray) -> Kept:
        if self.panes == 1:
            return {"so_far": self.so_far[keep]}
        place = np.full(cells.count, NONE, np.int64)
        place[keep] = np.arange(len(keep))
        cell = place[self.cell[: self.count]]
        own = np.flatnonzero(cell >= 0)
        return {"cell": cell[own], "value": self.values[own]}

    def restore(self, cells: Cells, kept: Kept) -> None:
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
def loops_of(aggregate: Aggregate, base: str) -> tuple[Loop, Loop]:
    """The loop over events with cells, and the one over windows with their first and last values."""
    if JIT_ENABLED and base in _COMPILED_BASES:
        step = _compiled_step(aggregate, base)
        if step is not None:
            return _compiled_loops(step, aggregate.start)
    return _plain_loops(aggregate)


def _compiled_step(aggregate: Aggregate, base: str) -> Any:
    """None when Numba can't compile it for these types."""
    import numba
    from numba.core.errors import NumbaError

    accumulator, value = numba.typeof(aggregate.start), numba.typeof({"float": 0.0, "bool": False}.get(base, 0))
    assert aggregate.step is not None
    try:
        step = numba.njit(nogil=True)(aggregate.step)
        step.compile((accumulator, value))
    except (NumbaError, TypeError, ValueError):
        return None
    gives = str(step.nopython_signatures[0].return_type)
    if gives not in _FITTING[type(aggregate.start)]:
        raise wrong_step(aggregate, f"gives {gives}")
    return step


# What a compiled step may give, by the type of its start.
_FITTING = {int: ("int64", "bool"), float: ("float64", "int64", "bool"), bool: ("bool",)}


def _compiled_loops(step: Any, start: Any) -> tuple[Loop, Loop]:
    import numba

    cast: Any = {int: np.int64, float: np.float64, bool: np.bool_}[type(start)]

    def over_cells(cell: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
        for row in range(len(cell)):
            if cell[row] >= 0:
                out[cell[row]] = cast(step(out[cell[row]], values[row]))

    def over_windows(
        first: np.ndarray, last: np.ndarray, after: np.ndarray, values: np.ndarray, out: np.ndarray
    ) -> None:
        for row in range(len(first)):
            at = first[row]
            result = cast(step(out[row], values[at]))
            while at != last[row]:
                at = after[at]
                result = cast(step(result, values[at]))
            out[row] = result

    return numba.njit(nogil=True)(over_cells), numba.njit(nogil=True)(over_windows)


def _plain_loops(aggregate: Aggregate) -> tuple[Loop, Loop]:
    def _plain_over_cells(cell: np.ndarray, values: list[Any], out: np.ndarray) -> None:
        for row, at in enumerate(cell.tolist()):
            if at >= 0:
                out[at] = stepped(aggregate, out[at].item(), values[row])

    def _plain_over_windows(
        first: np.ndarray, last: np.ndarray, after: np.ndarray, values: list[Any], out: np.ndarray
    ) -> None:
        for row, (at, stop) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
            result = stepped(aggregate, aggregate.start, values[at])
            while at != stop:
                at = int(after[at])
                result = stepped(aggregate, result, values[at])
            out[row] = result

    return _plain_over_cells, _plain_over_windows
