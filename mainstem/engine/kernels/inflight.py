"""Transactions as a whole, run directly on the tables: each waits for those before it that are still running and that
it conflicts with. No locks: what has ended needs none, and what runs at the moment is at most one claim per thread.

Threads claim transactions in event order, `claim` at a time (`control[NEXT]`), so every transaction before a claim has
ended or belongs to a claim of another thread that is not done. Which rows a claim asks for is known before it runs
(`engine/requests.py`): the one that comes later compares its own with those of the claims that are not done. Where two
meet in a row that either may write, its transactions are compared one by one: each runs when it conflicts with none
before it that has not ended, so that those behind one that has to wait may run first. The first one of a claim waits
for earlier claims only, so nothing can deadlock.

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


@inlined
def note_rows(
    todo: np.ndarray, lo: int, hi: int, request_lo: np.ndarray, request: np.ndarray, mark: int, own: np.ndarray, w: int
) -> None:
    """Notes the rows of a claim under its mark; what earlier claims have noted need not be removed."""
    places = own.shape[1] // PLACE_WORDS
    for i in range(lo, hi):
        for k in range(request_lo[todo[i]], request_lo[todo[i] + 1]):
            if request[k] < 0:
                continue
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
            if request[k] < 0:
                continue
            row, at = request[k] >> 1, (request[k] >> 1 & (places - 1)) * PLACE_WORDS
            noted = own[w, at + CLAIMED]
            if noted >> 1 == mark and (noted | request[k]) & 1 == 1 and own[w, at + ROW] in (row, ANY):
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
    running: np.ndarray,
    w: int,
) -> bool:
    """Whether a claim meets one of the running ones."""
    lo, hi = begin_of(number, claim, many), begin_of(number + 1, claim, many)
    note_rows(todo, lo, hi, request_lo, request, number + 1, own, w)
    for r in range(others):
        begin, end = begin_of(running[w, r], claim, many), begin_of(running[w, r] + 1, claim, many)
        if meets(todo, begin, end, request_lo, request, number + 1, own, w):
            return True
    return False


@inlined
def look_around(number: int, before: int, claim: int, many: int, done: np.ndarray, running: np.ndarray, w: int) -> int:
    """Lists the claims of other threads before claim `number` that are not done, in `running[w]`; gives how many.

    `before` is the last claim of this thread; what was not done then is listed already, and ends with a -1. Each
    thread has one claim at a time, so there are never more than threads.
    """
    count, kept = 0, 0
    while running[w, count] >= 0:
        other = running[w, count]
        count += 1
        if is_running(other, claim, many, done):
            running[w, kept] = other
            kept += 1
    for other in range(before + 1, number):
        if is_running(other, claim, many, done):
            running[w, kept] = other
            kept += 1
    running[w, kept] = -1
    return kept


@inlined
def is_running(number: int, claim: int, many: int, done: np.ndarray) -> bool:
    return atomic_load(done, number * LINE) != all_of(number, claim, many)


@inlined
def all_of(number: int, claim: int, many: int) -> int:
    """What `done` says of a claim when all its transactions have ended."""
    return (1 << claim) - 1 if number < many else 1


@inlined
def may_run(
    i: int,
    others: int,
    number: int,
    ended: int,
    claim: int,
    many: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    done: np.ndarray,
    own: np.ndarray,
    running: np.ndarray,
    w: int,
) -> bool:
    """Whether transaction `todo[i]` conflicts with none before it that has not ended, of other claims or of its own.

    Of its claim, `number`, those in `ended` have.
    """
    mark, first = todo.shape[0] + i + 1, begin_of(number, claim, many)
    note_rows(todo, i, i + 1, request_lo, request, mark, own, w)
    for r in range(others):
        begin, end = begin_of(running[w, r], claim, many), begin_of(running[w, r] + 1, claim, many)
        theirs = atomic_load(done, running[w, r] * LINE)
        for j in range(begin, end):
            if theirs >> (j - begin) & 1 == 0 and meets(todo, j, j + 1, request_lo, request, mark, own, w):
                return False
    for j in range(first, i):
        if ended >> (j - first) & 1 == 0 and meets(todo, j, j + 1, request_lo, request, mark, own, w):
            return False
    return True


@kernel
def inflight_run(
    direct: int,
    context: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    claim: int,
    done: np.ndarray,
    own: np.ndarray,
    running: np.ndarray,
    code: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """`done` has a cache line per claim, all 0 at the start, and in it a bit for each transaction that has ended. `own`
    and `running` have a row per worker: of places, a power of two of them, all 0; and of one word more than there are
    threads, all -1.
    """
    count, many = todo.shape[0], claims_of_many(todo.shape[0], claim, clock.shape[0])
    useful, sync, first, before = 0, 0, ticks(), -1
    while atomic_load(control, STOP * LINE) == 0:
        number = atomic_add(control, NEXT * LINE, 1)
        lo, hi = begin_of(number, claim, many), begin_of(number + 1, claim, many)
        if lo >= count:
            break
        others = look_around(number, before, claim, many, done, running, w)
        met = others > 0 and meets_any(number, others, claim, many, todo, request_lo, request, own, running, w)
        started, ended, turn = ticks(), 0, 0
        while ended != all_of(number, claim, many) and atomic_load(control, STOP * LINE) == 0:
            waits, looked, compared = True, ticks(), 0
            for i in range(lo, hi):
                if ended >> (i - lo) & 1 == 1:
                    continue
                if met:
                    begin = ticks()
                    free = may_run(
                        i, others, number, ended, claim, many, todo, request_lo, request, done, own, running, w
                    )
                    compared += ticks() - begin
                    if not free:
                        continue
                code[todo[i]] = invoke(direct, context, todo[i], w)
                ended |= 1 << (i - lo)
                atomic_release(done, number * LINE, ended)
                waits = False
            if waits:
                turn = rest(turn)
                compared = ticks() - looked
                sync += compared
            else:
                turn = 0
            started += compared  # no work
        useful += ticks() - started
        before = number
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, LOCK] += ticks() - first - useful - sync
