"""Options of the `bank` benchmark: sizes that take some minutes on two cores, and smaller ones for a first look."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mainstem.bench.bank_levels import LEVELS, SWEPT, Level
from mainstem.bench.bank_workload import ACCOUNTS
from mainstem.errors import InputError

PARTS = {
    "table1": "sustained throughput and latency beside TSpoon, Flink and VoltDB",
    "peers": "the same transfers on PostgreSQL, Redis and SQLite",
    "levels": "figure 7: isolation levels and protocols",
    "chained": "figure 8: 1 to 8 updates that need each other",
    "parallel": "figure 9: 1 to 8 updates that do not",
    "keys": "figure 10: 100 to 100,000 accounts",
    "queries": "figure 11: queries of 1 to 1,000 keys beside 1,000 transfers/s, in process and over HTTP",
    "overhead": "figure 12: work inside transactions",
    "aborts": "figure 13: 0 to 50 % aborts",
    "durability": "section 5.5.7: none, batch, sync",
    "recovery": "figure 14: time to recover over the length of the log",
    "cores": "figure 15: 1 core to all",
}


@dataclass(frozen=True)
class Options:
    parts: tuple[str, ...] = tuple(PARTS)
    accounts: int = ACCOUNTS
    seed: int = 0
    threads: int = 2
    seconds: float = 0.3  # of one run, about
    repeats: int = 2  # the fastest run counts
    events_max: int = 4_000_000  # of one run, however fast
    alone: int = 1_000  # transfers that are sent one at a time, for the latency
    levels: tuple[Level, ...] = LEVELS
    swept: tuple[Level, ...] = SWEPT
    keys: tuple[int, ...] = (100, 1_000, 10_000, 100_000)
    updates: tuple[int, ...] = (1, 2, 4, 8)
    aborts: tuple[float, ...] = (0.0, 0.1, 0.3, 0.5)
    work_ms: tuple[float, ...] = (0.0, 0.1, 1.0, 10.0, 30.0)
    cores_work_us: float = 10.0  # much cheaper ones leave little for a second thread to gain
    batches: tuple[int, ...] = (1, 100, 10_000, 65_536)  # transfers per commit
    selected: tuple[int, ...] = (1, 10, 100, 1_000)  # keys per query
    logged: tuple[int, ...] = (60_000, 200_000, 600_000)
    per_commit: int = 100  # transfers per commit of the logs that are recovered
    peer_seconds: float = 1.0
    peer_repeats: int = 2
    connections: tuple[int, ...] = (1, 16, 64)


def options_of(*, quick: bool, only: Sequence[str], threads: int, seed: int) -> Options:
    """`quick`: both ends of each range, fewer levels, shorter runs."""
    for name in only:
        if name not in PARTS:
            raise InputError(f"there is no part {name!r}\n  parts: {', '.join(PARTS)}")
    options = Options(parts=tuple(name for name in PARTS if not only or name in only), threads=threads, seed=seed)
    return _quick(options) if quick else options


def _quick(options: Options) -> Options:
    return replace(
        options,
        seconds=0.1,
        repeats=1,
        events_max=1_000_000,
        alone=200,
        swept=tuple(level for level in SWEPT if level.isolation != "PL2"),
        keys=_ends(options.keys),
        updates=_ends(options.updates),
        aborts=_ends(options.aborts),
        work_ms=(0.0, 0.1, 1.0),
        batches=_ends(options.batches),
        selected=_ends(options.selected),
        logged=_ends(options.logged),
        peer_seconds=0.3,
        peer_repeats=1,
        connections=(1, 16),
    )


def _ends(values: tuple) -> tuple:
    return (values[0], values[-1])
