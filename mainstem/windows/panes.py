"""The `panes` operator: every event is folded once, into the pane of its key; windows are made of panes, in columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import EventBatch
from mainstem.schema import INT64_MIN
from mainstem.windows.aggregates import Aggregate
from mainstem.windows.distinct import Distinct
from mainstem.windows.folds import Fold, Kept, Rows
from mainstem.windows.kernels import NONE, assign_events
from mainstem.windows.keys import RankedKeys
from mainstem.windows.slide import NEXT, Out, write_full
from mainstem.windows.timed import TimeWindows, new_out
from mainstem.windows.tracks import TrackTable, simple
from mainstem.windows.userfold import UserFold
from mainstem.windows.values import OwnEvents, Pools, grown
from mainstem.windows.window import Closed, Window

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
        window, aggregates = self.window, dict(self.window.aggregates)
        self.keys = RankedKeys(window.by, self.pools)
        self.tracks = TrackTable(window, {name: a for name, a in aggregates.items() if simple(a)})
        self.folds = {name: self._fold(a) for name, a in aggregates.items() if not simple(a)}
        self.time = TimeWindows(window, self.tracks, linked=bool(self.folds))
        self.cells = self.time.cells
        self.seen = self.head = np.empty(0, np.int64)  # of windows of events, by key

    def _fold(self, aggregate: Aggregate) -> Fold:
        column = self.window.column_type(aggregate.column)
        if aggregate.op == "distinct":
            return Distinct(self.window.panes)
        assert column is not None
        return UserFold(aggregate, column, self.window.panes, self.pools)

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
            return self._joined([])
        with np.errstate(over="ignore", invalid="ignore"):
            return self._close(int(self.cells.pane[-1]), _NO_ROWS)

    def _latest(self, ts: int) -> int:
        """The pane in which the last window starts that ends up to `ts`."""
        window = self.window
        latest = (ts - window.size) // window.advance if window.gaps else ts // window.pane - window.panes
        return max(latest, INT64_MIN // 2)

    def _push_times(self, own: OwnEvents) -> None:
        keys = self._keys(own)
        if self.keys.update():
            self.time.rank(self.keys.rank, self.keys.of_rank)
        self.time.reserve(own.count, self.keys.count)
        runs = np.zeros(1, np.int64), np.full(1, own.count)
        columns = self.tracks.columns(own.ts, lambda name: self._array(own, name))
        self._fold_events(own, self.time.add(keys, 0, runs, columns))

    def _push_events(self, own: OwnEvents) -> Closed:
        window, cells = self.window, self.cells
        if not own.count:
            return self._joined([])
        keys = self._keys(own)
        self.time.reserve(own.count, self.keys.count)
        self.seen = grown(self.seen, len(cells.newest))
        self.head = grown(self.head, len(cells.newest), NONE)
        new = cells.count
        cell, full, places, first, last = (np.empty(own.count, np.int64) for _ in range(5))
        ends = np.empty(own.count + new, np.int64)
        cells.count, filled, ended, closed = assign_events(
            keys, window.pane, window.size, window.panes, window.step, self.seen, self.head, cells.arrays,
            cells.newest, new, cell, full, ends, places, first, last,
        )  # fmt: skip
        self.tracks.add(cell, self.tracks.columns(own.ts, lambda name: self._array(own, name)), new, cells.count)
        self._fold_events(own, cell)
        self.tracks.complete(cells.arrays, full[:filled], ends[:ended])
        return self._full(own, places[:closed], first[:closed], last[:closed])

    def _keys(self, own: OwnEvents) -> np.ndarray:
        """The number of each event's key; -1 where the condition does not hold."""
        window = self.window
        window.check_ts(int(own.ts[0]), int(own.ts[-1]))
        ok = self._array(own, window.where) if window.where else None
        return self.keys.number([self._array(own, f.name) for f in window.by], ok, own.count)

    def _array(self, own: OwnEvents, name: str) -> np.ndarray:
        type_ = self.window.column_type(name)
        assert type_ is not None
        return self.pools.array(own.column(name), type_.base)

    def _fold_events(self, own: OwnEvents, cell: np.ndarray) -> None:
        aggregates = dict(self.window.aggregates)
        for name, fold in self.folds.items():
            fold.add(self.cells, cell, self._array(own, aggregates[name].column or ""))

    # -- windows out --------------------------------------------------------------------------------------------

    def _close(self, latest: int, ts: np.ndarray) -> Closed:
        """All windows of time that start up to pane `latest`; `ts`: the times of the batch that they go into."""
        return self._joined([self._told(out, rows, ts) for out, rows in self.time.close(latest)])

    def _told(self, out: Out, rows: int, ts: np.ndarray) -> Closed:
        before = np.repeat(np.searchsorted(ts, out.window_end), out.window_rows)
        columns = {"start": pa.array(out.start[:rows]), "end": pa.array(out.end[:rows])}
        starts = out.start[:rows] // self.window.pane if self.folds else _NO_ROWS
        return Closed(before, out.end[:rows], columns | self._results(out, rows, starts))

    def _full(self, own: OwnEvents, places: np.ndarray, first: np.ndarray, last: np.ndarray) -> Closed:
        """Windows of events, by the events that fill them."""
        window, cells, rows = self.window, self.cells.arrays, len(places)
        out = new_out(self.tracks, rows, cells=False)._replace(key=cells.key[last], first=first, last=last)
        write_full(window.panes, cells, self.tracks.folds, out, rows)
        starts = cells.pane[last] + 1 - window.panes
        columns = self._results(out._replace(start=starts * window.pane), rows, starts)
        for name in ("start", "end"):
            columns[name] = self.tracks.results(name, out, rows, self.pools)
        return self._joined([Closed(own.place(places) + 1, own.ts[places], columns)])

    def _results(self, out: Out, rows: int, starts: np.ndarray) -> dict[str, pa.Array]:
        """The `by` columns and the aggregates."""
        window = self.window
        columns = dict(zip((f.name for f in window.by), self.keys.columns(out.key[:rows]), strict=True))
        told = Rows(starts, out.key[:rows], out.first[:rows], out.last[:rows])
        for field, (name, _) in zip(window.results, window.aggregates, strict=True):
            if name in self.folds:
                columns[name] = self.pools.arrow(self.folds[name].results(self.cells, told), field.type.base)
            else:
                columns[name] = self.tracks.results(name, out, rows, self.pools)
        return columns

    def _joined(self, parts: list[Closed]) -> Closed:
        """One after the other, the columns in the order of the schema."""
        fields = self.window.closed.fields
        if not parts:
            return Closed(_NO_ROWS, _NO_ROWS, {f.name: pa.array([], f.type.arrow) for f in fields})
        if len(parts) == 1:
            return Closed(parts[0].before, parts[0].ts, {f.name: parts[0].columns[f.name] for f in fields})
        before, ts = np.concatenate([p.before for p in parts]), np.concatenate([p.ts for p in parts])
        return Closed(before, ts, {f.name: pa.concat_arrays([p.columns[f.name] for p in parts]) for f in fields})

    # -- what lasts ---------------------------------------------------------------------------------------------

    def _needed(self) -> np.ndarray:
        """Cells that windows to come are made of."""
        cells = self.cells
        if self.window.unit == "time":
            return np.arange(np.searchsorted(cells.pane, self.time.next), cells.count)
        head = grown(self.head, len(cells.newest), NONE)[cells.key]
        return np.flatnonzero((head >= 0) & (cells.pane >= cells.pane[np.maximum(head, 0)]))

    def _clean(self) -> None:
        """Forgets cells that are gone, and now and then keys that have none."""
        timed, cells = self.window.unit == "time", self.cells
        if cells.count < self.garbage_min:
            return
        gone = self.time.gone if timed else cells.count - len(self._needed())
        if gone <= (cells.count - gone) * _GARBAGE_SHARE:
            return
        few_keys = self.keys.count <= self.garbage_min + _GARBAGE_SHARE * self.time.keys_used_max
        if timed and few_keys and not self.folds:
            self.time.drop_gone()
        else:
            self.restore(self.kept())

    def kept(self) -> Kept:
        """All that later events need to know of earlier ones: `restore` goes on from it."""
        cells, keep, index = self.cells, self._needed(), self.keys.index
        if self.window.unit == "time":
            keys, key = np.unique(cells.key[keep], return_inverse=True)
        else:
            keys, key = np.arange(index.count), cells.key[keep]
        kept = {"next": np.full(1, self.time.next), "pane": cells.pane[keep], "key": key}
        kept |= {f"key.{n}": index.keys[keys, n] for n in range(index.ncomp)}
        kept["seen"] = grown(self.seen, index.count)[: len(keys)] if self.window.unit == "events" else _NO_ROWS
        if not cells.count:
            return kept
        for name in dict.fromkeys([*self.tracks.parts, *self.folds]):
            parts = self.folds[name].kept(cells, keep) if name in self.folds else self.tracks.kept(name, keep)
            kept |= {f"{name}.{part}": values for part, values in parts.items()}
        return kept

    def restore(self, kept: Kept) -> None:
        self._reset()
        index = self.keys.index
        keys = index.resolve([kept[f"key.{n}"] for n in range(index.ncomp)])
        self.time.at[NEXT] = kept["next"][0]
        if self.window.unit == "time" and self.keys.update():
            self.time.rank(self.keys.rank, self.keys.of_rank)
        self.time.reserve(len(kept["pane"]), len(keys))
        self.cells.put(kept["pane"], kept["key"], len(keys))
        if self.cells.count:
            for name, parts in _by_aggregate(kept):
                if name in self.folds:
                    self.folds[name].restore(self.cells, parts)
                else:
                    self.tracks.restore(name, parts)
        if self.window.unit == "events":
            self._resume_events(kept["seen"])

    def _resume_events(self, seen: np.ndarray) -> None:
        window, cells = self.window, self.cells
        self.seen = grown(seen, len(cells.newest))
        self.head = np.full(len(cells.newest), NONE, np.int64)
        self.head[cells.key[::-1]] = np.arange(cells.count)[::-1]
        full = np.flatnonzero((cells.pane + 1) * window.pane <= seen[cells.key])
        block = (cells.pane // window.panes + 1) * window.panes
        ends = np.flatnonzero(block * window.pane <= seen[cells.key])[::-1]
        self.tracks.complete(cells.arrays, full, ends)


def _by_aggregate(kept: Kept) -> Iterator[tuple[str, Kept]]:
    names = dict.fromkeys(key.partition(".")[0] for key in kept if "." in key and not key.startswith("key."))
    for name in names:
        yield name, {key.partition(".")[2]: values for key, values in kept.items() if key.startswith(f"{name}.")}
