"""Which keys of a staged replay are hot, which of them are split, and why the others are not.

The driver asks before each wave of an epoch; all it needs comes with the reports of tasks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.replay.jobs import RangeBlocks, WaveReport
from mainstem.replay.split import Key, Rows, Split, SplitPart, SplitStage, held, key_arrays, owners
from mainstem.state import State

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow, Stage

WATCHED_MAX = 64  # keys per stage whose rows are reported, in case that they are hot in the next epoch
SHARE_SHOWN = 1 / 20  # of a stage's accesses: keys above it are reported
VARIABLE = "MAINSTEM_SPLIT_HOT_KEYS"


@dataclass(frozen=True)
class Policy:
    """When keys are split. `MAINSTEM_SPLIT_HOT_KEYS=0` never does: for measurements."""

    enabled: bool = field(default_factory=lambda: os.environ.get(VARIABLE, "1") != "0")
    # Items of the fullest shard over the mean, above which splitting pays: its owner still has to read past the items
    # of a hot key, and folding takes half as long as running them. Measured with counters, the cheapest transactions,
    # and a key with 60%: at 1.6 (2 shards) fold and longest task take 1.75 times as long as the longest task without,
    # at 5.4 (8 shards) 0.9 to 1.05 times.
    imbalance: float = 3.0
    items_min: int = 1_000_000  # of a wave in an epoch: fewer are run before another job has started


@dataclass(frozen=True)
class HotKey:
    """What became of a hot key: of its share of the stage's accesses, how much was split, or why not."""

    tables: str
    key: Key
    share: float
    split: float
    why: str  # empty when it was split in all epochs

    def __str__(self) -> str:
        key = ", ".join(map(repr, self.key))
        how = "not split" if not self.split else "split" if not self.why else f"{self.split:.0%} of it split"
        return f"{self.tables}[{key}]: {self.share:.1%} of the accesses, {how}{f': {self.why}' if self.why else ''}"


@dataclass(frozen=True)
class Balance:
    """Items of the fullest task of a wave over all, summed over epochs: as keys lie, and as they were run."""

    wave: int
    tables: str
    unsplit: float
    actual: float


@dataclass
class _Use:
    items: int = 0
    split: int = 0
    why: str = ""


@dataclass
class _Epoch:
    """What range tasks have found."""

    items: dict[int, np.ndarray]  # per keyed stage: shards, summed over ranges
    hot: dict[tuple[int, Key], np.ndarray]  # per stage and key: ranges


def parts_of(hot: np.ndarray, loads: np.ndarray, mean: float) -> tuple[SplitPart, ...]:
    """Consecutive ranges for each task, as far as it has less than the mean to do. `hot`: items per range."""
    room = np.maximum(mean - loads, 0)
    ends = np.cumsum(room) / room.sum() * hot.sum()
    # The middle of a range decides: it goes to the task in whose room it lies.
    middles = np.cumsum(hot) - hot / 2
    shard_of = np.minimum(np.searchsorted(ends, middles, side="right"), len(loads) - 1)
    parts, first = [], 0
    for end in range(1, len(hot) + 1):
        if end == len(hot) or shard_of[end] != shard_of[first]:
            parts.append(SplitPart(int(shard_of[first]), first, end))
            first = end
    return tuple(parts)


