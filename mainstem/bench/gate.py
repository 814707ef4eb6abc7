"""The live gate: T-Gate, a plain lock-free skip list and locked queues, event by event; the merge of blocks.

Feeding threads serve several inputs each, because a machine has fewer cores than a gate inputs. Latency is measured
at half the rate of the slowest structure, so that it is not the time that an event stands in a full queue, and on
inputs whose clocks stay together.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from mainstem.bench.gate_blocks import INSERT_ROWS, ORDER_ROWS, BlockRates, block_rates
from mainstem.bench.gate_threads import Contender
from mainstem.bench.measure import load_note
from mainstem.bench.report import Target, machine, print_targets, short, verdict, write_json
from mainstem.bench.windows import ticks_per_second
from mainstem.gate.kernels import merge_order
from mainstem.gate.live.kernels import queues, skiplist, tgate

STRUCTURES = {"T-Gate": tgate, "skip list": skiplist, "locked queues": queues}
RATIO_TARGET = 1.5  # of T-Gate over both others, at the largest number of inputs
GATE_TARGET = 50e6  # events per second of one core, from insert to ready
PAPER = {"T-Gate": (2.2e6, 1.0), "skip list": (1.5e6, 1.6)}  # events/s and ms at 20 inputs, on 12 cores
BLOCK_INPUTS = (4, 8, 20)
TS_STEP = 10  # between events of an input, on the average


@dataclass(frozen=True)
class Options:
    inputs: Sequence[int] = (5, 10, 15, 20)
    events: int = 1_000_000
    repeats: int = 3
    threads: int = 1
    block_events: int = 8_000_000
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
class Results:
    options: Options
    points: list[Point] = field(default_factory=list)
    blocks: list[BlockRates] = field(default_factory=list)
    disagreements: list[str] = field(default_factory=list)

    def ratio(self, name: str) -> float:
        """T-Gate over another structure at the largest number of inputs."""
        at = {point.name: point.rate for point in self.points if point.inputs == max(self.options.inputs)}
        return at["T-Gate"] / at[name]

    @property
    def targets(self) -> list[Target]:
        most = max(self.options.inputs)
        found = [
            Target(f"T-Gate / {name}, {most} inputs", self.ratio(name), RATIO_TARGET)
            for name in ("skip list", "locked queues")
        ]
        blocks = [
            Target(f"M events/s, blocks, insert to ready, {rates.inputs} inputs", rates.gate / 1e6, GATE_TARGET / 1e6)
            for rates in self.blocks
        ]
        return found + blocks

    def write(self, path: Path) -> None:
        content: dict[str, Any] = {"title": "gate", "machine": machine(), "settings": vars(self.options)}
        content |= {"structures": [vars(p) | {"rate": p.rate} for p in self.points]}
        content |= {"blocks": [vars(rates) for rates in self.blocks], "disagreements": self.disagreements}
        content |= {"targets": [vars(target) | {"met": target.met} for target in self.targets]}
        write_json(path, content)


def benchmark(options: Options, progress: Callable[[str], None] = lambda line: None) -> Results:
    results = Results(options)
    contenders = [Contender(name, structure) for name, structure in STRUCTURES.items()]
    per_ms = ticks_per_second() / 1e3
    for inputs in options.inputs:
        ts = _times(inputs, options.events // inputs, options.seed).ravel()
        right = merge_order(np.split(ts, inputs))[1]
        points = {c.name: Point(c.name, inputs) for c in contenders}
        for _ in range(options.repeats):
            for contender in contenders:
                outcome = contender.run(ts, inputs, options.threads, 0.0)
                points[contender.name].rates.append(len(ts) / outcome.watch.seconds)
                if not np.array_equal(outcome.rows, right):
                    results.disagreements.append(f"{contender.name} at {inputs} inputs gave another order")
        pace = per_ms * 1e3 * inputs / (0.5 * min(point.rate for point in points.values()))
        ts = _times_together(inputs, options.events // inputs, options.seed).ravel()
        for contender in contenders:
            waited = contender.run(ts, inputs, options.threads, pace).waited / per_ms
            shares = {"mean": float(waited.mean()), "p50": float(np.median(waited))}
            points[contender.name].latency_ms = shares | {"p99": float(np.quantile(waited, 0.99))}
        results.points += points.values()
        progress(f"{inputs} inputs: done")
    for inputs in BLOCK_INPUTS:
        ts = _times(inputs, max(options.block_events, ORDER_ROWS) // inputs, options.seed)
        results.blocks.append(block_rates(inputs, ts, options.block_events))
        progress(f"blocks of {inputs} inputs: done")
    return results


def _times(inputs: int, each: int, seed: int) -> np.ndarray:
    """Sorted times, one row per input; the clocks of inputs drift apart."""
    return np.cumsum(np.random.default_rng(seed).integers(0, 2 * TS_STEP + 1, (inputs, each)), axis=1)


def _times_together(inputs: int, each: int, seed: int) -> np.ndarray:
    """As `_times`, but the clocks stay together: else an event waits for those of other inputs, and its latency says
    nothing about the structure."""
    return np.arange(each) * TS_STEP + np.random.default_rng(seed).integers(0, TS_STEP + 1, (inputs, each))


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
    blocks = Table(title="Blocks: events/s of one core", title_justify="left")
    for heading in ("inputs", "order alone", "insert to ready"):
        blocks.add_column(heading, justify="right", no_wrap=True)
    for rates in results.blocks:
        blocks.add_row(str(rates.inputs), short(rates.order), short(rates.gate))
    console.print(blocks)
    console.print(
        f"order alone: {ORDER_ROWS:,} rows of all inputs, again and again in the processor's cache", style="dim"
    )
    console.print(f"insert to ready: ts and one column, {INSERT_ROWS:,} rows of an input an insert", style="dim")
    print_targets(results.targets, console)
    verdict(console, results.disagreements)
