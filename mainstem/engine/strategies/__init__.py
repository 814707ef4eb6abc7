"""Strategies by name: each runs the transactions of a `Work` on its threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from mainstem.engine.options import Strategy
from mainstem.engine.strategies.chains import run_chains
from mainstem.engine.strategies.isolation import run_locked, run_stamped
from mainstem.engine.strategies.nested import run_at_once, split
from mainstem.engine.strategies.tpg import run_tpg
from mainstem.engine.strategies.whole import (
    run_components,
    run_inflight,
    run_lock,
    run_mvlk,
    run_nolock,
    run_pat,
    run_serial,
)
from mainstem.engine.work import Work
from mainstem.team import Crew, Later

__all__ = [
    "RUNNERS",
    "keeping_versions",
    "overlaps",
    "run_works",
    "split",
    "stage_work",
    "uses_operations",
    "uses_parts",
    "uses_requests",
    "uses_versions",
]

RUNNERS: dict[str, Callable[[Work, Crew], object]] = {
    "serial": run_serial,
    "nolock": run_nolock,
    "inflight": run_inflight,
    "lock": run_lock,
    "pat": run_pat,
    "mvlk": run_mvlk,
    "components": run_components,
    "chains": run_chains,
    "tpg": run_tpg,
    "locked": run_locked,
    "stamped": run_stamped,
}


def uses_parts(strategy: Strategy) -> bool:
    """Whether transactions are split into operations."""
    return strategy.engine in ("chains", "tpg")


def uses_versions(strategy: Strategy) -> bool:
    """Whether transactions run on versions, and not in place."""
    return strategy.engine in ("mvlk", "locked", "stamped") or uses_parts(strategy)


def uses_requests(strategy: Strategy) -> bool:
    """Whether it needs to know what rows transactions ask for, and no more."""
    return strategy.engine in ("inflight", "lock", "pat")


def uses_operations(strategy: Strategy) -> bool:
    """Whether operations must be linked."""
    return strategy.engine not in ("serial", "nolock") and not uses_requests(strategy)


def overlaps(strategy: Strategy) -> bool:
    """Whether all is done when its threads have ended, also when one of them comes late: then other batches may be
    prepared meanwhile."""
    return strategy.engine == "nolock" or uses_requests(strategy)


def keeping_versions(strategy: Strategy) -> Strategy:
    """The strategy, or one like it that keeps what every transaction made; those in place do not."""
    if strategy.groups:
        return replace(strategy, groups=tuple((names, keeping_versions(inner)) for names, inner in strategy.groups))
    return strategy if uses_versions(strategy) else Strategy("mvlk")


def stage_work(work: Work) -> Later:
    """What the threads of a strategy that `overlaps` are to run, all being prepared."""
    later = Later(work.threads)
    RUNNERS[work.strategy.engine](work, later)
    return later


def run_works(works: list[Work], ready: Callable[[], None]) -> None:
    """Runs all works of a batch at the same time. `ready` returns when the tables are as the first transaction finds
    them; a single work is prepared before it is called."""
    run_at_once(works, lambda work, team: RUNNERS[work.strategy.engine](work, team), ready)
