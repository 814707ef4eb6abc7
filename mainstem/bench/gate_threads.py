"""Threads that bring events one by one into a structure of the live gate, and one that takes them out."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from mainstem.atomics import rest, ticks
from mainstem.bench.measure import Stopwatch, stopwatch
from mainstem.gate.live.kernels.base import LINE
from mainstem.jit import compile_kernel

RING = 1024  # nodes per input
SAMPLE = 16  # of so many events, one is timed


def _kernels(structure: ModuleType) -> tuple[Any, Any]:
    insert, close, pop = structure.insert, structure.close, structure.pop

    def feed(
        shared: Any, ts: np.ndarray, first: int, step: int, inputs: int, pace: float, done: np.ndarray, came: np.ndarray
    ) -> None:
        """Brings the events of inputs `first`, `first + step`, …, one of each in turn; with `pace`, event n of each
        input not before n * pace ticks have passed. An input that is full is passed over: what makes room there may be
        an event of another one."""
        length, start, turn, left = len(ts) // inputs, ticks(), 0, True
        while left:
            left, moved = False, False
            for number in range(first, inputs, step):
                at = done[number * LINE]
                if at == length:
                    continue
                left = True
                if pace > 0 and ticks() - start < at * pace:
                    continue
                row = number * length + at
                if row % SAMPLE == 0 and came[row // SAMPLE] == 0:
                    came[row // SAMPLE] = ticks()
                if insert(shared, number, ts[row], row):
                    done[number * LINE] = at + 1
                    moved = True
                    if at + 1 == length:
                        close(shared, number)
            turn = 0 if moved else rest(turn)

    def drain(shared: Any, rows: np.ndarray, left: np.ndarray) -> None:
        """Takes all events, in order."""
        at, turn = 0, 0
        while at < len(rows):
            number, _, row = pop(shared, 0)
            if number < 0:
                turn = rest(turn)
                continue
            turn = 0
            rows[at] = row
            if row % SAMPLE == 0:
                left[row // SAMPLE] = ticks()
            at += 1

    return compile_kernel(feed, cache=False), compile_kernel(drain, cache=False)


@dataclass
class Outcome:
    watch: Stopwatch
    waited: np.ndarray  # ticks between insert and take of sampled events
    rows: np.ndarray


class Contender:
    """A structure, ready to run."""

    def __init__(self, name: str, structure: ModuleType) -> None:
        self.name, self._structure = name, structure
        self._feed, self._drain = _kernels(structure)
        self.run(np.arange(64, dtype=np.int64), 2, 1, 0.0)

    def run(self, ts: np.ndarray, inputs: int, threads: int, pace: float) -> Outcome:
        """`ts`: equally many events of each input, one input behind the other."""
        shared = self._structure.create(inputs, RING)
        came, left = np.zeros(len(ts) // SAMPLE + 1, np.int64), np.zeros(len(ts) // SAMPLE + 1, np.int64)
        rows, done = np.empty(len(ts), np.int64), np.zeros(inputs * LINE, np.int64)
        feeders = [
            threading.Thread(target=self._feed, args=(shared, ts, w, threads, inputs, pace, done, came))
            for w in range(threads)
        ]
        with stopwatch() as watch:
            for feeder in feeders:
                feeder.start()
            self._drain(shared, rows, left)
            for feeder in feeders:
                feeder.join()
        return Outcome(watch, (left - came)[:-1], rows)
