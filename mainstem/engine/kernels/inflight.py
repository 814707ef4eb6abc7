"""Transactions as a whole, run directly on the tables: each waits for those before it that are still running and that
it conflicts with. No locks: what has ended needs none, and what is open at the moment is a few claims per thread.

Threads claim transactions in event order, `claim` at a time (`control[NEXT]`), so every transaction before a claim has
ended or belongs to a claim that is *open*: not done. Which rows a transaction asks for is known before it runs
(`engine/requests.py`), and so is the last one before it that it may conflict with (`before`). Most have theirs before
all open claims, and run at once. Others are *near*: they compare their rows with those of the transactions of open
claims that have not ended, and run when they meet none in a row that either may write. A claim of which something has
to wait stays open, and its thread goes on with other claims meanwhile, looking at it again after each of them. The
earliest transaction that has not ended waits for nothing, and its thread comes back to it, so nothing can deadlock.

Every kernel is called by all workers with the same arrays, each with its own number `w`. `todo` lists transactions in
ascending order; generated code notes the abort code of each transaction.
"""

from __future__ import annotations

import numpy as np

from .base import atomic_add, atomic_load, atomic_release, inlined, kernel, rest, ticks
from .claims import begin_of, claims_of_many
from .control import LINE, LOCK, NEXT, STOP, SYNC, USEFUL
from .stretch import run_stretch

# Words of a place in `own`, where a transaction notes its rows by their low bits.
CLAIMED = 0  # the mark under which it was noted, and in the lowest bit whether it may write
ROW = 1  # or ANY, where several of its rows have the same place
PLACE_WORDS = 2
ANY = -1

STRETCHES = 4  # of a claim: so often others are told what has ended of it
OPEN = 4  # claims of one thread, at most: in the time of a long transaction many short ones run


@inlined
def note_rows(t: int, request_lo: np.ndarray, request: np.ndarray, mark: int, own: np.ndarray, w: int) -> None:
    """Notes the rows of a transaction under its mark; what earlier ones have noted need not be removed."""
    places = own.shape[1] // PLACE_WORDS
    for k in range(request_lo[t], request_lo[t + 1]):
        row, at = request[k] >> 1, (request[k] >> 1 & (places - 1)) * PLACE_WORDS
        if own[w, at + CLAIMED] >> 1 != mark:
            own[w, at + CLAIMED], own[w, at + ROW] = mark << 1 | request[k] & 1, row
        else:
            own[w, at + CLAIMED] |= request[k] & 1
            if own[w, at + ROW] != row:
                own[w, at + ROW] = ANY


@inlined
def meets(t: int, request_lo: np.ndarray, request: np.ndarray, mark: int, own: np.ndarray, w: int) -> bool:
    """Whether transaction t may have a row in common with the one that was noted, and one of them writes it."""
    places = own.shape[1] // PLACE_WORDS
    for k in range(request_lo[t], request_lo[t + 1]):
        row, at = request[k] >> 1, (request[k] >> 1 & (places - 1)) * PLACE_WORDS
        noted = own[w, at + CLAIMED]
        if noted >> 1 == mark and (noted | request[k]) & 1 == 1 and own[w, at + ROW] in (row, ANY):
            return True
    return False


@inlined
def meets_open(
    begin: int,
    end: int,
    ended: int,
    last: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    mark: int,
    own: np.ndarray,
    w: int,
) -> bool:
    """Whether one of the transactions from `begin` on up to number `last` that have not ended meets the noted one."""
    for j in range(begin, end):
        if todo[j] > last:
            return False
        if ended >> (j - begin) & 1 == 0 and meets(todo[j], request_lo, request, mark, own, w):
            return True
    return False


