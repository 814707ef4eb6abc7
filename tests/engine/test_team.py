"""Threads that run one task together."""

from __future__ import annotations

import functools
import os
import random
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from mainstem import team as module
from mainstem.engine.entry import Bound
from mainstem.engine.kernels.control import CONTROL_WORDS, LINE, STOP
from mainstem.engine.load import load
from mainstem.engine.strategies.nested import run_at_once
from mainstem.engine.tasks import CompiledTask
from mainstem.team import Errand, Team, default_threads, team


@pytest.fixture(params=[1, 2, 4])
def any_team(request: pytest.FixtureRequest):
    made = Team(request.param)
    yield made
    made.close()


def wait_for_stop(control: np.ndarray) -> None:
    while control[STOP * LINE] == 0:
        time.sleep(0)


def test_every_worker_runs_once_and_worker_0_is_the_caller(any_team: Team) -> None:
    for _ in range(50):
        seen: dict[int, int] = {}
        any_team.run(lambda w, seen=seen: seen.setdefault(w, threading.get_ident()))
        assert sorted(seen) == list(range(any_team.threads))
        assert seen[0] == threading.get_ident()
        assert len(set(seen.values())) == any_team.threads


def test_threads_stay_between_runs_and_end_with_close(any_team: Team) -> None:
    runs: list[set[int]] = []
    for _ in range(2):
        identities: set[int] = set()
        any_team.run(lambda w, known=identities: known.add(threading.get_ident()))
        runs.append(identities)
    assert runs[0] == runs[1]
    any_team.close()
    alive = {thread.ident for thread in threading.enumerate()}
    assert runs[0] & alive == {threading.get_ident()}
    any_team.run(lambda w: None)  # starts new ones


def test_threads_begin_and_end_at_any_moment(any_team: Team) -> None:
    """Awake, about to sleep or asleep: none misses a run, and the caller misses no end."""
    draw = random.Random(1)
    pauses = [draw.choice((0.0, 2e-5, 1e-4, 3e-4)) for _ in range(any_team.threads * 600)]
    seen = [0] * any_team.threads

    def task(w: int) -> None:
        time.sleep(pauses[w * 600 + seen[w]])
        seen[w] += 1

    for _ in range(300):
        any_team.run(task)
    for n in range(300, 600):
        errand = any_team.together(task)
        errand.start()
        time.sleep(pauses[-n])
        errand.join()
    assert seen == [600] * any_team.threads


def test_an_interrupt_before_a_thread_is_woken_leaves_nobody_asleep(monkeypatch: pytest.MonkeyPatch) -> None:
    made, interrupted = Team(2), list[bool]()
    made.run(lambda w: None)
    time.sleep(0.01)  # until it sleeps
    wake, plain = made._others[0]._wake, module._open

    def opened(lock: Any) -> None:
        if lock is wake and not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt
        plain(lock)

    monkeypatch.setattr(module, "_open", opened)
    with pytest.raises(KeyboardInterrupt):
        made.run(lambda w: None)
    made.run(lambda w: None)
    made.close()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("culprit", [0, 1, 3])
def test_an_exception_stops_the_others_and_is_raised(error: type[BaseException], culprit: int) -> None:
    control = np.zeros(CONTROL_WORDS, np.int64)
    returned: set[int] = set()

    def task(w: int) -> None:
        if w == culprit:
            raise error(f"worker {w}")
        wait_for_stop(control)
        returned.add(w)

    four = team(4)
    with pytest.raises(error, match=f"worker {culprit}"):
        four.run(task, control)
    assert returned == {0, 1, 2, 3} - {culprit}
    four.run(returned.add)  # and works again
    assert returned == {0, 1, 2, 3}


def test_the_first_exception_wins() -> None:
    control = np.zeros(CONTROL_WORDS, np.int64)

    def task(w: int) -> None:
        if w != 2:
            wait_for_stop(control)
        raise ValueError(f"worker {w}")

    with pytest.raises(ValueError, match="worker 2"):
        team(3).run(task, control)


def test_without_control_an_exception_is_raised_after_all_have_returned() -> None:
    finished: list[int] = []

    def task(w: int) -> None:
        if w == 0:
            raise ValueError("early")
        finished.append(w)

    with pytest.raises(ValueError, match="early"):
        team(2).run(task)
    assert finished == [1]


