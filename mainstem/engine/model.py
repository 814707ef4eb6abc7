"""The cost model behind `auto`: what a batch is like, and how long each strategy would take for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mainstem.engine.options import Strategy

BARRIER_SECONDS = 2e-6  # of all threads meeting, per stratum
SETTLE_SECONDS = 2e-6  # of stopping all threads and repairing the graph, per abort
# What threads lose to each other while they work, beside waiting for data: cold caches, uneven shares. A start only:
# experience with the program at hand corrects it.
LOSSES = {"inflight": 1.01, "lock": 1.02, "pat": 1.025, "mvlk": 1.03, "components": 1.04, "chains": 1.1}
EXPLORE_LOSSES = {"bfs": 1.1, "ns": 1.05, "dfs": 1.11}
GROUP_LOSSES = {"bfs": 1.08, "ns": 1.08, "dfs": 1.25}
# Of the writes of the hottest row: how many an abort takes with it, because they have run when it is found. Who takes
# the earliest vertex first has run next to nothing behind it.
FOLLOWERS = {"ns": 0.0, "dfs": 0.05, "bfs": 0.1}
GROUP_FOLLOWERS = 0.2
REPEATS = 2  # times that a part runs again, where aborts are found late
UNSEEN = 0.001  # share of aborts that nobody has seen yet: who finds them late has most to lose
WAITED = 0.5  # of a transaction that just started: what one that needs it waits for

Costs = Mapping[str, tuple[float, float]]
"""By label of the strategy: seconds that it adds per batch, and per operation."""


@dataclass(frozen=True)
class Properties:
    """A batch. Paths and weights are shares of the whole work: 1.0 means that nothing can run at the same time."""

    transactions: int
    operations: int
    cost: float  # seconds of work per transaction
    aborts: float  # share of transactions that abort
    split: float  # share of transactions that run as several parts
    dependent: float  # share of operations that need a version made in this batch
    near: float  # share of transactions that need what one of the few just before them makes
    path_versions: float
    path_locks: float
    path_parts: float
    strata: int  # writes of the most contended row: at least as many strata
    heaviest: float  # largest connected component

    @property
    def work(self) -> float:
        return self.transactions * self.cost

    def __str__(self) -> str:
        return (
            f"{self.cost * 1e6:.2g} µs of work per transaction, {self.dependent:.0%} of operations depend on others, "
            f"longest chain {max(self.path_parts, 0.0):.0%} of the work, largest component {self.heaviest:.0%}, "
            f"{self.aborts:.0%} abort"
        )


def predict(strategy: Strategy, batch: Properties, costs: Costs, threads: int) -> float:
    """Seconds that a strategy takes for a batch."""
    if strategy.engine == "serial":
        return batch.work
    fixed, per_op = costs[strategy.label]
    own = fixed + per_op * batch.operations
    return own + _span(strategy, batch, threads) * _loss(strategy) + _aborts(strategy, batch, threads)


def _loss(strategy: Strategy) -> float:
    if strategy.engine != "tpg":
        return LOSSES[strategy.engine]
    grouped = GROUP_LOSSES[strategy.explore] if strategy.unit == "group" else 1.0
    return EXPLORE_LOSSES[strategy.explore] * grouped


def _followers(strategy: Strategy) -> float:
    return GROUP_FOLLOWERS if strategy.unit == "group" else FOLLOWERS[strategy.explore]


def _span(strategy: Strategy, batch: Properties, threads: int) -> float:
    """The work itself: shared between threads, but never shorter than what must follow one another."""
    even = batch.work / threads
    match strategy.engine:
        case "components":
            return max(even, batch.heaviest * batch.work)
        case "inflight" | "lock" | "pat":
            return max(even * (1 + WAITED * batch.near), batch.path_locks * batch.work)
        case "mvlk":
            return max(even * (1 + WAITED * batch.near), batch.path_versions * batch.work)
    span = max(even, batch.path_parts * batch.work)
    if strategy.engine == "tpg" and strategy.explore == "bfs":
        return span + batch.strata * BARRIER_SECONDS
    return span


def _aborts(strategy: Strategy, batch: Properties, threads: int) -> float:
    """Only split transactions need repair: a whole one leaves nothing behind."""
    if strategy.engine not in ("chains", "tpg"):
        return 0.0
    if strategy.engine == "tpg" and strategy.abort == "eager":
        affected = 1 + batch.strata * _followers(strategy)
        return batch.aborts * batch.split * batch.transactions * SETTLE_SECONDS * affected
    # Aborts are found when all parts have run: those that would not have run at all, and those that read a version of
    # an aborted transaction and run once more. On a row that is written often, hardly any part is spared.
    aborts = max(batch.aborts, UNSEEN)
    wasted = aborts / max(1 - aborts, 1 / batch.transactions)
    repeated = batch.dependent * min(1.0, aborts * batch.strata)
    return batch.split * (wasted + REPEATS * repeated) * batch.work / threads