class HotKeys:
    """Follows one replay. `start`: tables that it starts from; None when they are unknown: it goes on after a kill."""

    def __init__(
        self, flow: Dataflow, shards: int, start: Mapping[str, pa.Table] | None, policy: Policy | None = None,
        first: int = 0,
    ) -> None:  # fmt: skip
        self.flow, self.shards, self.policy = flow, shards, policy or Policy()
        self._start, self._first = start, first
        self._epochs: dict[int, _Epoch] = {}
        self._rows: dict[int, tuple[int, Mapping[Key, Rows]]] = {}  # per stage: epoch, rows after it
        self._watch: dict[int, dict[Key, None]] = {}
        self._failed: dict[int, str] = {}
        self._uses: dict[tuple[int, Key], _Use] = {}
        self._items: dict[int, int] = {}  # per stage
        self._fullest: dict[int, list[int]] = {}  # per wave: fullest unsplit, fullest as run, all

    # -- what tasks have found ------------------------------------------------------------------------------------

    def routed(self, epoch: int, blocks: Sequence[RangeBlocks]) -> None:
        """The ranges of an epoch, in order."""
        keyed = [stage.number for stage in self.flow.stages if stage.keyed]
        items = {n: np.array([block.items[n] for block in blocks]).sum(axis=0) for n in keyed}
        hot: dict[tuple[int, Key], np.ndarray] = {}
        for number, block in enumerate(blocks):
            for found in block.hot:
                hot.setdefault((found.stage, found.key), np.zeros(len(blocks), np.int64))[number] = found.items
        self._epochs[epoch] = _Epoch(items, hot)
        for (stage, key), counts in sorted(hot.items(), key=lambda item: -item[1].sum()):
            watched = self._watch.setdefault(stage, {})
            if len(watched) < WATCHED_MAX:
                watched[key] = None
            self._uses.setdefault((stage, key), _Use()).items += int(counts.sum())
        for n, counts in items.items():
            self._items[n] = self._items.get(n, 0) + int(counts.sum())

    def watch(self, wave: int) -> dict[int, tuple[Key, ...]]:
        """Keys whose rows the tasks of a wave should report."""
        stages = (s.number for s in self.flow.stages if s.wave == wave)
        return {n: tuple(self._watch[n]) for n in stages if self._watch.get(n) and self._why_never(n) == ""}

    def ran(self, epoch: int, wave: int, reports: Sequence[WaveReport]) -> None:
        keyed = [report for report in reports if report.task.keyed]
        for stage in (s for s in self.flow.stages if s.wave == wave):
            rows = {key: found for report in keyed for key, found in report.watched.get(stage.number, {}).items()}
            self._rows[stage.number] = epoch, rows
        if keyed:
            sums = self._fullest.setdefault(wave, [0, 0, 0])
            loads = self._loads(epoch, wave)
            run = [report.items + report.hot_items for report in keyed]
            self._fullest[wave] = [sums[0] + int(loads.max()), sums[1] + max(run), sums[2] + sum(run)]

    def failed(self, split: Split, why: str) -> None:
        """Splitting has given something else than one task would have; the stages are not split again."""
        for stage in split.stages:
            self._failed[stage.stage] = why
            for key in stage.keys:
                self._uses[stage.stage, key].split = 0

    def over(self, epoch: int) -> None:
        del self._epochs[epoch]

    # -- what to do -------------------------------------------------------------------------------------------------

    def split(self, epoch: int, wave: int) -> Split | None:
        """Which keys of a wave are run by parts."""
        found = self._epochs[epoch]
        stages = [s for s in self.flow.stages if s.wave == wave and s.keyed]
        loads = self._loads(epoch, wave)
        mean = loads.mean() if len(loads) else 0.0
        candidates = [(stage, key) for stage in stages for key in self._candidates(epoch, stage)]
        if why := self._why_not(loads, mean):
            self._note(candidates, why)
            return None
        chosen = self._chosen(found, candidates, loads, mean)
        counts = [found.hot[stage.number, key] for stage, key in chosen]
        parts = parts_of(np.sum(counts, axis=0), loads, mean) if chosen else ()
        if len(parts) < 2:
            self._note(chosen, "the epoch has too few ranges")
            return None
        for (stage, key), items in zip(chosen, counts, strict=True):
            self._uses[stage.number, key].split += int(items.sum())
        keys = {stage.number: [key for other, key in chosen if other is stage] for stage, _ in chosen}
        return Split(tuple(self._stage(epoch, self.flow.stages[n], own) for n, own in keys.items()), parts)

    def _why_not(self, loads: np.ndarray, mean: float) -> str:
        if not self.policy.enabled:
            return "splitting is switched off"
        if loads.sum() < self.policy.items_min:
            return "there are too few accesses to gain by it"
        if loads.max(initial=0) <= self.policy.imbalance * mean:
            return "tasks have about the same number of accesses"
        return ""

    def _loads(self, epoch: int, wave: int) -> np.ndarray:
        """Items of the tasks of a wave, one per shard, as keys lie."""
        own = [self._epochs[epoch].items[s.number] for s in self.flow.stages if s.wave == wave and s.keyed]
        return np.sum(own, axis=0) if own else np.zeros(0, np.int64)

    def _note(self, candidates: Iterable[tuple[Stage, Key]], why: str) -> None:
        for stage, key in candidates:
            self._uses[stage.number, key].why = why

    def _candidates(self, epoch: int, stage: Stage) -> list[Key]:
        """Hot keys of a stage that could be split, the hottest first."""
        hot = self._epochs[epoch].hot
        keys = sorted((key for n, key in hot if n == stage.number), key=lambda key: -int(hot[stage.number, key].sum()))
        never, possible = self._why_never(stage.number), []
        for key in keys:
            if never:
                self._uses[stage.number, key].why = never
            elif self._row(epoch, stage, key) is None:
                self._uses[stage.number, key].why = "its row was not known when it became hot"
            else:
                possible.append(key)
        return possible

    def _why_never(self, number: int) -> str:
        stage = self.flow.stages[number]
        if any("ts" in (piece.key or ()) for piece in stage.pieces):
            return "its key is the time"
        return stage.folding.why or self._failed.get(number, "")

    def _chosen(
        self, found: _Epoch, candidates: list[tuple[Stage, Key]], loads: np.ndarray, mean: float
    ) -> list[tuple[Stage, Key]]:
        """Takes keys from shards with too much to do, the hottest first; `loads` becomes what is left."""
        chosen = []
        for stage, key in sorted(candidates, key=lambda one: -int(found.hot[one[0].number, one[1]].sum())):
            (owner,) = owners(self.flow, stage.number, [key], self.shards)
            if loads[owner] > self.policy.imbalance * mean:
                loads[owner] -= min(int(found.hot[stage.number, key].sum()), int(loads[owner]))
                chosen.append((stage, key))
            else:
                self._uses[stage.number, key].why = "its task has no more to do than others"
        return chosen

    # -- rows -------------------------------------------------------------------------------------------------------

    def _stage(self, epoch: int, stage: Stage, keys: list[Key]) -> SplitStage:
        rows = [self._row(epoch, stage, key) for key in keys]
        names = [self.flow.program.tables[table].name for table in stage.tables]
        start = {name: pa.concat_tables([row[name] for row in rows if row is not None]) for name in names}
        return SplitStage(stage.number, tuple(keys), start)

    def _row(self, epoch: int, stage: Stage, key: Key) -> Rows | None:
        """What a key's rows hold before an epoch, if that is known."""
        if epoch == self._first:
            return None if self._start is None else self._initial(stage, key)
        of_epoch, rows = self._rows.get(stage.number, (-1, {}))
        return rows.get(key) if of_epoch == epoch - 1 else None

    def _initial(self, stage: Stage, key: Key) -> Rows:
        found = {}
        for schema in (self.flow.program.tables[table] for table in stage.tables):
            state = State({schema.name: schema}).tables[schema.name]
            given = (self._start or {}).get(schema.name)
            if given is not None and given.num_rows:
                columns = [
                    given[name].cast(type_.arrow).combine_chunks()
                    for name, type_ in zip(schema.key_columns, schema.key, strict=True)
                ]
                state.apply(given.filter(pa.array(held(columns, [key]))))
            found[schema.name] = state.delta(state.resolve(key_arrays([key], schema)))
        return found

    # -- for people -------------------------------------------------------------------------------------------------

    def report(self) -> tuple[HotKey, ...]:
        """Hot keys of the whole replay, the hottest first."""
        found = []
        for (number, key), use in self._uses.items():
            share = use.items / max(self._items[number], 1)
            if share >= SHARE_SHOWN:
                split = use.split / use.items
                found.append(HotKey(self._tables(number), key, share, split, "" if split >= 1 else use.why))
        return tuple(sorted(found, key=lambda hot: -hot.share))

    def balance(self) -> tuple[Balance, ...]:
        """Per wave with keyed stages."""
        found = []
        for wave, (unsplit, actual, all_items) in sorted(self._fullest.items()):
            tables = ", ".join(self._tables(s.number) for s in self.flow.stages if s.wave == wave and s.keyed)
            found.append(Balance(wave, tables, unsplit / max(all_items, 1), actual / max(all_items, 1)))
        return tuple(found)

    def _tables(self, number: int) -> str:
        return " and ".join(self.flow.program.tables[t].name for t in self.flow.stages[number].tables)
