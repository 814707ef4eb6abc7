"""Not structured: ready units wait in queues, one per thread; who finishes a unit counts down those that depend on it.

`pending[u]` counts what u still waits for. At 0 it is ready: among the roots (units that depend on nothing), in a
queue, or with a thread. When a rollback blocks a unit that is in a queue, its entry there counts as one more thing to
wait for, until somebody takes it out. So a unit is at most once in a queue.

Earlier units go first: a thread that ran far ahead of transactions that may still abort would work in vain.
"""

from __future__ import annotations

from typing import Any

from .base import atomic_add, atomic_load, inlined, kernel, ticks
from .control import BLK, DONE, LINE, NEXT, RDY
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
    take,
    wait,
)
from .queues import Queues, first_of, pop, push
from .settle import FINISHED, Repair, settle
from .vertex import LANE, STEALS, Plan, Progress, hand_in


@kernel
def find_roots(dep_lo: Any, pending: Any, roots: Any) -> int:
    """Fills `pending` and lists the units that wait for nothing; gives how many these are."""
    count = 0
    for u in range(len(pending)):
        pending[u] = dep_lo[u + 1] - dep_lo[u]
        if pending[u] == 0:
            roots[count] = u
            count += 1
    return count


@kernel
def ns_run(
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, repair: Repair, queues: Queues,
    control: Any, clock: Any, eager: int, threads: int, w: int,
) -> None:  # fmt: skip
    start = ticks()
    total = len(units.done)
    turn = 0
    done = 0  # units that are not counted in `control` yet
    u = -1  # the unit in hand
    root, end = 0, 0  # roots that this thread has taken
    while not stopped(control):
        if must_stand_still(control, total, eager):
            done = count_done(control, done)
            if u >= 0:
                push(queues, w, u, control)
                u = -1
            if stand_still(progress, control, threads, w):
                reopened = settle(plan, progress, repair, control, w)
                atomic_add(control, DONE * LINE, -reopened)
                _requeue(units, queues, repair.reopened, reopened, control, threads)
                resume(control)
            eager = still_eager(repair, eager)
        elif u >= 0:
            if run_unit(versioned, context, plan, units, progress, control, u, eager, False, w):
                units.done[u] = FINISHED
                done += 1
                u = _count_down(units, progress, queues, control, u, w)
                if u >= 0 and min(first_of(queues, w), _first_root(queues, control, root, end)) < u:
                    push(queues, w, u, control)
                    u = -1
        elif first_of(queues, w) < _first_root(queues, control, root, end):
            u = pop(queues, w, control)
        elif root < end:
            u = queues.roots[root]
            root += 1
        else:
            root, end = take(control, len(queues.roots), threads)
            if root == end:
                u = _steal(progress, queues, control, threads, w)
            if u >= 0 or root < end:
                turn = 0
                continue
            done = count_done(control, done)
            if all_settled(control, total):
                break
            turn = wait(progress, turn, w)
    hand_in(progress, clock, start, w)


@inlined
def _first_root(queues: Queues, control: Any, root: int, end: int) -> int:
    """The earliest root that this thread could run next; the number of units when there is none left."""
    if root == end:
        root = atomic_load(control, NEXT * LINE)
    return queues.roots[root] if root < len(queues.roots) else len(queues.pending)


@inlined
def _count_down(units: Units, progress: Progress, queues: Queues, control: Any, u: int, w: int) -> int:
    """One thing less to wait for, for all that depend on u. Gives the first unit that is ready now, or -1."""
    ready = -1
    for k in range(units.out_lo[u], units.out_lo[u + 1]):
        d = units.out[k]
        # A unit of several vertices may be done although one that it depends on was rolled back and runs again.
        if atomic_add(queues.pending, d, -1) != 1 or units.done[d] == FINISHED:
            continue
        first = units.vertex[units.lo[d]]
        if progress.v_state[first] == BLK:
            progress.v_state[first] = RDY
        if ready >= 0:  # dependents ascend, so it is later than the one in hand
            push(queues, w, d, control)
        else:
            ready = d
    return ready


@inlined
def _steal(progress: Progress, queues: Queues, control: Any, threads: int, w: int) -> int:
    for k in range(1, threads):
        u = pop(queues, (w + k) % threads, control)
        if u >= 0:
            progress.tally[w * LANE + STEALS] += 1
            return u
    return -1


@kernel
def _requeue(units: Units, queues: Queues, reopened: Any, count: int, control: Any, threads: int) -> None:
    """Makes `pending` and the queues right for units that were rolled back, while all threads stand still."""
    for k in range(count):
        u = reopened[k]
        for j in range(units.out_lo[u], units.out_lo[u + 1]):
            d = units.out[j]
            if queues.pending[d] == 0 and units.done[d] == 0:
                queues.pending[d] = 1  # for its entry in a queue
            queues.pending[d] += 1
    for k in range(count):
        u = reopened[k]
        units.done[u] = 0
        if queues.pending[u] == 0:
            push(queues, k % threads, u, control)
