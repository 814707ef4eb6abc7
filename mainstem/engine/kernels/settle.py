"""Repairs the graph after failures, while all threads but one stand still.

A transaction aborts when one of its vertices has failed. Its other vertices may have offered their versions already,
and others may have read them. Transactions are judged in order, each once: dependencies lead from earlier to later ones
only, so all that can change a transaction is known when its turn comes. Only what is affected is visited.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_load, atomic_store, inlined, kernel, ticks
from .control import ABORT, ABT, BLK, EXE, FAILED, LINE, RDY
from .vertex import EVER, LANE, ROLLED_BACK, SETTLES, STALE, TICKS, VALID, Plan, Progress, is_done, publish, withdraw

# Values of `u_done`. What is 0 has not finished yet.
FINISHED = 1
REOPENED = 2  # was done; a vertex of it was rolled back


class Repair(NamedTuple):
    """What `settle` needs beside the plan, and its results."""

    dep_lo: Any
    dep: Any
    out_lo: Any  # dependents of vertices
    out: Any
    unit_of: Any  # per vertex
    u_done: Any  # per unit
    heap: Any  # scratch, one word per transaction
    listed: Any  # per transaction: 1 while it is in the heap; zeros between calls
    stale: Any  # the vertices that were rolled back, one word per vertex
    reopened: Any  # the units that are not done any more, one word per unit
    counts: Any  # COUNTS words, zeros at first


# Words of `counts`.
STALE_VERTICES = 0  # rolled back by the last call
REOPENED_UNITS = 1
WASTED = 2  # vertices rolled back so far
COUNTS = 3


@kernel
def settle(plan: Plan, progress: Progress, repair: Repair, control: Any, w: int) -> int:
    """Makes all offers and states consistent; gives the number of units that must run again (`repair.reopened`)."""
    start = ticks()
    repair.counts[STALE_VERTICES] = 0
    repair.counts[REOPENED_UNITS] = 0
    size = 0
    for k in range(atomic_load(control, FAILED * LINE)):
        size = _list(progress.failed[k], size, repair)
    while size > 0:
        i = _pop(repair.heap, size)
        size -= 1
        repair.listed[i] = 0
        size = _judge(i, size, plan, progress, repair)
    for k in range(repair.counts[STALE_VERTICES]):
        v = repair.stale[k]
        progress.v_state[v] = _state_before_run(v, progress, repair)
    atomic_store(control, FAILED * LINE, 0)
    repair.counts[WASTED] += repair.counts[STALE_VERTICES]
    lane = w * LANE
    progress.tally[lane + SETTLES] += 1
    progress.tally[lane + ROLLED_BACK] += repair.counts[STALE_VERTICES]
    progress.tally[lane + TICKS + ABORT] += ticks() - start
    return repair.counts[REOPENED_UNITS]


@inlined
def _judge(i: int, size: int, plan: Plan, progress: Progress, repair: Repair) -> int:
    """Decides whether transaction i aborts, and corrects the offers of its vertices; gives the heap's new size.

    A failed vertex that must run again will most likely fail again: its transaction stays aborted until it has run. But
    it need not run when another one has failed for good.
    """
    failed, suspect = 0, 0
    for v in range(plan.t_lo[i], plan.t_lo[i + 1]):
        if progress.v_ran[v] & STALE != 0:
            size = _roll_back(v, size, plan, progress, repair)
        if progress.v_code[v] != 0:
            if is_done(progress.v_state[v]):
                failed = 1
            else:
                suspect = 1
    aborted = failed | suspect
    progress.t_aborted[i] = aborted
    for v in range(plan.t_lo[i], plan.t_lo[i + 1]):
        state = progress.v_state[v]
        if not is_done(state):
            if failed == 1:
                progress.v_code[v] = 0
        elif state == EXE and aborted == 1:
            withdraw(plan, v)
            progress.v_state[v] = ABT
            size = _spread(v, size, plan, progress, repair)
        elif state == ABT and aborted == 0:
            if progress.v_ran[v] & VALID != 0:
                publish(plan, v)
                progress.v_state[v] = EXE
                size = _spread(v, size, plan, progress, repair)
            else:
                size = _roll_back(v, size, plan, progress, repair)
    return size


@inlined
def _roll_back(v: int, size: int, plan: Plan, progress: Progress, repair: Repair) -> int:
    """Back to before v ran or was skipped. Its code stays, as a guess."""
    progress.v_state[v] = BLK
    progress.v_ran[v] &= EVER
    stale = repair.counts[STALE_VERTICES]
    repair.stale[stale] = v
    repair.counts[STALE_VERTICES] = stale + 1
    u = repair.unit_of[v]
    if repair.u_done[u] == FINISHED:
        repair.u_done[u] = REOPENED
        units = repair.counts[REOPENED_UNITS]
        repair.reopened[units] = u
        repair.counts[REOPENED_UNITS] = units + 1
    return _spread(v, size, plan, progress, repair)


@inlined
def _spread(v: int, size: int, plan: Plan, progress: Progress, repair: Repair) -> int:
    """What v offers has changed, or is gone: who has read it is stale."""
    for k in range(repair.out_lo[v], repair.out_lo[v + 1]):
        d = repair.out[k]
        if is_done(progress.v_state[d]):
            progress.v_ran[d] |= STALE
            size = _list(plan.v_index[d], size, repair)
    return size


@inlined
def _state_before_run(v: int, progress: Progress, repair: Repair) -> int:
    """RDY when all that v depends on stands, else BLK."""
    for k in range(repair.dep_lo[v], repair.dep_lo[v + 1]):
        if not is_done(progress.v_state[repair.dep[k]]):
            return BLK
    return RDY


@inlined
def _list(i: int, size: int, repair: Repair) -> int:
    """Puts transaction i into the heap, once; gives the heap's new size."""
    if repair.listed[i] != 0:
        return size
    repair.listed[i] = 1
    heap, at = repair.heap, size
    while at > 0 and heap[(at - 1) // 2] > i:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = i
    return size + 1


@inlined
def _pop(heap: Any, size: int) -> int:
    """Takes the smallest of `size` numbers out of the heap."""
    smallest, last, end = heap[0], heap[size - 1], size - 1
    at = 0
    while 2 * at + 1 < end:
        child = 2 * at + 1
        if child + 1 < end and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return smallest
