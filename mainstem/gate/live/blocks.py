"""Rows wait as columns, run after run; what is ready is found by bisection and merged all at once."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from mainstem.gate.kernels import first_rows
from mainstem.gate.live.order import Mark, Next, the_end


@dataclass
class _Waiting:
    """The rows of one input that were not taken. The lock is held for a moment: runs are never copied in it."""

    runs: deque[np.ndarray] = field(default_factory=deque)
    shown: int | None = None
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)


class Blocks:
    """The implementation for throughput."""

    def __init__(self, inputs: int) -> None:
        self._inputs = [_Waiting() for _ in range(inputs)]

    def add(self, number: int, ts: np.ndarray) -> None:
        waiting = self._inputs[number]
        with waiting.lock:
            waiting.runs.append(ts)
            waiting.shown = int(ts[-1])

    def promise(self, number: int, ts: int) -> None:
        with self._inputs[number].lock:
            self._inputs[number].shown = ts

    def close(self, number: int) -> None:
        with self._inputs[number].lock:
            self._inputs[number].closed = True

    def take(self, limit: int) -> Next:
        runs, frontier = self._look()
        if frontier is None:
            return Next([0] * len(runs), None)
        ready = [[_ready(run, number, frontier) for run in of_input] for number, of_input in enumerate(runs)]
        counts = [sum(map(len, of_input)) for of_input in ready]
        if sum(counts) > limit:
            joined = [_joined(of_input) for of_input in ready]
            counts = first_rows(joined, limit)
            last = [Mark(int(joined[at][count - 1]), at) for at, count in enumerate(counts) if count]
            frontier = max(last)
        for waiting, count in zip(self._inputs, counts, strict=True):
            _drop(waiting, count)
        return Next(counts, frontier)

    def _look(self) -> tuple[list[list[np.ndarray]], Mark | None]:
        """The rows at hand, and the first place at which something may still come. Inputs are looked at one after the
        other: what comes meanwhile is ahead of what was seen."""
        runs, frontier, silent = [], the_end(len(self._inputs)), False
        for number, waiting in enumerate(self._inputs):
            with waiting.lock:
                runs.append(list(waiting.runs))
                shown, closed = waiting.shown, waiting.closed
            if closed:
                continue
            if shown is None:
                silent = True
            else:
                frontier = min(frontier, Mark(shown, number))
        return runs, None if silent else frontier


def _ready(run: np.ndarray, number: int, frontier: Mark) -> np.ndarray:
    """The rows that come before anything that is still to come."""
    if int(run[-1]) < frontier.ts:
        return run
    return run[: int(np.searchsorted(run, frontier.ts, side="right" if number <= frontier.input else "left"))]


def _joined(runs: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(runs) if runs else np.empty(0, dtype=np.int64)


def _drop(waiting: _Waiting, count: int) -> None:
    with waiting.lock:
        while count:
            run = waiting.runs.popleft()
            if len(run) > count:
                waiting.runs.appendleft(run[count:])
            count -= min(count, len(run))
