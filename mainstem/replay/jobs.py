"""What the tasks of a replay get and give: plain picklable data. Files are named by the caller."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from mainstem.replay.split import Key, Rows, Split, Total

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow


@dataclass(frozen=True)
class WaveTask:
    """One task of a wave: a shard of all its keyed stages, or one stage that is not keyed (as shard 0)."""

    wave: int
    stages: tuple[int, ...]
    shard: int
    keyed: bool


@dataclass(frozen=True)
class HotItems:
    """A key with a large part of the items of a stage in a range; the number is estimated from a sample."""

    stage: int
    key: Key
    items: int


@dataclass(frozen=True)
class RangeBlocks:
    """What a range file holds."""

    path: Path
    events: int
    last_ts: int | None  # None without events
    items: dict[int, tuple[int, ...]]  # per stage: items of each shard (one number for a stage that is not keyed)
    bytes: int
    seconds: dict[str, float]  # gate (waiting for batches), route, write
    hot: tuple[HotItems, ...] = ()


@dataclass(frozen=True)
class WaveJob:
    """One task over all ranges of an epoch."""

    flow: Dataflow
    task: WaveTask
    shards: int
    ranges: tuple[Path, ...]  # range files of the epoch, in order
    carries: tuple[Path, ...]  # carry files of all tasks of earlier waves of the epoch, in any order
    state: Path | None  # this task's state file of the epoch before; None: empty tables
    carry_to: Path
    state_to: Path
    jit: bool | None = None  # None: as the process has it
    keep: bool = True  # the state in memory, for a task of the next epoch that may run in the same process
    split: Split | None = None  # keys that are run by parts
    totals: tuple[Total, ...] = ()  # of all parts, in order
    watch: Mapping[int, tuple[Key, ...]] = field(default_factory=dict)  # keys of stages: their rows go to the report


@dataclass(frozen=True)
class FoldJob:
    """What one part of a split does to the rows of hot keys."""

    flow: Dataflow
    shards: int
    ranges: tuple[Path, ...]
    carries: tuple[Path, ...]
    split: Split
    part: int
    jit: bool | None = None


@dataclass(frozen=True)
class Rare:
    """An abort that a dataflow with `overflow="rare"` must not meet: the replay starts again with `"tied"`."""

    range: int  # place in the epoch
    row: int | None  # event's place in the range; None when its piece hands nothing to home
    function: int  # of the original program
    code: int


class RareAbort(Exception):
    """Raised where a rare abort can't be reported; says that the replay must start again."""

    def __init__(self, rare: Rare) -> None:
        super().__init__(f"function {rare.function} aborted with the rare code {rare.code} in range {rare.range}")
        self.rare = rare

    def __reduce__(self) -> tuple[type[RareAbort], tuple[Rare]]:
        return RareAbort, (self.rare,)


@dataclass(frozen=True)
class WaveReport:
    """After a rare code neither the carry file nor the state file is there."""

    task: WaveTask
    items: int
    aborted: int
    rare: Rare | None
    carry_bytes: int
    state_rows: dict[str, int]  # per table
    seconds: dict[str, float]  # load, read, put, run, write, state
    hot_items: int = 0  # of parts; not among `items`
    watched: dict[int, dict[Key, Rows]] = field(default_factory=dict)
    state_bytes: int = 0  # of its tables in memory at the end
    not_split: str = ""  # why the wave has to run again without splitting keys; then there are no files, either


@dataclass(frozen=True)
class HomeJob:
    """Outputs of one range."""

    flow: Dataflow
    home: int
    shards: int
    range: Path
    number: int  # of the range in its epoch
    carries: tuple[Path, ...]  # carry files of all tasks of the epoch, in any order
    first_seq: int
    jit: bool | None = None


@dataclass
class Clock:
    """Seconds by what they were spent on; what is measured inside something else counts for itself only."""

    seconds: dict[str, float] = field(default_factory=dict)
    _inner: float = 0.0

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        outer, self._inner, start = self._inner, 0.0, perf_counter()
        try:
            yield
        finally:
            took = perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + took - self._inner
            self._inner = outer + took
