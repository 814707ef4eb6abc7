"""Transactions as a whole, run directly on the tables: each waits for those before it that are still running and that
it conflicts with. No locks: what has ended needs none, and what is open at the moment is a few claims per thread.

Threads claim transactions in event order, `claim` at a time (`control[NEXT]`), so every transaction before a claim has
ended or belongs to a claim that is *open*: not done. Which rows a transaction asks for is known before it runs
(`engine/requests.py`), and so is the last one before it that it may conflict with (`before`). A claim whose
transactions have theirs before all open claims runs at once, as most do. Others compare their rows with those of the
open claims; where they meet none in a row that either may write, they run, too. Else transactions are compared one by
one: each runs when it conflicts with none before it that has not ended. What has to wait stays open, and its thread
goes on with other claims meanwhile, looking at it again after each of them. The earliest transaction that has not ended
waits for nothing, and its thread comes back to it, so nothing can deadlock.

Every kernel is called by all workers with the same arrays, each with its own number `w`. `todo` lists transactions in
ascending order; `code[t]` becomes the abort code of transaction t.
"""

from __future__ import annotations

import numpy as np

from .base import atomic_add, atomic_load, atomic_release, inlined, invoke, kernel, rest, ticks
from .claims import begin_of, claims_of_many
from .control import LINE, LOCK, NEXT, STOP, SYNC, USEFUL

# Words of a place in `own`, where a claim notes its rows by their low bits.
CLAIMED = 0  # the mark under which it was noted, and in the lowest bit whether it may write
ROW = 1  # or ANY, where several of its rows have the same place
PLACE_WORDS = 2
ANY = -1

OPEN = 4  # claims of one thread, at most: in the time of a long transaction many short ones run


@inlined
def note_rows(
    todo: np.ndarray, lo: int, hi: int, request_lo: np.ndarray, request: np.ndarray, mark: int, own: np.ndarray, w: int
) -> None:
    """Notes the rows of a claim under its mark; what earlier claims have noted need not be removed."""
    places = own.shape[1] // PLACE_WORDS
    for i in range(lo, hi):
        for k in range(request_lo[todo[i]], request_lo[todo[i] + 1]):
            row, at = request[k] >> 1, (request[k] >> 1 & (places - 1)) * PLACE_WORDS
            if own[w, at + CLAIMED] >> 1 != mark:
                own[w, at + CLAIMED], own[w, at + ROW] = mark << 1 | request[k] & 1, row
            else:
                own[w, at + CLAIMED] |= request[k] & 1
                if own[w, at + ROW] != row:
                    own[w, at + ROW] = ANY


@inlined
def meets(
    todo: np.ndarray, lo: int, hi: int, request_lo: np.ndarray, request: np.ndarray, mark: int, own: np.ndarray, w: int
) -> bool:
    """Whether an earlier claim may have a row in common with the one that was noted, and one of them writes it."""
    places = own.shape[1] // PLACE_WORDS
    for i in range(lo, hi):
        for k in range(request_lo[todo[i]], request_lo[todo[i] + 1]):
            row, at = request[k] >> 1, (request[k] >> 1 & (places - 1)) * PLACE_WORDS
            noted = own[w, at + CLAIMED]
            if noted >> 1 == mark and (noted | request[k]) & 1 == 1 and own[w, at + ROW] in (row, ANY):
                return True
    return False


@inlined
def is_near(todo: np.ndarray, lo: int, hi: int, before: np.ndarray, first_open: int) -> bool:
    """Whether some of the transactions may conflict with one before them that has not ended: all those have that come
    before the one at `first_open`."""
    for i in range(lo, hi):
        if before[todo[i]] >= todo[first_open]:
            return True
    return False


@inlined
def meets_any(
    number: int,
    others: int,
    claim: int,
    many: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    own: np.ndarray,
    opened: np.ndarray,
    w: int,
) -> bool:
    """Whether a claim meets one of those that are open before it."""
    lo, hi = begin_of(number, claim, many), begin_of(number + 1, claim, many)
    note_rows(todo, lo, hi, request_lo, request, number + 1, own, w)
    for r in range(others):
        begin, end = begin_of(opened[w, r], claim, many), begin_of(opened[w, r] + 1, claim, many)
        if meets(todo, begin, end, request_lo, request, number + 1, own, w):
            return True
    return False


@inlined
def list_open(
    count: int, mine: int, number: int, claim: int, many: int, done: np.ndarray, opened: np.ndarray, w: int
) -> int:
    """Lists the claims before claim `number` that are not done, ascending, in `opened[w]`; gives how many.

    `mine` is the last claim of this thread; of those up to it, the first `count` are listed already.
    """
    kept = 0
    for r in range(count):
        if is_open(opened[w, r], claim, many, done):
            opened[w, kept] = opened[w, r]
            kept += 1
    for other in range(mine + 1, number):
        if is_open(other, claim, many, done):
            opened[w, kept] = other
            kept += 1
    return kept


@inlined
def is_open(number: int, claim: int, many: int, done: np.ndarray) -> bool:
    return atomic_load(done, number * LINE) != all_of(number, claim, many)


