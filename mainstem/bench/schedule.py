"""Every strategy at every point of a grid, and whether `auto` picks the right one.

The strategies of a point run the same batches, each with a warm executor of its own, in turns; the best run of each
counts. Five stages keep the time of a point bounded and spend most of it where the answer is decided:

1. *trial*: all of them, on the first batches only. Who is hopeless there keeps that figure.
2. *heats*: all others, on all batches.
3. *finals*: those that came close to the best, some more times. Now it is known who is the best.
4. *rematch*: the best, `auto`, `serial` and `nolock`, some more times. Only this stage says how far they are apart: the
   fastest of twenty noisy figures is faster than its strategy, so who won must show it once more.
5. *return match*: the same as the rematch, when all points have been measured. A virtual machine's cores may be apart
   for half a minute: then it takes twice as long to send something from one to the other, in all turns of a point.

The first run of a stage touches new memory and learns new keys, so it is hardly ever the best. `auto` tries strategies
for some batches when the workload is new to it; as a stream is long, it gets the time for that before the heats.
"""

from __future__ import annotations

import statistics
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mainstem.bench.engines import AUTO, NOLOCK, SERIAL, WAYS, Runner, Way, batches_of, get_ready
from mainstem.bench.grid import Point, Series, points_of
from mainstem.bench.measure import Contender, Figure, disagreements, load_note, take_turns
from mainstem.engine.scaling import plain_scaling
from mainstem.gate import EventBatch

TRIAL_EVENTS = 2_048  # at least, in whole batches
TRIAL_TURNS, HEAT_TURNS = 2, 2
HOPELESS = 5.0  # times slower than the best
CLOSE = 1.15  # times slower than the best, at most, gets into the finals
FINALISTS = 5
FINAL_SECONDS, TURNS_MOST = 0.5, 64  # of finals and rematch: turns until so long has passed, if runs are short
REMATCH = 3  # times as many turns as in the finals: who uses both cores needs more of them to be left alone for once
SETTLE_BATCHES = 32  # at most, for `auto` to get used to a point

# What the project promises on two threads.
REGRET_MAX, REGRET_MEDIAN = 0.10, 0.03
GAIN_COST, GAIN_SKEW_MAX, GAIN = 10.0, 0.6, 1.8
FREE_GAIN = 0.95  # where the functions cost nothing


@dataclass(frozen=True)
class Options:
    series: Sequence[Series]
    ways: Sequence[Way] = tuple(WAYS.values())
    seconds: float = 0.2
    repeats: int = 4
    threads: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Choice:
    """What `auto` ran most batches with, in how many of them, and why."""

    engine: str
    batches: int
    of: int
    why: str

    def __str__(self) -> str:
        return self.engine if self.batches == self.of else f"{self.engine} in {self.batches} of {self.of}"


@dataclass
class Measured:
    """All strategies at one point."""

    point: Point
    figures: dict[str, Figure]  # by label
    best: str  # the fastest safe strategy, `auto` aside, before the rematch
    rematch: dict[str, Figure]  # and return match
    turns: int  # of each of these
    fewer: set[str]  # measured on the trial only
    choice: Choice
    disagreements: list[str]
    nolock_differs: bool
    plain: float  # times faster that plain loops are on all threads than on one, measured beside
    seconds: float = 0.0

    @property
    def rates(self) -> dict[str, float]:
        return {label: figure.best for label, figure in self.figures.items()}

    @property
    def regret(self) -> float:
        """The share of events per second that `auto` leaves lying; below 0 where it beats them all."""
        return 1 - self.rematch[AUTO].best / self.rematch[self.best].best

    @property
    def of_serial(self) -> float:
        return self.rematch[AUTO].best / self.rematch[SERIAL].best

    @property
    def bounds(self) -> str:
        """What the machine and the workload permit, to be read beside `of_serial`."""
        unsafe = ""
        if NOLOCK in self.rematch:
            unsafe = f", {NOLOCK} {self.rematch[NOLOCK].best / self.rematch[SERIAL].best:.2f} ×"
        return f"plain threads {self.plain:.2f} ×{unsafe}"

    def loss(self, label: str) -> float | None:
        """The share of events per second that a strategy pays for being right; None without `nolock`."""
        return None if NOLOCK not in self.figures else 1 - self.rates[label] / self.rates[NOLOCK]

    @property
    def digest(self) -> str:
        return self.figures[SERIAL].ending.state


