"""Timing on machines that are not quiet: contenders take turns, and a figure shows its best and its median."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field


class Stopwatch:
    seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Seconds of wall time spent in the block."""
    watch = Stopwatch()
    start = time.perf_counter()
    yield watch
    watch.seconds = time.perf_counter() - start


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
    seconds: list[float] = field(default_factory=list)
    endings: list[Ending] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Events per second of the fastest run."""
        return self.events / min(self.seconds)

    @property
    def median(self) -> float:
        return self.events / statistics.median(self.seconds)

    @property
    def ending(self) -> Ending:
        return self.endings[-1]


Contender = Callable[[], tuple[float, Ending]]
"""Runs once from a fresh start; returns the seconds that count, and what it ended in."""


def take_turns(
    contenders: Mapping[str, Contender], events: int, repeats: int, done: Callable[[str], None] = lambda name: None
) -> list[Figure]:
    """Every contender once, then every contender again, …: a slow minute of the machine hits all of them."""
    figures = {name: Figure(name, events) for name in contenders}
    for _ in range(repeats):
        for name, contender in contenders.items():
            seconds, ending = contender()
            figures[name].seconds.append(seconds)
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
