"""`mainstem demo`: one ledger log, run three ways, compared to the last byte, then queried."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
from rich import box
from rich.table import Table

import mainstem as ms
from mainstem.apps import ledger
from mainstem.cli import view
from mainstem.cli.sparked import quiet_session
from mainstem.cli.view import Tick, out
from mainstem.errors import SparkError
from mainstem.state import digest

if TYPE_CHECKING:
    from mainstem.spark.types import SparkSession

FILES = 5  # of the log: as many micro-batches in the live run
POLL_S = 0.1
WARM_UP_EVENTS = 1_000  # compiles the program and starts Spark's Python workers before the clock runs
LIVE_SECONDS_MAX = 600.0  # a stream that comes to no end is reported, not waited for
SQL = "select count(*) as accounts, sum(balance) as money, max(balance) as richest from Account"


@dataclass(frozen=True)
class Run:
    """One way to run the log: what it took and what it left behind."""

    name: str
    seconds: float
    outputs: pa.Table
    state: Mapping[str, pa.Table]

    @property
    def digests(self) -> tuple[str, str]:
        return digest({"outputs": self.outputs}), digest(dict(self.state))


def show(folder: Path, events: int) -> bool:
    """Runs the demo in `folder` and prints its report; False when a check failed."""
    out.print("[bold]One program, three ways to run it, one result[/]\n")
    log, warm = folder / "log", folder / "warm-up"
    with view.progress("1/4 generating events", events) as bar:
        ledger.write_log(log, events, files=FILES, progress=bar.at)
        ledger.write_log(warm / "log", WARM_UP_EVENTS, files=1)
    with view.progress("2/4 embedded", events) as bar:
        run_embedded(warm / "log")
        runs = [run_embedded(log, bar.add)]
    with quiet_session() as spark:
        with view.progress("3/4 replay on Spark", events) as bar:
            run_replay(spark, warm / "log", warm)
            runs.append(run_replay(spark, log, folder / "replayed", bar.add))
        with view.progress("4/4 live on Spark", events) as bar:
            runs.append(run_live(spark, log, folder / "live", bar.add))
    checks = check(log, runs)
    report(events, runs, checks, folder / "live" / "state")
    return all(checks.values())


def run_embedded(log: Path, tick: Tick | None = None) -> Run:
    started = time.perf_counter()
    result = ledger.app.run(log, initial=ledger.initial(), engine="serial", progress=tick)
    return Run("embedded", time.perf_counter() - started, result.outputs, dict(ledger.app.state))


def run_replay(spark: SparkSession, log: Path, folder: Path, tick: Tick | None = None) -> Run:
    started = time.perf_counter()
    results, state = folder / "outputs", folder / "state"
    ledger.app.replay(spark, str(log), initial=ledger.initial(), state=state, out=results, progress=tick)
    return Run("Spark, replay", time.perf_counter() - started, read_outputs(results), tables_of(state))


def run_live(spark: SparkSession, log: Path, folder: Path, tick: Tick | None = None) -> Run:
    """The log as a stream, one file per micro-batch, with durable state."""
    for number, file in enumerate(sorted(log.iterdir())):
        os.utime(file, (number, number))  # Spark takes files by age
    source = spark.readStream.schema(spark.read.parquet(str(log)).schema).option("maxFilesPerTrigger", 1)
    results, state = folder / "outputs", folder / "state"
    started = time.perf_counter()
    query = ledger.app.stream(
        spark,
        source.parquet(str(log)),
        initial=ledger.initial(),
        state=state,
        checkpoint=folder / "checkpoint",
        out=results,
        trigger={"availableNow": True},
        progress=tick,
    )
    try:
        while query.isActive:  # and not awaitTermination, which Ctrl-C can't interrupt
            if time.perf_counter() - started > LIVE_SECONDS_MAX:
                raise SparkError(f"the live run did not end within {LIVE_SECONDS_MAX:.0f} s: see {folder}")
            time.sleep(POLL_S)
        if error := query.exception():
            raise SparkError(f"the live run failed: {error}")
    finally:
        query.stop()
    return Run("Spark, live", time.perf_counter() - started, read_outputs(results), tables_of(state))


def read_outputs(folder: Path) -> pa.Table:
    return pq.read_table(folder).sort_by("seq")


def tables_of(state: Path) -> dict[str, pa.Table]:
    with ms.open(state) as db:
        return {name: db.table(name) for name in db.tables}


def check(log: Path, runs: list[Run]) -> dict[str, bool]:
    serial, replayed, live = runs
    return {
        "outputs of all three runs are equal": replayed.digests[0] == serial.digests[0] == live.digests[0],
        "state of all three runs is equal": replayed.digests[1] == serial.digests[1] == live.digests[1],
        "money and assets are conserved": ledger.conserved(
            ledger.initial(), pq.read_table(log), serial.outputs, dict(live.state)
        ),
    }


def report(events: int, runs: list[Run], checks: dict[str, bool], state: Path) -> None:
    title = f"{events:,} deposits and transfers (live: {FILES} micro-batches)"
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for name in ("", "seconds", "events/s", "outputs", "state"):
        table.add_column(name, justify="right" if name in ("seconds", "events/s") else "left", no_wrap=True)
    for run in runs:
        table.add_row(run.name, f"{run.seconds:.1f}", f"{events / run.seconds:,.0f}", *run.digests)
    out.print(table)
    view.print_outcomes(view.outcomes(runs[0].outputs))
    out.print(f"\n[dim]ms.open(…).sql:[/] {SQL}")
    with ms.open(state) as db:
        out.print(view.arrow_table(db.sql(SQL), rows_max=1))
    for name, passed in checks.items():
        out.print(f"[green]✓[/] {name}" if passed else f"[red]✗ {name}: this is a bug, please report it[/]")
