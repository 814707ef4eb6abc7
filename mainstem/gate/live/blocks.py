"""Rows wait as columns, run after run; what is ready is found by bisection and merged all at once."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from mainstem.gate.kernels import first_rows
from mainstem.gate.live.order import Mark, Next, the_end

_NO_ROWS = np.empty(0, dtype=np.int64)


@dataclass
class _Waiting:
    """The rows of one input that were not taken. The lock is held for a moment: rows are never copied in it."""

    runs: deque[np.ndarray] = field(default_factory=deque)
    shown: int | None = None
    closed: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def head(self, count: int, last: int) -> tuple[np.ndarray, bool]:
        """The first `count` rows or fewer, those with a ts up to `last` among them; and whether there are more."""
        runs, room, more = [], count, False
        with self.lock:
            for run in self.runs:
                if int(run[0]) > last:
                    break
                more = len(run) > room
                if room:
                    runs.append(run[:room])
                    room -= len(runs[-1])
                if more:
                    break
        rows = runs[0] if len(runs) == 1 else np.concatenate(runs) if runs else _NO_ROWS
        return rows, more

    def drop(self, count: int) -> None:
        """Takes the first rows away."""
        with self.lock:
            while count:
                run = self.runs.popleft()
                if len(run) > count:
                    self.runs.appendleft(run[count:])
                count -= min(count, len(run))


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
        frontier = self._frontier()
        if frontier is None:
            return Next([0] * len(self._inputs), None)
        ready, upto = self._ready(frontier, limit)
        counts = list(map(len, ready))
        if sum(counts) > limit:
            counts = first_rows(ready, limit)
            upto = max(Mark(int(ready[at][count - 1]), at) for at, count in enumerate(counts) if count)
        for waiting, count in zip(self._inputs, counts, strict=True):
            waiting.drop(count)
        return Next(counts, upto)

    def _frontier(self) -> Mark | None:
        """The first place at which something may still come; None when an input may bring anything. Inputs are looked
        at one after the other: what comes meanwhile is ahead of what was seen."""
        frontier = the_end(len(self._inputs))
        for number, waiting in enumerate(self._inputs):
            with waiting.lock:
                shown, closed = waiting.shown, waiting.closed
            if closed:
                continue
            if shown is None:
                return None
            frontier = min(frontier, Mark(shown, number))
        return frontier

    def _ready(self, frontier: Mark, limit: int) -> tuple[list[np.ndarray], Mark]:
        """The rows of each input up to a place: the frontier, or one up to which there are enough rows.

        All inputs are asked for their share of the limit, and for twice as much while that gives less than half of it,
        so that a call looks at a few times as many rows as it takes, however many are ready.
        """
        share = max(1, limit // len(self._inputs))
        while True:
            heads = [waiting.head(share, frontier.ts) for waiting in self._inputs]
            ends = [Mark(int(rows[-1]), number) for number, (rows, more) in enumerate(heads) if more]
            upto = min([frontier, *ends])
            ready = [_before(rows, number, upto) for number, (rows, _) in enumerate(heads)]
            if upto not in ends or 2 * sum(map(len, ready)) >= limit:
                return ready, upto
            share *= 2


def _before(rows: np.ndarray, number: int, place: Mark) -> np.ndarray:
    """The rows of an input that stand up to a place."""
    if not len(rows) or int(rows[-1]) < place.ts:
        return rows
    return rows[: int(np.searchsorted(rows, place.ts, side="right" if number <= place.input else "left"))]
