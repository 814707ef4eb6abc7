"""A replay in one process: the same tasks, one after the other. The measure for drivers that spread them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from mainstem.errors import ProgramError
from mainstem.gate import EventBatch
from mainstem.replay.fold import fold_part
from mainstem.replay.home import run_home
from mainstem.replay.hot import HotKeys, Policy
from mainstem.replay.jobs import FoldJob, HomeJob, RangeBlocks, RareAbort, WaveJob, WaveReport, WaveTask
from mainstem.replay.router import route_range
from mainstem.replay.routing import Routing, wave_tasks
from mainstem.replay.states import own_rows, read_state, write_state
from mainstem.replay.wave import run_wave
from mainstem.state import State

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow

Tables = dict[str, pa.Table]


def replay_local(
    flow: Dataflow, ranges: Iterable[Iterable[EventBatch]], *, shards: int, epoch: int,
    initial: Mapping[str, pa.Table] | None = None, folder: Path, jit: bool | None = None, keep: bool = True,
    policy: Policy | None = None,
) -> tuple[list[pa.Table], Tables]:  # fmt: skip
    """Outputs per home, and the tables of the first one at the end; `epoch`: ranges per epoch.

    Exchange files are left in `folder`. Raises `RareAbort` when a dataflow with `overflow="rare"` meets what it has
    left out of account.
    """
    return LocalReplay(flow, shards, folder, jit, keep, policy).run(ranges, epoch, initial or {})


class LocalReplay:
    """Runs epochs; `reports` has those of all tasks, in order."""

    def __init__(
        self, flow: Dataflow, shards: int, folder: Path, jit: bool | None = None, keep: bool = True,
        policy: Policy | None = None,
    ) -> None:  # fmt: skip
        self.flow, self.shards, self.folder, self.jit, self.keep, self.policy = flow, shards, folder, jit, keep, policy
        self.hot = HotKeys(flow, shards, {}, policy)
        self.routing = Routing(flow, shards)
        self.waves = {stages[0].wave: wave_tasks(flow, stages[0].wave, shards) for stages in flow.waves}
        self.outputs: list[list[pa.RecordBatch]] = [[] for _ in flow.homes]
        self.reports: list[RangeBlocks | WaveReport] = []
        self._states: dict[WaveTask, Path] = {}
        self._seq = 0

    def run(
        self, ranges: Iterable[Iterable[EventBatch]], epoch: int, initial: Mapping[str, pa.Table]
    ) -> tuple[list[pa.Table], Tables]:
        if epoch < 1:
            raise ProgramError(f"epoch={epoch}: ranges per epoch", remedy="give 1 or more")
        self._start(initial)
        for number, some in enumerate(_groups(ranges, epoch)):
            self._epoch(number, some)
        outputs = [
            pa.Table.from_batches(batches, home.program.output_schema)
            for batches, home in zip(self.outputs, self.flow.homes, strict=True)
        ]
        return outputs, self._tables()

    def _start(self, initial: Mapping[str, pa.Table]) -> None:
        self.hot = HotKeys(self.flow, self.shards, initial, self.policy)
        for task in (task for tasks in self.waves.values() for task in tasks):
            rows = own_rows(self.flow, task, self.shards, initial)
            if rows:
                self._states[task] = self._name("initial", task)
                write_state(self._states[task], rows)

    def _epoch(self, number: int, ranges: list[Iterable[EventBatch]]) -> None:
        files = []
        for n, batches in enumerate(ranges):
            files.append(route_range(batches, self.routing, self.folder / f"range-{number}-{n}"))
        self.reports += files
        self.hot.routed(number, files)
        paths = tuple(file.path for file in files)
        carries: dict[WaveTask, Path] = {}
        for wave in self.waves:
            for job in self._wave(number, wave, paths, tuple(carries.values())):
                carries[job.task], self._states[job.task] = job.carry_to, job.state_to
        self.hot.over(number)
        for n, file in enumerate(files):
            for home, outputs in enumerate(self.outputs):
                all_carries = tuple(carries.values())
                job_home = HomeJob(self.flow, home, self.shards, file.path, n, all_carries, self._seq, self.jit)
                outputs += run_home(job_home)
            self._seq += file.events

    def _wave(self, epoch: int, wave: int, ranges: tuple[Path, ...], carries: tuple[Path, ...]) -> list[WaveJob]:
        """Runs the tasks of a wave, with hot keys split if that is worth it."""
        watch = self.hot.watch(wave)
        jobs = [
            WaveJob(
                self.flow, task, self.shards, ranges, carries, self._states.get(task),
                self._name(f"carry-{epoch}", task), self._name(f"state-{epoch}", task), self.jit, self.keep,
                watch=watch,
            )
            for task in self.waves[wave]
        ]  # fmt: skip
        split = self.hot.split(epoch, wave)
        if split is not None:
            parts = range(len(split.parts))
            folds = [FoldJob(self.flow, self.shards, ranges, carries, split, part, self.jit) for part in parts]
            totals = tuple(fold_part(fold) for fold in folds)
            reports = [run_wave(replace(job, split=split, totals=totals)) for job in jobs]
            if not any(report.rare or report.not_split for report in reports):
                return self._ran(epoch, wave, jobs, reports)
            self.hot.failed(split, next((r.not_split for r in reports if r.not_split), "arithmetic failed"))
            for job in jobs:
                job.state_to.unlink(missing_ok=True)
        return self._ran(epoch, wave, jobs, [run_wave(job) for job in jobs])

    def _ran(self, epoch: int, wave: int, jobs: list[WaveJob], reports: list[WaveReport]) -> list[WaveJob]:
        self.reports += reports
        for report in reports:
            if report.rare is not None:
                raise RareAbort(report.rare)
        self.hot.ran(epoch, wave, reports)
        return jobs

    def _tables(self) -> Tables:
        """Of the first variant."""
        state = State({table.name: table for table in self.flow.program.tables})
        for path in self._states.values():
            for name, rows in read_state(path):
                if name in state.tables:
                    state.apply(name, rows)
        return state.export()

    def _name(self, what: str, task: WaveTask) -> Path:
        stages = "-".join(str(number) for number in task.stages)
        return self.folder / f"{what}-wave{task.wave}-{stages}-{task.shard}"


def _groups(ranges: Iterable[Iterable[EventBatch]], size: int) -> Iterator[list[Iterable[EventBatch]]]:
    stream = iter(ranges)
    while group := list(islice(stream, size)):
        yield group
