"""Batches one after the other: while one runs, the next is prepared and the outputs of the last are made.

Both take one thread and Python's lock, and compiled transactions need neither. So the other threads begin a batch when
the last one has ended, and the caller joins them as soon as it has nothing else to do. Only transactions of one batch
run at a time, and only batches that add no keys are prepared while others read the tables.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from mainstem.engine.operations import Operations
from mainstem.engine.options import Strategy
from mainstem.engine.result import BatchResult, BatchStats
from mainstem.engine.work import Work
from mainstem.gate import EventBatch
from mainstem.team import Later, Together, is_worker, team


@dataclass
class Staged:
    """A batch that is ready to run, or that runs, or that has run and waits for its outputs to be made."""

    batch: EventBatch
    first_seq: int
    arrays: dict[str, Any]
    columns: list[np.ndarray]
    nulls: list[np.ndarray | None]
    operations: Operations  # whose memory it has
    strategy: Strategy
    why: str
    seconds_keys: float  # of resolving its keys
    clock: Any
    complete: Callable[[], float] = lambda: 0.0  # does what is left when its threads have ended; gives their seconds

    def __post_init__(self) -> None:
        self.work: Work | None = None  # of a strategy that is not serial
        self.shared = False  # between threads, though no plan of `auto` says so
        self.seconds_construct = 0.0  # of all else before it started
        self.seconds_run = 0.0  # that the caller had nothing else to do
        self.seconds_threads = 0.0  # of all threads, from when each began until it had ended; of a strategy: at the end
        self._running: Together | None = None

    def prepare(self, crew: Later) -> None:
        """From now on it can start."""
        self._running = team(crew.threads).together(crew.task, crew.control)

    def start(self) -> None:
        assert self._running is not None
        self._running.start()

    def join(self, then: Staged | None = None) -> bool:
        """Takes part until all its transactions have ended; gives whether `then` was begun at once."""
        assert self._running is not None
        start = time.perf_counter()
        begun = self._running.join(None if then is None else then._running)
        self.seconds_threads = self.complete()
        self.seconds_run = time.perf_counter() - start
        return begun

    def give_up(self, error: BaseException) -> None:
        assert self._running is not None
        self._running.give_up(error)

    def wait(self) -> None:
        """Returns when nobody is at it, whether all its transactions have ended or not."""
        assert self._running is not None
        self._running.wait()


class Staging(Protocol):
    """An executor whose batches may overlap."""

    def run(self, batch: EventBatch, first_seq: int) -> BatchResult: ...

    def stage(self, batch: EventBatch, first_seq: int, before_new: Callable[[], None]) -> Staged | None:
        """Prepares a batch while another one may be running; None where this one can't be. `before_new` returns when
        the other has ended."""
        ...

    def stage_again(self, staged: Staged) -> Staged:
        """The same batch, after tables have grown. No other one is running."""
        ...

    def conclude(self, staged: Staged) -> BatchResult:
        """The result of a batch that has run. Another one may be running."""
        ...

    def note_lap(self, stats: BatchStats, overlapped: bool, seconds: float) -> None:
        """A batch made the run so many seconds longer, not counting those of the source and of who takes results."""
        ...


class Pipeline:
    """Runs batches; results come in their order, and mostly while the batch after them is running."""

    def __init__(self, executor: Staging) -> None:
        self._executor = executor
        self._running: Staged | None = None
        self._following: Staged | None = None  # begins when that one ends
        self._ended: Staged | None = None
        self._process = os.getpid()
        self._lap_began = self._outside = 0.0  # when the last batch was over; seconds since then that are not ours

    @property
    def idle(self) -> bool:
        """Whether no batch is on its way."""
        return self._running is None and self._ended is None

    def run(self, batches: Iterable[EventBatch], first_seq: int) -> Iterator[BatchResult]:
        stream, seq = iter(batches), first_seq
        self._lap_began = time.perf_counter()
        try:
            while True:
                if self._ended is not None:
                    yield from self._hand_over(self._conclude(), True)
                batch, staged, failure = self._prepare_next(stream, seq)
                begun = self._turn_to(staged)
                if not begun and staged is not None:
                    if staged.operations.outgrown(staged.arrays):
                        staged, failure = self._prepare_again(staged)
                    if staged is not None:
                        self._start(staged)
                if staged is None:
                    if self._ended is not None:
                        yield from self._hand_over(self._conclude(), True)
                    if failure is not None:
                        raise failure
                    if batch is None:
                        return
                    yield from self._hand_over(self._executor.run(batch, seq), False)
                assert batch is not None
                seq += len(batch)
        except GeneratorExit:
            # Nobody wants more: the state stands after a whole batch. But garbage may be collected by a thread of the
            # team, in a forked process, or when no other thread can end any more: then there is nothing to wait for.
            if not is_worker() and os.getpid() == self._process and not sys.is_finalizing():
                self._finish()
            raise
        except BaseException as error:
            on_their_way = [staged for staged in (self._running, self._following) if staged is not None]
            for staged in on_their_way:
                staged.give_up(error)
            for staged in on_their_way:
                staged.wait()
            raise

    def _hand_over(self, result: BatchResult, overlapped: bool) -> Iterator[BatchResult]:
        now = time.perf_counter()
        self._executor.note_lap(result.stats, overlapped, now - self._lap_began - self._outside)
        yield result
        self._lap_began, self._outside = now, time.perf_counter() - now

    def _prepare_next(
        self, stream: Iterator[EventBatch], seq: int
    ) -> tuple[EventBatch | None, Staged | None, Exception | None]:
        """The next batch, if any; staged, if it can be; and what went wrong: the batches before it come first."""
        try:
            asked = time.perf_counter()
            batch = next(stream, None)
            self._outside += time.perf_counter() - asked
            if batch is None:
                return None, None, None
            return batch, self._executor.stage(batch, seq, self._finish), None
        except Exception as error:
            return None, None, error

    def _prepare_again(self, staged: Staged) -> tuple[Staged | None, Exception | None]:
        try:
            return self._executor.stage_again(staged), None
        except Exception as error:
            return None, error

    def _start(self, staged: Staged) -> None:
        self._running = staged  # before it starts: an interrupt must find it
        staged.start()

    def _finish(self) -> None:
        """Returns when no transaction is running."""
        self._turn_to(None)

    def _turn_to(self, following: Staged | None) -> bool:
        """Returns when no transaction of the batch is running that is now; gives whether those of the following are.

        They may begin at once where both are compiled: such a batch adds no keys, so the one that follows is right as
        it was prepared.
        """
        if self._running is None:
            return False
        self._following = following  # before it starts: an interrupt must find it
        begun = self._running.join(following)
        self._ended, self._running, self._following = self._running, following if begun else None, None
        return begun

    def _conclude(self) -> BatchResult:
        ended, self._ended = self._ended, None
        assert ended is not None
        return self._executor.conclude(ended)


def one_by_one(
    run: Callable[[EventBatch, int], BatchResult], batches: Iterable[EventBatch], first_seq: int
) -> Iterator[BatchResult]:
    """Batches that do not overlap."""
    for batch in batches:
        yield run(batch, first_seq)
        first_seq += len(batch)
