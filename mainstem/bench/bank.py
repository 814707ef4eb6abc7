"""The bank benchmark: table 1 and figures 7 to 15 of TSpoon's evaluation at this machine's size, beside databases.

All contenders run the same transfers (`bank_workload.py`), and every run is checked against what they add up to.
"""

from __future__ import annotations

from collections.abc import Callable

from mainstem.bench import bank_compare, bank_durable, bank_queries, bank_sweeps
from mainstem.bench.bank_figures import Results
from mainstem.bench.bank_options import Options
from mainstem.bench.bank_scenario import Meter
from mainstem.bench.bank_servers import ended_in_order
from mainstem.bench.engines import get_ready
from mainstem.bench.measure import load_note

Progress = Callable[[str], None]
Part = Callable[[Results, Meter, Progress], None]

RUN: dict[str, Part] = {
    "table1": bank_sweeps.table1,
    "peers": bank_compare.peers,
    "levels": bank_sweeps.levels,
    "chained": bank_sweeps.chained,
    "parallel": bank_sweeps.parallel,
    "keys": bank_sweeps.keys,
    "queries": bank_queries.queries,
    "overhead": bank_sweeps.overhead,
    "aborts": bank_sweeps.aborts,
    "durability": bank_durable.durability,
    "recovery": bank_durable.recovery,
    "cores": bank_sweeps.cores,
}
"""What measures each part of `bank_options.PARTS`."""


def benchmark(options: Options, progress: Progress = lambda line: None) -> Results:
    """Measures every part that `options` names, in their order."""
    results = Results(options)
    results.notes.append(load_note())
    meter = Meter(options, results.wrong)
    get_ready(options.threads)
    with ended_in_order():
        for part in options.parts:
            RUN[part](results, meter, progress)
    return results
