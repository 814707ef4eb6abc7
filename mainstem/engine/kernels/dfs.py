"""Depth first: every stratum is dealt out to threads; each goes its own way and waits only for what it depends on."""

from __future__ import annotations

from typing import Any

from .base import atomic_add, atomic_load, atomic_store, inlined, kernel, ticks
from .control import DONE, LINE
from .explore import (
    Units,
    all_settled,
    count_done,
    must_stand_still,
    resume,
    run_unit,
    stand_still,
    still_eager,
    stopped,
    wait,
)
from .settle import FINISHED, Repair, settle
from .strata import lowest_rank
from .vertex import Plan, Progress, hand_in


@kernel
def dfs_run(
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, repair: Repair, restart: Any,
    control: Any, clock: Any, eager: int, threads: int, w: int,
) -> None:  # fmt: skip
    """`restart[0]` is the stratum to go back to after failures were settled."""
    start = ticks()
    total, strata = len(units.done), len(units.stratum_lo) - 1
    stratum, turn = 0, 0
    done = 0  # units that are not counted in `control` yet
    at, end = _share(units, 0, threads, w)
    while not stopped(control):
        if must_stand_still(control, total, eager):
            done = count_done(control, done)
            if stand_still(progress, control, threads, w):
                reopened = settle(plan, progress, repair, control, w)
                atomic_add(control, DONE * LINE, -reopened)
                restart[0] = lowest_rank(repair.reopened, reopened, units.rank) if reopened > 0 else strata
                resume(control)
            if restart[0] <= stratum:
                stratum = restart[0]
                at, end = _share(units, stratum, threads, w)
            eager = still_eager(repair, eager)
            turn = 0
        elif at < end:
            u = units.order[at]
            if units.done[u] == FINISHED:
                at += 1
            elif not _ready(units, u):
                turn = wait(progress, turn, w)
            elif run_unit(versioned, context, plan, units, progress, control, u, eager, False, w):
                atomic_store(units.done, u, FINISHED)
                done += 1
                at += 1
                turn = 0
        elif stratum + 1 < strata:
            stratum += 1
            at, end = _share(units, stratum, threads, w)
        else:
            done = count_done(control, done)
            if all_settled(control, total):
                break
            turn = wait(progress, turn, w)
    hand_in(progress, clock, start, w)


@inlined
def _share(units: Units, stratum: int, threads: int, w: int) -> tuple[int, int]:
    """From where to where in `order` the units of a stratum belong to worker w."""
    first = units.stratum_lo[stratum]
    count = units.stratum_lo[stratum + 1] - first
    return first + count * w // threads, first + count * (w + 1) // threads


@inlined
def _ready(units: Units, u: int) -> bool:
    for k in range(units.dep_lo[u], units.dep_lo[u + 1]):
        if atomic_load(units.done, units.dep[k]) != FINISHED:
            return False
    return True
