"""Threads that run one task together, batch after batch.

A batch may take less than a millisecond, so its threads stay between batches, each asleep on a lock of its own.
Releasing that lock is the cheapest way to wake a thread from Python: one system call, no queue, no condition variable.
It takes 10 to 20 µs until the thread runs. The way back would take as long again, so the caller looks out for the
others for some microseconds before it sleeps too, and they do the same for the next task.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from mainstem.jit import JIT_ENABLED

Task = Callable[[int], None]
_WORKER = "mainstem-worker-"

STOP_WORD = 16
"""The word of a control array that is not 0 when a thread has failed: the others return as soon as they see it."""

LINE = 8  # words of 8 bytes in a cache line: words that different threads write lie that far apart


class _Run:
    """One task on its way through the threads."""

    def __init__(self, task: Task, control: np.ndarray | None) -> None:
        self.task, self.control = task, control
        self.errors: list[BaseException] = []  # in order of time

    def work(self, worker: int) -> None:
        try:
            self.task(worker)
        except BaseException as error:
            self.fail(error)

    def fail(self, error: BaseException) -> None:
        """The other threads may wait for what will never be done: tell them to return."""
        self.errors.append(error)
        if self.control is not None:
            self.control[STOP_WORD] = 1


class _Thread:
    """A sleeping thread; `start` wakes it for one run, `finish` waits for its end.

    Counters decide, locks only wake: an interrupt may end `finish` anywhere, and it is called again then. Who was woken
    looks at the counters, and may find nothing new.
    """

    def __init__(self, worker: int) -> None:
        self._worker = worker
        self._run: _Run | None = None
        self._started, self._begun, self._ended, self._looking, self._awaited = np.zeros((5, LINE), np.int64)
        self._wake, self._finished = threading.Lock(), threading.Lock()
        self._wake.acquire()
        self._finished.acquire()
        self._thread = threading.Thread(target=self._loop, name=f"{_WORKER}{worker}", daemon=True)
        self._thread.start()

    def start(self, run: _Run | None) -> None:
        """`None` ends the thread. One that is awake has begun when this returns, or nearly always."""
        self._run = run
        signals, short = _signals(), run is not None and run.control is not None
        settling = signals.SETTLING if short else signals.SETTLING_SERIAL
        signals.tell(self._started, int(self._started[0]) + 1, self._looking, self._begun, settling)
        _open(self._wake)

    def let_begin(self) -> None:
        """Leaves Python's lock to the thread until it runs, or for some microseconds: a caller that goes on in Python
        would keep it waiting for as long as that takes."""
        started = int(self._started[0])
        if self._begun[0] < started:
            _signals().wait_briefly(self._begun, 0, started)

    def finish(self) -> None:
        """Returns at once when nothing is running."""
        started = int(self._started[0])
        if self._ended[0] < started:
            _signals().wait_briefly(self._ended, 0, started)
        while self._ended[0] < started:
            self._awaited[0] = 1
            _open(self._wake)  # an interrupt may have come before
            self._finished.acquire()
        self._awaited[0] = 0

    def end(self) -> None:
        self.finish()
        self.start(None)
        self._thread.join()

    def stay_on(self, cores: set[int]) -> None:
        """A wish: cores may have been taken from the process meanwhile."""
        with contextlib.suppress(OSError):
            os.sched_setaffinity(self._thread.native_id or 0, cores)

    def _loop(self) -> None:
        runs = 0
        while True:
            _signals().look_out(self._ended, runs, self._awaited, self._looking, self._started)
            _open(self._finished)
            while self._started[0] == runs:
                self._wake.acquire()
            runs += 1
            self._begun[0] = runs
            run, self._run = self._run, None
            if run is None:
                return
            run.work(self._worker)
            run = None  # a sleeping thread must not keep the batch's arrays alive


def _open(lock: threading.Lock) -> None:
    """Lets who sleeps on it go on, or who is about to. Only one thread opens a lock, and only one other closes it."""
    if lock.locked():
        lock.release()


class Team:
    """`threads` workers: number 0 is the thread that calls `run`, the others sleep until it does.

    Threads start with the first run. A process that was forked from one with a team starts its own: threads do not
    survive a fork (Spark's Python workers are forked).
    """

    def __init__(self, threads: int) -> None:
        if threads < 1:
            raise ValueError(f"a team needs at least 1 thread, not {threads}: give threads=1 or more")
        self.threads = threads
        self._begin()
        _teams.add(self)

    def _begin(self) -> None:
        self._others: list[_Thread] = []
        self._entry = threading.Lock()
        self._callers_core = -1

    def run(self, task: Task, control: np.ndarray | None = None) -> None:
        """Calls `task(worker)` in every worker and returns when all have returned.

        When one raises, also KeyboardInterrupt, word `STOP_WORD` of `control` tells the others to return; the first
        exception is raised again here. A task must not use the team that it runs on.
        """
        run = _Run(task, control)
        if self.threads == 1:
            run.work(0)
        else:
            with self._entry:
                self._run_together(run)
        if run.errors:
            raise run.errors[0]

    def errand(self, task: Callable[[], None]) -> Errand:
        """`task` for another thread to call while the caller goes on."""
        return Errand(self, _Run(lambda worker: task(), None))

    def together(self, task: Task, control: np.ndarray | None = None) -> Together:
        """Like `run`, but the caller takes part when it likes."""
        return Together(self, _Run(task, control))

    def _send(self, run: _Run, most: int | None = None) -> None:
        """Wakes the other threads for a run, or some of them."""
        with self._entry:
            self._get_ready()
            for thread in self._others[:most]:
                thread.start(run)
            for thread in self._others[:1]:
                thread.let_begin()

    def _await(self, run: _Run) -> None:
        """Also when interrupts arrive meanwhile, as in `_run_together`; returns at once when the run was never sent."""
        while True:
            try:
                with self._entry:
                    self._finish_all()
                return
            except BaseException as error:
                run.fail(error)

    def _run_together(self, run: _Run) -> None:
        try:
            self._get_ready()
            for thread in self._others:
                thread.start(run)
            run.work(0)
        except BaseException as error:
            run.fail(error)
        while True:  # also when an interrupt arrives meanwhile: nobody may go on with arrays that the caller has back
            try:
                self._finish_all()
                return
            except BaseException as error:
                run.fail(error)

    def _get_ready(self) -> None:
        self._finish_all()  # a task beside, or after a second interrupt
        while len(self._others) < self.threads - 1:
            self._others.append(_Thread(len(self._others) + 1))
            self._callers_core = -1
        self._spread()

    def _finish_all(self) -> None:
        for thread in self._others:
            thread.finish()

    def _spread(self) -> None:
        """Keeps the others off the core of the caller.

        Linux likes to wake a thread on the core of the one that wakes it, and needs some milliseconds to see that both
        are busy: whole batches would run on one core.
        """
        core = _core()
        if core == self._callers_core:
            return
        self._callers_core = core
        cores = _usable_cores()
        if self.threads <= len(cores):
            for thread in self._others:
                thread.stay_on(cores - {core})

    def close(self) -> None:
        """Ends the threads; a later run starts new ones."""
        with self._entry:
            while self._others:
                self._others.pop().end()


class Errand:
    """A task that one thread of a team runs while its caller does something else.

    It exists before it starts, so that an interrupt at any moment leaves its caller something to wait for.
    """

    def __init__(self, team: Team, run: _Run) -> None:
        self._team, self._run = team, run

    def start(self) -> None:
        self._team._send(self._run, 1)

    def wait(self) -> None:
        """Returns when the task has ended, and raises what it raised; may be called more than once. To be called before
        the caller uses what the task works on."""
        self._team._await(self._run)
        if self._run.errors:
            raise self._run.errors[0]


class Together:
    """A task of all workers of a team that the others begin, and its caller joins later.

    Its tasks must be done also if some worker comes too late for any of it. Like an errand, it exists before it starts.
    """

    def __init__(self, team: Team, run: _Run) -> None:
        self._team, self._run = team, run

    def start(self) -> None:
        self._team._send(self._run)

    def join(self) -> None:
        """Takes part, returns when all have returned, and raises the first exception of any, also when asked again."""
        if not self._run.errors:
            self._run.work(0)
        self._team._await(self._run)
        if self._run.errors:
            raise self._run.errors[0]

    def stop(self, error: BaseException) -> None:
        """Tells all to return, and waits for them."""
        self._run.fail(error)
        self._team._await(self._run)


class Crew(Protocol):
    """What runs one task on all workers, and returns when all have returned (`Team.run`)."""

    threads: int

    def run(self, task: Task, control: np.ndarray | None = None) -> None: ...


class Later:
    """A crew that only keeps what it is to run."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.task: Task = lambda worker: None
        self.control: np.ndarray | None = None

    def run(self, task: Task, control: np.ndarray | None = None) -> None:
        self.task, self.control = task, control


class Waiting:
    """A team that starts when something else is ready."""

    def __init__(self, team: Team, ready: Callable[[], None]) -> None:
        self.threads, self._team, self._ready = team.threads, team, ready

    def run(self, task: Task, control: np.ndarray | None = None) -> None:
        self._ready()
        self._team.run(task, control)


_teams: weakref.WeakSet[Team] = weakref.WeakSet()


def _begin_again() -> None:
    for inherited in _teams:
        inherited._begin()


os.register_at_fork(after_in_child=_begin_again)


@functools.cache
def team(threads: int) -> Team:
    """The shared team of that size."""
    return Team(threads)


def is_worker() -> bool:
    """Whether the calling thread belongs to a team."""
    return threading.current_thread().name.startswith(_WORKER)


def default_threads() -> int:
    """The cores that this process may use."""
    return len(_usable_cores()) or os.cpu_count() or 1


def _usable_cores() -> set[int]:
    """Empty where the system does not tell."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set()


@functools.cache
def _core_function() -> Callable[[], int]:
    return getattr(ctypes.CDLL(None), "sched_getcpu", lambda: -1)


def _core() -> int:
    """The core that the calling thread runs on; -1 where the system does not tell."""
    return _core_function()()


class _InPython:
    """Signals where kernels are not compiled: numbers are raised, and nobody waits for them here."""

    SETTLING = SETTLING_SERIAL = 0

    @staticmethod
    def wait_briefly(counters: np.ndarray, index: int, value: int) -> None:
        pass

    @staticmethod
    def tell(started: np.ndarray, value: int, looking: np.ndarray, begun: np.ndarray, settling: int) -> None:
        started[0] = value

    @staticmethod
    def look_out(ended: np.ndarray, value: int, awaited: np.ndarray, looking: np.ndarray, started: np.ndarray) -> None:
        ended[0] = value


@functools.cache
def _signals() -> Any:
    if not JIT_ENABLED:
        return _InPython
    from mainstem import waiting

    return waiting
