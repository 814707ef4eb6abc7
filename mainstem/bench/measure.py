"""Timing on machines that are not quiet: contenders take turns, and a figure shows its best and its median."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


def load_note() -> str:
    """What else the machine is doing, to be printed beside figures."""
    return f"Load of the machine before: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores (0 is quiet)."


@dataclass
class Stopwatch:
    """Wall time, and the time that this process (all its threads) had a core: the difference is other processes'."""

    seconds: float = 0.0
    cpu_seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time spent in the block."""
    watch = Stopwatch()
    start, cpu_start = time.perf_counter(), time.process_time()
    yield watch
    watch.seconds, watch.cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start


@dataclass(frozen=True)
class Ending:
    """What a run ended in, in digests."""

    state: str
    outputs: str

    def __str__(self) -> str:
        return f"{self.state}/{self.outputs}"


@dataclass
class Figure:
    """One contender's runs over the same events."""

    name: str
    events: int
    times: list[Stopwatch] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Events per second of the fastest run."""
        return self.events / min(taken.seconds for taken in self.times)

    @property
    def median(self) -> float:
        return self.events / statistics.median(taken.seconds for taken in self.times)

    @property
    def best_cpu(self) -> float:
        """Events per second of CPU time of this process: hardly moved by other processes."""
        return self.events / min(taken.cpu_seconds for taken in self.times)

    @property
    def ending(self) -> Ending:
        return self.endings[-1]


Contender = Callable[[], tuple[Stopwatch, Ending]]
"""Runs once from a fresh start; returns the time that counts, and what it ended in."""


def take_turns(
    contenders: Mapping[str, Contender], events: int, repeats: int, done: Callable[[str], None] = lambda name: None
) -> list[Figure]:
    """Every contender once, then every contender again, …: a slow minute of the machine hits all of them."""
    figures = {name: Figure(name, events) for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            taken, ending = contender()
            figures[name].times.append(taken)
            figures[name].endings.append(ending)
            done(name)
    return list(figures.values())


def disagreements(figures: list[Figure]) -> list[str]:
    """Every pair of figures (and of runs) over equally many events that did not end alike."""
    found = []
    expected: dict[int, tuple[str, Ending]] = {}
    for figure in figures:
        for ending in figure.endings:
            name, first = expected.setdefault(figure.events, (figure.name, ending))
            if ending != first:
                found.append(f"{figure.name} over {figure.events:,} events ended in {ending}, but {name} in {first}")
    return sorted(set(found))
