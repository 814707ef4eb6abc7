"""Operation chains: the vertices of one row, walked in order as far as their dependencies are done, round after round.

Chains that are not finished wait in rings: one per thread when nothing is shared, else one for all, from which a thread
also takes what others have begun. A chain is in one ring, once, or with one thread.

Chains are put into a ring and taken out in the order of two counters, `tails` and `heads`. `turns` says for each slot
what comes next: n when it is empty and the chain that is put in as number n belongs there, n + 1 when that chain is in
it. So nobody touches a slot that another thread has not finished with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_add, atomic_change, atomic_load, atomic_store, inlined, kernel, rest, ticks
from .control import DONE, LINE
from .explore import all_settled, must_stand_still, resume, stand_still, stopped, wait
from .settle import FINISHED, STALE_VERTICES, Repair, settle
from .vertex import LANE, ROUNDS, Plan, Progress, hand_in, is_done, run_vertex


class Chains(NamedTuple):
    lo: Any  # per chain: its vertices, ascending
    vertex: Any
    place: Any  # per vertex: where it is in `vertex`
    at: Any  # per chain: where its walk stands
    done: Any  # per chain: 0, FINISHED or REOPENED
    ring_of: Any  # per chain
    ring_lo: Any  # per ring: where it begins in `ring`; it has room for all its chains
    ring: Any
    turns: Any  # per slot of `ring`: whose turn it is, as a number that grows (see `_take` and `_put`)
    heads: Any  # LINE words per ring: how many chains were taken
    tails: Any  # LINE words per ring: how many were put in


@kernel
def deal(group_row: Any, rings: int, ring_of: Any) -> None:
    """A chain belongs to ring `row % rings`; one without a row goes by its number."""
    for c in range(len(ring_of)):
        ring_of[c] = (group_row[c] if group_row[c] >= 0 else c) % rings


@kernel
def fill_rings(chains: Chains, chain_at_ring: Any) -> None:
    """All chains at their beginnings, all in their rings; `chain_at_ring` lists them by ring."""
    for k in range(len(chains.ring)):
        chains.ring[k] = chain_at_ring[k]
    for r in range(len(chains.ring_lo) - 1):
        chains.heads[r * LINE] = 0
        chains.tails[r * LINE] = chains.ring_lo[r + 1] - chains.ring_lo[r]
        for k in range(chains.ring_lo[r], chains.ring_lo[r + 1]):
            chains.turns[k] = k - chains.ring_lo[r] + 1
    for c in range(len(chains.at)):
        chains.at[c] = chains.lo[c]
        chains.done[c] = 0
        for at in range(chains.lo[c], chains.lo[c + 1]):
            chains.place[chains.vertex[at]] = at


@kernel
def chains_run(
    versioned: Any, context: Any, plan: Plan, chains: Chains, progress: Progress, repair: Repair,
    control: Any, clock: Any, threads: int, w: int,
) -> None:  # fmt: skip
    start = ticks()
    total = len(chains.done)
    ring = w % (len(chains.ring_lo) - 1)
    turn = 0
    stuck = 0  # chains since the last wait that could not go on
    while not stopped(control):
        if must_stand_still(control, total, 0):
            if stand_still(progress, control, threads, w):
                reopened = settle(plan, progress, repair, control, w)
                atomic_add(control, DONE * LINE, -reopened)
                _put_back(chains, repair, reopened, control)
                resume(control)
            continue
        c = _take(chains, ring)
        if c >= 0:
            before = chains.at[c]
            _walk(versioned, context, plan, chains, progress, repair, control, c, w)
            stuck += 1
            if chains.at[c] > before:
                stuck, turn = 0, 0
            if chains.at[c] == chains.lo[c + 1]:
                chains.done[c] = FINISHED
                atomic_add(control, DONE * LINE, 1)
            else:
                _put(chains, ring, c, control)
            # A round over all chains of the ring that moved none: others must go on first.
            if stuck <= _waiting(chains, ring):
                continue
            turn += stuck
            stuck = 0
        elif all_settled(control, total):
            break
        turn = wait(progress, turn, w)
    hand_in(progress, clock, start, w)


@inlined
def _walk(
    versioned: Any, context: Any, plan: Plan, chains: Chains, progress: Progress, repair: Repair, control: Any,
    c: int, w: int,
) -> None:  # fmt: skip
    """From where the chain stands to the first vertex that must wait."""
    progress.tally[w * LANE + ROUNDS] += 1
    at = chains.at[c]
    while at < chains.lo[c + 1] and not stopped(control):
        v = chains.vertex[at]
        if not is_done(progress.v_state[v]):
            if not _ready(progress, repair, v):
                break
            run_vertex(versioned, context, plan, progress, control, v, 0, True, w)
        at += 1
    chains.at[c] = at


@inlined
def _ready(progress: Progress, repair: Repair, v: int) -> bool:
    for k in range(repair.dep_lo[v], repair.dep_lo[v + 1]):
        if not is_done(atomic_load(progress.v_state, repair.dep[k])):
            return False
    return True


@inlined
def _waiting(chains: Chains, ring: int) -> int:
    """How many chains are in a ring, now or a moment ago."""
    return atomic_load(chains.tails, ring * LINE) - atomic_load(chains.heads, ring * LINE)


@inlined
def _take(chains: Chains, ring: int) -> int:
    """The chain that has waited longest; -1 when the ring is empty, or its next chain is just being put in."""
    while True:
        head = atomic_load(chains.heads, ring * LINE)
        room = chains.ring_lo[ring + 1] - chains.ring_lo[ring]
        if room == 0:
            return -1
        slot = chains.ring_lo[ring] + head % room
        turn = atomic_load(chains.turns, slot)
        if turn <= head:
            return -1
        if turn == head + 1 and atomic_change(chains.heads, ring * LINE, head, head + 1):
            c = chains.ring[slot]
            atomic_store(chains.turns, slot, head + room)
            return c


@inlined
def _put(chains: Chains, ring: int, c: int, control: Any) -> None:
    """Puts a chain at the end. There is room for all, but who empties the slot may not have said so yet."""
    room = chains.ring_lo[ring + 1] - chains.ring_lo[ring]
    turn = 0
    while True:
        tail = atomic_load(chains.tails, ring * LINE)
        slot = chains.ring_lo[ring] + tail % room
        if atomic_load(chains.turns, slot) != tail:
            if stopped(control):
                return
            turn = rest(turn)
        elif atomic_change(chains.tails, ring * LINE, tail, tail + 1):
            chains.ring[slot] = c
            atomic_store(chains.turns, slot, tail + 1)
            return


@kernel
def _put_back(chains: Chains, repair: Repair, reopened: int, control: Any) -> None:
    """Chains with rolled back vertices go on at the first of them, while all threads stand still."""
    for k in range(repair.counts[STALE_VERTICES]):
        v = repair.stale[k]
        c = repair.unit_of[v]
        chains.at[c] = min(chains.at[c], chains.place[v])
    for k in range(reopened):
        c = repair.reopened[k]
        chains.done[c] = 0
        _put(chains, chains.ring_of[c], c, control)
