"""Threads in lockstep: one runs at a time, and a seed decides after which line another one goes on.

Races that take millions of runs to show by chance show here in a few, and the same seed shows them again.
"""

from __future__ import annotations

import contextlib
import importlib
import itertools
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FrameType, ModuleType
from typing import Any

import numpy as np
import pytest

from mainstem.engine import kernels
from mainstem.engine.kernels.control import LINE, STOP
from mainstem.engine.strategies import isolation
from mainstem.team import Team

FOLDER = Path(kernels.__file__).parent
GENERATED = "<generated kernels>"
LINES_MAX = 60_000  # four times what a run takes
_numbers = itertools.count()


class StuckError(Exception):
    """A run does not come to an end."""


class Baton:
    """Who has it runs."""

    def __init__(self, seed: int, workers: int) -> None:
        self.random = Random(seed)
        # How long a thread goes on alone: some races need many changes, some need one at the right place.
        self.often = self.random.choice((0.02, 0.1, 0.4))
        self.gates = [threading.Semaphore(0) for _ in range(workers)]
        self.active = list(range(workers))
        self.lines = 0
        self.asleep_until = [0] * workers  # lines: a thread may stand still in a bad place while others get far

    def line(self, worker: int) -> None:
        self.lines += 1
        if self.lines > LINES_MAX:
            raise StuckError
        if self.random.random() < self.often:
            self.asleep_until[worker] = self.lines + self.random.choice((0, 0, 30, 300))
            self.hand_on(worker)

    def hand_on(self, worker: int) -> None:
        others = [other for other in self.active if other != worker]
        if others:
            awake = [other for other in others if self.asleep_until[other] <= self.lines]
            self.gates[self.random.choice(awake or others)].release()
            self.gates[worker].acquire()

    def leave(self, worker: int) -> None:
        self.active.remove(worker)
        if self.active:
            self.gates[self.random.choice(self.active)].release()


class Lockstep:
    """Runs tasks of a team one line at a time; `rest` is what a waiting kernel calls."""

    def __init__(self, seed: int) -> None:
        self.seed, self.runs = seed, 0
        self.baton: Baton | None = None
        self.local = threading.local()

    def run(self, team: Team, task: Callable[[int], None], control: np.ndarray) -> None:
        self.baton = Baton(self.seed + self.runs, team.threads)
        self.runs += 1
        errors: list[BaseException] = []
        threads = [
            threading.Thread(target=self._work, args=(self.baton, worker, task, control, errors))
            for worker in range(team.threads)
        ]
        for thread in threads:
            thread.start()
        self.baton.gates[self.baton.random.randrange(team.threads)].release()
        for thread in threads:
            thread.join()
        if errors:
            raise errors[0]

    def rest(self, turn: int) -> int:
        assert self.baton is not None
        self.baton.hand_on(self.local.worker)
        return turn + 1

    def _work(
        self, baton: Baton, worker: int, task: Callable[[int], None], control: np.ndarray, errors: list[BaseException]
    ) -> None:
        def follow(frame: FrameType, event: str, _: Any) -> Any:
            return step if _is_followed(frame.f_code.co_filename) else None

        def step(frame: FrameType, event: str, _: Any) -> Any:
            if event == "line":
                baton.line(worker)
            return step

        self.local.worker = worker
        baton.gates[worker].acquire()
        sys.settrace(follow)
        try:
            task(worker)
        except BaseException as error:
            errors.append(error)
            control[STOP * LINE] = 1
        finally:
            sys.settrace(None)
            baton.leave(worker)


def _is_followed(file: str) -> bool:
    return file == GENERATED or (file.startswith(str(FOLDER)) and not file.endswith("base_plain.py"))


def source_of(module: str) -> str:
    return (FOLDER / f"{module}.py").read_text()


@contextlib.contextmanager
def in_lockstep(seed: int, **changed: str) -> Iterator[None]:
    """Protocols run uncompiled and in lockstep meanwhile; `changed` has other source texts for some modules."""
    lockstep = Lockstep(seed)
    package = f"lockstep_kernels_{next(_numbers)}"
    try:
        _make_package(package, lockstep.rest, changed)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(isolation, "load", lambda name, jit: importlib.import_module(f"{package}.{name}"))
            patch.setattr(Team, "run", lambda team, task, control: lockstep.run(team, task, control))
            yield
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[name]


def _make_package(package: str, rest: Callable[[int], int], changed: dict[str, str]) -> None:
    """Kernels once more, with another `rest`."""
    sys.modules[package] = ModuleType(package)
    sys.modules[package].__path__ = [str(FOLDER)]
    plain = importlib.import_module(f"{kernels.__name__}.base_plain")
    base = ModuleType(f"{package}.base")
    vars(base).update({name: value for name, value in vars(plain).items() if name[0] != "_"}, rest=rest)
    sys.modules[base.__name__] = base
    for name, text in changed.items():
        _execute(f"{package}.{name}", FOLDER / f"{name}.py", text)


def _execute(name: str, file: Path, text: str) -> None:
    module = ModuleType(name)
    module.__package__ = name.rpartition(".")[0]
    sys.modules[name] = module
    exec(compile(text, str(file), "exec"), vars(module))