def test_an_interrupt_from_outside_stops_a_worker_that_would_run_for_ever() -> None:
    control = np.zeros(CONTROL_WORDS, np.int64)

    def task(w: int) -> None:
        if w == 1:
            os.kill(os.getpid(), signal.SIGINT)
            wait_for_stop(control)

    with pytest.raises(KeyboardInterrupt):
        team(2).run(task, control)


def test_a_sleeping_team_keeps_nothing_alive() -> None:
    class Arrays:
        pass

    arrays = Arrays()
    watched = weakref.ref(arrays)
    team(2).run(lambda w, arrays=arrays: None)
    del arrays
    assert watched() is None


def test_callers_on_several_threads_take_turns() -> None:
    shared, inside, most = team(2), [0], [0]
    guard = threading.Lock()

    def task(w: int) -> None:
        with guard:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
        time.sleep(0)
        with guard:
            inside[0] -= 1

    callers = [threading.Thread(target=lambda: [shared.run(task) for _ in range(20)]) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert inside == [0] and most[0] <= 2


def sent(task: Callable[[], None]) -> Errand:
    errand = team(2).errand(task)
    errand.start()
    return errand


def test_an_errand_runs_on_another_thread_until_it_is_waited_for() -> None:
    go_on, seen = threading.Event(), []

    def task() -> None:
        go_on.wait(60)
        seen.append(threading.get_ident())

    errand = sent(task)
    assert not seen
    go_on.set()
    errand.wait()
    assert len(seen) == 1 and seen[0] != threading.get_ident()
    errand.wait()  # once more does no harm


def test_an_errand_that_was_never_sent_is_over() -> None:
    team(2).errand(lambda: None).wait()


def test_a_run_waits_for_an_errand() -> None:
    seen: list[object] = []

    def task() -> None:
        time.sleep(0.05)
        seen.append("errand")

    errand = sent(task)
    team(2).run(seen.append)
    errand.wait()
    assert seen[0] == "errand" and sorted(seen[1:]) == [0, 1]  # type: ignore[type-var]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_what_an_errand_raises_is_raised_by_waiting(error: type[BaseException]) -> None:
    def task() -> None:
        raise error("errand")

    errand = sent(task)
    with pytest.raises(error, match="errand"):
        errand.wait()
    team(2).run(lambda w: None)


def test_an_interrupt_while_waiting_comes_after_the_errand() -> None:
    done = []

    def task() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.1)
        done.append(1)

    def run() -> None:
        errand = team(2).errand(task)
        try:
            errand.start()
            time.sleep(1)
        finally:
            errand.wait()

    with pytest.raises(KeyboardInterrupt):
        run()
    assert done == [1]


def test_an_interrupt_while_another_thread_has_the_team_comes_after_the_errand() -> None:
    """Another caller waits for the errand to end, and holds the team meanwhile."""
    done: list[int] = []

    def task() -> None:
        time.sleep(0.2)
        done.append(1)

    errand = sent(task)
    other = threading.Thread(target=lambda: team(2).run(lambda w: None))
    other.start()
    timer = threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        errand.wait()
    assert done == [1]
    other.join()
    timer.join()


