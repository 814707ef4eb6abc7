"""The cost model behind `auto`: what a batch is like, and how long each strategy would take for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mainstem.engine.options import Strategy

BARRIER_SECONDS = 2e-6  # of all threads meeting, per stratum
SETTLE_SECONDS = 4e-6  # of stopping all threads and repairing the graph, per abort
# What threads lose to each other while they work, beside waiting for data: cold caches, uneven shares. A start only:
# experience with the program at hand corrects it.
LOSSES = {"mvlk": 1.03, "chains": 1.15, "bfs": 1.08, "ns": 1.08, "dfs": 1.12}
GROUP_LOSSES = {"bfs": 1.06, "ns": 1.04, "dfs": 1.25}
REDONE = 0.5  # share of an aborted transaction's work that is repeated on average when aborts are found late

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
    components: int

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
        return LOSSES.get(strategy.engine, 1.0)
    grouped = GROUP_LOSSES[strategy.explore] if strategy.unit == "group" else 1.0
    return LOSSES[strategy.explore] * grouped


def _span(strategy: Strategy, batch: Properties, threads: int) -> float:
    """The work itself: shared between threads, but never shorter than what must follow one another."""
    even = batch.work / threads
    match strategy.engine:
        case "components":
            return max(even, batch.heaviest * batch.work)
        case "lock" | "pat":
            return max(even * (1 + batch.near), batch.path_locks * batch.work)
        case "mvlk":
            return max(even * (1 + batch.near / 2), batch.path_versions * batch.work)
    span = max(even, batch.path_parts * batch.work)
    if strategy.engine == "tpg" and strategy.explore == "bfs":
        return span + batch.strata * BARRIER_SECONDS
    return span


def _aborts(strategy: Strategy, batch: Properties, threads: int) -> float:
    """Only split transactions need repair: a whole one leaves nothing behind."""
    if strategy.engine not in ("chains", "tpg"):
        return 0.0
    count = batch.aborts * batch.split * batch.transactions
    if strategy.engine == "tpg" and strategy.abort == "eager":
        return count * SETTLE_SECONDS
    return count * batch.cost * REDONE / threads
