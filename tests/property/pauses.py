"""Uncompiled threads that stand still at bad moments, so that others overtake them there.

Python's own switching of threads does little for that: one runs for as long as many transactions take, and on a busy
machine hardly any two meet. Here a lot decides after which accesses to shared memory a thread sleeps: those of
generated functions to rows, and those of kernels to the numbers by which threads know of each other.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from mainstem.engine import kernels, library
from mainstem.engine import load as loading
from mainstem.team import team

THREADS = (1, 2, 4, 8)
PAUSE_SECONDS = 1e-6  # the system adds some fifty microseconds: time for an uncompiled transaction
PAUSE_TRIES = 8  # on a busy machine it is often another process that gets on
GAP, GAP_ALONE = 30, 480  # accesses until the next pause, on average; the second where nobody gets on meanwhile
_ACCESS = re.compile(r"^( +)(?:\w+ = T\d+\[|[TW]\d+\[|U\d+\[u\d+\] = T\d+\[).*$", re.MULTILINE)
_SHARED = ("atomic_add", "atomic_change", "atomic_load", "atomic_release", "atomic_store", "invoke")


class Pauses:
    """Counts accesses, those of all threads together; who makes the one that was drawn sleeps."""

    def __init__(self) -> None:
        self.overtaken = 0  # pauses in which others got on
        self._random, self._gap = random.Random(0), GAP
        self._accesses, self._next = 0, 0.0

    def access(self) -> None:
        self._accesses += 1
        if self._accesses > self._next:
            self._pause()

    def _pause(self) -> None:
        before = self._accesses
        self._next = before + self._random.expovariate(1 / self._gap)
        for _ in range(PAUSE_TRIES):
            time.sleep(PAUSE_SECONDS)
            if self._accesses > before:
                self.overtaken, self._gap = self.overtaken + 1, GAP
                return
        self._gap = min(2 * self._gap, GAP_ALONE)

    def after(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def accessing(*arguments: Any) -> Any:
            found = function(*arguments)
            self.access()
            return found

        return accessing


def _rest(turn: int) -> int:
    """Others get on meanwhile: looking again at once would keep Python's lock from them."""
    time.sleep(1e-6)
    return turn + 1


@contextlib.contextmanager
def pausing() -> Iterator[Pauses]:
    """Uncompiled runs have pauses meanwhile."""
    pauses = Pauses()
    names, interpreted = library.names, loading._interpreted

    def slowed(source: str) -> dict[str, Any]:
        return interpreted(_ACCESS.sub(r"\g<0>\n\1access()", source))

    loading.load.cache_clear()
    try:
        with pytest.MonkeyPatch.context() as patch, _on_one_core():
            patch.setattr(library, "names", lambda jit: {**names(jit), "access": pauses.access})
            patch.setattr(loading, "_interpreted", slowed)
            for module in [kernels.load(file.stem, False) for file in Path(kernels.__file__).parent.glob("[a-z]*.py")]:
                for name in {*_SHARED, "rest"} & vars(module).keys():
                    patch.setattr(module, name, _rest if name == "rest" else pauses.after(getattr(module, name)))
            yield pauses
    finally:
        loading.load.cache_clear()


@contextlib.contextmanager
def _on_one_core() -> Iterator[None]:
    """Uncompiled threads take turns anyway; on several cores each turn is a fight for Python's lock."""
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    _end_threads()  # new ones stay where they are begun
    os.sched_setaffinity(0, {cores[worker % len(cores)]})
    try:
        yield
    finally:
        _end_threads()
        os.sched_setaffinity(0, cores)


def _end_threads() -> None:
    for threads in THREADS:
        team(threads).close()