class TestCompiledTasks:
    """Threads go from one to the next without Python."""

    @staticmethod
    def task(seen: np.ndarray, rounds: int = 1) -> Any:
        """Each worker adds 1 to its place of `seen`, so many times; the context is good as long as the task lives."""
        made = CompiledTask(_adder(), Bound(0, 0, ()), (seen, rounds))
        assert made.function and made.context
        return made

    @pytest.mark.parametrize("threads", [2, 4])
    def test_each_begins_when_all_have_ended_the_one_before(self, threads: int) -> None:
        made, seen = Team(threads), np.zeros(threads * LINE, np.int64)
        runs = [made.together(self.task(seen, n + 1)) for n in range(200)]
        runs[0].start()
        begun = 0
        for run, then in pairwise(runs):
            if run.join(then):
                begun += 1
            else:  # on a busy machine somebody may come too late
                then.start()
        assert not runs[-1].join()
        assert seen[0] >= seen[LINE] == sum(range(1, 201))
        assert len(set(seen[LINE::LINE].tolist())) == 1
        assert begun > 0
        made.close()

    def test_threads_that_sleep_are_woken(self) -> None:
        made, seen = Team(2), np.zeros(2 * LINE, np.int64)
        first, second = (made.together(self.task(seen)) for _ in range(2))
        first.start()
        time.sleep(0.01)  # it has ended, and sleeps
        if not first.join(second):
            second.start()
        second.join()
        assert seen[::LINE].tolist() == [2, 2]
        made.close()

    def test_nothing_is_passed_on_to_a_team_that_others_have_had(self) -> None:
        made, seen, others = Team(2), np.zeros(2 * LINE, np.int64), list[int]()
        first, second = (made.together(self.task(seen)) for _ in range(2))
        first.start()
        made.run(others.append)
        assert not first.join(second)
        second.start()
        second.join()
        assert seen[::LINE].tolist() == [2, 2] and sorted(others) == [0, 1]
        made.close()

    def test_what_python_has_to_call_is_not_passed_on(self) -> None:
        made, seen, called = Team(2), np.zeros(2 * LINE, np.int64), list[int]()
        first, second = made.together(self.task(seen)), made.together(called.append)
        first.start()
        assert not first.join(second)
        second.start()
        assert not second.join(first)
        assert sorted(called) == [0, 1]
        made.close()

    def test_a_thread_that_does_not_end_is_not_waited_for_in_compiled_code(self) -> None:
        """Somebody may press Ctrl-C: Python waits for it."""
        made, seen = Team(2), np.zeros(2 * LINE, np.int64)
        first, second = (made.together(self.task(seen)) for _ in range(2))
        made._get_ready()
        slow = threading.Event()
        made._others[0].start(module._Run(lambda w: slow.wait(60) and None, None))
        made._last = first._run
        timer = threading.Timer(1.5, slow.set)
        timer.start()
        assert not first.join(second)
        assert slow.is_set()
        made.close()

    def test_what_a_thread_raises_is_raised_when_the_next_has_begun(self) -> None:
        """One that sleeps begins in Python, where memory may be short."""

        class Failing(CompiledTask):
            def __call__(self, worker: int) -> None:
                raise ValueError(f"worker {worker}")

        made, seen = Team(2), np.zeros(2 * LINE, np.int64)
        made.run(lambda w: None)
        time.sleep(0.05)  # until it sleeps
        first = made.together(Failing(_adder(), Bound(0, 0, ()), (seen, 1)))
        second = made.together(self.task(seen))
        first.start()
        with pytest.raises(ValueError, match="worker"):
            first.join(second)
        second.give_up(ValueError())
        second.wait()
        made.run(lambda w: None)  # and works again
        made.close()

    def test_a_sleeping_team_keeps_nothing_alive(self) -> None:
        made, seen = Team(2), np.zeros(2 * LINE, np.int64)
        tasks = [self.task(seen) for _ in range(2)]
        watched = [weakref.ref(task) for task in tasks]
        first, second = map(made.together, tasks)
        first.start()
        if not first.join(second):
            second.start()
        second.join()
        del first, second, tasks
        assert [ref() for ref in watched] == [None, None]
        made.close()


@functools.cache
def _adder() -> int:
    source = """
from mainstem.engine.native import word

INT64 = np.dtype("i8")

@entry
def add(context, item, worker):
    seen = take(context, 2, INT64)
    for _ in range(word(context, 3)):
        seen[worker * 8] += 1
    return 0
"""
    return int(load(source, True)["add"].address)


def test_a_forked_process_has_threads_of_its_own() -> None:
    script = """
import os
from mainstem.team import team
team(3).run(lambda w: None)
child = os.fork()
seen = set()
team(3).run(seen.add)
if child == 0:
    os._exit(0 if seen == {0, 1, 2} else 1)
status = os.waitpid(child, 0)[1]
assert status == 0 and seen == {0, 1, 2}, (status, seen)
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


def test_teams_are_shared_by_size() -> None:
    assert team(2) is team(2)
    assert team(2) is not team(3)
    assert 1 <= default_threads() <= (os.cpu_count() or 1)


def test_a_team_of_nobody_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 thread, not 0"):
        Team(0)


def test_an_interrupt_stops_works_that_run_at_once() -> None:
    """Each on a team of its own: the caller, which the interrupt reaches, runs none of them."""
    works = [SimpleNamespace(threads=1, control=np.zeros(CONTROL_WORDS, np.int64)) for _ in range(2)]
    ended = []

    def run(work: Any, team_of_its_own: Any) -> None:
        if work is works[1]:
            os.kill(os.getpid(), signal.SIGINT)
        wait_for_stop(work.control)
        ended.append(work)

    with pytest.raises(KeyboardInterrupt):
        run_at_once(works, run, lambda: None)  # type: ignore[arg-type]
    assert len(ended) == 2
