"""How long an event waits for its result when events come at half the rate that the engine can take.

An open loop: event i arrives at the time i / rate, whether the engine is ready or not. A batch starts when its last
event has arrived; it goes through the gate and the executor, and an event's latency ends with its batch. So an event
waits for its batch to fill up, too: at most for the time of one batch of events. The stream runs several times; the run
with the lowest 99th percentile counts, as what else runs on the machine only adds to it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from mainstem.bench.engines import AUTO, SERIAL, WAYS, Runner, Way, batches_of, get_ready
from mainstem.bench.grid import DEFAULTS, Point
from mainstem.bench.measure import stopwatch
from mainstem.bench.report import machine, short, verdict, write_json
from mainstem.result import percentiles

TSTREAM_MS = (0.23, 0.63)  # 99th percentiles of its applications at 500 events between punctuations
LOAD = 0.5  # of the largest rate
CLOSED_TURNS = 3  # the best one is the largest rate
OPEN_TURNS = 9
SPIN_SECONDS = 1e-3  # the clock of `sleep` is too coarse for the last millisecond


@dataclass(frozen=True)
class Options:
    apps: Sequence[str] = tuple(DEFAULTS)
    way: Way = WAYS[AUTO]
    batch: int = 500
    batches: int = 2_000
    cost: float = 0.0
    threads: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Latency:
    """One app: the largest rate, and seconds of latency at a share of it."""

    app: str
    engines: list[str]
    rate_max: float
    rate: float
    fill: float  # seconds that a batch takes to arrive
    service: dict[str, float]  # seconds that a batch takes, gate included
    latency: dict[str, float]
    p99_turns: list[float]  # of all runs, the best first
    digest: str
    digest_serial: str

    @property
    def met(self) -> bool:
        return self.latency["p99"] * 1e3 < TSTREAM_MS[1]


@dataclass
class Results:
    options: Options
    found: list[Latency] = field(default_factory=list)

    @property
    def disagreements(self) -> list[str]:
        return [
            f"{one.app} ended in {one.digest}, but serial in {one.digest_serial}"
            for one in self.found
            if one.digest != one.digest_serial
        ]

    def write(self, path: Path) -> None:
        figures = [vars(one) | {"met": one.met} for one in self.found]
        settings = {"batch": self.options.batch, "cost_us": self.options.cost, "engine": self.options.way.label}
        content = {"title": "latency", "machine": machine(), "settings": settings, "figures": figures}
        write_json(path, content | {"tstream_p99_ms": TSTREAM_MS, "disagreements": self.disagreements})


def benchmark(options: Options, progress: Callable[[str], None] = lambda line: None) -> Results:
    results = Results(options)
    get_ready(options.threads)
    for app in options.apps:
        results.found.append(measure(app, options))
        progress(f"{app}: done")
    return results


def measure(app: str, options: Options) -> Latency:
    point = Point(app, cost=options.cost, length=DEFAULTS[app].length, reads=DEFAULTS[app].reads, batch=options.batch)
    events = point.generate(options.batch * options.batches, options.seed).combine_chunks()
    runner = Runner(point.module, options.way, options.threads)
    rate_max = max(_closed_loop(point, runner, events) for _ in range(CLOSED_TURNS))
    rate = LOAD * rate_max
    turns = [_open_loop(point, runner, events, rate) for _ in range(OPEN_TURNS)]
    turns.sort(key=lambda turn: turn.latency["p99"])
    best = turns[0]
    digest = runner.digest()
    serial = Runner(point.module, WAYS[SERIAL], 1)
    _closed_loop(point, serial, events)
    return Latency(
        app,
        best.engines,
        rate_max,
        rate,
        options.batch / rate,
        best.service,
        best.latency,
        [turn.latency["p99"] for turn in turns],
        digest,
        serial.digest(),
    )


def _closed_loop(point: Point, runner: Runner, events: pa.Table) -> float:
    """Events per second, gate included, when the next batch is always there."""
    runner.reset()
    seq = 0
    with stopwatch() as watch:
        for batch in batches_of(point.module.app.program, events, point.batch):
            runner.executor.run(batch, seq)
            seq += len(batch)
    return seq / watch.seconds


@dataclass(frozen=True)
class _Turn:
    """One run of the stream: strategies in order of first use, seconds per batch and per event."""

    engines: list[str]
    service: dict[str, float]
    latency: dict[str, float]


def _open_loop(point: Point, runner: Runner, events: pa.Table, rate: float) -> _Turn:
    runner.reset()
    arrived = np.arange(events.num_rows) / rate
    count = events.num_rows // point.batch
    started, ended = np.zeros(count), np.zeros(count)
    engines = []
    stream = batches_of(point.module.app.program, events, point.batch)
    zero = time.perf_counter()
    for number in range(count):
        _wait_until(zero + arrived[(number + 1) * point.batch - 1])
        started[number] = time.perf_counter() - zero
        result = runner.executor.run(next(stream), number * point.batch)
        ended[number] = time.perf_counter() - zero
        engines.append(result.stats.engine)
    latency = np.repeat(ended, point.batch) - arrived
    return _Turn(list(dict.fromkeys(engines)), percentiles(ended - started), percentiles(latency))


def _wait_until(moment: float) -> None:
    while (left := moment - time.perf_counter()) > 0:
        if left > SPIN_SECONDS:
            time.sleep(left - SPIN_SECONDS)


def print_results(results: Results, console: Console) -> None:
    options = results.options
    title = f"Latency in ms at half the largest rate; {options.batch} events per batch, C {options.cost:g} µs"
    table = Table(title=title, title_justify="left")
    for heading in ("", "engine"):
        table.add_column(heading)
    measured = ("p50", "p99", "p99.9", "max", "p99 of other runs")
    for heading in ("largest rate", "rate", "batch fills in", "batch runs p50", *measured):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(f"p99 < {TSTREAM_MS[1]}")
    table.add_column("state digest", no_wrap=True)
    for one in results.found:
        table.add_row(
            one.app,
            ", ".join(one.engines),
            f"{short(one.rate_max)}/s",
            f"{short(one.rate)}/s",
            *(f"{seconds * 1e3:.3f}" for seconds in (one.fill, one.service["p50"], *one.latency.values())),
            f"{one.p99_turns[1] * 1e3:.2f} to {one.p99_turns[-1] * 1e3:.2f}",
            "[green]met[/]" if one.met else "[red]missed[/]",
            one.digest,
        )
    low, high = TSTREAM_MS
    table.add_row("TStream's", *[""] * 6, f"{low} to {high}")
    console.print(table)
    verdict(console, results.disagreements)