@dataclass(frozen=True)
class Goal:
    """A promise about some points, and where it is not kept."""

    what: str
    points: int
    misses: list[str]


@dataclass
class Results:
    series: Sequence[Series]
    measured: dict[Point, Measured] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def disagreements(self) -> list[str]:
        return [f"{m.point}: {line}" for m in self.measured.values() for line in m.disagreements]

    @property
    def regret_median(self) -> float:
        return statistics.median(m.regret for m in self.measured.values())

    @property
    def goals(self) -> list[Goal]:
        found = list(self.measured.values())
        costly = [m for m in found if m.point.cost == GAIN_COST and m.point.skew <= GAIN_SKEW_MAX]
        free = [m for m in found if m.point.cost == 0]
        median = self.regret_median
        return [
            Goal(
                f"auto within {REGRET_MAX:.0%} of the best safe strategy",
                len(found),
                [f"{m.point}: {m.regret:.1%} behind {m.best}" for m in found if m.regret > REGRET_MAX],
            ),
            Goal(
                f"median of that within {REGRET_MEDIAN:.0%} (it is {median:.1%})",
                1,
                [f"{median:.1%}"] if median > REGRET_MEDIAN else [],
            ),
            _gain(f"auto at least {GAIN} × serial at C = {GAIN_COST:g} µs, θ <= {GAIN_SKEW_MAX}", costly, GAIN),
            _gain(f"auto at least {FREE_GAIN} × serial at C = 0", free, FREE_GAIN),
        ]


def _gain(what: str, found: Sequence[Measured], bound: float) -> Goal:
    missed = [m for m in found if m.of_serial < bound]
    return Goal(what, len(found), [f"{m.point}: {m.of_serial:.2f} × serial ({m.bounds})" for m in missed])


def benchmark(options: Options, progress: Callable[[str], None] = lambda line: None) -> Results:
    """Measures all points; an interrupt ends it early, with the points so far."""
    results = Results(options.series)
    points = points_of(options.series)
    results.notes.append(load_note())
    get_ready(options.threads)
    started = time.perf_counter()
    try:
        for number, point in enumerate(points, start=1):
            found = results.measured[point] = measure(point, options)
            progress(f"[{number}/{len(points)}] {_line(found)}")
        for number, found in enumerate(results.measured.values(), start=1):
            return_match(found, options)
            progress(f"[{number}/{len(points)}, return match] {_line(found)}")
    except KeyboardInterrupt:
        if not results.measured:
            raise
        stage = "points" if len(results.measured) < len(points) else "return matches"
        results.notes.append(f"Interrupted after {number - 1} of {len(points)} {stage}.")
    results.notes.append(
        f"{len(results.measured)} points, {len(options.ways)} strategies, {options.threads} threads, "
        f"{(time.perf_counter() - started) / 60:.1f} minutes."
    )
    return results


def _line(found: Measured) -> str:
    return (
        f"{found.point}: auto {found.rematch[AUTO].best:,.0f}/s ({found.choice}), "
        f"{found.regret:.1%} behind {found.best}, {found.of_serial:.2f} × serial ({found.bounds}), "
        f"{found.seconds:.0f} s"
    )


