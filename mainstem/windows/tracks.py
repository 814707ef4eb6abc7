"""Aggregates as tracks: numbers that every cell has, from which the compiled loops make those of windows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mainstem.schema import INT64_MAX, INT64_MIN
from mainstem.windows.aggregates import Aggregate
from mainstem.windows.folds import Kept
from mainstem.windows.kernels import (
    ADD,
    COUNT,
    HIGH,
    LOW,
    MAX,
    MIN,
    WHOLE,
    Cells,
    Ends,
    Tracks,
    fold_ends,
    fold_sums,
    fold_tracks,
    scan_left,
    scan_right,
    whole_sums,
)
from mainstem.windows.slide import Folds, Out
from mainstem.windows.values import Pools, dtype_of
from mainstem.windows.window import Window

TIME = "ts"  # the column that no aggregate can name
_FIRST, _LAST = 0, 1
_SUMS, _INTS, _FLOATS, _ENDS = range(4)  # groups of tracks


class Track(NamedTuple):
    group: int
    op: int  # ADD, MIN, MAX; of ends: first or last
    part: int
    column: str | None


@dataclass
class Columns:
    """Columns of events as the loops take them: integers (and whatever is one), and floats."""

    ts: np.ndarray
    ints: np.ndarray  # int64[columns, rows]
    floats: np.ndarray  # float64[columns, rows]


class TrackTable:
    """The tracks of a window's aggregates, with room for cells and keys."""

    def __init__(
        self, window: Window, aggregates: Mapping[str, Aggregate], small: Collection[str] = ()
    ) -> None:  # fmt: skip
        """`small`: columns whose sums fit into one word whatever is added up."""
        self.window, self.aggregates, self.small = window, aggregates, small
        self.timed = window.unit == "time"
        self.parts = {name: self._parts(aggregate) for name, aggregate in aggregates.items()}
        if not self.timed:
            self.parts |= {"start": {"value": _end(_FIRST, TIME)}, "end": {"value": _end(_LAST, TIME)}}
        used = dict.fromkeys(track for parts in self.parts.values() for track in parts.values())
        self.groups = [[track for track in used if track.group == group] for group in range(4)]
        self.ints = _columns(self.groups[_SUMS] + self.groups[_INTS] + self.groups[_ENDS])
        self.floats = _columns(self.groups[_FLOATS])
        self.folds = Folds(
            self._tracks(_SUMS, self.ints), self._tracks(_INTS, self.ints), self._tracks(_FLOATS, self.floats),
            self._ends(),
        )  # fmt: skip

    def _base(self, column: str | None) -> str:
        found = self.window.column_type(column)
        return "int" if found is None else found.base

    def _parts(self, aggregate: Aggregate) -> dict[str, Track]:
        """Under the names by which commits keep them."""
        column, base = aggregate.column, self._base(aggregate.column)
        if aggregate.op in ("first", "last"):
            return {"value": _end(_FIRST if aggregate.op == "first" else _LAST, column)}
        count = {} if aggregate.op == "sum" else {"n": Track(_SUMS, ADD, COUNT, None)}
        if aggregate.op == "count":
            return count
        if aggregate.op in ("sum", "avg"):
            if base == "float":
                return {"sum": Track(_FLOATS, ADD, 0, column), **count}
            if column in self.small:
                return {"total": Track(_SUMS, ADD, WHOLE, column), **count}
            return {"high": Track(_SUMS, ADD, HIGH, column), "low": Track(_SUMS, ADD, LOW, column), **count}
        op = MIN if aggregate.op in ("min", "all") else MAX
        return {"best": Track(_FLOATS if base == "float" else _INTS, op, 0, column)}

    @property
    def sided(self) -> bool:
        """Whether rows need their first and last cells."""
        return any(self.groups[group] for group in (_INTS, _FLOATS, _ENDS))

    @property
    def counted(self) -> int:
        """Which of the sums counts events, or -1."""
        counts = [n for n, track in enumerate(self.groups[_SUMS]) if track.part == COUNT]
        return counts[0] if counts else -1

    # -- memory -------------------------------------------------------------------------------------------------

    def _tracks(self, group: int, columns: list[str]) -> Tracks:
        own = self.groups[group]
        dtype: Any = np.float64 if group == _FLOATS else np.int64
        return Tracks(
            _int64(t.op for t in own), _int64(t.part for t in own),
            _int64(0 if t.column is None else columns.index(t.column) for t in own),
            *(np.zeros((len(own), 0), dtype) for _ in range(4)),
        )  # fmt: skip

    def _ends(self) -> Ends:
        own = self.groups[_ENDS]
        columns = _int64(self.ints.index(str(t.column)) for t in own)
        return Ends(_int64(t.op for t in own), columns, *(np.zeros((len(own), 0), np.int64) for _ in range(2)))

    def reserve(self, cells: int, keys: int, used: int) -> None:
        """Room for so many cells and keys in all; `used` cells hold something."""
        sums, ints, floats, ends = self.folds
        if sums.values.shape[1] >= cells and sums.running.shape[1] >= keys:
            return
        if self.timed:
            values, running = _wider(sums.values, cells, used), _wider(sums.running, keys, sums.running.shape[1])
            sums = sums._replace(values=values, running=running)
        else:
            sums = _with_sides(sums, cells, used)
        ends = ends._replace(values=_wider(ends.values, cells, used), times=_wider(ends.times, cells, used))
        self.folds = Folds(sums, _with_sides(ints, cells, used), _with_sides(floats, cells, used), ends)

    # -- events in ----------------------------------------------------------------------------------------------

    def columns(self, ts: np.ndarray, array: Callable[[str], np.ndarray]) -> Columns:
        """`array` gives a column of the events by its name."""
        ints = np.empty((len(self.ints), len(ts)), np.int64)
        for line, name in enumerate(self.ints):
            values = ts if name == TIME else array(name)
            ints[line] = values.view(np.int64) if values.dtype == np.float64 else values
        floats = np.empty((len(self.floats), len(ts)), np.float64)
        for line, name in enumerate(self.floats):
            floats[line] = array(name)
        return Columns(ts, ints, floats)

    def add(self, cell: np.ndarray, columns: Columns, new: int, count: int) -> None:
        """Events by their cells; cells `new` to `count` had none before."""
        sums, ints, floats, ends = self.folds
        for group, tracks in ((_SUMS, sums), (_INTS, ints), (_FLOATS, floats)):
            for line, track in enumerate(self.groups[group]):
                tracks.values[line, new:count] = _empty(track.op, group, self._base(track.column))
        for line, track in enumerate(self.groups[_ENDS]):
            ends.times[line, new:count] = INT64_MAX if track.op == _FIRST else INT64_MIN
        if self.groups[_SUMS]:
            fold_sums(sums, cell, columns.ints)
        if self.groups[_INTS]:
            fold_tracks(ints, cell, columns.ints)
        if self.groups[_FLOATS]:
            fold_tracks(floats, cell, columns.floats)
        if self.groups[_ENDS]:
            fold_ends(ends, cell, columns.ts, columns.ints)

    def complete(self, cells: Cells, full: np.ndarray, ends: np.ndarray) -> None:
        """Windows of events: these cells get no more, in order; the blocks of `ends` neither, back in time."""
        sums, ints, floats, _ = self.folds
        for tracks in (sums, ints, floats):
            scan_right(tracks, cells, self.window.panes, full)
            scan_left(tracks, cells, self.window.panes, ends)

    # -- windows out --------------------------------------------------------------------------------------------

    def results(self, name: str, out: Out, rows: int, pools: Pools) -> pa.Array:
        """The column of an aggregate."""
        if name not in self.aggregates:
            return pa.array(self._line(name, "value", out, rows))
        aggregate = self.aggregates[name]
        base = self._base(aggregate.column)
        if aggregate.op in ("sum", "avg"):
            total = self._line(name, "sum", out, rows) if base == "float" else self._total(name, out, rows)
            if aggregate.op == "sum":
                return pa.array(total)
            return pa.array(total.astype(np.float64, copy=False) / self._line(name, "n", out, rows).astype(np.float64))
        found = self._line(name, next(iter(self.parts[name])), out, rows)
        if base == "float" and found.dtype == np.int64:
            found = found.view(np.float64)
        return pools.arrow(found, base)

    def _line(self, name: str, part: str, out: Out, rows: int) -> np.ndarray:
        track = self.parts[name][part]
        line = self.groups[track.group].index(track)
        if track.group == _FLOATS:
            return out.floats[line, :rows]
        before = {_SUMS: 0, _INTS: len(self.groups[_SUMS]), _ENDS: len(self.groups[_SUMS]) + len(self.groups[_INTS])}
        return out.words[before[track.group] + line, :rows]

    def _total(self, name: str, out: Out, rows: int) -> np.ndarray:
        if "total" in self.parts[name]:
            return self._line(name, "total", out, rows)
        high, low = (self._line(name, part, out, rows) for part in ("high", "low"))
        total = np.empty(rows, np.int64)
        wrong = whole_sums(high, low, total)
        if wrong >= 0:
            value = (int(high[wrong]) << 32) + int(low[wrong])
            raise self.window.too_large(self.aggregates[name], int(out.start[wrong]), value)
        return total

    # -- what lasts ---------------------------------------------------------------------------------------------

    def kept(self, name: str, keep: np.ndarray) -> Kept:
        """The parts of an aggregate, of the cells to keep."""
        base = self._base(self.aggregates[name].column) if name in self.aggregates else "int"
        return {
            part: _in_type(self._values(track)[keep], base if part in ("value", "best") else "")
            for part, track in self.parts[name].items()
        }

    def restore(self, name: str, kept: Kept) -> None:
        """For the first cells; there is room for them."""
        for part, track in self.parts[name].items():
            values, count = kept[part], len(kept[part])
            as_integers = values.dtype == np.float64 and track.group == _ENDS
            self._values(track)[:count] = values.view(np.int64) if as_integers else values
            self.folds.ends.times[:, :count] = INT64_MIN  # before whatever comes: the first stays, the last goes

    def _values(self, track: Track) -> np.ndarray:
        return self.folds[track.group].values[self.groups[track.group].index(track)]


