"""The driver of a staged replay: one Spark job per epoch and wave (`docs/design/replay.md`).

    1  inputs that can't be cut are spooled; the log is cut into ranges, ranges are gathered into epochs
    2  per epoch: ranges, waves, home. Jobs run as soon as what they need is there (`schedule.py`)
    3  when the home of an epoch and of all before it is done, the manifest takes it in; its exchange files go
    4  at the end outputs are published, with the end state in one commit where there is a store

Killed at any moment, the replay goes on behind the last epoch in the manifest.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mainstem.replay import RareAbort, WaveTask, wave_tasks
from mainstem.replay.hot import HotKeys
from mainstem.replay.ranges import Range
from mainstem.replay.split import Split
from mainstem.spark import blobs, mvps_tasks
from mainstem.spark.manifest import Manifest
from mainstem.spark.mvps_tasks import (
    Common,
    Done,
    Failed,
    FoldDone,
    FoldWork,
    HomeDone,
    HomeWork,
    NotSplit,
    RangeDone,
    RangeWork,
    RareDone,
    WaveDone,
    WaveWork,
    Work,
    name_of,
)
from mainstem.spark.schedule import RANGES, Cell, Schedule

if TYPE_CHECKING:
    from pyspark import SparkContext

log = logging.getLogger("mainstem.spark")

EPOCHS_AHEAD = 3
"""Epochs under way at once: while one waits for its slowest shard, others have work for the cores."""

EPOCH_ROWS = 4_000_000
"""Events per epoch, about: some seconds of work per core between checkpoints."""

START = "state-start-"
"""How names of state files begin that the first epoch starts from."""

_CANCEL_SECONDS = 0.2
_GROUP = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel")


def gather_epochs(ranges: Sequence[Range], epoch_rows: int) -> list[list[Range]]:
    """Consecutive ranges, until there are about so many rows."""
    epochs: list[list[Range]] = []
    rows = epoch_rows
    for range in ranges:
        if rows >= epoch_rows:
            epochs.append([])
            rows = 0
        epochs[-1].append(range)
        rows += range.rows
    return epochs


class Jobs:
    """Runs works as Spark jobs, from any thread; all can be cancelled together."""

    def __init__(self, context: SparkContext, common: Common) -> None:
        self.group = f"mainstem-replay-{secrets.token_hex(4)}"
        self.name = common.flow.program.name
        self._context = context
        self._shared = context.broadcast(mvps_tasks.packed(common))
        self._cancelled = threading.Event()

    def run(self, what: str, works: Sequence[Work]) -> list[Done]:
        """One task per work; raises what a task reports."""
        context, shared, perform = self._context, self._shared, mvps_tasks.perform
        before = {name: context.getLocalProperty(name) for name in _GROUP}  # the user's own, in the user's thread
        context.setJobGroup(self.group, f"Mainstem replay of {self.name}: {what}", interruptOnCancel=True)
        try:
            if self._cancelled.is_set():
                return []
            tasks = context.parallelize(works, len(works)).mapPartitions(lambda own: perform(shared, own))
            done = tasks.collect()
        finally:
            for name, value in before.items():
                context.setLocalProperty(name, value)  # type: ignore[arg-type]
        for one in done:
            if isinstance(one, Failed):
                blobs.raise_error(one.error)
        return done

    def cancel(self, running: set[Future[list[Done]]]) -> None:
        """Returns when nothing runs any more. A job may start after a first call, so there are more."""
        self._cancelled.set()
        while running:
            self._context.cancelJobGroup(self.group)
            running = wait(running, _CANCEL_SECONDS).not_done

    def close(self) -> None:
        self._shared.destroy()


@dataclass
class _Epoch:
    """What is known of an epoch under way."""

    ranges: list[Range]
    routed: list[RangeDone] = field(default_factory=list)
    waves: dict[WaveTask, WaveDone] = field(default_factory=dict)
    homes: list[HomeDone] = field(default_factory=list)

    @property
    def events(self) -> int:
        return sum(done.blocks.events for done in self.routed)

    @property
    def carries(self) -> tuple[Path, ...]:
        return tuple(done.carry for done in self.waves.values())

    @property
    def files(self) -> tuple[Path, ...]:
        return tuple(done.blocks.path for done in self.routed)


class Driver:
    """Runs the epochs that are not in the manifest yet. Raises `RareAbort` when all has to start again."""

    def __init__(
        self, jobs: Jobs, common: Common, manifest: Manifest, epochs: Sequence[list[Range]], first_seq: int,
        commit: Callable[[], None], progress: Callable[[int], None] | None, hot: HotKeys,
    ) -> None:  # fmt: skip
        self.jobs, self.common, self.manifest, self.commit, self.progress = jobs, common, manifest, commit, progress
        self.hot = hot
        self.state_bytes: dict[WaveTask, int] = {}
        self.first_seq, self.count = first_seq, len(epochs)
        flow = common.flow
        self.names = [self._tables(number) for number in range(1, len(flow.waves) + 1)]
        self.tasks = [wave_tasks(flow, number, common.shards) for number in range(1, len(flow.waves) + 1)]
        self.schedule = Schedule(len(epochs), len(self.tasks), first=manifest.done, ahead=EPOCHS_AHEAD)
        self.epochs = {n: _Epoch(ranges) for n, ranges in enumerate(epochs) if n >= manifest.done}
        exchange = Path(common.exchange)
        self.states = {task: exchange / manifest.states[name_of(task)] for tasks in self.tasks for task in tasks}

    def run(self) -> None:
        threads = EPOCHS_AHEAD * (len(self.tasks) + 2)
        with ThreadPoolExecutor(threads, thread_name_prefix="mainstem-replay") as pool:
            running: dict[Future[list[Done]], Cell] = {}
            try:
                while not self.schedule.finished:
                    for cell in self.schedule.start_ready():
                        running[pool.submit(self._job(cell))] = cell
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        self._take(running.pop(future), future.result())
            except BaseException:
                self.jobs.cancel(set(running))
                raise

    def _job(self, cell: Cell) -> Callable[[], list[Done]]:
        what, works = self._what(cell), self._works(cell)
        split = self.hot.split(cell.epoch, cell.step) if RANGES < cell.step < self.schedule.home else None
        if split is None:
            return partial(self.jobs.run, what, works)
        return partial(self._run_split, what, [work for work in works if isinstance(work, WaveWork)], split)

    def _run_split(self, what: str, works: Sequence[WaveWork], split: Split) -> list[Done]:
        """A wave with hot keys: first their totals, then all tasks; once more without splitting if that failed."""
        ranges, carries = works[0].ranges, works[0].carries
        folds = [FoldWork(ranges, carries, split, part) for part in range(len(split.parts))]
        totals = {one.part: one.total for one in self.jobs.run(f"{what}: hot keys", folds) if isinstance(one, FoldDone)}
        in_order = tuple(total for _, total in sorted(totals.items()))
        done = self.jobs.run(what, [replace(work, split=split, totals=in_order) for work in works])
        reports = [one.report for one in done if isinstance(one, WaveDone)]
        if not any(report.rare or report.not_split for report in reports):
            return done
        why = next((report.not_split for report in reports if report.not_split), "arithmetic failed")
        log.warning("%s runs again without splitting hot keys: %s", what, why)
        return [NotSplit(split, why), *self.jobs.run(f"{what}, again", works)]

    def _what(self, cell: Cell) -> str:
        epoch = f"epoch {cell.epoch + 1} of {self.count}"
        if cell.step == RANGES:
            return f"{epoch}, read and route"
        if cell.step == self.schedule.home:
            return f"{epoch}, write outputs"
        return f"{epoch}, wave {cell.step} of {len(self.tasks)} ({self.names[cell.step - 1]})"

    def _tables(self, wave: int) -> str:
        flow = self.common.flow
        return ", ".join(flow.program.tables[t].name for s in flow.stages if s.wave == wave for t in s.tables)

    def _works(self, cell: Cell) -> Sequence[Work]:
        epoch = self.epochs[cell.epoch]
        if cell.step == RANGES:
            return [RangeWork(cell.epoch, number, range) for number, range in enumerate(epoch.ranges)]
        if cell.step < self.schedule.home:
            carries, files, watch = epoch.carries, epoch.files, self.hot.watch(cell.step)
            tasks = self.tasks[cell.step - 1]
            return [WaveWork(cell.epoch, task, files, carries, self.states[task], watch) for task in tasks]
        return self._home_works(cell.epoch)

    def _home_works(self, number: int) -> list[HomeWork]:
        epoch, seq = self.epochs[number], self.first_seq + self.manifest.totals.events
        seq += sum(before.events for n, before in self.epochs.items() if n < number)
        works = []
        for place, done in enumerate(epoch.routed):
            works += [
                HomeWork(home, place, done.blocks.path, epoch.carries, seq)
                for home in range(len(self.common.flow.homes))
            ]
            seq += done.blocks.events
        return works

    def _take(self, cell: Cell, done: Sequence[Done]) -> None:
        epoch = self.epochs[cell.epoch]
        for one in done:
            if isinstance(one, RangeDone):
                epoch.routed.append(one)
            elif isinstance(one, WaveDone):
                if one.report.rare is not None:
                    raise RareAbort(one.report.rare)
                epoch.waves[one.task] = one
                self.states[one.task] = one.state
                self.state_bytes[one.task] = one.report.state_bytes
            elif isinstance(one, NotSplit):
                self.hot.failed(one.split, one.why)
            elif isinstance(one, HomeDone):
                epoch.homes.append(one)
            elif isinstance(one, RareDone):
                raise RareAbort(one.rare)
        if cell.step == RANGES:
            self.hot.routed(cell.epoch, [routed.blocks for routed in epoch.routed])
        elif cell.step < self.schedule.home:
            self.hot.ran(cell.epoch, cell.step, [one.report for one in done if isinstance(one, WaveDone)])
        if cell.step == self.schedule.home and self.progress is not None and epoch.events:
            self.progress(epoch.events)
        for number in self.schedule.done(cell):
            self._commit(number)

    def _commit(self, number: int) -> None:
        epoch, manifest = self.epochs.pop(number), self.manifest
        self.hot.over(number)
        totals = manifest.totals
        totals.events += epoch.events
        totals.transactions += sum(done.transactions for done in epoch.homes)
        totals.aborted += sum(done.aborted for done in epoch.homes)
        totals.rejected += sum(done.rejected for done in epoch.routed)
        times = [done.blocks.last_ts for done in epoch.routed if done.blocks.last_ts is not None]
        totals.last_ts = times[-1] if times else totals.last_ts
        totals.staged += [name for done in epoch.homes for name in done.staged]
        totals.rejects_staged += [name for done in epoch.routed for name in done.rejects_staged]
        manifest.done = number + 1
        manifest.states |= {name_of(task): done.state.name for task, done in epoch.waves.items()}
        self.commit()
        self._drop(number)

    def _drop(self, number: int) -> None:
        """Files of an epoch that is over, and the state that it started from; also those of attempts that lost."""
        exchange = Path(self.common.exchange)
        kept = set(self.manifest.states.values())
        over = (f"range-{number:06d}-", f"carry-{number:06d}-", f"state-{number:06d}-", f"state-{number - 1:06d}-")
        for file in exchange.iterdir():
            if file.name.startswith((*over, START)) and file.name not in kept:
                file.unlink(missing_ok=True)
