"""Transactions as a whole, run directly on the tables: without locks, with ordered locks, with locks by partition.

Transactions ask for rows (`engine/requests.py`). A row's lock is found by the low bits of its number, so rows may share
one; who asks for a lock twice, through one row or two, holds it once. A lock is `LOCK_WORDS` words: requests that were
inserted, and those that were released. Each counts all requests in its low half and writes in its high half, so that
one addition notes both. A request remembers what was inserted before it (its ticket). A write is granted when all
earlier requests are released, a read when all earlier writes are: later conflicting requests wait for it in turn, so
the counters never run past a waiting ticket, and comparing whole words is exact. Who may insert next is what
distinguishes `lock` from `pat`; both insert in event order, so nothing can deadlock.

Every kernel is called by all workers with the same arrays, each with its own number `w`. `todo` lists transactions in
ascending order; generated code notes the abort code of each transaction. All words of locks start at 0.
"""

from __future__ import annotations

import numpy as np

from .base import atomic_add, atomic_load, atomic_store, inlined, kernel, prefetch, ticks
from .claims import CLAIM, CLAIMS_PER_THREAD, begin_of, claims_of_many
from .control import COUNTER, LINE, LOCK, NEXT, STOP, SYNC, USEFUL
from .stretch import run_one, run_stretch
from .waiting import wait_until

# Transactions that a thread takes at once when order does not matter: few enough that threads end together, many enough
# that the shared counter costs little.
CHUNK_MOST = 64
CHUNKS_PER_THREAD = 64

# Under locks, a transaction that waits holds up those behind it in its claim.
SAMPLES = 64  # transactions that say how near conflicts are
NEAR_MOST = 0.05  # share of transactions that conflict with those at most so many claims before: else one by one

WRITE = 1 << 32  # one write, in the high half of a counter

# Words of a lock.
INSERTED = 0
RELEASED = 1
HOLDER = 2  # the last transaction that asked, plus 1
FIRST = 3  # its first request
LOCK_WORDS = 4


@kernel
def nolock_run(
    direct: int,
    context: int,
    todo: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Runs every transaction as soon as a thread is free. Unsafe: an upper bound for the others."""
    count = todo.shape[0]
    chunk = min(CHUNK_MOST, max(1, count // (clock.shape[0] * CHUNKS_PER_THREAD)))
    begin = ticks()
    while atomic_load(control, STOP * LINE) == 0:
        lo = atomic_add(control, NEXT * LINE, chunk)
        if lo >= count:
            break
        i, end = lo, min(lo + chunk, count)
        while i < end:
            i += run_stretch(direct, context, todo, i, end, w)
    clock[w, USEFUL] += ticks() - begin


@kernel
def choose_lock_claim(todo: np.ndarray, request_lo: np.ndarray, request: np.ndarray, threads: int) -> int:
    """How many transactions a thread takes at once: one where conflicts are so near that threads would wait."""
    count, window = todo.shape[0], CLAIM * threads
    if count < CLAIM * CLAIMS_PER_THREAD * threads:
        return 1
    near, seen = 0, 0
    for i in range(window, count, max(1, count // SAMPLES)):
        near += meets_writer(todo, i, window, request_lo, request)
        seen += 1
    return CLAIM if near <= NEAR_MOST * seen else 1


@inlined
def meets_writer(todo: np.ndarray, i: int, window: int, request_lo: np.ndarray, request: np.ndarray) -> bool:
    """Whether a row of transaction `todo[i]` may be written by one of those just before it."""
    for before in range(i - window, i):
        for k in range(request_lo[todo[before]], request_lo[todo[before] + 1]):
            if request[k] & 1 == 1:
                for own in range(request_lo[todo[i]], request_lo[todo[i] + 1]):
                    if request[own] >> 1 == request[k] >> 1:
                        return True
    return False


@inlined
def place(request: int, lock: np.ndarray) -> int:
    """Where the lock of a request begins."""
    return (request >> 1 & (lock.shape[0] // LOCK_WORDS - 1)) * LOCK_WORDS


@inlined
def call_locks(t: int, request_lo: np.ndarray, request: np.ndarray, lock: np.ndarray) -> None:
    """The locks of a transaction come from memory all at once."""
    for k in range(request_lo[t], request_lo[t + 1]):
        prefetch(lock, place(request[k], lock))


@inlined
def insert_locks(t: int, request_lo: np.ndarray, request: np.ndarray, ticket: np.ndarray, lock: np.ndarray) -> None:
    """Needs no atomic operation: only one thread at a time may insert into a lock; the counter of turns hands it on.

    The ticket of a request that needs no lock once more is -1.
    """
    for k in range(request_lo[t], request_lo[t + 1]):
        ticket[k] = -1
        at, writes = place(request[k], lock), int(request[k]) & 1
        if lock[at + HOLDER] != t + 1:
            ticket[k] = lock[at + INSERTED]
            lock[at + INSERTED] += 1 + writes * WRITE
            lock[at + HOLDER], lock[at + FIRST] = t + 1, k
        elif writes > request[lock[at + FIRST]] & 1:  # its first request only reads: it writes from now on
            request[lock[at + FIRST]] |= 1
            lock[at + INSERTED] += WRITE


@inlined
def wait_for_grants(
    t: int, request_lo: np.ndarray, request: np.ndarray, ticket: np.ndarray, lock: np.ndarray, control: np.ndarray
) -> bool:
    """Gives false when the run is stopped."""
    for k in range(request_lo[t], request_lo[t + 1]):
        before = ticket[k]
        if before < 0:
            continue
        if request[k] & 1 == 0:
            before -= before % WRITE
        if wait_until(lock, place(request[k], lock) + RELEASED, before, control) < 0:
            return False
    return True


@inlined
def release_locks(t: int, request_lo: np.ndarray, request: np.ndarray, ticket: np.ndarray, lock: np.ndarray) -> None:
    for k in range(request_lo[t], request_lo[t + 1]):
        if ticket[k] >= 0:
            atomic_add(lock, place(request[k], lock) + RELEASED, 1 + (int(request[k]) & 1) * WRITE)


@kernel
def lock_run(
    direct: int,
    context: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    ticket: np.ndarray,
    lock: np.ndarray,
    claim: int,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Strict two-phase locking in event order: one counter for all says whose turn it is to insert (lockAhead).

    A thread inserts the locks of `claim` transactions in its turn, then runs them one by one.
    """
    count, useful, sync, first = todo.shape[0], 0, 0, ticks()
    many = claims_of_many(count, claim, clock.shape[0])
    going = True
    while going and atomic_load(control, STOP * LINE) == 0:
        number = atomic_add(control, NEXT * LINE, 1)
        lo, hi = begin_of(number, claim, many), begin_of(number + 1, claim, many)
        if lo >= count:
            break
        for i in range(lo, hi):
            call_locks(todo[i], request_lo, request, lock)
        waited = wait_until(control, COUNTER * LINE, lo, control)
        if waited < 0:
            break
        sync += waited
        for i in range(lo, hi):
            insert_locks(todo[i], request_lo, request, ticket, lock)
        atomic_store(control, COUNTER * LINE, hi)
        for i in range(lo, hi):
            t = todo[i]
            if not wait_for_grants(t, request_lo, request, ticket, lock, control):
                going = False
                break
            begin = ticks()
            run_one(direct, context, t, w)
            useful += ticks() - begin
            release_locks(t, request_lo, request, ticket, lock)
    account(clock, w, ticks() - first, useful, sync)


@inlined
def account(clock: np.ndarray, w: int, total: int, useful: int, sync: int) -> None:
    """What was neither work nor waiting for a turn went into locks."""
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, LOCK] += total - useful - sync