def measure(point: Point, options: Options) -> Measured:
    """All strategies at one point, in all stages but the last."""
    started = time.perf_counter()
    batches = _batches(point, options)
    runners = {way.label: Runner(point.module, way, options.threads) for way in options.ways}
    scaling = plain_scaling(options.threads)

    first = batches[: -(-TRIAL_EVENTS // point.batch)]
    trial = _stage(runners, list(runners), first, TRIAL_TURNS)
    serious = [label for label in runners if label in (AUTO, SERIAL) or _rank(trial, label) <= HOPELESS]
    _settle(runners[AUTO], batches)
    heats = _stage(runners, serious, batches, HEAT_TURNS)
    turns = _turns(heats, options.repeats)
    finals = _stage(runners, _finalists(heats), batches, turns)
    figures = {label: _joined(heats.get(label) or trial[label], finals.get(label)) for label in runners}
    best = _fastest(figures)
    again = [label for label in runners if label in (best, SERIAL, AUTO) or (label == NOLOCK and label in heats)]
    turns = max(turns, min(TURNS_MOST, REMATCH * turns))
    rematch = _stage(runners, again, batches, turns)

    stages = [figure for stage in (trial, heats, finals, rematch) for figure in stage.values()]
    return Measured(
        point,
        figures,
        best,
        rematch,
        turns,
        {label for label in runners if label not in heats},
        _choice(runners[AUTO]),
        _disagreements(stages),
        _differs(stages),
        max(scaling, plain_scaling(options.threads)),
        time.perf_counter() - started,
    )


def return_match(found: Measured, options: Options) -> None:
    """Adds another rematch, at another time."""
    started = time.perf_counter()
    batches = _batches(found.point, options)
    runners = {label: Runner(found.point.module, WAYS[label], options.threads) for label in found.rematch}
    _settle(runners[AUTO], batches)
    stage = _stage(runners, list(runners), batches, found.turns)
    found.rematch = {label: _joined(figure, stage[label]) for label, figure in found.rematch.items()}
    figures = list(found.rematch.values())
    found.disagreements = sorted({*found.disagreements, *_disagreements(figures)})
    found.nolock_differs |= _differs(figures)
    found.plain = max(found.plain, plain_scaling(options.threads))
    found.seconds = time.perf_counter() - started


def _batches(point: Point, options: Options) -> list[EventBatch]:
    events = point.generate(point.events(options.seconds), options.seed)
    return list(batches_of(point.module.app.program, events, point.batch))


def _disagreements(figures: list[Figure]) -> list[str]:
    return disagreements([figure for figure in figures if WAYS[figure.name].safe])


def _stage(
    runners: dict[str, Runner], labels: Sequence[str], batches: Sequence[EventBatch], turns: int
) -> dict[str, Figure]:
    contenders = {label: _contender(runners[label], batches) for label in labels}
    return {figure.name: figure for figure in take_turns(contenders, sum(map(len, batches)), turns)}


def _settle(auto: Runner, batches: Sequence[EventBatch]) -> None:
    """Runs `auto` until it has kept to one strategy for two runs."""
    before: set[str] = set()
    for _ in range(-(-SETTLE_BATCHES // len(batches))):
        auto.run(batches)
        engines = {batch.engine for batch in auto.last}
        if engines == before and len(engines) == 1:
            return
        before = engines


def _contender(runner: Runner, batches: Sequence[EventBatch]) -> Contender:
    return lambda: runner.turn(batches)


def _rank(stage: dict[str, Figure], label: str) -> float:
    """How many times slower than the fastest safe one."""
    return max(figure.best for name, figure in stage.items() if WAYS[name].safe) / stage[label].best


def _finalists(heats: dict[str, Figure]) -> list[str]:
    """None when one is far ahead of the others."""
    fixed = sorted((name for name in heats if name not in (AUTO, NOLOCK)), key=lambda name: _rank(heats, name))
    close = [name for name in fixed if _rank(heats, name) <= CLOSE]
    return close[:FINALISTS] if len(close) > 1 else []


def _fastest(figures: dict[str, Figure]) -> str:
    fixed = {label: figure.best for label, figure in figures.items() if label not in (NOLOCK, AUTO)}
    return max(fixed, key=lambda label: fixed[label])


def _turns(heats: dict[str, Figure], repeats: int) -> int:
    """Short runs take more turns: a few milliseconds say little."""
    shortest = min(watch.seconds for figure in heats.values() for watch in figure.times)
    return max(repeats, min(TURNS_MOST, int(FINAL_SECONDS / shortest)))


def _joined(figure: Figure, more: Figure | None) -> Figure:
    if more is None:
        return figure
    return Figure(figure.name, figure.events, figure.times + more.times, figure.endings + more.endings)


def _choice(runner: Runner) -> Choice:
    """From the last run: by then `auto` has seen some batches of the kind."""
    engine, count = Counter(batch.engine for batch in runner.last).most_common(1)[0]
    why = next(batch.why for batch in reversed(runner.last) if batch.engine == engine)
    return Choice(engine, count, len(runner.last), why)


def _differs(figures: Sequence[Figure]) -> bool:
    """Whether `nolock` ever ended elsewhere than the serial run over the same events."""
    right = {figure.events: figure.ending for figure in figures if figure.name == SERIAL}
    unsafe = [figure for figure in figures if figure.name == NOLOCK]
    return any(ending != right[figure.events] for figure in unsafe for ending in figure.endings)
