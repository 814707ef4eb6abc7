"""What all ways to explore the graph share: units of work, taking pieces, standing still.

Threads stand still for one of them, the coordinator, when failures must be settled: at once when aborts are eager, when
all units are done when they are lazy. `control[DONE]` counts finished units. A thread adds what it has done before it
waits, and after it has reported failures; so when all units are done and no failure is open, nothing can be rolled back
any more.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_add, atomic_change, atomic_load, atomic_store, inlined, rest, ticks
from .control import DONE, EPOCH, FAILED, LINE, NEXT, PARKED, PAUSE, STOP, SYNC
from .settle import WASTED, Repair
from .vertex import LANE, TICKS, Plan, Progress, is_done, run_vertex

MOST_AT_ONCE = 32  # units that a thread takes from a shared list in one go
PATIENCE = 2  # rollbacks per vertex after which eager aborts become lazy


class Units(NamedTuple):
    """Units of work: their vertices, ascending; dependencies between them; strata (`order` by rank)."""

    lo: Any
    vertex: Any
    dep_lo: Any
    dep: Any
    out_lo: Any
    out: Any
    rank: Any
    stratum_lo: Any
    order: Any
    done: Any  # 0, FINISHED or REOPENED


@inlined
def stopped(control: Any) -> bool:
    return atomic_load(control, STOP * LINE) != 0


@inlined
def failures(control: Any) -> int:
    """How many failures wait to be settled."""
    return atomic_load(control, FAILED * LINE)


@inlined
def run_unit(
    versioned: Any, context: Any, plan: Plan, units: Units, progress: Progress, control: Any,
    u: int, eager: int, to_the_end: bool, w: int,
) -> bool:  # fmt: skip
    """Runs the vertices of a unit that are not done, in order. Gives False when the thread must stand still before."""
    for at in range(units.lo[u], units.lo[u + 1]):
        v = units.vertex[at]
        if is_done(progress.v_state[v]):
            continue
        run_vertex(versioned, context, plan, progress, control, v, eager, False, w)
        if at + 1 < units.lo[u + 1]:
            if stopped(control) or (not to_the_end and eager != 0 and failures(control) != 0):
                return False
    return True


@inlined
def take(control: Any, count: int, threads: int) -> tuple[int, int]:
    """Takes the next pieces of a list of `count`: from where to where; nothing when all are taken.

    Fewer and fewer at once, so that all threads finish at about the same time.
    """
    left = count - atomic_load(control, NEXT * LINE)
    if left <= 0:
        return count, count
    pieces = min(max(left // (4 * threads), 1), MOST_AT_ONCE)
    lo = atomic_add(control, NEXT * LINE, pieces)
    return min(lo, count), min(lo + pieces, count)


@inlined
def wait(progress: Progress, turn: int, w: int) -> int:
    """One turn of waiting; gives the next turn."""
    before = ticks()
    turn = rest(turn)
    progress.tally[w * LANE + TICKS + SYNC] += ticks() - before
    return turn


@inlined
def count_done(control: Any, done: int) -> int:
    """Adds finished units to the common count; gives what is left to add."""
    if done > 0:
        atomic_add(control, DONE * LINE, done)
    return 0


@inlined
def must_stand_still(control: Any, units: int, eager: int) -> bool:
    """Whether failures must be settled now."""
    return failures(control) != 0 and (eager != 0 or atomic_load(control, DONE * LINE) == units)


@inlined
def all_settled(control: Any, units: int) -> bool:
    """Whether all units are done and none can be rolled back. Failures are reported before units are counted."""
    return atomic_load(control, DONE * LINE) == units and failures(control) == 0


@inlined
def still_eager(repair: Repair, eager: int) -> int:
    """Eager only as long as it pays. All threads ask at the same point, after each settling.

    A verdict on speculative versions may be wrong, and each change of verdict may repeat all that comes after it, again
    with changing verdicts: in the worst case twice the work with every further transaction. Lazy aborts can't do so.
    """
    return eager if repair.counts[WASTED] <= PATIENCE * len(repair.unit_of) else 0


@inlined
def stand_still(progress: Progress, control: Any, threads: int, w: int) -> bool:
    """The first thread to come is the coordinator: True when all others stand still, to be woken by `resume`.

    The others return when they have been woken. False also when the run is stopped meanwhile.
    """
    epoch = atomic_load(control, EPOCH * LINE)
    turn = 0
    if atomic_change(control, PAUSE * LINE, 0, 1):
        while atomic_load(control, PARKED * LINE) != threads - 1:
            if stopped(control):
                return False
            turn = wait(progress, turn, w)
        return True
    atomic_add(control, PARKED * LINE, 1)
    while atomic_load(control, EPOCH * LINE) == epoch and not stopped(control):
        turn = wait(progress, turn, w)
    return False


@inlined
def resume(control: Any) -> None:
    """Wakes those that stand still."""
    atomic_store(control, PARKED * LINE, 0)
    atomic_store(control, PAUSE * LINE, 0)
    atomic_add(control, EPOCH * LINE, 1)
