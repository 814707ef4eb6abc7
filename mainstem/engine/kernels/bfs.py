"""Breadth first: threads share a stratum, meet at a barrier, and go on to the next."""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_add, atomic_load, atomic_store, inlined, kernel, ticks
from .control import EPOCH, LINE, NEXT, PARKED
from .explore import Units, failures, run_unit, still_eager, stopped, take, wait
from .settle import FINISHED, Repair, settle
from .strata import lowest_rank
from .vertex import LANE, ROUNDS, Plan, Progress, hand_in


class Level(NamedTuple):
    stratum: Any  # one word: the stratum that is open; from the number of strata on, all is done
    left: Any  # per stratum: how many of its units are not done, as far as finished strata go


@kernel
def bfs_run(
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, repair: Repair, level: Level,
    control: Any, clock: Any, eager: int, threads: int, w: int,
) -> None:  # fmt: skip
    start = ticks()
    strata = len(level.left)
    if w == 0:
        progress.tally[ROUNDS] += 1
    while level.stratum[0] < strata and not stopped(control):
        first = units.stratum_lo[level.stratum[0]]
        count = units.stratum_lo[level.stratum[0] + 1] - first
        at, end = take(control, count, threads)
        while at < end and not stopped(control):
            _run(versioned, context, plan, units, progress, control, units.order[first + at], eager, w)
            at += 1
            if at == end:
                at, end = take(control, count, threads)
        epoch = atomic_load(control, EPOCH * LINE)
        if atomic_add(control, PARKED * LINE, 1) == threads - 1:
            _next_stratum(versioned, context, plan, units, progress, repair, level, control, eager, w)
            atomic_store(control, NEXT * LINE, 0)
            atomic_store(control, PARKED * LINE, 0)
            atomic_add(control, EPOCH * LINE, 1)
        turn = 0
        while atomic_load(control, EPOCH * LINE) == epoch and not stopped(control):
            turn = wait(progress, turn, w)
        eager = still_eager(repair, eager)
    hand_in(progress, clock, start, w)


@inlined
def _run(
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, control: Any, u: int, eager: int, w: int
) -> None:
    if units.done[u] != FINISHED:
        run_unit(versioned, context, plan, units, progress, control, u, eager, True, w)
        units.done[u] = FINISHED


@inlined
def _next_stratum(
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, repair: Repair, level: Level,
    control: Any, eager: int, w: int,
) -> None:  # fmt: skip
    """Goes on, or back to the outermost stratum that was rolled back, while all other threads wait.

    A single unit is run at once: to wake the others for it would only cost.
    """
    strata = len(level.left)
    stratum = level.stratum[0]
    while not stopped(control):
        level.left[stratum] = 0
        while stratum < strata and level.left[stratum] == 0:
            stratum += 1
        if failures(control) != 0 and (eager != 0 or stratum == strata):
            reopened = settle(plan, progress, repair, control, w)
            eager = still_eager(repair, eager)
            for k in range(reopened):
                level.left[units.rank[repair.reopened[k]]] += 1
            if reopened > 0:
                stratum = min(stratum, lowest_rank(repair.reopened, reopened, units.rank))
        if stratum == strata:
            break
        progress.tally[w * LANE + ROUNDS] += 1
        if level.left[stratum] > 1:
            break
        for at in range(units.stratum_lo[stratum], units.stratum_lo[stratum + 1]):
            _run(versioned, context, plan, units, progress, control, units.order[at], eager, w)
    level.stratum[0] = stratum
