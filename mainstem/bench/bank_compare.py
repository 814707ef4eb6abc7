"""The same transfers on Mainstem, PostgreSQL, Redis and SQLite, in turns, on this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack

from mainstem.bench.bank_figures import Results
from mainstem.bench.bank_own import MAINSTEM, own_peers
from mainstem.bench.bank_peers import SYNCED, Peer, PeerFigure, take_turn
from mainstem.bench.bank_postgres import postgres_peers
from mainstem.bench.bank_redis import redis_peers
from mainstem.bench.bank_scenario import Meter
from mainstem.bench.bank_servers import NotInstalled
from mainstem.bench.bank_sqlite import sqlite_peers
from mainstem.bench.bank_workload import Workload
from mainstem.bench.report import Target

Progress = Callable[[str], None]
System = AbstractContextManager[tuple[str, list[Peer]]]

TARGETS = {"PostgreSQL": 100.0, "Redis": 20.0}
"""So many times as fast as each must Mainstem be with durability "batch"."""
COMPARED = "durability=batch"
ABORTS = 0.01  # some transfers must fail, or nobody would notice a contender that never checks


def peers(results: Results, meter: Meter, progress: Progress) -> None:
    options = results.options
    workload = Workload(options.accounts, ABORTS, options.seed)
    with ExitStack() as running:
        contenders = list(_installed(_systems(workload, options.connections), running, results))
        figures = [PeerFigure(peer.config) for peer in contenders]
        results.peers += figures
        for _ in range(options.peer_repeats):
            for peer, figure in zip(contenders, figures, strict=True):
                take_turn(peer, figure, workload, options.peer_seconds)
                progress(f"peers: {peer.config} done")
    results.targets += list(_targets(results))


def compared(results: Results) -> PeerFigure | None:
    """The figure of Mainstem that ratios are taken of: the fastest with durability "batch"."""
    own = [figure for figure in results.peers if figure.config.system == MAINSTEM]
    return max((figure for figure in own if figure.config.setting == COMPARED), key=lambda f: f.rate, default=None)


def _systems(workload: Workload, connections: tuple[int, ...]) -> dict[str, Callable[[], System]]:
    return {
        MAINSTEM: lambda: own_peers(workload),
        "PostgreSQL": lambda: postgres_peers(workload, connections),
        "Redis": lambda: redis_peers(workload, connections),
        "SQLite": lambda: sqlite_peers(workload),
    }


def _installed(systems: dict[str, Callable[[], System]], running: ExitStack, results: Results) -> Iterator[Peer]:
    """Starts all systems that there are; the others are noted with what to install."""
    for name, system in systems.items():
        try:
            results.versions[name], found = running.enter_context(system())
        except NotInstalled as error:
            results.missing[name] = str(error)
            continue
        yield from found


def _targets(results: Results) -> Iterator[Target]:
    """Against the fastest configuration that gives the same promise: synced before the answer, transaction by
    transaction."""
    own = compared(results)
    for system, bound in TARGETS.items():
        alike = [
            figure
            for figure in results.peers
            if figure.config.system == system and figure.config.durable == SYNCED and not figure.config.upper_bound
        ]
        if own is not None and alike:
            fastest = max(alike, key=lambda figure: figure.rate)
            yield Target(f"Mainstem, {COMPARED} / {fastest.config}", own.rate / fastest.rate, bound)
