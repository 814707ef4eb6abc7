"""Transactions as a whole, run directly on the tables: without locks, with ordered locks, with locks by partition.

A lock of row l is two words side by side, `lock[2 * l]` and the next: requests that were inserted, and those that were
released. Each counts all requests in its low half and writes in its high half, so that one addition notes both. A
request remembers what was inserted before it (its ticket). A write is granted when all earlier requests are released, a
read when all earlier writes are: later conflicting requests wait for it in turn, so the counters never run past a
waiting ticket, and comparing whole words is exact. Who may insert next is what distinguishes `lock` from `pat`; both
insert in event order, so nothing can deadlock. Rows where no two requests conflict (`shared[l]` is 0) need no lock.

Every kernel is called by all workers with the same arrays, each with its own number `w`. `todo` lists transactions in
ascending order; `code[t]` becomes the abort code of transaction t. The counters of locks start at 0.
"""

from __future__ import annotations

import numpy as np

from .base import atomic_add, atomic_load, atomic_store, inlined, invoke, kernel, ticks
from .control import COUNTER, LINE, LOCK, NEXT, STOP, SYNC, USEFUL
from .waiting import wait_until

# Transactions that a thread takes at once when order does not matter: few enough that threads end together, many enough
# that the shared counter costs little.
CHUNK_MOST = 64
CHUNKS_PER_THREAD = 64

# Transactions that a thread takes at once under locks. Neighbours write their results to the same cache lines, so
# threads that take turns one by one send these lines back and forth; but one that waits holds up those behind it.
CLAIM = 4
CLAIMS_PER_THREAD = 32  # in the smallest batch for which it pays
LAST_CLAIMS = 4  # per thread: their transactions are taken one by one, so that threads end together
SAMPLED = 8  # one in so many transactions says how near conflicts are
NEAR_MOST = 0.05  # share of transactions that conflict with those at most so many claims before: else one by one

WRITE = 1 << 32  # one write, in the high half of a counter


