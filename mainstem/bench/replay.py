"""The replay benchmark: a spam log through staged replay, one thread, and what one would write on Spark without it.

All contenders read the same Parquet files and write the verdict on every message as Parquet. They take turns in one
run, in sessions that have run each of them once on a small log.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from mainstem.bench import replay_causality as causality
from mainstem.bench.measure import load_note
from mainstem.bench.replay_causality import Alpha
from mainstem.bench.replay_logs import hot_log, read_through, spam_log
from mainstem.bench.replay_skew import Skew, measure_skew
from mainstem.bench.replay_spark import SparkProcess, heap_gb
from mainstem.bench.replay_variants import Variants, measure_variants
from mainstem.bench.replay_ways import Role, Runs, Way, empty, loop, once, scan_text, take_turns, ways_of
from mainstem.bench.report import Peak, Target
from mainstem.bench.spam_answers import Answer, Error, error_against
from mainstem.replay.model import Model

WARM_UP_EVENTS = 1_000_000  # several ranges, so that every worker has run every kind of task

# What the project promises for this program, by whether the e-mail scan is on.
TARGET_EVENTS = 10_000_000  # what a replay costs once vanishes in logs of this size
OF_SPARK = 5.0
OF_SERIAL = {True: 1.5, False: 0.7}
OF_VARIANTS = {3: 1.8}  # what so many of them may cost at most, in times of one
FLAT = 0.85  # peak of the workers for the shortest log over that for the longest: some noise is allowed

Say = Callable[[str], None]


@dataclass(frozen=True)
class Options:
    events: int = 10_000_000
    cores: int = 2
    repeats: int = 2
    alternatives: bool = True
    variants: int = 3
    alphas: Sequence[float] = (1.25, 1.5, 2.0, 2.5, 3.0)
    alpha_events: int = 2_000_000
    memory_events: Sequence[int] = (10_000_000, 20_000_000, 30_000_000, 40_000_000, 50_000_000)
    hot_shares: Sequence[float] = (0.0, 0.3, 0.6, 0.9)
    hot_events: int = 4_000_000
    hot_shards: Sequence[int] = (2, 8)
    micro_batches: Sequence[int] = (12_500, 25_000, 50_000, 100_000, 200_000)  # of ReStream's figure 5
    error_events: int = 1_000_000
    seed: int = 0
    folder: Path = Path()


@dataclass(frozen=True)
class Approximation:
    """Micro-batches of one size against the truth."""

    batch: int
    answer: Answer
    error: Error


@dataclass
class Results:
    options: Options
    first: dict[str, float] = field(default_factory=dict)  # seconds of the warm-up turns
    runs: list[Runs] = field(default_factory=list)
    approximations: list[Approximation] = field(default_factory=list)
    alphas: list[Alpha] = field(default_factory=list)
    skew: list[Skew] = field(default_factory=list)
    variants: Variants | None = None
    model: Model | None = None
    peaks: list[Peak] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)

    def of(self, role: Role, scan: bool) -> list[Runs]:
        return [runs for runs in self.runs if runs.way.role is role and runs.scan == scan]

    def of_one_thread(self, runs: Runs) -> float:
        """Times the best single-thread run with the same scan."""
        return runs.best / max(serial.best for serial in self.of(Role.SERIAL, runs.scan))

    @property
    def targets(self) -> list[Target]:
        found = []
        for scan, of_serial in OF_SERIAL.items():
            (auto,) = self.of(Role.AUTO, scan)
            for other in self.of(Role.EXACT, scan):
                what = f"{auto.way.name} / {other.way.name}, {scan_text(scan)}"
                found.append(Target(what, auto.best / other.best, OF_SPARK))
            what = f"{auto.way.name} / best single thread, {scan_text(scan)}"
            found.append(Target(what, self.of_one_thread(auto), of_serial))
        if self.variants is not None and self.variants.number in OF_VARIANTS:
            what = f"one variant / {self.variants.number} in one replay, by seconds"
            found.append(Target(what, 1 / self.variants.cost, 1 / OF_VARIANTS[self.variants.number]))
        least, most = self._workers_at_ends()
        if most:
            sizes = f"{self.peaks[0].events:,} / {self.peaks[-1].events:,} events"
            found.append(Target(f"peak memory of the workers, {sizes} (1: flat)", least / most, FLAT))
        return found

    def _workers_at_ends(self) -> tuple[int, int]:
        """Peaks for the shortest and the longest log; 0 when fewer than two were watched."""
        if len(self.peaks) < 2:
            return 0, 0
        return self.peaks[0].bytes.get("workers", 0), self.peaks[-1].bytes.get("workers", 0)

    @property
    def approximate_agrees(self) -> list[str]:
        """Approximate contenders that found the truth all the same: the log is too easy to show what they are."""
        truth = self.of(Role.SERIAL, True)[0].answers[0].digest
        return [r.way.name for r in self.runs if not r.way.exact and any(a.digest == truth for a in r.answers)]


def benchmark(options: Options, say: Say) -> Results:
    """Measures everything that `options` asks for."""
    results = Results(options, notes=[load_note()])
    if options.events < TARGET_EVENTS:
        results.notes.append(f"The targets are meant for {TARGET_EVENTS:,} events or more.")
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as scratch:
        _Benchmark(options, Path(scratch), results, say).measure()
    return results


@dataclass
class _Benchmark:
    options: Options
    scratch: Path
    results: Results
    say: Say

    def measure(self) -> None:
        # The memory comes first: while other sessions sleep in memory, less of it is free.
        self.memory()
        with ExitStack() as stack:
            sessions = {
                cores: stack.enter_context(SparkProcess(cores, self.scratch, heap=self.heap(cores)))
                for cores in sorted({1, self.options.cores})
            }
            ways = ways_of(sessions, self.options.alternatives)
            self.warm_up(ways)
            self.compare(ways)
            self.variants(sessions[self.options.cores])
            if self.options.alternatives and self.options.micro_batches:
                self.approximate(sessions[self.options.cores])
            self.causality(sessions)
            self.skew(sessions[self.options.cores])

    def heap(self, cores: int) -> int:
        """Gigabytes: Mainstem works outside of the JVM, the alternatives run in the session with the most cores."""
        return heap_gb() if self.options.alternatives and cores == self.options.cores else 1

    def log(self, events: int) -> Path:
        return spam_log(self.options.folder, events, seed=self.options.seed, say=self.say)

    def short_log(self) -> Path:
        return self.log(min(WARM_UP_EVENTS, self.options.events))

    def memory(self) -> None:
        """Replays logs of growing size, each in a session that has not run anything: the peak must not grow."""
        for events in sorted(self.options.memory_events):
            log, out = self.log(events), self.scratch / "out"
            self.say(f"memory of a replay of {events:,} events")
            with SparkProcess(self.options.cores, self.scratch) as spark:
                found = spark.replay("mvps", log, empty(out), scan=True, watch=True)
                self.results.peaks.append(Peak(events, spark.peak, spark.state_bytes))
            truth = once(loop, log, self.scratch, False)
            self.check([("hand-written loop", truth), ("mvps while its memory was watched", found)])

    def warm_up(self, ways: Sequence[Way]) -> None:
        """Not counted: code is compiled or loaded, Spark has seen each plan. Serial runs do that themselves."""
        log = self.short_log()
        for way in ways:
            if way.role is not Role.SERIAL:
                self.say(f"warming up: {way.name}")
                for scan in (True, False):
                    found = once(way.replay, log, self.scratch, scan)
                    self.results.first[f"{way.name}, {scan_text(scan)}"] = found.seconds

    def compare(self, ways: Sequence[Way]) -> None:
        log = self.log(self.options.events)
        read_through(log)
        turns = self.options.repeats
        self.results.runs = take_turns(ways, log, self.short_log(), self.scratch, turns, self.say)
        exact = [(f"{r.way.name}, {scan_text(r.scan)}", a) for r in self.results.runs if r.way.exact for a in r.answers]
        self.check([("hand-written loop", self.results.of(Role.SERIAL, True)[-1].answers[0]), *exact])

    def variants(self, spark: SparkProcess) -> None:
        """Several versions of the rule in one replay."""
        options = self.options
        if options.variants < 2:
            return
        log = self.log(options.events)
        found = measure_variants(log, options.variants, spark, self.scratch, options.repeats, self.say)
        self.results.variants = found
        self.check([("hand-written loop", self.results.of(Role.SERIAL, True)[-1].answers[0]), *found.checks])

    def approximate(self, spark: SparkProcess) -> None:
        """The error of micro-batches over their size (ReStream's figure 5)."""
        log, truth = self.log(self.options.error_events), self.scratch / "truth"
        loop(log, truth, False)
        for batch in sorted(self.options.micro_batches):
            self.say(f"error of micro-batches of {batch:,} events")
            out = empty(self.scratch / "out")
            found = spark.replay("micro_batches", log, out, scan=False, batch=batch)
            self.results.approximations.append(Approximation(batch, found, error_against(truth, out)))

    def causality(self, sessions: dict[int, SparkProcess]) -> None:
        options = self.options
        logs = {
            alpha: spam_log(options.folder, options.alpha_events, alpha=alpha, seed=options.seed, say=self.say)
            for alpha in options.alphas
        }
        self.results.alphas = causality.measure(logs, sessions, self.scratch, options.repeats, self.say)
        self.results.model = causality.fitted(self.results.alphas)
        for alpha in self.results.alphas:
            self.check(alpha.checks)

    def skew(self, spark: SparkProcess) -> None:
        """One sender and IP address with a large share of the messages: split over tasks, and not."""
        options = self.options
        for share in options.hot_shares:
            log = hot_log(options.folder, options.hot_events, share, seed=options.seed, say=self.say)
            found = measure_skew(log, share, spark, options.hot_shards, self.scratch, options.repeats, self.say)
            self.results.skew += found
            self.check([check for skew in found for check in skew.checks])

    def check(self, found: Sequence[tuple[str, Answer]]) -> None:
        """All of these replayed one log exactly; the first is the one to believe."""
        (first, wanted), *others = found
        self.results.disagreements += sorted(
            {
                f"{name} over {answer.events:,} events found {answer.digest}, but {first} {wanted.digest}"
                for name, answer in others
                if (answer.events, answer.messages, answer.spam, answer.digest)
                != (wanted.events, wanted.messages, wanted.spam, wanted.digest)
            }
        )