@inlined
def all_of(number: int, claim: int, many: int) -> int:
    """What `done` says of a claim when all its transactions have ended."""
    return (1 << claim) - 1 if number < many else 1


@inlined
def may_run(
    i: int,
    number: int,
    ended: int,
    claim: int,
    many: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    before: np.ndarray,
    done: np.ndarray,
    own: np.ndarray,
    opened: np.ndarray,
    w: int,
) -> bool:
    """Whether transaction `todo[i]` conflicts with none before it that has not ended, of other claims or of its own.

    Of its claim, `number`, those in `ended` have.
    """
    if not is_near(todo, i, i + 1, before, begin_of(opened[w, 0], claim, many)):
        return True
    mark, first = todo.shape[0] + i + 1, begin_of(number, claim, many)
    note_rows(todo, i, i + 1, request_lo, request, mark, own, w)
    r = 0
    while opened[w, r] < number:
        begin, end = begin_of(opened[w, r], claim, many), begin_of(opened[w, r] + 1, claim, many)
        theirs = atomic_load(done, opened[w, r] * LINE)
        for j in range(begin, end):
            if theirs >> (j - begin) & 1 == 0 and meets(todo, j, j + 1, request_lo, request, mark, own, w):
                return False
        r += 1
    for j in range(first, i):
        if ended >> (j - first) & 1 == 0 and meets(todo, j, j + 1, request_lo, request, mark, own, w):
            return False
    return True


@kernel
def run_waiting(
    direct: int,
    context: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    before: np.ndarray,
    claim: int,
    many: int,
    done: np.ndarray,
    own: np.ndarray,
    opened: np.ndarray,
    waiting: np.ndarray,
    count: int,
    code: np.ndarray,
    control: np.ndarray,
    w: int,
) -> tuple[int, int]:
    """Runs what may run of the `count` claims in `waiting[w]`, and removes those that are done. -> (how many are left,
    ticks inside transactions)"""
    useful, kept = 0, 0
    for m in range(count):
        number = waiting[w, m]
        lo, hi = begin_of(number, claim, many), begin_of(number + 1, claim, many)
        ended = atomic_load(done, number * LINE)
        for i in range(lo, hi):
            if ended >> (i - lo) & 1 == 0 and atomic_load(control, STOP * LINE) == 0:
                if may_run(i, number, ended, claim, many, todo, request_lo, request, before, done, own, opened, w):
                    start = ticks()
                    code[todo[i]] = invoke(direct, context, todo[i], w)
                    useful += ticks() - start
                    ended |= 1 << (i - lo)
                    atomic_release(done, number * LINE, ended)
        if ended != all_of(number, claim, many):
            waiting[w, kept] = number
            kept += 1
    return kept, useful


@kernel
def inflight_run(
    direct: int,
    context: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    before: np.ndarray,
    claim: int,
    done: np.ndarray,
    own: np.ndarray,
    opened: np.ndarray,
    waiting: np.ndarray,
    code: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """`done` has a cache line per claim, all 0 at the start, and in it a bit for each transaction that has ended. The
    others have a row per worker: `own` of places, a power of two of them, all 0; `waiting` of OPEN words, for claims of
    the worker that are open; `opened` of OPEN words for each worker, for all that are.
    """
    count, many = todo.shape[0], claims_of_many(todo.shape[0], claim, clock.shape[0])
    useful, sync, first, mine, turn = 0, 0, ticks(), -1, 0
    listed, waits, more = 0, 0, True
    while (more or waits > 0) and atomic_load(control, STOP * LINE) == 0:
        looked, worked = ticks(), 0
        if waits > 0:
            listed = list_open(listed, mine, mine + 1, claim, many, done, opened, w)
            waits, worked = run_waiting(
                direct, context, todo, request_lo, request, before, claim, many, done, own, opened, waiting, waits,
                code, control, w,
            )  # fmt: skip
            useful += worked
        if more and waits < OPEN:
            number = atomic_add(control, NEXT * LINE, 1)
            lo, hi = begin_of(number, claim, many), begin_of(number + 1, claim, many)
            more = lo < count
            if not more:
                continue
            listed = list_open(listed, mine, number, claim, many, done, opened, w)
            mine = number
            if (
                listed > 0
                and is_near(todo, lo, hi, before, begin_of(opened[w, 0], claim, many))
                and meets_any(number, listed, claim, many, todo, request_lo, request, own, opened, w)
            ):
                opened[w, listed], waiting[w, waits] = number, number
                listed += 1
                waits += 1
                continue
            started = ticks()
            for i in range(lo, hi):
                if atomic_load(control, STOP * LINE) == 0:
                    code[todo[i]] = invoke(direct, context, todo[i], w)
                    atomic_release(done, number * LINE, (2 << (i - lo)) - 1)
            useful += ticks() - started
            turn = 0
        elif worked > 0:
            turn = 0
        else:
            turn = rest(turn)
            sync += ticks() - looked
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, LOCK] += ticks() - first - useful - sync
