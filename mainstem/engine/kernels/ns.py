"""Not structured: ready units wait in stacks, one per thread; who finishes a unit counts down those that depend on it.

`pending[u]` counts what u still waits for. At 0 it is ready: among the roots (units that depend on nothing), on a stack, or
with a thread. When a rollback blocks a unit that is on a stack, its entry there counts as one more thing to wait for, until
somebody takes it off. So a unit is at most once on a stack.

A stack is a list through `link`, its head one word: a count of changes, so that a head that was taken off and put back is not
mistaken for an unchanged one, and the top unit + 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_add, atomic_change, atomic_load, atomic_store, inlined, kernel, ticks
from .control import BLK, DONE, LINE, RDY
from .explore import Units, all_settled, count_done, must_stand_still, resume, run_unit, stand_still, stopped, take, wait
from .settle import FINISHED, Repair, settle
from .vertex import LANE, STEALS, Plan, Progress, hand_in

TOP = (1 << 32) - 1  # bits of a head that hold the top unit + 1
CHANGE = 1 << 32


class Stacks(NamedTuple):
    roots: Any  # units that depend on nothing, ascending
    pending: Any  # per unit; at first the number of its dependencies
    link: Any  # per unit: the one below it on its stack, + 1
    heads: Any  # LINE words per thread, zeros at first


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
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, repair: Repair, stacks: Stacks,
    control: Any, clock: Any, eager: int, threads: int, w: int,
) -> None:  # fmt: skip
    start = ticks()
    total = len(units.done)
    turn = 0
    done = 0  # units that are not counted in `control` yet
    u = -1  # the unit in hand
    root, roots_end = 0, 0  # roots that this thread has taken
    while not stopped(control):
        if must_stand_still(control, total, eager):
            done = count_done(control, done)
            if u >= 0:
                _push(stacks, w, u)
                u = -1
            if stand_still(progress, control, threads, w):
                reopened = settle(plan, progress, repair, control, w)
                atomic_add(control, DONE * LINE, -reopened)
                _requeue(units, stacks, repair.reopened, reopened, threads)
                resume(control)
        elif u >= 0:
            if run_unit(versioned, context, plan, units, progress, control, u, eager, False, w):
                units.done[u] = FINISHED
                done += 1
                u = _count_down(units, progress, stacks, u, w)
        else:
            u = _pop(stacks, w)
            if u < 0:
                if root == roots_end:
                    root, roots_end = take(control, len(stacks.roots), threads)
                if root < roots_end:
                    u = stacks.roots[root]
                    root += 1
                else:
                    u = _steal(progress, stacks, threads, w)
            if u >= 0:
                turn = 0
                continue
            done = count_done(control, done)
            if all_settled(control, total):
                break
            turn = wait(progress, turn, w)
    hand_in(progress, clock, start, w)


@inlined
def _count_down(units: Units, progress: Progress, stacks: Stacks, u: int, w: int) -> int:
    """One thing less to wait for, for all that depend on u. Gives one unit that is ready now, or -1; pushes the others."""
    ready = -1
    for k in range(units.out_lo[u], units.out_lo[u + 1]):
        d = units.out[k]
        # A unit of several vertices may be done although one that it depends on was rolled back and runs again.
        if atomic_add(stacks.pending, d, -1) != 1 or units.done[d] == FINISHED:
            continue
        first = units.vertex[units.lo[d]]
        if progress.v_state[first] == BLK:
            progress.v_state[first] = RDY
        if ready >= 0:
            _push(stacks, w, d)
        else:
            ready = d
    return ready


@inlined
def _push(stacks: Stacks, w: int, u: int) -> None:
    while True:
        head = atomic_load(stacks.heads, w * LINE)
        atomic_store(stacks.link, u, head & TOP)
        if atomic_change(stacks.heads, w * LINE, head, ((head & ~TOP) + CHANGE) | (u + 1)):
            return


@inlined
def _pop(stacks: Stacks, owner: int) -> int:
    """Takes a unit that is ready off a stack; -1 when there is none on top."""
    while True:
        head = atomic_load(stacks.heads, owner * LINE)
        u = (head & TOP) - 1
        if u < 0:
            return -1
        below = atomic_load(stacks.link, u)
        if atomic_change(stacks.heads, owner * LINE, head, ((head & ~TOP) + CHANGE) | below):
            break
    if atomic_load(stacks.pending, u) == 0 or atomic_add(stacks.pending, u, -1) == 1:
        return u
    return -1


@inlined
def _steal(progress: Progress, stacks: Stacks, threads: int, w: int) -> int:
    for k in range(1, threads):
        u = _pop(stacks, (w + k) % threads)
        if u >= 0:
            progress.tally[w * LANE + STEALS] += 1
            return u
    return -1


@kernel
def _requeue(units: Units, stacks: Stacks, reopened: Any, count: int, threads: int) -> None:
    """Makes `pending` and stacks right for units that were rolled back, while all threads stand still."""
    for k in range(count):
        u = reopened[k]
        for j in range(units.out_lo[u], units.out_lo[u + 1]):
            d = units.out[j]
            if stacks.pending[d] == 0 and units.done[d] == 0:
                stacks.pending[d] = 1  # for its entry on a stack
            stacks.pending[d] += 1
    for k in range(count - 1, -1, -1):
        u = reopened[k]
        units.done[u] = 0
        if stacks.pending[u] == 0:
            _push(stacks, k % threads, u)
