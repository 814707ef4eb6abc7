"""Runs batches with one of the parallel strategies."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from mainstem.engine.entry import EntryPoint
from mainstem.engine.executor import Executor
from mainstem.engine.kernels import load
from mainstem.engine.kernels.control import ABORT, EXPLORE, LOCK, SYNC, USEFUL
from mainstem.engine.layout import Batch, Layout, Versions
from mainstem.engine.options import Strategy
from mainstem.engine.record import Recorder
from mainstem.engine.result import Breakdown, Ran
from mainstem.engine.strategies import run_works, split, uses_parts, uses_versions
from mainstem.engine.work import Work
from mainstem.lang import Program
from mainstem.state import State
from mainstem.team import default_threads


class ParallelExecutor(Executor):
    """Runs every batch with the same strategy."""

    def __init__(
        self, program: Program, state: State, strategy: Strategy, *, threads: int | None = None, jit: bool = True,
        track: bool = False,
    ) -> None:  # fmt: skip
        assert program.direct is not None and program.versioned is not None
        self.strategy, self.threads = strategy, threads or default_threads()
        self.direct = EntryPoint("direct", program.direct, jit)
        self.versioned = EntryPoint("versioned", program.versioned, jit)
        self.weight = np.ones(max(1, len(program.functions)))  # what a transaction of each function costs, relatively
        self._layout: Layout | None = None
        self.recorder: Recorder | None = None
        super().__init__(program, state, jit=jit, track=track)

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            self._layout = Layout(self.program, self.operations.tables, self.jit)
        return self._layout

    def _execute(self, arrays: dict[str, Any], count: int) -> Ran:
        if count == 0:
            return super()._execute(arrays, count)
        return self.run_with(self.strategy, arrays, count)

    def lay_out(self, arrays: dict[str, Any], count: int, first: int) -> Batch:
        """The operations of the transactions from `first` on."""
        self.list_keys(arrays)
        return self.layout.batch(arrays, count, self.operations.scratch, first)

    def run_with(
        self, strategy: Strategy, arrays: dict[str, Any], count: int, first: int = 0, why: str = "",
        batch: Batch | None = None,
    ) -> Ran:  # fmt: skip
        """Runs the transactions from `first` on with a strategy; those before have run in place."""
        self.list_keys(arrays)
        clock = _Clock(self.jit)
        scratch = self.operations.scratch
        if batch is None:
            batch = self.lay_out(arrays, count, first)
        own = {**arrays, **self._own_arrays(self.threads + len(strategy.groups))}
        code = scratch.array("code", count, np.int64)
        arrays["ret"][first:] = 0
        works = split(self._work(strategy, batch, own, code, first))
        versions = self._versions(batch, works)
        clock.constructed()
        run_works(works)
        if versions is not None:
            for work in works:
                if uses_versions(work.strategy):
                    self._decide(work, versions, batch)
        if self.recorder is not None:
            self.recorder.note(works, arrays["kind"])
        if self.changes is not None and versions is not None:
            self.changes.note(batch, versions, code)
        self._note_changes(batch, versions)
        load("verdicts", self.jit).hand_over(first, code, arrays["code"], arrays["ret"])
        retries = sum(work.retries for work in works)
        return Ran(strategy.label, why, self.threads, clock.breakdown(works), retries)

    def _work(self, strategy: Strategy, batch: Batch, arrays: dict[str, Any], code: np.ndarray, first: int) -> Work:
        todo = np.arange(first, batch.transactions)
        return Work(
            batch, todo, arrays, self.layout, self.operations.scratch, self.direct, self.versioned, self.threads, code,
            self.weight, strategy,
        )  # fmt: skip

    def _own_arrays(self, workers: int) -> dict[str, Any]:
        """Undo memory of each worker, and the mark of changed rows as an array."""
        scratch = self.operations.scratch
        own: dict[str, Any] = {"mark": np.array([self._mark if self.track else 0], np.int64)}
        for i, table in enumerate(self.operations.tables):
            room = max(1, self.operations.room[i])
            shape = (workers, room)
            own[f"V{i}"] = scratch.array(f"V{i}", workers * room, np.int64).reshape(shape)
            own[f"U{i}"] = scratch.array(f"U{i}", workers * room, table.rows.dtype).reshape(shape)
        return own

    def _versions(self, batch: Batch, works: list[Work]) -> Versions | None:
        """Versions for the works that need them, with the graphs of each."""
        if not any(uses_versions(work.strategy) for work in works):
            return None
        versions = self.layout.versions(batch, self.operations.scratch)
        for n, work in enumerate(works):
            if uses_versions(work.strategy):
                work.on_versions(versions, parts=uses_parts(work.strategy), name=str(n))
        self.layout.fill(batch, versions, self.operations.scratch)
        return versions

    def _decide(self, work: Work, versions: Versions, batch: Batch) -> None:
        """Codes of transactions from codes of vertices; runs again those where another abort may have come first."""
        assert work.graph is not None
        kernels = load("verdicts", self.jit)
        unsure = self.operations.scratch.array("unsure", len(work.todo), np.int64)
        count = kernels.verdicts(work.todo, work.graph.t_lo, work.graph.v_code, work.code, unsure)
        if count:
            again = work.narrowed(unsure[:count])
            again.on_versions(versions, name="again", parts=False)
            bound = again.versioned()
            kernels.repeat(bound.function, bound.context, again.todo, again.v_code, work.code)

    def _note_changes(self, batch: Batch, versions: Versions | None) -> None:
        """Installs versions; lists the changed rows of all works, and of what ran in place before them."""
        if versions is not None:
            scratch = self.operations.scratch
            lists = [scratch.array(f"changed{i}", batch.rows, np.int64) for i in range(len(self.operations.tables))]
            for i, count in enumerate(self.layout.install(batch, versions, lists)):
                self._mark_rows(i, lists[i][:count])
        if self.track:
            before = [self._lists[i][:count].copy() for i, count in enumerate(self._changed[: len(self._lists)])]
            counts = self.layout.marked(batch, self._marks, self._mark, self._lists)
            self._changed[: len(counts)] = counts
            for i, rows in enumerate(before):
                self._add_changed(i, rows)

    def _add_changed(self, table: int, rows: np.ndarray) -> None:
        """Rows that the serial kernel changed before this strategy went on."""
        if len(rows):
            known = self._lists[table][: self._changed[table]]
            both = np.union1d(known, rows)
            self._lists[table][: len(both)] = both
            self._changed[table] = len(both)

    def _mark_rows(self, table: int, rows: np.ndarray) -> None:
        if self.track:
            self._marks[table][rows] = self._mark


class _Clock:
    """Seconds of a batch, and of its threads by category."""

    def __init__(self, jit: bool) -> None:
        self._ticks = load("verdicts", jit).now
        self._first_tick, self._start = self._ticks(), time.perf_counter()
        self._construct = 0.0

    def constructed(self) -> None:
        self._construct = time.perf_counter() - self._start

    def breakdown(self, works: list[Work]) -> Breakdown:
        elapsed, passed = time.perf_counter() - self._start, self._ticks() - self._first_tick
        each = elapsed / max(1, passed)
        seconds = [sum(column) * each for column in zip(*(row for w in works for row in w.clock.tolist()), strict=True)]
        return Breakdown(
            seconds[USEFUL], seconds[SYNC], seconds[LOCK], self._construct, seconds[EXPLORE], seconds[ABORT]
        )
