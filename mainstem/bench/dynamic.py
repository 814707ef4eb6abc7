"""A workload that changes while it runs: every fixed strategy, and `auto`, over the whole of it.

The stream is that of `mainstem.apps.workloads.dynamic`: four phases, each in steps. All strategies run the same batches
in turns, each with an executor of its own that was warmed up on one batch of each phase; the fastest run of each
counts. A run is given up when it has taken twice as long as the fastest one did for all of it: some strategies would
take a hundred times as long in the last phase.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from mainstem.apps import ledger_work
from mainstem.apps.workloads import dynamic
from mainstem.bench.engines import AUTO, NOLOCK, WAYS, Pass, Runner, Way, batches_of, get_ready
from mainstem.bench.measure import Ending, load_note
from mainstem.engine import BatchStats
from mainstem.gate import EventBatch

GIVE_UP = 2.0  # times the seconds of the fastest run so far


@dataclass(frozen=True)
class Options:
    ways: Sequence[Way] = tuple(WAYS.values())
    events: int = 409_600  # per phase, at the full rate
    steps: int = 4  # per phase
    batch: int = 1_024  # at the full rate
    cost: float = 5.0
    repeats: int = 2
    threads: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Step:
    """A piece of the stream with the same knobs: batches `first` to `last`."""

    phase: int
    number: int  # in its phase, from 0
    knobs: dict[str, float]
    first: int
    last: int

    def of(self, stats: Sequence[BatchStats]) -> Sequence[BatchStats]:
        return stats[self.first : self.last + 1]

    def rate(self, stats: Sequence[BatchStats]) -> float:
        own = self.of(stats)
        return sum(batch.events for batch in own) / sum(batch.seconds for batch in own)

    def choices(self, stats: Sequence[BatchStats]) -> list[str]:
        """Strategies of its batches, the most frequent first."""
        return [engine for engine, _ in Counter(batch.engine for batch in self.of(stats)).most_common()]


@dataclass
class Results:
    options: Options
    steps: list[Step]
    events: int
    fastest: dict[str, Pass] = field(default_factory=dict)  # by label
    endings: dict[str, set[Ending]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def rate(self, label: str) -> float:
        """Events per second over the whole run; at most so many where it was given up."""
        return self.events / self.fastest[label].watch.seconds

    def is_whole(self, label: str) -> bool:
        """Whether it was not given up."""
        return self.covers(self.fastest[label])

    def covers(self, done: Pass) -> bool:
        return len(done.stats) > self.steps[-1].last

    def step_rate(self, label: str, step: Step) -> float | None:
        """Events per second of a step; None where the run was given up before its end."""
        stats = self.fastest[label].stats
        return step.rate(stats) if len(stats) > step.last else None

    @property
    def fixed(self) -> list[str]:
        """Safe fixed strategies, the fastest first."""
        return sorted((label for label in self.fastest if label not in (AUTO, NOLOCK)), key=self.rate, reverse=True)

    @property
    def gain(self) -> float:
        """`auto` against the best fixed strategy."""
        return self.rate(AUTO) / self.rate(self.fixed[0])

    def perfect(self, step: Step) -> tuple[str, float]:
        """The best safe fixed strategy of one step, in the fastest run of each, and its seconds."""
        ran = [label for label in self.fixed if self.step_rate(label, step) is not None]
        taken = {label: sum(b.seconds for b in step.of(self.fastest[label].stats)) for label in ran}
        best = min(taken, key=lambda label: taken[label])
        return best, taken[best]

    @property
    def perfect_rate(self) -> float:
        """Events per second of a chooser that takes the best fixed strategy in every step, and knows it before."""
        return self.events / sum(self.perfect(step)[1] for step in self.steps)

    @property
    def chosen(self) -> dict[int, list[str]]:
        """Phase -> strategies that `auto` ran most batches of a step with, in order of first use."""
        found: dict[int, list[str]] = {}
        for step in self.steps:
            found.setdefault(step.phase, []).append(step.choices(self.fastest[AUTO].stats)[0])
        return {phase: list(dict.fromkeys(engines)) for phase, engines in found.items()}

    @property
    def changes(self) -> int:
        """How often two steps in a row mostly ran with different strategies."""
        main = [step.choices(self.fastest[AUTO].stats)[0] for step in self.steps]
        return sum(a != b for a, b in pairwise(main))

    @property
    def disagreements(self) -> list[str]:
        safe = {label: ends for label, ends in self.endings.items() if WAYS[label].safe}
        first, *_ = safe
        right = next(iter(safe[first]))
        return [
            f"{label} ended in {ending}, but {first} in {right}"
            for label, ends in safe.items()
            for ending in sorted(ends, key=str)
            if ending != right
        ]


def benchmark(options: Options, progress: Callable[[str], None] = lambda line: None) -> Results:
    pieces = list(_pieces(options))
    batches = [batch for _, own in pieces for batch in own]
    results = Results(options, [step for step, _ in pieces], sum(map(len, batches)))
    results.notes.append(load_note())
    get_ready(options.threads)
    warming = [own[0] for step, own in pieces if step.number == 0]
    runners = {way.label: Runner(ledger_work, way, options.threads) for way in options.ways}
    for runner in runners.values():
        runner.run(warming)
    for turn in range(1, options.repeats + 1):
        for label, runner in runners.items():
            if label not in results.fastest or results.is_whole(label):
                limit = math.inf if label == AUTO else _limit(results)
                _note(results, label, runner.run(batches, limit))
                progress(f"[turn {turn} of {options.repeats}] {_line(results, label)}")
    return results


def _limit(results: Results) -> float:
    return GIVE_UP * min((done.watch.seconds for done in results.fastest.values()), default=math.inf)


def _line(results: Results, label: str) -> str:
    given_up = "" if results.is_whole(label) else f", given up after {results.fastest[label].watch.seconds:.0f} s"
    return f"{label}: {results.rate(label):,.0f} events/s{given_up}"


def _pieces(options: Options) -> Iterator[tuple[Step, list[EventBatch]]]:
    """Steps with their batches: none reaches over the end of a step."""
    first = 0
    stream = dynamic.phases(options.events, options.steps, cost=options.cost, seed=options.seed)
    for phase, number, events in stream:
        knobs = dynamic.knobs(phase, number, options.steps)
        size = max(1, round(options.batch * knobs["rate"]))  # a batch closes after a fixed time
        batches = list(batches_of(ledger_work.app.program, events, size))
        yield Step(phase, number, knobs, first, first + len(batches) - 1), batches
        first += len(batches)


def _note(results: Results, label: str, done: Pass) -> None:
    whole, best = results.covers(done), results.fastest.get(label)
    if whole:
        results.endings.setdefault(label, set()).add(done.ending)
    if best is None or (whole and done.watch.seconds < best.watch.seconds):
        results.fastest[label] = done