def simple(aggregate: Aggregate) -> bool:
    """Whether tracks can hold it."""
    return aggregate.op not in ("distinct", "fold")


def _end(which: int, column: str | None) -> Track:
    return Track(_ENDS, which, 0, column)


def _columns(tracks: list[Track]) -> list[str]:
    return list(dict.fromkeys(track.column for track in tracks if track.column is not None))


def _int64(values: Any) -> np.ndarray:
    return np.array(list(values), np.int64)


def _with_sides(tracks: Tracks, cells: int, used: int) -> Tracks:
    values, left, right = (_wider(a, cells, used) for a in (tracks.values, tracks.left, tracks.right))
    return tracks._replace(values=values, left=left, right=right)


def _wider(array: np.ndarray, size: int, used: int) -> np.ndarray:
    """The matrix, or a copy of what is used that is `size` wide, and more if it has to grow often; else 0."""
    lines, width = array.shape
    if width >= size:
        return array
    larger = np.zeros((lines, max(size, 2 * width)), array.dtype)
    larger[:, :used] = array[:, :used]
    return larger


def _empty(op: int, group: int, base: str) -> Any:
    """What any value is combined with first."""
    if op == ADD:
        return 0
    if group == _FLOATS:
        return np.inf if op == MIN else -np.inf
    if base == "bool":
        return 1 if op == MIN else 0
    return INT64_MAX if op == MIN else INT64_MIN


def _in_type(values: np.ndarray, base: str) -> np.ndarray:
    """As the column had it: integers may stand for floats and bools."""
    if base == "float":
        return values.view(np.float64)
    return values.astype(dtype_of(base)) if base == "bool" else values
