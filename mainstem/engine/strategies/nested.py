"""Nested strategies: groups of transactions that share no row run at the same time, each in its own way.

Groups are given by functions (by their names, or by their isolation levels), or by how contended the keys are: `hot
keys` are the transactions of components that are too heavy for one thread's share, `cold keys` all others. Where two
groups meet in a row, they become one for this batch, with the strategy of the first: order between them would be lost
otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

from mainstem.engine.options import COLD, HOT, Strategy
from mainstem.engine.strategies.whole import Components, find_components
from mainstem.engine.work import Work
from mainstem.team import STOP_WORD, Crew, Team, Waiting, team


def split(work: Work) -> list[Work]:
    """The work itself, or one work per group when its strategy is nested."""
    strategy = work.strategy
    if strategy.engine not in ("nested", "levels"):
        return [work]
    found = find_components(work)
    if HOT in _names(strategy):
        group_of = _by_heat(work, found)
    else:
        group_of = _by_function(strategy, [f.name for f in work.layout.program.functions])[work.fn[work.todo]]
    merged = _merge(found.component, group_of, len(strategy.groups))
    works = []
    for g, (_, inner) in enumerate(strategy.groups):
        members = work.todo[merged == g]
        if len(members):
            works.append(work.narrowed(members, inner, name=str(g)))
    _share_threads(work, works)
    return works


def _names(strategy: Strategy) -> set[str]:
    return {name for names, _ in strategy.groups for name in names}


def _by_function(strategy: Strategy, functions: list[str]) -> np.ndarray:
    """The group of each function; what no group names belongs to the first."""
    if strategy.group_of:
        return np.array(strategy.group_of)
    group = np.zeros(len(functions), np.int64)
    for g, (names, _) in enumerate(strategy.groups):
        for f, name in enumerate(functions):
            if name in names:
                group[f] = g
    return group


def _by_heat(work: Work, found: Components) -> np.ndarray:
    hot = found.weight[found.component] * work.threads > found.total
    order = [names[0] for names, _ in work.strategy.groups]
    return np.where(hot, order.index(HOT), order.index(COLD))


def _merge(component: np.ndarray, group: np.ndarray, groups: int) -> np.ndarray:
    """A component belongs to one group; groups that share one are the same, the first of them."""
    first = np.full(int(component.max(initial=-1)) + 1, groups, np.int64)
    np.minimum.at(first, component, group)
    leader = np.arange(groups)
    for a, b in np.unique(np.stack([first[component], group]), axis=1).T:
        low, high = sorted((leader[a], leader[b]))
        leader[leader == high] = low
    return leader[group]


def _share_threads(work: Work, works: list[Work]) -> None:
    """Workers in proportion to weight, at least one for each group: so there may be more of them than threads."""
    each = work.weights.whole_numbers()
    weights = np.array([each[w.fn[w.todo]].sum() for w in works])
    shares = np.maximum(1, np.floor(work.threads * weights / max(weights.sum(), 1e-9))).astype(int)
    first = 0
    for inner, share in zip(works, shares, strict=True):
        inner.staffed(first, int(share))
        first += int(share)


_teams: dict[tuple[int, int], Team] = {}


def run_at_once(works: list[Work], run: Callable[[Work, Crew], object], ready: Callable[[], None]) -> None:
    """Every work on a team of its own, all at the same time; the first error is raised when all have ended.

    An interrupt reaches this thread only: it tells all works to stop, and waits for them.
    """
    if len(works) == 1:
        run(works[0], Waiting(team(works[0].threads), ready))
        return
    ready()
    errors: list[BaseException] = []

    def one(n: int, work: Work) -> None:
        try:
            run(work, _teams.setdefault((n, work.threads), Team(work.threads)))
        except BaseException as error:
            errors.append(error)

    def stop(error: BaseException) -> None:
        errors.append(error)
        for work in works:
            work.control[STOP_WORD] = 1

    threads = [threading.Thread(target=one, args=(n, work)) for n, work in enumerate(works)]
    try:
        for thread in threads:
            thread.start()
    except BaseException as error:
        stop(error)
    while True:
        try:
            for thread in threads:
                if thread.is_alive():
                    thread.join()
            break
        except BaseException as error:
            stop(error)
    if errors:
        raise errors[0]
