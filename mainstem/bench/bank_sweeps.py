"""Table 1 and figures 7 to 10, 12, 13 and 15: throughput and latency over what TSpoon varies."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.apps.work import turns_for
from mainstem.bench import bank_paper as paper
from mainstem.bench.bank_figures import Chart, Measured, Results, Row
from mainstem.bench.bank_levels import EVENT_ORDER, PL3_TIMESTAMP, Level
from mainstem.bench.bank_programs import ledgers, linked, worked
from mainstem.bench.bank_scenario import Meter, Scenario, account_rows
from mainstem.bench.bank_workload import Workload

Progress = Callable[[str], None]

SUSTAINED_LATENCY = 20  # TSpoon: throughput counts up to so many times the latency of the unloaded system
SUSTAINED_BATCHES = (8, 64, 512, 4_096, 32_768)
SUSTAINED_BATCHES_TIMED = 20  # at least: the median of fewer says too little
WORK_EVENTS_MS = 4.0  # a probe takes about as long


def table1(results: Results, meter: Meter, progress: Progress) -> None:
    scenario = _default(results)
    for level, name in ((EVENT_ORDER, "PL4, event order (default)"), (PL3_TIMESTAMP, "PL3 timestamp")):
        rate, alone, batch = _sustained(meter, scenario, level)
        results.rows.append(Row(f"Mainstem, {name}", rate, alone, f"in batches of {batch:,}"))
        progress(f"table1: {name} done")
    results.rows += [Row(*row, note="reported in the paper") for row in paper.TABLE_1]


def _sustained(meter: Meter, scenario: Scenario, level: Level) -> tuple[float, float, int]:
    """The largest rate whose latency is below 20 times that of one transfer alone; that latency; the batch.

    Transfers that arrive at the rate at which batches are served wait for half a batch to fill and for one to run.
    """
    alone = meter.service(scenario, level, batch=1, batches=meter.options.alone)
    best = (1 / alone, alone, 1)
    for batch in SUSTAINED_BATCHES:
        batches = min(meter.options.alone, meter.options.events_max // batch)
        if batches < SUSTAINED_BATCHES_TIMED:
            break
        seconds = meter.service(scenario, level, batch=batch, batches=batches)
        if 1.5 * seconds <= SUSTAINED_LATENCY * alone:
            best = max(best, (batch / seconds, alone, batch))
    return best


def levels(results: Results, meter: Meter, progress: Progress) -> None:
    chart = Chart("levels", f"Isolation levels, {results.options.threads} threads", "", paper.LEVELS)
    results.charts.append(chart)
    for level in results.options.levels:
        chart.add(level.label, "", meter.measure(_default(results), level, alone=True))
        progress(f"levels: {level.label} done")


def keys(results: Results, meter: Meter, progress: Progress) -> None:
    chart = Chart("keys", "Number of accounts", "accounts", paper.KEYS)
    results.charts.append(chart)
    for accounts in results.options.keys:
        scenario = Scenario(Workload(accounts, seed=results.options.seed))
        for level in results.options.swept:
            chart.add(level.label, accounts, meter.measure(scenario, level))
        progress(f"keys: {accounts:,} done")


def aborts(results: Results, meter: Meter, progress: Progress) -> None:
    chart = Chart("aborts", "Share of transfers that abort", "aborts", paper.ABORTS)
    results.charts.append(chart)
    for share in results.options.aborts:
        scenario = Scenario(Workload(results.options.accounts, share, results.options.seed))
        for level in results.options.swept:
            chart.add(level.label, f"{share:.0%}", meter.measure(scenario, level))
        progress(f"aborts: {share:.0%} done")


def overhead(results: Results, meter: Meter, progress: Progress) -> None:
    chart = Chart("overhead", "Work per updated row", "ms", paper.OVERHEAD)
    results.charts.append(chart)
    for work_ms in results.options.work_ms:
        scenario = _worked(results, work_ms * 1e3)
        for level in results.options.swept:
            chart.add(level.label, work_ms, meter.measure(scenario, level))
        progress(f"overhead: {work_ms:g} ms done")


def cores(results: Results, meter: Meter, progress: Progress) -> None:
    default = Chart("cores", "Threads", "threads", paper.CORES)
    work_us = results.options.cores_work_us
    heavy = Chart("cores", f"Threads, with {work_us:g} µs of work per updated row", "threads", paper.CORES)
    results.charts += [default, heavy]
    counts = [2**power for power in range(results.options.threads.bit_length())]
    for chart, scenario in ((default, _default(results)), (heavy, _worked(results, work_us))):
        for threads in counts:
            for level in results.options.swept:
                chart.add(level.label, threads, meter.measure(scenario, level, threads=threads))
            progress(f"{chart.title}: {threads} done")


def parallel(results: Results, meter: Meter, progress: Progress) -> None:
    for one_group, name in ((True, "one group"), (False, "a group for each")):
        chart = Chart("parallel", f"Parallel updates, {name}", "updated tables", paper.PARALLEL)
        results.charts.append(chart)
        for count in results.options.updates:
            scenario = _ledgers(results, count, chained=False, one_group=one_group)
            for level in results.options.swept:
                chart.add(level.label, count, meter.measure(scenario, level))
            progress(f"{chart.title}: {count} done")


def chained(results: Results, meter: Meter, progress: Progress) -> None:
    one = Chart("chained", "Chained updates, one group", "updated tables", paper.CHAINED)
    several = Chart("chained", "Chained updates, a group for each", "updated tables", paper.CHAINED)
    results.charts += [one, several]
    for count in results.options.updates:
        scenario = _ledgers(results, count, chained=True, one_group=True)
        for level in results.options.swept:
            one.add(level.label, count, meter.measure(scenario, level, alone=True))
            several.add(level.label, count, _linked(results, meter, level, count))
        progress(f"chained: {count} done")


def _linked(results: Results, meter: Meter, level: Level, count: int) -> Measured:
    """A chain of programs, each with its own transactions and fed with what the one before has put out."""
    workload = _workload(results)
    single = Scenario(workload, linked, ("Ledger",))
    fitting = round(meter.measure(single, level).rate * meter.options.seconds)
    events = single.events(max(1, min(fitting, meter.options.events_max)))
    initial, total = {"Ledger": account_rows(workload)}, int(workload.start().sum())
    seconds, retries = [], 0
    for _ in range(meter.options.repeats):
        taken, flowing = 0.0, events
        for _ in range(count):
            result = linked.run(flowing, initial=initial, threads=meter.options.threads, progress=None, **level.options)
            started = time.perf_counter()
            flowing = _passed_on(result.outputs)
            taken += result.stats.seconds + time.perf_counter() - started
            retries += result.stats.retries
            if level.serial and pc.sum(linked.state["Ledger"]["balance"]).as_py() != total:
                meter.wrong.append(f"{linked.name}, {level.label}: a ledger does not hold what was moved")
        seconds.append(taken)
    return Measured(events.num_rows / min(seconds), None, retries / meter.options.repeats / events.num_rows)


def _passed_on(outputs: pa.Table) -> pa.Table:
    committed = pc.equal(outputs["status"].cast(pa.string()), "committed")
    return outputs.filter(committed).select(["ts", "src", "dst", "amount"])


def _workload(results: Results) -> Workload:
    return Workload(results.options.accounts, seed=results.options.seed)


def _default(results: Results) -> Scenario:
    return Scenario(_workload(results))


def _worked(results: Results, work_us: float) -> Scenario:
    """The first probe is short even if each transfer takes long."""
    probe = int(np.clip(WORK_EVENTS_MS * 1e3 / max(work_us, 1e-3), 4, Scenario.probe))
    return Scenario(_workload(results), worked, ("WorkedAccount",), work=turns_for(work_us, None), probe=probe)


def _ledgers(results: Results, count: int, *, chained: bool, one_group: bool) -> Scenario:
    tables = tuple(f"Ledger{number}" for number in range(count))
    app = ledgers(count, chained=chained, one_group=one_group)
    return Scenario(_workload(results), app, tables, order_matters=chained and count > 1)
