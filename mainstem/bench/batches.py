"""Memory of an executor that runs batch after batch: its structures are used again, so it must not grow.

Each strategy runs in a process of its own: memory that an earlier one has given back to the allocator would hide what
a later one takes.
"""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from rich.console import Console
from rich.table import Table

from mainstem.bench import grid
from mainstem.bench.engines import Runner, Way, batches_of, ways_named
from mainstem.bench.memory import resident
from mainstem.bench.report import machine, write_json

DEFAULT_WAYS = ("serial", "components", "tpg(ns, op, eager)", "chains(nothing)", "mvlk")
DISTINCT = 16  # batches that are made; they go round and round
GROWTH_MAX_MB = 5.0  # a leak of one byte per event would be 9 MB


@dataclass(frozen=True)
class Options:
    ways: Sequence[Way] = tuple(ways_named(DEFAULT_WAYS))
    app: str = "GS"
    batches: int = 1_000
    batch: int = 10_240
    every: int = 100  # batches between two looks at the memory; the first look is the end of the warm-up
    threads: int = 2
    seed: int = 0


@dataclass(frozen=True)
class Growth:
    """Resident megabytes of one strategy's process: after how many batches, how much."""

    strategy: str
    resident_mb: dict[int, float]

    @property
    def warm(self) -> float:
        return next(iter(self.resident_mb.values()))

    @property
    def end(self) -> float:
        return list(self.resident_mb.values())[-1]

    @property
    def growth(self) -> float:
        return self.end - self.warm

    @property
    def met(self) -> bool:
        return self.growth <= GROWTH_MAX_MB


@dataclass
class Results:
    options: Options
    found: list[Growth] = field(default_factory=list)

    def write(self, path: Path) -> None:
        figures = [vars(one) | {"growth_mb": one.growth, "met": one.met} for one in self.found]
        settings = {"app": self.options.app, "batches": self.options.batches, "batch": self.options.batch}
        write_json(path, {"title": "batches", "machine": machine(), "settings": settings, "figures": figures})


def benchmark(options: Options) -> Results:
    """One process per strategy, one after the other; each tells its progress on standard error."""
    results = Results(options)
    fresh = multiprocessing.get_context("spawn")
    for way in options.ways:
        with ProcessPoolExecutor(1, mp_context=fresh) as process:
            results.found.append(process.submit(measure, way.label, options).result())
    return results


def measure(label: str, options: Options) -> Growth:
    """Runs all batches through one executor; its outputs are dropped, as by a consumer that is fast enough."""
    (way,) = ways_named([label])
    point = grid.Point(options.app, cost=0.0, length=grid.DEFAULTS[options.app].length, batch=options.batch)
    count = min(DISTINCT, options.batches)
    events = point.generate(options.batch * count, options.seed)
    batches = list(islice(batches_of(point.module.app.program, events, options.batch), count))
    runner = Runner(point.module, way, options.threads)
    seen: dict[int, float] = {}
    stream = islice(cycle(batches), options.batches)
    for done, _ in enumerate(runner.executor.run_all(stream), start=1):
        if done % options.every == 0 or done == options.batches:
            seen[done] = resident().get("driver", 0) / 1e6
            print(f"{label}: {done:,} batches, {seen[done]:,.1f} MB", file=sys.stderr, flush=True)
    return Growth(label, seen)


def print_results(results: Results, console: Console) -> None:
    options = results.options
    title = f"Resident MB; {options.batches:,} batches of {options.batch:,} {options.app} events through one executor"
    table = Table(title=title, title_justify="left")
    table.add_column("after batches", justify="right", no_wrap=True)
    for one in results.found:
        table.add_column(one.strategy, justify="right")
    for done in results.found[0].resident_mb:
        table.add_row(f"{done:,}", *(f"{one.resident_mb[done]:,.1f}" for one in results.found))
    table.add_section()
    table.add_row("growth", *(f"{one.growth:+.1f}" for one in results.found))
    table.add_row(
        f"at most {GROWTH_MAX_MB:g}", *("[green]met[/]" if one.met else "[red]missed[/]" for one in results.found)
    )
    console.print(table)