@kernel
def nolock_run(
    direct: int,
    context: int,
    todo: np.ndarray,
    code: np.ndarray,
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
        for i in range(lo, min(lo + chunk, count)):
            t = todo[i]
            code[t] = invoke(direct, context, t, w)
    clock[w, USEFUL] += ticks() - begin


@kernel
def find_shared(rows: int, row_ops: np.ndarray, row_writes: np.ndarray, shared: np.ndarray) -> None:
    """Rows in which two operations conflict."""
    for r in range(rows):
        shared[r] = row_ops[r] > 1 and row_writes[r] > 0


@kernel
def choose_claim(todo: np.ndarray, txn_lo: np.ndarray, op_prev: np.ndarray, threads: int) -> int:
    """How many transactions a thread takes at once: one where conflicts are so near that threads wait for each other.

    `op_prev[o]` is the last operation that wrote the row of o before, or -1.
    """
    count, window = todo.shape[0], CLAIM * threads
    if count < CLAIM * CLAIMS_PER_THREAD * threads:
        return 1
    near, seen = 0, 0
    for i in range(window, count, SAMPLED):
        t, since = todo[i], txn_lo[todo[i - window]]
        hit = 0
        for o in range(txn_lo[t], txn_lo[t + 1]):
            hit |= since <= op_prev[o]
        near += hit
        seen += 1
    return CLAIM if near <= NEAR_MOST * seen else 1


@inlined
def insert_locks(
    t: int,
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_write: np.ndarray,
    op_ticket: np.ndarray,
    shared: np.ndarray,
    lock: np.ndarray,
) -> None:
    """Needs no atomic operation: only one thread at a time may insert into a row; the counter of turns hands it on.

    The ticket of an operation that needs no lock is -1.
    """
    for o in range(txn_lo[t], txn_lo[t + 1]):
        if shared[op_row[o]] == 0:
            op_ticket[o] = -1
            continue
        inserted = 2 * op_row[o]
        op_ticket[o] = lock[inserted]
        lock[inserted] += 1 + op_write[o] * WRITE


@inlined
def wait_for_grants(
    t: int,
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_write: np.ndarray,
    op_ticket: np.ndarray,
    lock: np.ndarray,
    control: np.ndarray,
) -> bool:
    """Gives false when the run is stopped."""
    for o in range(txn_lo[t], txn_lo[t + 1]):
        ticket = op_ticket[o]
        if ticket < 0:
            continue
        if op_write[o] == 0:
            ticket -= ticket % WRITE
        if wait_until(lock, 2 * op_row[o] + 1, ticket, control) < 0:
            return False
    return True


@inlined
def release_locks(
    t: int, txn_lo: np.ndarray, op_row: np.ndarray, op_write: np.ndarray, op_ticket: np.ndarray, lock: np.ndarray
) -> None:
    for o in range(txn_lo[t], txn_lo[t + 1]):
        if op_ticket[o] >= 0:
            atomic_add(lock, 2 * op_row[o] + 1, 1 + op_write[o] * WRITE)


@kernel
def lock_run(
    direct: int,
    context: int,
    todo: np.ndarray,
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_write: np.ndarray,
    op_ticket: np.ndarray,
    shared: np.ndarray,
    lock: np.ndarray,
    claim: int,
    code: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Strict two-phase locking in event order: one counter for all says whose turn it is to insert (lockAhead).

    A thread inserts the locks of `claim` transactions in its turn, then runs them one by one.
    """
    count, useful, sync, first = todo.shape[0], 0, 0, ticks()
    claims = max(0, count // claim - LAST_CLAIMS * clock.shape[0])
    going = True
    while going:
        number = atomic_add(control, NEXT * LINE, 1)
        lo = number * claim if number < claims else claims * claim + number - claims
        if lo >= count:
            break
        hi = lo + claim if number < claims else lo + 1
        waited = wait_until(control, COUNTER * LINE, lo, control)
        if waited < 0:
            break
        sync += waited
        for i in range(lo, hi):
            insert_locks(todo[i], txn_lo, op_row, op_write, op_ticket, shared, lock)
        atomic_store(control, COUNTER * LINE, hi)
        for i in range(lo, hi):
            t = todo[i]
            if not wait_for_grants(t, txn_lo, op_row, op_write, op_ticket, lock, control):
                going = False
                break
            begin = ticks()
            code[t] = invoke(direct, context, t, w)
            useful += ticks() - begin
            release_locks(t, txn_lo, op_row, op_write, op_ticket, lock)
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
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    partitions: int,
    part_lo: np.ndarray,
    part_id: np.ndarray,
    part_turn: np.ndarray,
    part_next: np.ndarray,
    part_seen: np.ndarray,
) -> int:
    """Per transaction its distinct partitions and its place in the order of each; single thread.

    Row l is in partition `l % partitions`. The partitions of transaction `todo[i]` are
    `part_id[part_lo[i] … part_lo[i + 1]]`, its turns beside them in `part_turn`; both need room for one entry per
    operation. `part_next` and `part_seen` are scratch of `partitions` words. Gives the number of entries.
    """
    for p in range(partitions):
        part_next[p] = 0
        part_seen[p] = -1
    entry = 0
    for i in range(todo.shape[0]):
        part_lo[i] = entry
        t = todo[i]
        for o in range(txn_lo[t], txn_lo[t + 1]):
            p = op_row[o] % partitions
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
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_write: np.ndarray,
    part_lo: np.ndarray,
    part_id: np.ndarray,
    part_turn: np.ndarray,
    part_counter: np.ndarray,
    op_ticket: np.ndarray,
    shared: np.ndarray,
    lock: np.ndarray,
    code: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Like `lock_run` with one counter per partition: who shares no partition inserts at the same time.

    `part_counter` has `partitions * LINE` words, all 0 at the start, one cache line per partition.
    """
    useful, sync, first = 0, 0, ticks()
    while True:
        i = atomic_add(control, NEXT * LINE, 1)
        if i >= todo.shape[0]:
            break
        t = todo[i]
        waited = wait_for_partitions(i, part_lo, part_id, part_turn, part_counter, control)
        if waited < 0:
            break
        sync += waited
        insert_locks(t, txn_lo, op_row, op_write, op_ticket, shared, lock)
        for k in range(part_lo[i], part_lo[i + 1]):
            atomic_store(part_counter, part_id[k] * LINE, part_turn[k] + 1)
        if not wait_for_grants(t, txn_lo, op_row, op_write, op_ticket, lock, control):
            break
        begin = ticks()
        code[t] = invoke(direct, context, t, w)
        useful += ticks() - begin
        release_locks(t, txn_lo, op_row, op_write, op_ticket, lock)
    account(clock, w, ticks() - first, useful, sync)
