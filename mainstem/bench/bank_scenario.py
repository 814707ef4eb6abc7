"""A program and its transfers, ready to run: how fast, how long one alone takes, and whether it ended as it must."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.app import App
from mainstem.bench.bank_figures import Measured
from mainstem.bench.bank_fit import fitting_count
from mainstem.bench.bank_levels import Level
from mainstem.bench.bank_options import Options
from mainstem.bench.bank_programs import transfers
from mainstem.bench.bank_workload import Transfers, Workload, account_table
from mainstem.progress import Tell
from mainstem.result import Result

_WARM_UP_SHARE = 0.1  # of the batches whose service is timed


@dataclass(frozen=True)
class Scenario:
    """`tables` start with the workload's balances each; `work`: turns that every transfer carries."""

    workload: Workload
    app: App = transfers
    tables: tuple[str, ...] = ("Account",)
    work: int | None = None
    order_matters: bool = False  # whether another serial order ends in other balances
    probe: int = 2_000  # transfers of the first, unmeasured run

    def events(self, count: int) -> pa.Table:
        made = _transfers(self.workload, count).events
        return made if self.work is None else made.append_column("work", pa.array(np.full(count, self.work)))

    def initial(self) -> dict[str, pa.Table]:
        accounts = account_rows(self.workload)
        if self.work is not None:
            accounts = accounts.append_column("mark", pa.array(np.zeros(self.workload.accounts, np.int64)))
        return dict.fromkeys(self.tables, accounts)

    def run(self, count: int, level: Level, threads: int, *, progress: Tell | None = None, **options: Any) -> Result:
        """Runs the first transfers from the start."""
        given = {"threads": threads, "progress": progress, **level.options, **options}
        return self.app.run(self.events(count), initial=self.initial(), **given)


def account_rows(workload: Workload) -> pa.Table:
    return account_table(workload.start())["Account"]


@dataclass
class Meter:
    """Measures scenarios with the sizes of some options, and keeps what was wrong."""

    options: Options
    wrong: list[str] = field(default_factory=list)

    def measure(self, scenario: Scenario, level: Level, *, threads: int | None = None, alone: bool = False) -> Measured:
        """Transfers per second of the fastest of some runs; with `alone`, also the latency of one at a time."""
        options, team = self.options, threads or self.options.threads
        probe = lambda n: scenario.run(n, level, team).stats.seconds
        count = fitting_count(probe, scenario.probe, options.seconds, count_max=options.events_max)
        results = []
        for _ in range(options.repeats):
            results.append(scenario.run(count, level, team))
            self.wrong += wrong_of(scenario, level, results[-1])
        best = min(results, key=lambda one: one.stats.seconds)
        latency = self.service(scenario, level, batch=1, batches=options.alone) if alone else None
        return Measured(count / best.stats.seconds, latency, best.stats.retries / count)

    def service(self, scenario: Scenario, level: Level, *, batch: int, batches: int) -> float:
        """Median seconds from handing over a batch to its result, gate included, when the next one comes after that."""
        ended: list[float] = []
        clock = lambda events: ended.append(time.perf_counter())
        scenario.run(batches * batch, level, self.options.threads, batch=batch, progress=clock)
        seconds = np.diff(ended)
        return float(np.median(seconds[int(_WARM_UP_SHARE * seconds.size) :]))


def wrong_of(scenario: Scenario, level: Level, result: Result) -> list[str]:
    """What a run ended in and must not; a level below PL3 may lose updates, but never a transfer."""
    count, found = result.stats.events, []
    name = f"{scenario.app.name}, {level.label}, {count:,} transfers"
    made = _transfers(scenario.workload, count)
    transactions = result.stats.committed + result.stats.aborted
    aborts = made.aborts * transactions // count
    if result.stats.aborted != aborts:
        found.append(f"{name}: {result.stats.aborted:,} aborted, not {aborts:,}")
    if not level.serial:
        return found
    expected = scenario.workload.balances_after(count)
    for table in scenario.tables:
        balances = scenario.app.state[table]["balance"].to_numpy()
        right = balances.sum() == expected.sum() if scenario.order_matters else np.array_equal(balances, expected)
        if not right:
            found.append(f"{name}: table {table} does not hold what was moved")
    if scenario.order_matters and level.in_order:
        digest = scenario.app.state.digest
        serial = scenario.app.run(scenario.events(count), initial=scenario.initial(), engine="serial", progress=None)
        if serial.digest != digest:
            found.append(f"{name}: ended in {digest}, but serial in {serial.digest}")
    return found


@lru_cache(maxsize=4)
def _log(workload: Workload, size: int) -> Transfers:
    return workload.transfers(size)


def _transfers(workload: Workload, count: int) -> Transfers:
    """The first `count` transfers, out of a log that is made once for all counts of about its size."""
    made = _log(workload, 1 << (count - 1).bit_length())
    return Transfers(0, made.src[:count], made.dst[:count], made.amount[:count])
