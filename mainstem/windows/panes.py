"""The `panes` operator: every event is folded once, into the pane of its key; windows are made of panes, in columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.gate.batch import EventBatch
from mainstem.schema import INT64_MIN
from mainstem.state.index import KeyIndex
from mainstem.windows.cells import Cells
from mainstem.windows.distinct import Distinct
from mainstem.windows.folds import Ending, Fold, Kept, Rows, simple_fold
from mainstem.windows.kernels import EXPIRED, NEXT, NONE, PLACES, ROWS, assign_events, assign_times, slide
from mainstem.windows.userfold import UserFold
from mainstem.windows.values import OwnEvents, Pools, grown
from mainstem.windows.window import OWN_FIELDS, Closed, Window

_GARBAGE_MIN = 16_384  # cells: below, cleaning up costs more than it frees
_GARBAGE_SHARE = 4  # so many times as many cells are gone as are left
_NO_ROWS = np.empty(0, np.int64)


class Panes:
    """Takes batches in total order and gives the windows that they close; `kept` and `restore` carry it over."""

    def __init__(self, window: Window) -> None:
        self.window, self.pools = window, Pools()
        self.garbage_min = _GARBAGE_MIN
        self._reset()

    def _reset(self) -> None:
        window = self.window
        self.index = KeyIndex(max(1, len(window.by)))
        self.cells = Cells()
        self.folds: dict[str, Fold] = {}
        if window.unit == "events":
            self.folds |= {"start": Ending(True, "int"), "end": Ending(False, "int")}
        self.folds |= {name: self._fold(name) for name, _ in window.aggregates}
        self.at = np.zeros(PLACES, np.int64)
        self.at[NEXT] = INT64_MIN // 2
        self.completed = self.ended = 0  # cells that folds know to be complete, and those of complete blocks
        self.ranked = 0
        empty = np.empty(0, np.int64)
        self.rank = self.head = self.tail = self.listed = self.seen = empty  # by key
        self.live = self.new = self.spare = empty

    def _fold(self, name: str) -> Fold:
        window = self.window
        aggregate = dict(window.aggregates)[name]
        column = window.column_type(aggregate.column)
        if aggregate.op == "distinct":
            return Distinct(window.panes)
        if aggregate.op == "fold" and column is not None:
            return UserFold(aggregate, column, window.panes, self.pools)
        return simple_fold(window, aggregate, "" if column is None else column.base)

    # -- events in ----------------------------------------------------------------------------------------------

    def push(self, batch: EventBatch) -> Closed:
        """Takes the events of a batch; gives the windows that end up to its last `ts`, or that it fills."""
        own = OwnEvents(batch, self.window.kind)
        with np.errstate(over="ignore", invalid="ignore"):
            if self.window.unit == "events":
                closed = self._push_events(own)
            else:
                if own.count:
                    self._push_times(own)
                closed = self._close(self._latest(int(batch.ts[-1])), batch.ts)
            self._clean()
        return closed

    def finish(self) -> Closed:
        """No more events come: windows of time that are still open are complete. Those of events are not."""
        if self.window.unit == "events" or not self.cells.count:
            return self._closed(Rows(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS), _NO_ROWS, _NO_ROWS)
        with np.errstate(over="ignore", invalid="ignore"):
            return self._close(int(self.cells.pane[self.cells.count - 1]), _NO_ROWS)

    def _latest(self, ts: int) -> int:
        """The pane in which the last window starts that ends up to `ts`."""
        window = self.window
        latest = (ts - window.size) // window.advance if window.gaps else ts // window.pane - window.panes
        return max(latest, INT64_MIN // 2)

    def _keys(self, own: OwnEvents) -> np.ndarray:
        """The number of each event's key; -1 where the condition does not hold."""
        window = self.window
        ok = self._array(own, window.where, "bool") if window.where else None
        if not window.by:
            self.index.resolve([np.zeros(1, np.int64)])
            return np.zeros(own.count, np.int64) if ok is None else ok.astype(np.int64) - 1
        parts = [self._array(own, f.name, f.type.base).astype(np.int64, copy=False) for f in window.by]
        return self.index.resolve(parts, ok)

    def _array(self, own: OwnEvents, name: str, base: str) -> np.ndarray:
        return self.pools.array(own.column(name), base)

    def _push_times(self, own: OwnEvents) -> None:
        window, cells = self.window, self.cells
        window.check_ts(int(own.ts[0]), int(own.ts[-1]))
        keys = self._keys(own)
        cells.reserve(own.count, self.index.count)
        cell, new = np.empty(own.count, np.int64), cells.count
        cells.count = assign_times(
            own.ts, keys, window.pane, window.size if window.gaps else window.pane, cells.pane, cells.key, cells.before,
            cells.after, cells.newest, new, cell,
        )  # fmt: skip
        self._add(own, new, cell)

    def _push_events(self, own: OwnEvents) -> Closed:
        window, cells = self.window, self.cells
        if not own.count:
            return self._closed(Rows(_NO_ROWS, _NO_ROWS, _NO_ROWS, _NO_ROWS), _NO_ROWS, _NO_ROWS)
        window.check_ts(int(own.ts[0]), int(own.ts[-1]))
        keys = self._keys(own)
        cells.reserve(own.count, self.index.count)
        self.seen = grown(self.seen, len(cells.newest))
        self.head = grown(self.head, len(cells.newest), NONE)
        new = cells.count
        cell, full, places, first, last = (np.empty(own.count, np.int64) for _ in range(5))
        ends = np.empty(own.count + new, np.int64)
        cells.count, filled, ended, closed = assign_events(
            keys, window.pane, window.size, window.panes, window.step, self.seen, self.head, cells.pane, cells.key,
            cells.before, cells.after, cells.newest, new, cell, full, ends, places, first, last,
        )  # fmt: skip
        self._add(own, new, cell)
        for fold in self.folds.values():
            fold.complete(cells, full[:filled], ends[:ended])
        first, last = first[:closed], last[:closed]
        rows = Rows(cells.pane[last] + 1 - window.panes, cells.key[last], first, last)
        return self._closed(rows, own.place(places[:closed]) + 1, own.ts[places[:closed]])

    def _add(self, own: OwnEvents, new: int, cell: np.ndarray) -> None:
        aggregates = dict(self.window.aggregates)
        arrays: dict[str | None, np.ndarray] = {None: own.ts}
        for name, fold in self.folds.items():
            column = aggregates[name].column if name in aggregates else None
            if column not in arrays:
                type_ = self.window.column_type(column)
                assert column is not None and type_ is not None
                arrays[column] = self._array(own, column, type_.base)
            fold.add(self.cells, new, cell, arrays[column])

    # -- windows out --------------------------------------------------------------------------------------------

    def _close(self, latest: int, ts: np.ndarray) -> Closed:
        """All windows of time that start up to pane `latest`; `ts`: the times of the batch that they go into."""
        window, cells = self.window, self.cells
        rows = self._slide(latest)
        start = rows.starts * window.pane
        end = start + window.size
        if not len(rows):
            return self._closed(rows, _NO_ROWS, _NO_ROWS)
        panes = cells.pane[: cells.count]
        full, border = np.searchsorted(panes, (latest + window.panes, (latest // window.panes + 1) * window.panes))
        order = np.arange(self.completed, max(self.completed, full))
        ends = np.arange(self.ended, max(self.ended, border))[::-1]
        for fold in self.folds.values():
            fold.complete(cells, order, ends)
        self.completed, self.ended = max(self.completed, int(full)), max(self.ended, int(border))
        return self._closed(rows, np.searchsorted(ts, end), end)

    def _slide(self, latest: int) -> Rows:
        window, cells = self.window, self.cells
        self._rank()
        keys = len(cells.newest)
        self.head, self.tail = grown(self.head, keys, NONE), grown(self.tail, keys, NONE)
        self.listed = grown(self.listed, keys)
        self.live, self.new, self.spare = (grown(a, self.index.count) for a in (self.live, self.new, self.spare))
        starts, first, last = (np.empty(1024, np.int64) for _ in range(3))
        self.at[ROWS] = 0
        while not slide(
            self.at, latest, window.panes, window.step, cells.count, cells.pane, cells.key, cells.after, self.rank,
            self.head, self.tail, self.listed, self.live, self.new, self.spare, starts, first, last,
        ):  # fmt: skip
            size = max(2 * len(starts), int(self.at[ROWS]) + self.index.count)
            starts, first, last = grown(starts, size), grown(first, size), grown(last, size)
        done = int(self.at[ROWS])
        return Rows(starts[:done], cells.key[last[:done]], first[:done], last[:done])

    def _rank(self) -> None:
        """Where each key stands among all: windows of one time come in the order of their keys."""
        count, by = self.index.count, self.window.by
        if len(by) == 1 and by[0].type.base != "str":
            self.rank = self.index.keys[:, 0].copy() if count > self.ranked else self.rank
        elif count > self.ranked:
            names = [str(number) for number in range(len(by) or 1)]
            table = pa.table(self._key_columns(np.arange(count)), names) if by else pa.table([pa.array([0])], names)
            order = pc.sort_indices(table, [(name, "ascending") for name in names]).to_numpy()
            self.rank = np.empty(count, np.int64)
            self.rank[order] = np.arange(count)
        self.ranked = count

    def _key_columns(self, key: np.ndarray) -> list[pa.Array]:
        return [self.pools.arrow(self.index.keys[key, n], f.type.base) for n, f in enumerate(self.window.by)]

    def _closed(self, rows: Rows, before: np.ndarray, ts: np.ndarray) -> Closed:
        window = self.window
        columns = dict(zip((f.name for f in window.by), self._key_columns(rows.key), strict=True))
        if window.unit == "time":
            columns |= {"start": pa.array(rows.starts * window.pane), "end": pa.array(ts)}
        bases = dict.fromkeys(OWN_FIELDS, "int") | {f.name: f.type.base for f in window.results}
        for name, fold in self.folds.items():
            columns[name] = self.pools.arrow(fold.results(self.cells, rows), bases[name])
        return Closed(before, ts, {f.name: columns[f.name] for f in window.closed.fields})

    # -- what lasts ---------------------------------------------------------------------------------------------

    def _needed(self) -> np.ndarray:
        """Cells that windows to come are made of."""
        cells = self.cells
        pane, key = cells.pane[: cells.count], cells.key[: cells.count]
        if self.window.unit == "time":
            return np.arange(np.searchsorted(pane, self.at[NEXT]), cells.count)
        head = grown(self.head, len(cells.newest), NONE)[key]
        return np.flatnonzero((head >= 0) & (pane >= pane[np.maximum(head, 0)]))

    def _clean(self) -> None:
        cells = self.cells
        if cells.count < self.garbage_min:
            return
        gone = int(self.at[EXPIRED]) if self.window.unit == "time" else cells.count - len(self._needed())
        if gone > (cells.count - gone) * _GARBAGE_SHARE:
            self.restore(self.kept())

    def kept(self) -> Kept:
        """All that later events need to know of earlier ones: `restore` goes on from it."""
        cells, keep = self.cells, self._needed()
        if self.window.unit == "time":
            keys, key = np.unique(cells.key[keep], return_inverse=True)
        else:
            keys, key = np.arange(self.index.count), cells.key[keep]
        kept = {"next": self.at[NEXT : NEXT + 1].copy(), "pane": cells.pane[keep], "key": key}
        kept |= {f"key.{n}": self.index.keys[keys, n] for n in range(self.index.ncomp)}
        kept["seen"] = grown(self.seen, self.index.count)[: len(keys)] if self.window.unit == "events" else _NO_ROWS
        for name, fold in self.folds.items():
            if cells.count:
                kept |= {f"{name}.{part}": values for part, values in fold.kept(cells, keep).items()}
        return kept

    def restore(self, kept: Kept) -> None:
        self._reset()
        keys = self.index.resolve([kept[f"key.{n}"] for n in range(self.index.ncomp)])
        self.at[NEXT] = kept["next"][0]
        cells = self.cells
        cells.put(kept["pane"], kept["key"], len(keys))
        if cells.count:
            for name, fold in self.folds.items():
                own = {part.removeprefix(f"{name}."): a for part, a in kept.items() if part.startswith(f"{name}.")}
                fold.restore(cells, own)
        if self.window.unit == "events":
            self._resume_events(kept["seen"])

    def _resume_events(self, seen: np.ndarray) -> None:
        window, cells = self.window, self.cells
        self.seen = grown(seen, len(cells.newest))
        self.head = np.full(len(cells.newest), NONE, np.int64)
        key, pane = cells.key[: cells.count], cells.pane[: cells.count]
        self.head[key[::-1]] = np.arange(cells.count)[::-1]
        if window.panes > 1:
            full = np.flatnonzero((pane + 1) * window.pane <= seen[key])
            block = (pane // window.panes + 1) * window.panes
            ends = np.flatnonzero(block * window.pane <= seen[key])[::-1]
            for fold in self.folds.values():
                fold.complete(cells, full, ends)
