"""Breadth first: threads share a stratum, meet at a barrier, and go on to the next."""

from __future__ import annotations

from typing import Any

from .base import atomic_add, atomic_load, atomic_store, inlined, kernel, ticks
from .control import EPOCH, LINE, NEXT, PARKED
from .explore import Units, failures, run_unit, stopped, take, wait
from .settle import FINISHED, Repair, settle
from .strata import lowest_rank
from .vertex import LANE, ROUNDS, Plan, Progress, hand_in


@kernel
def bfs_run(
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, repair: Repair, place: Any,
    control: Any, clock: Any, eager: int, threads: int, w: int,
) -> None:  # fmt: skip
    """`place[0]` is the stratum that is open; from the number of strata on, all is done."""
    start = ticks()
    strata = len(units.stratum_lo) - 1
    if w == 0:
        progress.tally[ROUNDS] += 1
    while place[0] < strata and not stopped(control):
        first, count = units.stratum_lo[place[0]], units.stratum_lo[place[0] + 1] - units.stratum_lo[place[0]]
        at, end = take(control, count, threads)
        while at < end and not stopped(control):
            _run(versioned, context, plan, units, progress, control, units.order[first + at], eager, w)
            at += 1
            if at == end:
                at, end = take(control, count, threads)
        epoch = atomic_load(control, EPOCH * LINE)
        if atomic_add(control, PARKED * LINE, 1) == threads - 1:
            place[0] = _next_stratum(
                versioned, context, plan, units, progress, repair, place[0], control, eager, w
            )  # fmt: skip
            atomic_store(control, NEXT * LINE, 0)
            atomic_store(control, PARKED * LINE, 0)
            atomic_add(control, EPOCH * LINE, 1)
        turn = 0
        while atomic_load(control, EPOCH * LINE) == epoch and not stopped(control):
            turn = wait(progress, turn, w)
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
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, repair: Repair, stratum: int,
    control: Any, eager: int, w: int,
) -> int:  # fmt: skip
    """Goes on, or back to the outermost stratum that was rolled back, while all other threads wait.

    A stratum of one unit is run at once: to wake the others for it would only cost.
    """
    strata = len(units.stratum_lo) - 1
    while not stopped(control):
        stratum += 1
        if failures(control) != 0 and (eager != 0 or stratum == strata):
            reopened = settle(plan, progress, repair, control, w)
            if reopened > 0:
                stratum = lowest_rank(repair.reopened, reopened, units.rank)
        if stratum == strata:
            break
        progress.tally[w * LANE + ROUNDS] += 1
        first = units.stratum_lo[stratum]
        if units.stratum_lo[stratum + 1] - first > 1:
            break
        _run(versioned, context, plan, units, progress, control, units.order[first], eager, w)
    return stratum