@inlined
def must_wait(
    i: int,
    number: int,
    ended: int,
    listed: int,
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
    """Whether transaction `todo[i]` of claim `number` conflicts with one before it that has not ended, of the claims in
    `opened[w]` or of its own, of which those in `ended` have."""
    t, mark = todo[i], i + 1
    note_rows(t, request_lo, request, mark, own, w)
    for r in range(listed):
        other = opened[w, r]
        if other >= number:
            break
        begin, end = begin_of(other, claim, many), begin_of(other + 1, claim, many)
        if meets_open(begin, end, atomic_load(done, other * LINE), before[t], todo, request_lo, request, mark, own, w):
            return True
    first = begin_of(number, claim, many)
    return meets_open(first, i, ended, before[t], todo, request_lo, request, mark, own, w)


@inlined
def list_open(
    count: int, begin: int, end: int, claim: int, many: int, done: np.ndarray, opened: np.ndarray, w: int
) -> int:
    """Lists the claims before claim `end` that are not done, ascending, in `opened[w]`; gives how many.

    Of those before claim `begin`, the first `count` are listed already.
    """
    kept = 0
    for r in range(count):
        if is_open(opened[w, r], claim, many, done):
            opened[w, kept] = opened[w, r]
            kept += 1
    for other in range(begin, end):
        if is_open(other, claim, many, done):
            opened[w, kept] = other
            kept += 1
    return kept


@inlined
def is_open(number: int, claim: int, many: int, done: np.ndarray) -> bool:
    return atomic_load(done, number * LINE) != all_of(number, claim, many)


@inlined
def first_running(
    number: int, claim: int, many: int, todo: np.ndarray, done: np.ndarray, opened: np.ndarray, w: int
) -> int:
    """All transactions before this one have ended, as far as those of claim `number` may have to wait for them."""
    first = opened[w, 0]
    if first == number:  # nothing of it has to wait
        return todo[begin_of(number + 1, claim, many) - 1]
    at, end, ended = begin_of(first, claim, many), begin_of(first + 1, claim, many), atomic_load(done, first * LINE)
    while at < end - 1 and ended & 1 == 1:
        at, ended = at + 1, ended >> 1
    return todo[at]


@inlined
def all_of(number: int, claim: int, many: int) -> int:
    """What `done` says of a claim when all its transactions have ended."""
    return (1 << claim) - 1 if number < many else 1


@inlined
def stretch_of(claim: int) -> int:
    """How many transactions run before others are told. Claims are long where hardly anybody waits."""
    return max(1, claim // STRETCHES)


@inlined
def free_until(i: int, end: int, lo: int, ended: int, horizon: int, todo: np.ndarray, before: np.ndarray) -> int:
    """All from `todo[i]`, which may run at once, to this one may, and have not."""
    i += 1
    while i < end and ended >> (i - lo) & 1 == 0 and before[todo[i]] < horizon:
        i += 1
    return i


@inlined
def run_claim(
    direct: int,
    context: int,
    number: int,
    listed: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    before: np.ndarray,
    claim: int,
    many: int,
    done: np.ndarray,
    own: np.ndarray,
    opened: np.ndarray,
    control: np.ndarray,
    w: int,
) -> tuple[int, int]:
    """Runs what may run of a claim of this thread, which is in `opened[w]` as all before it that may not be done.
    -> (what has ended of it, ticks inside transactions: 0 when none has run)"""
    lo, hi = begin_of(number, claim, many), begin_of(number + 1, claim, many)
    horizon = first_running(number, claim, many, todo, done, opened, w)
    start, compared, ended = ticks(), 0, atomic_load(done, number * LINE)
    ended_before = ended
    i = lo
    while i < hi and atomic_load(control, STOP * LINE) == 0:
        if ended >> (i - lo) & 1 == 1:
            i += 1
            continue
        end = i + 1
        if before[todo[i]] >= horizon:
            looked = ticks()
            horizon = first_running(number, claim, many, todo, done, opened, w)
            waits = before[todo[i]] >= horizon and must_wait(
                i, number, ended, listed, claim, many, todo, request_lo, request, before, done, own, opened, w
            )
            compared += ticks() - looked
            if waits:
                i += 1
                continue
        else:
            end = free_until(i, min(hi, i + stretch_of(claim)), lo, ended, horizon, todo, before)
        n = run_stretch(direct, context, todo, i, end, w)
        ended |= (1 << n) - 1 << (i - lo)
        i += n
        atomic_release(done, number * LINE, ended)
    return ended, ticks() - start - compared if ended != ended_before else 0


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
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """`done` has a cache line per claim, all 0 at the start, and in it a bit for each transaction that has ended. The
    others have a row per worker: `own` of places, a power of two of them, all 0; `waiting` of OPEN words, for claims of
    the worker that are open; `opened` of OPEN words for each worker, for all that are.
    """
    count, many = todo.shape[0], claims_of_many(todo.shape[0], claim, clock.shape[0])
    useful, sync, first, turn = 0, 0, ticks(), 0
    listed, upto, waits, more = 0, 0, 0, True  # claims that are listed are before claim `upto`
    while (more or waits > 0) and atomic_load(control, STOP * LINE) == 0:
        looked, worked, mine, kept = ticks(), 0, upto, 0
        if more and waits < OPEN:
            number = atomic_add(control, NEXT * LINE, 1)
            more = begin_of(number, claim, many) < count
            if more:
                waiting[w, waits], upto = number, number + 1
                waits += 1
        listed = list_open(listed, mine, upto, claim, many, done, opened, w)
        for m in range(waits):
            number = waiting[w, m]
            ended, spent = run_claim(
                direct, context, number, listed, todo, request_lo, request, before, claim, many, done, own, opened,
                control, w,
            )  # fmt: skip
            worked += spent
            if ended != all_of(number, claim, many):
                waiting[w, kept] = number
                kept += 1
        waits = kept
        useful += worked
        if worked > 0:
            turn = 0
        elif waits > 0:
            turn = rest(turn)
            sync += ticks() - looked
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, LOCK] += ticks() - first - useful - sync