@kernel
def pat_prepare(
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    words: int,
    partitions: int,
    part_lo: np.ndarray,
    part_id: np.ndarray,
    part_turn: np.ndarray,
    part_next: np.ndarray,
    part_seen: np.ndarray,
) -> int:
    """Per transaction its distinct partitions and its place in the order of each; single thread.

    Locks have so many `words`; lock l is in partition `l % partitions`. The partitions of transaction `todo[i]` are
    `part_id[part_lo[i] … part_lo[i + 1]]`, its turns beside them in `part_turn`; both need room for one entry per
    request. `part_next` and `part_seen` are scratch of `partitions` words. Gives the number of entries.
    """
    for p in range(partitions):
        part_next[p] = 0
        part_seen[p] = -1
    entry = 0
    for i in range(todo.shape[0]):
        part_lo[i] = entry
        t = todo[i]
        for k in range(request_lo[t], request_lo[t + 1]):
            p = (request[k] >> 1 & (words // LOCK_WORDS - 1)) % partitions
            if part_seen[p] != i:
                part_seen[p] = i
                part_id[entry] = p
                part_turn[entry] = part_next[p]
                part_next[p] += 1
                entry += 1
    part_lo[todo.shape[0]] = entry
    return entry


@inlined
def wait_for_partitions(
    i: int,
    part_lo: np.ndarray,
    part_id: np.ndarray,
    part_turn: np.ndarray,
    part_counter: np.ndarray,
    control: np.ndarray,
) -> int:
    """The ticks that it took; -1 when the run is stopped."""
    sync = 0
    for k in range(part_lo[i], part_lo[i + 1]):
        waited = wait_until(part_counter, part_id[k] * LINE, part_turn[k], control)
        if waited < 0:
            return -1
        sync += waited
    return sync


@kernel
def pat_run(
    direct: int,
    context: int,
    todo: np.ndarray,
    request_lo: np.ndarray,
    request: np.ndarray,
    part_lo: np.ndarray,
    part_id: np.ndarray,
    part_turn: np.ndarray,
    part_counter: np.ndarray,
    ticket: np.ndarray,
    lock: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Like `lock_run` with one counter per partition: who shares no partition inserts at the same time.

    `part_counter` has `partitions * LINE` words, all 0 at the start, one cache line per partition.
    """
    useful, sync, first = 0, 0, ticks()
    while atomic_load(control, STOP * LINE) == 0:
        i = atomic_add(control, NEXT * LINE, 1)
        if i >= todo.shape[0]:
            break
        t = todo[i]
        call_locks(t, request_lo, request, lock)
        waited = wait_for_partitions(i, part_lo, part_id, part_turn, part_counter, control)
        if waited < 0:
            break
        sync += waited
        insert_locks(t, request_lo, request, ticket, lock)
        for k in range(part_lo[i], part_lo[i + 1]):
            atomic_store(part_counter, part_id[k] * LINE, part_turn[k] + 1)
        if not wait_for_grants(t, request_lo, request, ticket, lock, control):
            break
        begin = ticks()
        run_one(direct, context, t, w)
        useful += ticks() - begin
        release_locks(t, request_lo, request, ticket, lock)
    account(clock, w, ticks() - first, useful, sync)
