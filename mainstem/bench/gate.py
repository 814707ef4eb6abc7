"""The live gate: T-Gate, a plain lock-free skip list and locked queues, event by event; the merge of blocks.

Feeding threads serve several inputs each, because a machine has fewer cores than a gate inputs. Latency is measured
at half the rate of the slowest structure, so that it is not the time that an event stands in a full queue.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mainstem.atomics import ticks
from mainstem.bench.gate_threads import Contender
from mainstem.bench.measure import load_note
from mainstem.bench.report import machine, short, verdict, write_json
from mainstem.gate.kernels import merge_order
from mainstem.gate.live.kernels import queues, skiplist, tgate
from mainstem.jit import compile_kernel

STRUCTURES = {"T-Gate": tgate, "skip list": skiplist, "locked queues": queues}
RATIO_TARGET = 1.5  # of T-Gate over both others, at the largest number of inputs
MERGE_TARGET = 50e6  # events per second of one core
PAPER = {"T-Gate": (2.2e6, 1.0), "skip list": (1.5e6, 1.6)}  # events/s and ms at 20 inputs, on 12 cores
MERGE_ROWS = 65_536
TS_STEP = 10  # events of an input are 0 to 2 * TS_STEP apart


@dataclass(frozen=True)
class Options:
    inputs: Sequence[int] = (5, 10, 15, 20)
    events: int = 1_000_000
    repeats: int = 3
    threads: int = 1
    merge_events: int = 8_000_000
    seed: int = 0


@dataclass
class Point:
    """One structure at one number of inputs; rates of all turns, and milliseconds."""

    name: str
    inputs: int
    rates: list[float] = field(default_factory=list)
    latency_ms: dict[str, float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        return statistics.median(self.rates)


@dataclass
class Merge:
    inputs: int
    rate: float  # of CPU time: the merge has one thread


@dataclass
class Results:
    options: Options
    points: list[Point] = field(default_factory=list)
    merges: list[Merge] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)

    def ratio(self, name: str) -> float:
        """T-Gate over another structure at the largest number of inputs."""
        at = {point.name: point.rate for point in self.points if point.inputs == max(self.options.inputs)}
        return at["T-Gate"] / at[name]

    def write(self, path: Path) -> None:
        content: dict[str, Any] = {"title": "gate", "machine": machine(), "settings": vars(self.options)}
        content |= {"structures": [vars(p) | {"rate": p.rate} for p in self.points]}
        content |= {"merges": [vars(m) for m in self.merges], "disagreements": self.disagreements}
        write_json(path, content)


def benchmark(options: Options, progress: Callable[[str], None] = lambda line: None) -> Results:
    results = Results(options)
    contenders = [Contender(name, structure) for name, structure in STRUCTURES.items()]
    per_ms = _ticks_per_ms()
    for inputs in options.inputs:
        ts = _times(inputs, options.events // inputs, options.seed)
        right = merge_order(np.split(ts, inputs))[1]
        points = {c.name: Point(c.name, inputs) for c in contenders}
        for _ in range(options.repeats):
            for contender in contenders:
                outcome = contender.run(ts, inputs, options.threads, 0.0)
                points[contender.name].rates.append(len(ts) / outcome.watch.seconds)
                if not np.array_equal(outcome.rows, right):
                    results.disagreements.append(f"{contender.name} at {inputs} inputs gave another order")
        pace = per_ms * 1e3 * inputs / (0.5 * min(point.rate for point in points.values()))
        for contender in contenders:
            waited = contender.run(ts, inputs, options.threads, pace).waited / per_ms
            shares = {"mean": float(waited.mean()), "p50": float(np.median(waited))}
            points[contender.name].latency_ms = shares | {"p99": float(np.quantile(waited, 0.99))}
        results.points += points.values()
        progress(f"{inputs} inputs: done")
    results.merges = [_merge(inputs, options) for inputs in (4, 8, 20)]
    return results


def _times(inputs: int, each: int, seed: int) -> np.ndarray:
    steps = np.random.default_rng(seed).integers(0, 2 * TS_STEP + 1, (inputs, each))
    return np.cumsum(steps, axis=1).ravel()


def _merge(inputs: int, options: Options) -> Merge:
    """Blocks of 65,536 rows, as the gate hands them on: times and places of rows."""
    each = MERGE_ROWS // inputs
    runs = np.split(_times(inputs, each, options.seed), inputs)
    turns = max(1, options.merge_events // (each * inputs))
    start = time.process_time()
    for _ in range(turns):
        merge_order(runs)
    return Merge(inputs, turns * each * inputs / (time.process_time() - start))


def _ticks_per_ms() -> float:
    def now() -> int:
        return ticks()

    read = compile_kernel(now, cache=False)
    read()
    start, first = time.perf_counter(), read()
    time.sleep(0.05)
    return (read() - first) / ((time.perf_counter() - start) * 1e3)


def print_results(results: Results, console: Console) -> None:
    options = results.options
    console.print(load_note())
    title = f"Event by event: {short(options.events)} events, {options.threads} feeding threads, 1 reader"
    table = Table(title=title, title_justify="left")
    for heading in ("inputs", "", "events/s", "best", "latency ms", "p50", "p99", "paper, 12 cores"):
        table.add_column(heading, justify="right", no_wrap=True)
    for point in results.points:
        paper = PAPER.get(point.name) if point.inputs == 20 else None
        table.add_row(
            str(point.inputs),
            point.name,
            short(point.rate),
            short(max(point.rates)),
            *(f"{value:.3f}" for value in point.latency_ms.values()),
            f"{short(paper[0])}/s, {paper[1]:g} ms" if paper else "",
        )
    console.print(table)
    for name in ("skip list", "locked queues"):
        ratio = results.ratio(name)
        line = f"T-Gate at {max(options.inputs)} inputs: {ratio:.2f} × {name} (target {RATIO_TARGET} ×)"
        console.print(f"{line}: {_met(ratio >= RATIO_TARGET)}")
    for merge in results.merges:
        line = (
            f"blocks, {merge.inputs} inputs: {short(merge.rate)} events/s of one core (target {short(MERGE_TARGET)}/s)"
        )
        console.print(f"{line}: {_met(merge.rate >= MERGE_TARGET)}")
    verdict(console, results.disagreements)


def _met(met: bool) -> str:
    return "[green]met[/]" if met else "[red]missed[/]"
