"""Runs batches with one of the parallel strategies."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from mainstem.engine.ahead import Ahead, HeadStart, Laid
from mainstem.engine.entry import EntryPoint
from mainstem.engine.executor import Executor
from mainstem.engine.kernels import load
from mainstem.engine.kernels.control import ABORT, EXPLORE, LOCK, SYNC, USEFUL
from mainstem.engine.layout import Layout, Numbered, Versions
from mainstem.engine.operations import Operations
from mainstem.engine.options import SERIAL, Strategy
from mainstem.engine.pipeline import Pipeline, Staged
from mainstem.engine.record import Recorder
from mainstem.engine.result import BatchResult, BatchStats, Breakdown, Ran, RawResult
from mainstem.engine.strategies import (
    overlaps,
    run_works,
    split,
    stage_work,
    uses_parts,
    uses_requests,
    uses_versions,
)
from mainstem.engine.weights import Weights
from mainstem.engine.work import Work
from mainstem.errors import MainstemError
from mainstem.gate import EventBatch
from mainstem.lang import Program
from mainstem.state import State
from mainstem.team import Later, Task, default_threads


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
        self.weights = Weights(len(program.functions))
        self._layout: Layout | None = None
        self._head_start, self._ahead = HeadStart(), Ahead()
        self._pipeline: Pipeline | None = None
        self._other_operations: Operations | None = None  # whose memory the batch before the last one had
        self._numbers = np.arange(0)  # of transactions: threads have them at hand from the last batch
        self.recorder: Recorder | None = None
        super().__init__(program, state, jit=jit, track=track)

    @property
    def layout(self) -> Layout:
        if self._layout is None:
            self._layout = Layout(self.program, self.operations.tables, self.jit)
        return self._layout

    def run_all(self, batches: Iterable[EventBatch], first_seq: int = 0) -> Iterator[BatchResult]:
        if self.threads == 1 or self.track or self.changes is not None or self.recorder is not None:
            return super().run_all(batches, first_seq)
        return self._run_overlapping(batches, first_seq)

    def _run_overlapping(self, batches: Iterable[EventBatch], first_seq: int) -> Iterator[BatchResult]:
        if self._pipeline is not None:
            raise _on_its_way()
        pipeline = self._pipeline = Pipeline(self)
        try:
            yield from pipeline.run(batches, first_seq)
        finally:
            self._pipeline = None

    def run(self, batch: EventBatch, first_seq: int) -> BatchResult:
        self._check_idle()
        return super().run(batch, first_seq)

    def run_raw(self, batch: EventBatch) -> RawResult:
        self._check_idle()
        return super().run_raw(batch)

    def _check_idle(self) -> None:
        if self._pipeline is not None and not self._pipeline.idle:
            raise _on_its_way()

    def _strategy_ahead(self, count: int) -> tuple[Strategy, str] | None:
        """What to run a batch of so many transactions with, and why, while the last one may still be running; None:
        that is known when it has ended."""
        return (self.strategy, "") if overlaps(self.strategy) else None

    def stage(self, batch: EventBatch, first_seq: int, before_new: Callable[[], None]) -> Staged | None:
        count = self.outputs.transactions(batch)
        chosen = self._strategy_ahead(count) if count else None
        if chosen is None:
            return None
        self._change_memory()
        with self._quietly():
            return self._stage(batch, first_seq, before_new, count, *chosen)

    def stage_again(self, staged: Staged) -> Staged:
        count = len(staged.arrays["code"])
        with self._quietly():
            return self._stage(staged.batch, staged.first_seq, lambda: None, count, staged.strategy, staged.why)

    def _stage(
        self, batch: EventBatch, first_seq: int, before_new: Callable[[], None], count: int, strategy: Strategy,
        why: str,
    ) -> Staged:  # fmt: skip
        start, held_up = time.perf_counter(), 0.0

        def wait() -> None:
            nonlocal held_up
            begin = time.perf_counter()
            before_new()
            held_up += time.perf_counter() - begin

        operations = self.operations
        arrays = operations.build(batch, wait)
        columns, nulls = self._result_arrays(count, arrays)
        numbered = None if strategy is SERIAL else self._numbered(arrays, count, wait)
        keyed, clock = time.perf_counter(), _Clock(self.jit)
        seconds = keyed - start - held_up
        staged = Staged(batch, first_seq, arrays, columns, nulls, operations, strategy, why, seconds, clock)
        if numbered is None:
            self._stage_serially(staged)
        else:
            self._stage_work(staged, numbered)
        staged.seconds_construct = time.perf_counter() - keyed
        return staged

    def _numbered(self, arrays: dict[str, Any], count: int, before_new: Callable[[], None]) -> Numbered:
        """The transactions of a batch and what they ask for, after keys that are new have got rows."""
        scratch = self.operations.scratch
        numbered = self.layout.ask(arrays, count, scratch)
        if numbered is None:
            self.list_keys(arrays, before_new)
            numbered = self.layout.ask(arrays, count, scratch)
            assert numbered is not None, "all keys have rows now"
        self.operations.make_room(numbered.requests.most)
        return numbered

    def _stage_work(self, staged: Staged, numbered: Numbered) -> None:
        arrays = staged.arrays
        arrays["ret"].fill(0)
        own = {**arrays, **self._own_arrays(self.threads)}
        staged.work = self._work(staged.strategy, numbered, own, 0)
        crew = stage_work(staged.work)
        if not self.jit:
            crew.task = _quietly_each(crew.task)
        staged.prepare(crew)

    def _stage_serially(self, staged: Staged) -> None:
        """Another thread is to run all of it. Where that meets a new key, it stops, and the caller goes on."""
        arrays, operations, crew = staged.arrays, staged.operations, Later(2)
        call, spent = self._serial_call(arrays, 0, len(arrays["kind"])), 0.0

        def run(worker: int) -> None:
            nonlocal spent
            if worker == 1:
                start = time.thread_time()  # it may have to wait for Python's lock before it sees that it has ended
                call()
                spent = time.thread_time() - start

        def go_on() -> float:
            if not self._stopped_early(arrays):
                return spent
            with self._quietly():
                operations.list_keys(arrays)
                start = time.perf_counter()
                self._go_on_serially(arrays)
                return spent + time.perf_counter() - start

        staged.complete = go_on
        crew.run(run if self.jit else _quietly_each(run))
        staged.prepare(crew)

    def _change_memory(self) -> None:
        """The last batch may be running in the memory that this one would get."""
        other = self._other_operations or Operations(self.program, self.state, self.functions)
        self.operations, self._other_operations = other, self.operations

    def conclude(self, staged: Staged) -> BatchResult:
        ran = Ran(staged.strategy.label, staged.why) if staged.work is None else self._ran(staged, staged.work)
        seconds = (staged.seconds_keys, staged.seconds_construct + staged.seconds_run)
        result = self._result(staged.batch, staged.first_seq, staged.arrays, staged.columns, staged.nulls, ran, seconds)
        self._learn_staged(staged, ran, result.stats.aborted / result.stats.transactions)
        return result

    def _ran(self, staged: Staged, work: Work) -> Ran:
        staged.clock.construct = staged.seconds_construct
        breakdown = staged.clock.breakdown([work], 0.0)
        staged.seconds_threads = breakdown.threads
        self._head_start.learn_cost(breakdown.useful + breakdown.abort, len(work.todo))
        return Ran(work.strategy.label, staged.why, self.threads, breakdown, work.retries)

    def _learn_staged(self, staged: Staged, ran: Ran, aborts: float) -> None:
        """For executors that learn. `aborts`: their share."""

    def note_lap(self, stats: BatchStats, overlapped: bool, seconds: float) -> None:
        """For executors that learn: a batch of a pipeline made the run so many seconds longer."""

    def _execute(self, arrays: dict[str, Any], count: int) -> Ran:
        if count == 0:
            return super()._execute(arrays, count)
        try:
            return self._choose_and_run(arrays, count)
        finally:
            self._ahead.wait()  # also after a failure: nobody may go on with arrays that others have back

    def _choose_and_run(self, arrays: dict[str, Any], count: int) -> Ran:
        return self.run_with(self.strategy, arrays, count)

    def lay_out(self, arrays: dict[str, Any], count: int, first_event: int = 0) -> Laid:
        """The transactions of events from `first_event` on, those before having run. The next ones run meanwhile, and
        until `_wait_for_ahead`."""
        first, end = self._ahead_of(arrays, count, first_event)
        if end > first_event:
            before = self._transactions_before(arrays, first_event)
            self._ahead = Ahead(first - before, self._serial_call(arrays, first_event, end))
        else:
            self._ahead = Ahead()
        self._ahead.start()
        self.list_keys(arrays, self._ahead.wait)
        self.operations.listing -= self._ahead.held_up  # for rows that were about to change: transactions ran meanwhile
        return Laid(self.layout.number(arrays, count, self.operations.scratch, first), first, end, self._ahead)

    def _ahead_of(self, arrays: dict[str, Any], count: int, first_event: int) -> tuple[int, int]:
        """The first transaction to be laid out, and its event."""
        before, end = self._transactions_before(arrays, first_event), first_event
        if self._may_run_ahead:
            end += self._head_start.events(len(arrays["kind"]) - first_event, count - before)
        first = self._transactions_before(arrays, end)
        if first == count:  # events after them have no functions: something must be left for the strategy
            return before, first_event
        return first, end

    def _wait_for_ahead(self, arrays: dict[str, Any]) -> None:
        """Returns when all events before those that are laid out have run."""
        self._ahead.wait()
        if self._ahead.transactions and self._stopped_early(arrays):
            start = time.perf_counter()
            self._go_on_serially(arrays)
            self._ahead.seconds += time.perf_counter() - start

    @property
    def _may_run_ahead(self) -> bool:
        """Whether a second thread is there, and nobody asks what single transactions read and wrote."""
        return self.jit and self.threads > 1 and self.recorder is None and self.changes is None

    def _transactions_before(self, arrays: dict[str, Any], event: int) -> int:
        if self._one_each:
            return event
        return int(self._functions_of_kind[arrays["kind"][:event]].sum())

    def run_with(
        self, strategy: Strategy, arrays: dict[str, Any], count: int, first_event: int = 0, why: str = "",
        laid: Laid | None = None,
    ) -> Ran:  # fmt: skip
        """Runs the events from `first_event` on with a strategy, those before having run in place."""
        clock = _Clock(self.jit)
        laid = laid or self.lay_out(arrays, count, first_event)
        numbered, first = laid.numbered, laid.first
        own = {**arrays, **self._own_arrays(self.threads + len(strategy.groups))}
        arrays["ret"][first:] = 0
        works = split(self._work(strategy, numbered, own, first))
        ready = self._ready(arrays, clock, laid)
        versions = self._versions(numbered, works, ready)
        if self.track or self.recorder is not None:
            _ = numbered.batch  # needed afterwards: now it costs less
        if any(uses_requests(work.strategy) for work in works):
            _ = numbered.requests  # of all works: each has threads of its own
        run_works(works, ready)
        if versions is not None:
            for work in works:
                if uses_versions(work.strategy):
                    self._decide(work, versions)
        if self.recorder is not None:
            self.recorder.note(works, arrays["kind"])
        if self.changes is not None and versions is not None:
            self.changes.note(numbered.batch, versions, arrays["code"])
        self._note_changes(numbered, versions)
        if versions is not None:
            load("verdicts", self.jit).clear_returns(first, arrays["code"], arrays["ret"])
        retries = sum(work.retries for work in works)
        breakdown = clock.breakdown(works, laid.ahead.seconds)
        self._head_start.learn_cost(breakdown.useful + breakdown.abort, laid.ahead.transactions + count - first)
        return Ran(strategy.label, why, self.threads, breakdown, retries)

    def _ready(self, arrays: dict[str, Any], clock: _Clock, laid: Laid) -> Callable[[], None]:
        """What waits, the first time that it is called, until the strategy can begin."""
        waiting = True

        def ready() -> None:
            nonlocal waiting
            if waiting:
                waiting = False
                clock.constructed()
                prepared = time.perf_counter() - laid.ahead.started - laid.ahead.held_up
                self._head_start.learn_room(prepared, len(laid.numbered) - laid.first)
                self._wait_for_ahead(arrays)

        return ready

    def _work(self, strategy: Strategy, numbered: Numbered, arrays: dict[str, Any], first: int) -> Work:
        if len(self._numbers) < len(numbered):
            self._numbers = np.arange(2 * len(numbered))
        todo = self._numbers[first : len(numbered)]
        return Work(
            numbered, todo, arrays, self.layout, self.operations.scratch, self.direct, self.versioned, self.threads,
            self.weights, strategy,
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

    def _versions(self, numbered: Numbered, works: list[Work], ready: Callable[[], None]) -> Versions | None:
        """Versions for the works that need them, with the graphs of each."""
        if not any(uses_versions(work.strategy) for work in works):
            return None
        batch = numbered.batch
        versions = self.layout.versions(batch, self.operations.scratch)
        for n, work in enumerate(works):
            if uses_versions(work.strategy):
                work.on_versions(versions, parts=uses_parts(work.strategy), name=str(n))
        ready()
        self.layout.fill(batch, versions, self.operations.scratch)
        return versions

    def _decide(self, work: Work, versions: Versions) -> None:
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

    def _note_changes(self, numbered: Numbered, versions: Versions | None) -> None:
        """Installs versions; lists the changed rows of all works, and of what ran in place before them."""
        if versions is None and not self.track:
            return
        batch = numbered.batch
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


def _quietly_each(task: Task) -> Task:
    """What NumPy does about overflows is a setting of each thread."""

    def quiet(worker: int) -> None:
        with np.errstate(all="ignore"):
            task(worker)

    return quiet


def _on_its_way() -> MainstemError:
    return MainstemError("run_all is on its way here: take all its results, or close it, before anything else runs")


class _Clock:
    """Seconds of a batch, and of its threads by category."""

    def __init__(self, jit: bool) -> None:
        self._ticks = load("verdicts", jit).now
        self._first_tick, self._start = self._ticks(), time.perf_counter()
        self.construct = 0.0

    def constructed(self) -> None:
        self.construct = time.perf_counter() - self._start

    def breakdown(self, works: list[Work], ahead: float) -> Breakdown:
        """`ahead`: seconds of transactions that ran while others were laid out."""
        elapsed, passed = time.perf_counter() - self._start, self._ticks() - self._first_tick
        each = elapsed / max(1, passed)
        seconds = [sum(column) * each for column in zip(*(row for w in works for row in w.clock.tolist()), strict=True)]
        return Breakdown(
            seconds[USEFUL] + ahead, seconds[SYNC], seconds[LOCK], self.construct, seconds[EXPLORE], seconds[ABORT]
        )
