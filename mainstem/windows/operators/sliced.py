"""`panes` over whole tables: no merge, and slices of time on several threads.

For an aggregate that fits into one word it does not matter in which order a pane gets its events: integers are added in
any order, and the first or last value is decided by the time of its event and then by its input. So the inputs are
folded as they are, pane by pane. A window depends on the events in it only; so a slice of time, with the events of
the windows that start in it, is worked on alone. Where slices meet, events are folded twice: a slice is many times as
long as a window.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import frozen
from mainstem.schema import INT64_MAX, INT64_MIN
from mainstem.team import team
from mainstem.windows.keys import RankedKeys
from mainstem.windows.operators.reading import Input, Run, read_inputs, sorted_runs
from mainstem.windows.operators.summed import Events, SumMatrix, extent
from mainstem.windows.slide import Out
from mainstem.windows.timed import TimeWindows
from mainstem.windows.tracks import TrackTable
from mainstem.windows.values import Pools
from mainstem.windows.window import Window

SLICE_EVENTS_MIN = 2**14  # fewer are not worth another slice
SLICE_WINDOWS_MIN = 8  # times the size of a window: at most this part of the events is folded twice
SLICES_PER_THREAD_MAX = 4  # so that threads end together
# Integer keys from a range that is not much larger than the number of events are their own numbers, and their ranks.
DENSE_KEYS_MIN, DENSE_KEYS_SHARE, DENSE_KEYS_MAX = 2**16, 4, 2**22


@dataclass(frozen=True)
class Slice:
    """Windows that start from pane `first` to pane `latest`, and the rows of runs that they need; none is empty."""

    first: int
    latest: int
    parts: Sequence[tuple[Run, slice]]


def aggregate_slices(window: Window, inputs: Sequence[pa.Table], threads: int, slices: int | None = None) -> pa.Table:
    """All windows of inputs that are each sorted by `ts`; `slices`: how many, if not as many as are good."""
    pools = Pools()
    read = read_inputs(window, inputs, pools, threads)
    runs = sorted_runs(window, read, threads)
    keys = _Keys(window, pools, runs)
    work = _cut(window, read, runs, threads, slices)
    found: list[list[dict[str, pa.Array]]] = [[] for _ in work]
    small = _small(window, runs)
    numbers = itertools.count()

    def worker(_: int) -> None:
        slider = _Slider(window, pools, keys, small)
        while (number := next(numbers)) < len(work):
            found[number] = slider.run(work[number])

    with np.errstate(over="ignore"):
        team(min(threads, max(1, len(work)))).run(worker)
    return joined_table(window, [part for parts in found for part in parts])


def joined_table(window: Window, parts: Sequence[Mapping[str, pa.Array]]) -> pa.Table:
    fields = window.closed.fields
    chunks = {f.name: [part[f.name] for part in parts] for f in fields}
    return pa.table({f.name: pa.chunked_array(chunks[f.name], f.type.arrow) for f in fields})


# -- keys and sums -----------------------------------------------------------------------------------------------


def _small(window: Window, runs: Sequence[Run]) -> list[str]:
    """Columns whose values are so small that no sum of them needs more than 64 bits."""
    found, events = [], sum(len(run.ts) for run in runs)
    for name in dict.fromkeys(str(a.column) for _, a in window.aggregates if a.op in ("sum", "avg")):
        bounds = [run.bounds[name] for run in runs if len(run.ts)]
        largest = max((max(-low, high) for low, high in bounds), default=0)
        if largest * events <= INT64_MAX:
            found.append(name)
    return found


class _Keys:
    """The keys of all runs, as numbers in their order."""

    def __init__(self, window: Window, pools: Pools, runs: Sequence[Run]) -> None:
        self.window, self.base = window, 0
        self.ranked: RankedKeys | None = None
        count = self._dense(runs)
        if not count:
            count = self._rank(pools, runs)
        self.order = np.arange(count)

    def _dense(self, runs: Sequence[Run]) -> int:
        """How many numbers an integer key has, if these are few enough to be taken as they are; else 0."""
        window, events = self.window, sum(len(run.ts) for run in runs)
        if not events or not window.by:
            for run in runs:
                run.key = np.zeros(len(run.ts), np.int64)
            return 1
        if len(window.by) > 1 or window.by[0].type.base == "str":
            return 0
        name = window.by[0].name
        bounds = [run.bounds[name] for run in runs if len(run.ts)]
        low = min(least for least, _ in bounds)
        count = max(largest for _, largest in bounds) - low + 1
        if count > min(max(DENSE_KEYS_MIN, DENSE_KEYS_SHARE * events), DENSE_KEYS_MAX):
            return 0
        self.base = low
        for run in runs:
            run.key = run.columns[name]
        return count

    def _rank(self, pools: Pools, runs: Sequence[Run]) -> int:
        self.ranked = RankedKeys(self.window.by, pools)
        numbers = [
            self.ranked.number([run.columns[f.name] for f in self.window.by], None, len(run.ts)) for run in runs
        ]  # fmt: skip
        self.ranked.update()
        for run, number in zip(runs, numbers, strict=True):
            run.key = self.ranked.rank[number]
        return len(self.ranked.rank)

    def columns(self, key: np.ndarray) -> dict[str, pa.Array]:
        """The `by` columns of keys from 0; `key` may be overwritten."""
        by = self.window.by
        if self.ranked is not None:
            key = self.ranked.of_rank[key]
            return dict(zip((f.name for f in by), self.ranked.columns(key), strict=True))
        if not by:
            return {}
        if self.base:
            key += self.base
        return {by[0].name: pa.array(key).cast(by[0].type.arrow)}


# -- slices -----------------------------------------------------------------------------------------------------


def _cut(
    window: Window, inputs: Sequence[Input], runs: Sequence[Run], threads: int, slices: int | None
) -> list[Slice]:  # fmt: skip
    """Borders between slices are starts of windows, with about as many events in each slice."""
    longest = max((one.ts for one in inputs), key=len)
    if not len(longest):
        return []
    if slices is None:
        span = int(longest[-1]) - int(longest[0])
        long_enough = span // (SLICE_WINDOWS_MIN * max(window.size, window.advance))
        events = sum(len(run.ts) for run in runs)
        slices = max(1, min(events // SLICE_EVENTS_MIN, long_enough, SLICES_PER_THREAD_MAX * threads))
        slices -= slices % threads if slices > threads else 0  # as many for each
    starts = np.unique(longest[len(longest) * np.arange(1, slices) // slices] // window.advance) * window.advance
    ends = starts - window.advance + window.size  # of the last windows before
    low = [[0, *run.ts.searchsorted(starts).tolist()] for run in runs]
    high = [[*run.ts.searchsorted(ends).tolist(), len(run.ts)] for run in runs]
    panes = [INT64_MIN // 2, *(starts // window.pane).tolist(), INT64_MAX // 2]
    return [
        Slice(
            panes[n], panes[n + 1] - window.step,
            [(run, slice(a[n], b[n])) for run, a, b in zip(runs, low, high, strict=True) if a[n] < b[n]],
        )
        for n in range(len(starts) + 1)
    ]  # fmt: skip


class _Slider:
    """What a thread needs; its memory serves one slice after the other."""

    def __init__(self, window: Window, pools: Pools, keys: _Keys, small: Collection[str]) -> None:
        self.window, self.pools, self.keys = window, pools, keys
        self.tracks = TrackTable(window, dict(window.aggregates), small=small)
        self.matrix = SumMatrix(window, self.tracks, len(keys.order), keys.base)

    @cached_property
    def time(self) -> TimeWindows:
        time = TimeWindows(self.window, self.tracks)
        time.rank(self.keys.order, np.empty(0, np.int64))  # their own ranks
        return time

    def run(self, work: Slice) -> list[dict[str, pa.Array]]:
        """The windows of a slice, as some columns of rows."""
        if not work.parts:
            return []
        low = min(int(run.ts[rows.start]) for run, rows in work.parts)
        high = max(int(run.ts[rows.stop - 1]) for run, rows in work.parts)
        ends = np.cumsum([rows.stop - rows.start for _, rows in work.parts])
        of = extent(self.window, low, high, work.first, work.latest)
        if not self.tracks.sided and self.matrix.fits(of, int(ends[-1])):
            events = [
                Events(run.ts[rows], run.key[rows], {name: column[rows] for name, column in run.columns.items()})
                for run, rows in work.parts
            ]
            return [self._told(*self.matrix.windows(of, events))]
        self._add(work, ends)
        return [self._told(out, rows) for out, rows in self.time.close(work.latest)]

    def _add(self, work: Slice, ends: np.ndarray) -> None:
        """All events, into cells."""
        parts = work.parts
        self.time.restart(work.first)
        self.time.reserve(int(ends[-1]), len(self.keys.order))
        ts = frozen(_together([run.ts[rows] for run, rows in parts]))
        keys = _together([run.key[rows] for run, rows in parts])
        columns = self.tracks.columns(ts, lambda name: _together([run.columns[name][rows] for run, rows in parts]))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        self.time.add(keys, self.keys.base, (starts, ends), columns)

    def _told(self, out: Out, rows: int) -> dict[str, pa.Array]:
        columns = {name: self.tracks.results(name, out, rows, self.pools) for name, _ in self.window.aggregates}
        columns |= {"start": pa.array(out.start[:rows]), "end": pa.array(out.end[:rows])}
        return columns | self.keys.columns(out.key[:rows])


def _together(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Arrays of one type, one behind the other. NumPy would let go of the interpreter for each, and wait for it."""
    return np.frombuffer(bytearray().join(part.data for part in parts), parts[0].dtype)
