"""The life of one vertex: it runs, or is skipped, and offers a version to those that depend on it.

    BLK ──T1──> RDY ──T2──> EXE        T3: BLK -> EXE inside a unit of several vertices
     └────┬──────┴────T4────> ABT      T5, T6: EXE or ABT -> RDY or BLK, only while all threads stand still (`settle`)

Threads change the state of vertices that they run, and of no other (`ns` also says which have become ready). The arrays
of `Plan` but `op_src` and `op_ver` are fixed. Those of `Progress` begin with zeros, `v_state` with RDY where a vertex
depends on nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_add, atomic_load, atomic_store, inlined, invoke, ticks
from .control import ABORT, ABT, EXE, EXPLORE, FAILED, LINE, OWN, SYNC, USEFUL

# Bits of `v_ran`.
EVER = 1  # the vertex has run in this batch
VALID = 2  # its slots hold what it made from the versions that are offered now
STALE = 4  # it must run again: a version that it read has changed

# Words of a worker's part of `tally`, which is LANE words long: two cache lines, since processors fetch pairs of them.
LANE = 16
RUNS = 0  # vertices run, again or for the first time
RERUNS = 1  # of these: again, after a rollback
SKIPS = 2  # vertices of aborted transactions that did not run
FAILURES = 3  # runs that gave an abort code
SETTLES = 4  # times that the graph was repaired
ROLLED_BACK = 5  # vertices whose run was in vain
ROUNDS = 6  # strata that were opened (bfs, again counts), walks of a chain (chains)
STEALS = 7  # units taken from another thread (ns)
TICKS = 8  # from here on: ticks of each column of the clock


class Plan(NamedTuple):
    """Vertices, their rows and versions, as in docs/design/engine.md."""

    v_index: Any
    t_lo: Any
    v_lo: Any
    ref_op: Any
    ref_mode: Any
    op_row: Any
    op_prev: Any
    op_slot: Any
    op_src: Any
    op_ver: Any
    row_base: Any


class Progress(NamedTuple):
    """What has happened so far."""

    v_state: Any
    v_ran: Any
    v_code: Any
    t_aborted: Any  # per transaction of several vertices: 1 when it is known to abort, or most likely to
    failed: Any  # transactions that need settling; `control[FAILED]` counts them. One word per vertex
    tally: Any  # LANE words per worker


@inlined
def is_done(state: int) -> bool:
    return state >= EXE


@inlined
def publish(plan: Plan, v: int) -> None:
    """Offers the versions that v has made."""
    for k in range(plan.v_lo[v], plan.v_lo[v + 1]):
        if plan.ref_mode[k] == OWN:
            o = plan.ref_op[k]
            if o >= 0:
                plan.op_ver[o] = plan.op_slot[o]


@inlined
def withdraw(plan: Plan, v: int) -> None:
    """Offers the versions before v instead. What v depends on must be done."""
    for k in range(plan.v_lo[v], plan.v_lo[v + 1]):
        if plan.ref_mode[k] == OWN:
            o = plan.ref_op[k]
            if o >= 0:
                before = plan.op_prev[o]
                plan.op_src[o] = plan.op_ver[before] if before >= 0 else plan.row_base[plan.op_row[o]]
                plan.op_ver[o] = plan.op_src[o]


@inlined
def run_vertex(
    versioned: Any, context: Any, plan: Plan, progress: Progress, control: Any,
    v: int, eager: int, watched: bool, w: int,
) -> None:  # fmt: skip
    """Runs v, or skips it when its transaction aborts for another reason. What it depends on must be done.

    `watched` says that others look at the state of single vertices to learn what is done.
    """
    i = plan.v_index[v]
    several = plan.t_lo[i + 1] - plan.t_lo[i] > 1
    aborted = several and atomic_load(progress.t_aborted, i) != 0
    lane = w * LANE
    if aborted and progress.v_code[v] == 0:
        withdraw(plan, v)
        progress.tally[lane + SKIPS] += 1
        _show(progress.v_state, v, ABT, watched)
        return
    code = _invoke(versioned, context, progress, v, w)
    if code != 0:
        withdraw(plan, v)
        _show(progress.v_state, v, ABT, watched)
        if several and not aborted:
            _fail(plan, progress, control, i, eager)
    elif aborted:
        # It was the failure of v that aborted its transaction, and that is gone now.
        withdraw(plan, v)
        _show(progress.v_state, v, ABT, watched)
        _report(progress, control, i)
    else:
        publish(plan, v)
        _show(progress.v_state, v, EXE, watched or (several and eager != 0))
        # Either this sees that a sibling has failed, or the sibling sees that this vertex offers its version.
        if several and eager != 0 and atomic_load(progress.t_aborted, i) != 0:
            _report(progress, control, i)


@inlined
def _invoke(versioned: Any, context: Any, progress: Progress, v: int, w: int) -> int:
    """Runs v and notes what it took; gives its code."""
    lane = w * LANE
    again = progress.v_ran[v] & EVER
    progress.v_ran[v] = EVER | VALID
    before = ticks()
    code = invoke(versioned, context, v, w)
    spent = ticks() - before
    progress.v_code[v] = code
    progress.tally[lane + RUNS] += 1
    progress.tally[lane + RERUNS] += again
    if code != 0:
        progress.tally[lane + FAILURES] += 1
    progress.tally[lane + TICKS + (ABORT if code != 0 or again != 0 else USEFUL)] += spent
    return code


@inlined
def _show(v_state: Any, v: int, state: int, watched: bool) -> None:
    if watched:
        atomic_store(v_state, v, state)
    else:
        v_state[v] = state


@inlined
def _fail(plan: Plan, progress: Progress, control: Any, i: int, eager: int) -> None:
    """A vertex of transaction i has failed, the first that is known. Are there siblings that offer their versions?"""
    if eager == 0:
        _report(progress, control, i)
        return
    atomic_store(progress.t_aborted, i, 1)
    for v in range(plan.t_lo[i], plan.t_lo[i + 1]):
        if atomic_load(progress.v_state, v) == EXE:
            _report(progress, control, i)
            return


@inlined
def _report(progress: Progress, control: Any, i: int) -> None:
    """Puts transaction i on the list for `settle`. A vertex does so at most once between two of them."""
    progress.failed[atomic_add(control, FAILED * LINE, 1)] = i


@inlined
def hand_in(progress: Progress, clock: Any, start: int, w: int) -> None:
    """Adds a worker's ticks to the clock; what it did not spend elsewhere it spent on exploring."""
    lane = w * LANE + TICKS
    useful, sync = progress.tally[lane + USEFUL], progress.tally[lane + SYNC]
    abort = progress.tally[lane + ABORT]
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, ABORT] += abort
    clock[w, EXPLORE] += ticks() - start - useful - sync - abort
