"""Ways to run a batch, side by side: executors that stay warm, over the same batches, from the same start."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import pyarrow as pa

from mainstem.bench.measure import Ending, Stopwatch, stopwatch
from mainstem.engine import BatchStats, make_executor
from mainstem.engine.calibrate import calibrate
from mainstem.engine.options import CHOICES, strategy_of
from mainstem.errors import ProgramError
from mainstem.gate import EventBatch, open_events
from mainstem.lang import Program
from mainstem.state import State, digest

AUTO, SERIAL, NOLOCK = "auto", "serial", "nolock"


@dataclass(frozen=True)
class Way:
    """A fixed strategy, or `auto`."""

    engine: str
    options: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """As `result.stats` shows it: `tpg(ns, op, eager)`."""
        return strategy_of(self.engine, **self.options).label

    @property
    def safe(self) -> bool:
        """Whether it promises the result of the serial run."""
        return self.engine != NOLOCK


def _all_ways() -> Iterator[Way]:
    for engine in (SERIAL, "inflight", "lock", "pat", "mvlk", NOLOCK, "components"):
        yield Way(engine)
    for sharing in CHOICES["sharing"]:
        yield Way("chains", {"sharing": sharing})
    for explore in CHOICES["explore"]:
        for unit in CHOICES["unit"]:
            for abort in CHOICES["abort"]:
                yield Way("tpg", {"explore": explore, "unit": unit, "abort": abort})
    yield Way(AUTO)


WAYS: dict[str, Way] = {way.label: way for way in _all_ways()}
"""Every strategy by its label, `auto` last."""


def ways_named(names: Sequence[str], always: Sequence[str] = ()) -> list[Way]:
    """The ways of these engines (`tpg`: all twelve) or with these labels, and those of `always`; no name: all."""
    wanted = {_plain(name) for name in (*names, *always)}
    known = {_plain(text) for label, way in WAYS.items() for text in (label, way.engine)}
    for name in names:
        if _plain(name) not in known:
            raise ProgramError(f"there is no strategy {name!r}", remedy=f"use one of: {'; '.join(WAYS)}")
    return [w for w in WAYS.values() if not names or {_plain(w.label), _plain(w.engine)} & wanted]


def _plain(name: str) -> str:
    return name.replace(" ", "").lower()


def get_ready(threads: int) -> None:
    """Measures what strategies add to the work on this machine; on a new machine all are compiled first, for a minute.

    Else `auto` would have a process do that meanwhile, beside what is measured, and run serially until then.
    """
    calibrate(threads)


def batches_of(program: Program, events: pa.Table, size: int) -> Iterator[EventBatch]:
    """The events as the gate hands them to executors, each batch made when it is asked for."""
    stream, _ = open_events(
        events, program.events, batch_size=size, derives=program.derives, columns=program.used_columns
    )
    return stream


@dataclass(frozen=True)
class Pass:
    """One run over some batches."""

    watch: Stopwatch
    stats: list[BatchStats]
    ending: Ending


class Runner:
    """One way to run one app. Its executor and state live as long as it does: memory is touched, code is compiled,
    keys are known, and `auto` has the experience of a program that runs for long."""

    def __init__(self, app: ModuleType, way: Way, threads: int, initial: Mapping[str, pa.Table] | None = None) -> None:
        program: Program = app.app.program
        self.way = way
        self.state = State({table.name: table for table in program.tables})
        self.state.load(app.initial() if initial is None else initial)
        self._start = {name: table.rows.copy() for name, table in self.state.tables.items()}
        options: dict[str, Any] = dict(way.options)
        self.executor = make_executor(program, self.state, way.engine, threads=threads, **options)
        self.last: list[BatchStats] = []
        """Statistics of the last run."""

    def reset(self) -> None:
        """Puts all rows back to the start, in place; rows that came later are missing again."""
        for name, table in self.state.tables.items():
            start = self._start[name]
            table.rows[: len(start)] = start
            table.rows[len(start) :] = table.default_row

    def run(self, batches: Sequence[EventBatch], limit: float = math.inf) -> Pass:
        """Runs the batches from the start. What counts is the executor's time: keys, transactions, outputs. After
        `limit` seconds of it the rest is left out."""
        self.reset()
        stats, outputs = [], []
        with stopwatch() as watch, contextlib.closing(self.executor.run_all(batches)) as results:  # type: ignore[type-var]
            end = time.perf_counter() + limit
            for result in results:
                stats.append(result.stats)
                outputs.append(result.outputs)
                if time.perf_counter() > end:
                    break
        self.last = stats
        return Pass(watch, stats, Ending(self.digest(), digest({"outputs": pa.Table.from_batches(outputs)})))

    def turn(self, batches: Sequence[EventBatch]) -> tuple[Stopwatch, Ending]:
        """A contender of `take_turns`."""
        done = self.run(batches)
        return done.watch, done.ending

    def digest(self) -> str:
        return digest(self.state.export())
