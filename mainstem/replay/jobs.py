"""What the tasks of a replay get and give: plain picklable data. Files are named by the caller."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

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
class RangeBlocks:
    """What a range file holds."""

    path: Path
    events: int
    last_ts: int | None  # None without events
    items: dict[int, tuple[int, ...]]  # per stage: items of each shard (one number for a stage that is not keyed)
    bytes: int
    seconds: dict[str, float]  # gate (waiting for batches), route, write


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
