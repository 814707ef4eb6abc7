"""The ledger benchmark: how far from the limit, from plain Python and from plain PySpark.

All contenders see the same log. The embedded ones start from Arrow in memory and end with Arrow in memory; the Spark
ones start from Parquet files and end with written Parquet files, in a session that has already run the same job once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from rich.console import Console

import mainstem as ms
from mainstem.apps import ledger
from mainstem.bench import data, fingerprint, limit
from mainstem.bench.measure import Contender, Ending, Figure, Stopwatch, load_note, stopwatch, take_turns
from mainstem.bench.memory import PeakMemory
from mainstem.bench.report import Peak, Report, Target
from mainstem.state import digest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("Account", "Asset")
LIMIT, RUN, ORACLE, REPLAY, PLAIN = "hand-written loop", "app.run", "oracle", "app.replay", "plain PySpark"

FINALISTS = 2  # plain variants that also run the full log: a noisy machine may rank the first two wrongly

# What the project promises for this program.
RUN_OF_LIMIT, RUN_OF_ORACLE, REPLAY_OF_PLAIN, REPLAY_PER_CORE = 0.15, 100.0, 5.0, 2e6


@dataclass(frozen=True)
class Options:
    events: int = 4_000_000
    oracle_events: int = 50_000
    replay_events: int = 10_000_000
    cores: int = 2
    repeats: int = 7
    spark_repeats: int = 3
    seed: int = 0
    spark: bool = True
    folder: Path = Path()


def benchmark(options: Options, console: Console) -> Report:
    """Measure everything that `options` asks for."""
    report = Report("Streaming Ledger: 10,000 accounts and assets, 50 % transfers, Zipf 0.6, 1 % aborts")
    report.notes.append(load_note())
    embedded(options, report, console)
    if options.spark:
        spark(options, report, console)
    return report


# --- embedded: one process, Arrow in memory -------------------------------------------------------------------------


def embedded(options: Options, report: Report, console: Console) -> None:
    events = ledger.generate(options.events, seed=options.seed)
    prefix = ledger.generate(options.oracle_events, seed=options.seed)
    _limit(prefix)()  # compiles the loop
    with console.status("compiling"), stopwatch() as compiling:
        _run(prefix)
    report.notes.append(f"First app.run, with compiling or loading compiled code: {compiling.seconds:.1f} s.")
    with console.status("embedded") as status:

        def show(name: str) -> None:
            status.update(f"embedded: {name} done")

        small = {ORACLE: lambda: _run(prefix, engine="oracle"), RUN: lambda: _run(prefix), LIMIT: _limit(prefix)}
        large = {RUN: lambda: _run(events), LIMIT: _limit(events)}
        on_prefix = take_turns(small, options.oracle_events, 2, show)
        in_full = take_turns(large, options.events, options.repeats, show)
    report.figures += [*on_prefix, *in_full]
    # The oracle is too slow for all events, so its ratio is taken where both ran the same ones.
    oracle, prefix_run = _named(on_prefix, ORACLE), _named(on_prefix, RUN)
    full_run, full_limit = _named(in_full, RUN), _named(in_full, LIMIT)
    report.targets += [
        Target(f"{RUN} / {LIMIT}", full_run.best / full_limit.best, RUN_OF_LIMIT),
        Target(f"{RUN} / {ORACLE}", prefix_run.best / oracle.best, RUN_OF_ORACLE),
    ]
    of_limit, of_oracle = full_run.best_cpu / full_limit.best_cpu, prefix_run.best_cpu / oracle.best_cpu
    report.notes.append(f"By CPU time, less noisy: {RUN} / {LIMIT} {of_limit:.2f}, {RUN} / {ORACLE} {of_oracle:.0f}.")


def _run(events: pa.Table, engine: str = "serial") -> tuple[Stopwatch, Ending]:
    """`app.run`: an Arrow table in, an Arrow table out."""
    initial = ledger.initial()
    with stopwatch() as watch:
        result = ledger.app.run(events, initial=initial, engine=engine)
    return watch, Ending(result.digest, fingerprint.of_tables([result.outputs]))


def _limit(events: pa.Table) -> Contender:
    columns = limit.arrays(events)

    def run() -> tuple[Stopwatch, Ending]:
        state, outcome = limit.Ledger.of(ledger.initial()), limit.Outcome.empty(events.num_rows)
        # Touched once, so that the loop does not pay for the operating system handing out pages.
        for array in (outcome.code, outcome.left, outcome.has_left):
            array.fill(1)
        with stopwatch() as watch:
            limit.run(columns, state, outcome)
        return watch, _ending_of_limit(state, outcome)

    return run


def _ending_of_limit(state: limit.Ledger, outcome: limit.Outcome) -> Ending:
    seq = np.arange(outcome.code.size)
    total = fingerprint.of_columns(seq, outcome.code, outcome.left, outcome.has_left)
    return Ending(digest(state.export()), fingerprint.text(total))


# --- Spark: Parquet files to Parquet files --------------------------------------------------------------------------


def spark(options: Options, report: Report, console: Console) -> None:
    from mainstem.spark.session import local_session

    sizes = [options.replay_events // 4, options.replay_events // 2, options.replay_events]
    logs = {size: data.ledger_log(options.folder, size, options.seed, console) for size in sizes}
    with tempfile.TemporaryDirectory(prefix="mainstem-bench-") as scratch:
        session = local_session(options.cores, name="mainstem-bench", log=Path(scratch) / "spark.log")
        try:
            _Spark(session, Path(scratch), options, report, console).measure(logs)
        finally:
            session.stop()


@dataclass
class _Spark:
    """The Spark half of one benchmark run."""

    session: SparkSession
    scratch: Path
    options: Options
    report: Report
    console: Console

    def measure(self, logs: dict[int, Path]) -> None:
        small, full = min(logs), max(logs)
        with self.console.status("warming up"):
            self.replay(logs[small])
        self.memory(logs)
        self.compare(full, logs[full], self.fastest_plain(small, logs[small]))

    def memory(self, logs: dict[int, Path]) -> None:
        """Replays logs of growing size: the peak must not grow with them."""
        for events, log in sorted(logs.items()):
            with self.console.status(f"memory of a replay of {events:,} events"), PeakMemory() as peak:
                self.replay(log)
            self.report.peaks.append(Peak(events, peak.bytes))

    def fastest_plain(self, events: int, log: Path) -> list[str]:
        """Runs every plain variant on a small log; returns the fastest ones."""
        from mainstem.bench import plain

        figures = self.turns({f"{PLAIN}: {name}": _bound(self.plain, name, log) for name in plain.VARIANTS}, events, 2)
        self.report.figures += figures
        by_rate = sorted(figures, key=lambda figure: figure.best, reverse=True)
        return [figure.name.removeprefix(f"{PLAIN}: ") for figure in by_rate[:FINALISTS]]

    def compare(self, events: int, log: Path, finalists: list[str]) -> None:
        """`app.replay` beside the plain variants that won on the small log."""
        contenders: dict[str, Contender] = {REPLAY: lambda: self.replay(log)}
        contenders |= {f"{PLAIN}: {name}": _bound(self.plain, name, log) for name in finalists}
        replay, *plain = self.turns(contenders, events, self.options.spark_repeats)
        expected = Figure(f"{LIMIT} (check only)", events, *_one(_limit(pq.read_table(log))))
        self.report.figures += [replay, *plain, expected]
        per_core = replay.best / self.options.cores / 1e6
        self.report.targets += [
            Target(f"{REPLAY} / {PLAIN}", replay.best / max(figure.best for figure in plain), REPLAY_OF_PLAIN),
            Target(f"{REPLAY}, million events/s per core", per_core, REPLAY_PER_CORE / 1e6),
        ]

    def turns(self, contenders: dict[str, Contender], events: int, repeats: int) -> list[Figure]:
        with self.console.status(f"{events:,} events on Spark") as status:
            return take_turns(contenders, events, repeats, lambda name: status.update(f"{name}: done"))

    def replay(self, log: Path) -> tuple[Stopwatch, Ending]:
        """`app.replay`, which also commits the end state to a durable directory."""
        out, state = self._empty("out"), self._empty("state")
        with stopwatch() as watch:
            ledger.app.replay(self.session, log, initial=ledger.initial(), state=state, out=out)
        with ms.open(state) as db:
            tables = {name: db.table(name) for name in TABLES}
        return watch, Ending(digest(tables), fingerprint.of_tables(_written(out)))

    def plain(self, variant: str, log: Path) -> tuple[Stopwatch, Ending]:
        from mainstem.bench import plain

        out, state = self._empty("out"), self._empty("state")
        with stopwatch() as watch:
            plain.run(self.session, variant, log, out, state)
        tables = {name: pq.read_table(state / f"{name}.parquet") for name in TABLES}
        return watch, Ending(digest(tables), fingerprint.of_tables(_written(out)))

    def _empty(self, name: str) -> Path:
        path = self.scratch / name
        shutil.rmtree(path, ignore_errors=True)
        return path


def _written(folder: Path) -> Iterator[pa.Table]:
    """Written output files, piece by piece: checking them must not need the memory of the whole log."""
    for path in sorted(folder.glob("[!._]*.parquet")):
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(columns=["seq", "status", "reason", "left"]):
                yield pa.Table.from_batches([batch])


def _bound(function: Callable[[str, Path], tuple[Stopwatch, Ending]], name: str, log: Path) -> Contender:
    return lambda: function(name, log)


def _one(contender: Contender) -> tuple[list[Stopwatch], list[Ending]]:
    watch, ending = contender()
    return [watch], [ending]


def _named(figures: list[Figure], name: str) -> Figure:
    return next(figure for figure in figures if figure.name == name)
