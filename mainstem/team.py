"""Threads that run one task together, batch after batch.

A batch may take less than a millisecond, so its threads stay between batches, each asleep on a lock of its own.
Releasing that lock is the cheapest way to wake a thread from Python: one system call, no queue, no condition variable.
It takes 10 to 20 µs until the thread runs. The way back would take as long again, so the caller looks out for the
others for some microseconds before it sleeps too, and they do the same for the next task (`waiting.py`). A task that is
compiled as a whole they then begin without Python.
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
from mainstem.thread_words import AWAITED, BEGUN, ENDED, STARTED, THREAD_WORDS

Task = Callable[[int], None]
_WORKER = "mainstem-worker-"

STOP_WORD = 16
"""The word of a control array that is not 0 when a thread has failed: the others return as soon as they see it."""


class _Run:
    """One task on its way through the threads.

    A task with a `function` and a `context` is compiled as a whole: calling it calls them (`pointers.invoke`), which
    threads also do without Python.
    """

    def __init__(self, task: Task, control: np.ndarray | None) -> None:
        self.task, self.control = task, control
        self.function = int(getattr(task, "function", 0))  # 0: not compiled
        self.context = int(getattr(task, "context", 0))
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

    Numbers decide (`waiting.py`), locks only wake: an interrupt may end `finish` anywhere, and it is called again then.
    Who was woken looks at the numbers, and may find nothing new.
    """

    def __init__(self, worker: int, words: np.ndarray) -> None:
        """`words` are those of all threads of a team."""
        self._worker, self._words = worker, words
        self._at = (worker - 1) * THREAD_WORDS
        words[self._at : self._at + THREAD_WORDS] = 0  # another one may have had the place
        self._runs: list[_Run | None] = [None, None]  # by number: the one at hand, and one that follows it
        self._wake, self._finished = threading.Lock(), threading.Lock()
        self._wake.acquire()
        self._finished.acquire()
        self._thread = threading.Thread(target=self._loop, name=f"{_WORKER}{worker}", daemon=True)

    def begin(self) -> None:
        """Unless it has begun. An interrupt may come here: the thread is known to its team before it exists."""
        if self._thread.ident is None:
            self._thread.start()

    def _word(self, place: int) -> int:
        return int(self._words[self._at + place])

    @property
    def idle(self) -> bool:
        return self._word(ENDED) == self._word(STARTED)

    def expect(self, run: _Run | None) -> None:
        """The next run is this one."""
        self._runs[(self._word(STARTED) + 1) % 2] = run

    def start(self, run: _Run | None) -> None:
        """`None` ends the thread. One that is awake has begun when this returns, or nearly always."""
        self.expect(run)
        signals, short = _signals(), run is not None and run.control is not None
        settling = signals.SETTLING if short else signals.SETTLING_SERIAL
        function, context = (0, 0) if run is None else (run.function, run.context)
        signals.tell(self._words, self._at, function, context, settling)
        _open(self._wake)

    def wake(self) -> None:
        """After another way to start it. Before, it has ended its last run: nobody needs that any more."""
        self._runs[(self._word(STARTED) + 1) % 2] = None
        if self._word(BEGUN) < self._word(STARTED):
            _open(self._wake)

    def let_begin(self) -> None:
        """Leaves Python's lock to the thread until it runs, or for some microseconds: a caller that goes on in Python
        would keep it waiting for as long as that takes."""
        started = self._word(STARTED)
        if self._word(BEGUN) < started:
            _signals().wait_briefly(self._words, self._at + BEGUN, started)

    def finish(self) -> None:
        """Returns at once when nothing is running."""
        started = self._word(STARTED)
        if self._word(ENDED) < started:
            _signals().wait_briefly(self._words, self._at + ENDED, started)
        while self._word(ENDED) < started:
            self._words[self._at + AWAITED] = 1
            _open(self._wake)  # an interrupt may have come before
            self._finished.acquire()
        self._words[self._at + AWAITED] = 0
        self._runs[:] = None, None  # a sleeping thread must not keep the batch's arrays alive

    def end(self) -> None:
        if self._thread.is_alive():  # it may have been told before, when an interrupt came
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
            runs = _signals().look_out(self._words, self._at, runs, self._worker)
            _open(self._finished)
            while self._word(STARTED) == runs:
                self._wake.acquire()
            runs += 1
            self._words[self._at + BEGUN] = runs
            run, self._runs[runs % 2] = self._runs[runs % 2], None
            if run is None:
                return
            run.work(self._worker)
            run = None


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
        self._words = np.zeros(max(1, self.threads - 1) * THREAD_WORDS, np.int64)
        self._last: _Run | None = None  # that was sent to all threads, and whose caller has not joined them
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
            self._last = run if most is None else None

    def _pass_on(self, run: _Run, then: _Run) -> bool:
        """Takes part in a run; the moment that all have ended it, the others begin another. False: they have not.

        Others who want the team wait meanwhile. If they have had it, there is nothing to be passed on.
        """
        with self._entry:
            if self._last is not run or not run.function or not then.function:
                return False
            for thread in self._others:
                thread.expect(then)
            passed = _signals().pass_on(
                self._words, len(self._others), run.function, run.context, then.function, then.context
            )
            if passed:
                self._last = then
                for thread in self._others:
                    thread.wake()
                for thread in self._others[:1]:
                    thread.let_begin()
                self._spread()
            return bool(passed)

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
            self._others.append(_Thread(len(self._others) + 1, self._words))
            self._callers_core = -1
        for thread in self._others:
            thread.begin()
        self._spread()

    def _finish_all(self) -> None:
        for thread in self._others:
            thread.finish()
        self._last = None

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
            self._last = None
            while self._others:
                self._others[-1].end()
                self._others.pop()


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

    def join(self, then: Together | None = None) -> bool:
        """Takes part, returns when all have returned, and raises the first exception of any, also when asked again.

        `then` is what comes next on this team: gives whether the others have begun it, as they do if both are compiled.
        """
        begun = then is not None and not self._run.errors and self._team._pass_on(self._run, then._run)
        if not begun:
            if not self._run.errors:
                self._run.work(0)
            self._team._await(self._run)
        if self._run.errors:
            raise self._run.errors[0]
        return begun

    def give_up(self, error: BaseException) -> None:
        """Tells all to return as soon as they can."""
        self._run.fail(error)

    def wait(self) -> None:
        """Returns when nobody is at it."""
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
    def wait_briefly(words: np.ndarray, at: int, value: int) -> None:
        pass

    @staticmethod
    def tell(words: np.ndarray, at: int, function: int, context: int, settling: int) -> None:
        words[at + STARTED] += 1

    @staticmethod
    def look_out(words: np.ndarray, at: int, ended: int, worker: int) -> int:
        words[at + ENDED] = ended
        return ended

    @staticmethod
    def pass_on(*_: object) -> bool:
        return False


@functools.cache
def _signals() -> Any:
    if not JIT_ENABLED:
        return _InPython
    from mainstem import waiting

    return waiting
