"""Transactions as a whole, run directly on the tables: without locks, with ordered locks, with locks by partition.

A lock of row l is two words side by side, `lock[2 * l]` and the next: requests that were inserted, and those that were
released. Each counts all requests in its low half and writes in its high half, so that one addition notes both. A
request remembers what was inserted before it (its ticket). A write is granted when all earlier requests are released, a
read when all earlier writes are: later conflicting requests wait for it in turn, so the counters never run past a
waiting ticket, and comparing whole words is exact. Who may insert next is what distinguishes `lock` from `pat`; both
insert in event order, so nothing can deadlock.

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


@inlined
def insert_locks(
    t: int, txn_lo: np.ndarray, op_row: np.ndarray, op_write: np.ndarray, op_ticket: np.ndarray, lock: np.ndarray
) -> None:
    """Needs no atomic operation: only one thread at a time may insert into a row; the counter of turns hands it on."""
    for o in range(txn_lo[t], txn_lo[t + 1]):
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
        if op_write[o] == 0:
            ticket -= ticket % WRITE
        if wait_until(lock, 2 * op_row[o] + 1, ticket, control) < 0:
            return False
    return True


@inlined
def release_locks(t: int, txn_lo: np.ndarray, op_row: np.ndarray, op_write: np.ndarray, lock: np.ndarray) -> None:
    for o in range(txn_lo[t], txn_lo[t + 1]):
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
    lock: np.ndarray,
    code: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Strict two-phase locking in event order: one counter for all says whose turn it is to insert (lockAhead)."""
    useful, sync, first = 0, 0, ticks()
    while True:
        i = atomic_add(control, NEXT * LINE, 1)
        if i >= todo.shape[0]:
            break
        t = todo[i]
        waited = wait_until(control, COUNTER * LINE, i, control)
        if waited < 0:
            break
        sync += waited
        insert_locks(t, txn_lo, op_row, op_write, op_ticket, lock)
        atomic_store(control, COUNTER * LINE, i + 1)
        if not wait_for_grants(t, txn_lo, op_row, op_write, op_ticket, lock, control):
            break
        begin = ticks()
        code[t] = invoke(direct, context, t, w)
        useful += ticks() - begin
        release_locks(t, txn_lo, op_row, op_write, lock)
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
        insert_locks(t, txn_lo, op_row, op_write, op_ticket, lock)
        for k in range(part_lo[i], part_lo[i + 1]):
            atomic_store(part_counter, part_id[k] * LINE, part_turn[k] + 1)
        if not wait_for_grants(t, txn_lo, op_row, op_write, op_ticket, lock, control):
            break
        begin = ticks()
        code[t] = invoke(direct, context, t, w)
        useful += ticks() - begin
        release_locks(t, txn_lo, op_row, op_write, lock)
    account(clock, w, ticks() - first, useful, sync)
