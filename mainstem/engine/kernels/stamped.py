"""Protocols with timestamps: whole transactions on versions, at any isolation level, without locks.

Every execution has a timestamp from one counter, and knows `complete`: all executions up to that timestamp were over
when it began. It first makes its versions known, row by row; where it comes too late it withdraws them and begins again
with a new timestamp. Versions of a row are ordered by timestamp.

    PL1     a write is refused when a version with a larger timestamp exists; reads take the newest version
    PL2     writes as at PL1; reads take the newest version up to `complete`: a snapshot of installed versions
    PL3     a write is refused when there is any version after `complete`, or when somebody with a larger timestamp has
            read the row; a read, when there is a version after `complete` and before its own timestamp. So what it
            read is what the row holds just before its timestamp. (A transaction that writes nothing needs neither:
            it is serial right after `complete`.)
    PL4     a transaction runs on a snapshot of what is installed, waits until all events before it are through, and
            runs again if what it read is not the newest any more

Versions are made known in the order of rows: then of all transactions that are in each other's way one gets through.
"""

from __future__ import annotations

from typing import Any

from .base import atomic_add, atomic_load, atomic_store, inlined, invoke, kernel, rest, ticks
from .control import ABORT, COUNTER, EPOCH, LINE, LOCK, NEXT, STAMP, STOP, SYNC, USEFUL
from .rows import (
    PL1,
    PL2,
    PL3,
    READ,
    TOP,
    Accesses,
    call_rows,
    create,
    install,
    install_on_top,
    latch,
    note_after,
    note_before,
    unlatch,
)
from .waiting import wait_until

NEVER = 1 << 62  # in `active`: this worker runs nothing
# So far timestamps may run ahead of the oldest execution. Versions after `complete` are passed one by one by those who
# look for older ones; and when a worker is slow, the others should leave their cores to it.
AHEAD_MOST = 128
SNAPSHOTS = 4  # tries to see all rows at one moment while others install, before waiting for the turn instead
NOBODY = 0


@inlined
def stopped(control: Any) -> bool:
    return atomic_load(control, STOP * LINE) != 0


@inlined
def complete_before(active: Any, stamp: int) -> int:
    """The largest timestamp below `stamp` such that all executions up to it are over."""
    oldest = stamp
    for w in range(active.shape[0] // LINE):
        oldest = min(oldest, atomic_load(active, w * LINE))
    return oldest - 1


@inlined
def begin_execution(active: Any, w: int, control: Any) -> int:
    """Gives a timestamp. Others learn of it before it exists, so that nobody takes it for complete."""
    turn = 0
    while not stopped(control):
        last = atomic_load(control, STAMP * LINE)
        if last - complete_before(active, last + 1) < AHEAD_MOST:
            break
        turn = rest(turn)
    atomic_store(active, w * LINE, atomic_load(control, STAMP * LINE) + 1)
    stamp = atomic_add(control, STAMP * LINE, 1) + 1
    atomic_store(active, w * LINE, stamp)
    return stamp


@inlined
def wait_for_completion(active: Any, stamp: int, control: Any) -> None:
    turn = 0
    while complete_before(active, stamp + 1) < stamp and not stopped(control):
        turn = rest(turn)


@inlined
def order_by_row(b: Accesses, t: int, order: Any) -> bool:
    """Sorts the few operations of a transaction; gives whether it may write."""
    writes = False
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        writes = writes or b.op_write[o] != 0
        k = o
        while k > b.txn_lo[t] and b.op_row[order[k - 1]] > b.op_row[o]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = o
    return writes


@inlined
def newest_until(b: Accesses, at: int, stamp: int) -> int:
    """The newest version up to a timestamp; -1: the one before the batch."""
    version = b.row[at + TOP]
    while version >= 0 and b.op_stamp[version] > stamp:
        version = b.op_below[version]
    return version


@inlined
def enter_write(b: Accesses, o: int, stamp: int, complete: int, level: int, control: Any) -> int:
    """Makes o's version known and says what it is made from. Gives -1, or what it was refused for: a timestamp whose
    completion is worth waiting for, or NOBODY."""
    at, blocker = b.op_row[o] * LINE, -1
    latch(b.row, at, control)
    top = b.row[at + TOP]
    latest = b.op_stamp[top] if top >= 0 else 0
    if level == PL3 and latest > complete:
        blocker = latest
    elif latest > stamp or (level == PL3 and b.row[at + READ] > stamp):
        blocker = NOBODY
    else:
        b.op_prev[o] = newest_until(b, at, complete) if level == PL2 else top
        create(b, o, at, stamp)
    unlatch(b.row, at)
    return blocker


@inlined
def enter_read(b: Accesses, o: int, stamp: int, complete: int, level: int, writes: bool, control: Any) -> int:
    """Says which version is read. Gives -1, or what it was refused for."""
    at, blocker = b.op_row[o] * LINE, -1
    latch(b.row, at, control)
    if level == PL1:
        b.op_prev[o] = b.row[at + TOP]
    else:
        b.op_prev[o] = newest_until(b, at, complete)
        if level == PL3 and writes:
            between = newest_until(b, at, stamp)
            if between != b.op_prev[o]:
                blocker = b.op_stamp[between]
            else:
                b.row[at + READ] = max(b.row[at + READ], stamp)
    unlatch(b.row, at)
    return blocker


@inlined
def withdraw(b: Accesses, o: int, control: Any) -> None:
    """Takes o's version out of its row."""
    at = b.op_row[o] * LINE
    latch(b.row, at, control)
    above, version = -1, b.row[at + TOP]
    while version != o and version >= 0:
        above, version = version, b.op_below[version]
    if above < 0:
        atomic_store(b.row, at + TOP, b.op_below[o])
    else:
        b.op_below[above] = b.op_below[o]
    unlatch(b.row, at)


@inlined
def withdraw_all(b: Accesses, t: int, until: int, order: Any, control: Any) -> None:
    for k in range(b.txn_lo[t], until):
        if b.op_write[order[k]] != 0:
            withdraw(b, order[k], control)


@inlined
def enter_all(
    b: Accesses, t: int, stamp: int, complete: int, level: int, writes: bool, order: Any, control: Any
) -> int:
    """First all writes, then all reads, which may see what others are writing at PL1. Gives -1, or what the execution
    was refused for; then nothing of it is left."""
    end = b.txn_lo[t + 1]
    for k in range(b.txn_lo[t], end):
        if b.op_write[order[k]] != 0:
            blocker = enter_write(b, order[k], stamp, complete, level, control)
            if blocker >= 0:
                withdraw_all(b, t, k, order, control)
                return blocker
    for k in range(b.txn_lo[t], end):
        if b.op_write[order[k]] == 0:
            blocker = enter_read(b, order[k], stamp, complete, level, writes, control)
            if blocker >= 0:
                withdraw_all(b, t, end, order, control)
                return blocker
    return -1


@inlined
def leave(b: Accesses, t: int, stamp: int, committed: bool, order: Any, control: Any) -> None:
    if b.noting == 1:
        for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
            note_after(b, o)
    if not committed:
        withdraw_all(b, t, b.txn_lo[t + 1], order, control)
        return
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if b.op_write[o] != 0:
            install(b, o, stamp)


@kernel
def stamped_run(
    versioned: int,
    context: int,
    level: int,
    todo: Any,
    b: Accesses,
    order: Any,
    active: Any,
    v_code: Any,
    retries: Any,
    control: Any,
    clock: Any,
    w: int,
) -> None:
    """PL1 to PL3. Vertex i is the whole transaction `todo[i]`; `active` starts with NEVER, TOP of rows with -1."""
    useful, sync, first = 0, 0, ticks()
    while not stopped(control):
        i = atomic_add(control, NEXT * LINE, 1)
        if i >= todo.shape[0]:
            break
        t = todo[i]
        call_rows(b, t)
        writes = order_by_row(b, t, order)
        stamp, blocker = 0, NOBODY
        while blocker >= 0 and not stopped(control):
            stamp = begin_execution(active, w, control)
            blocker = enter_all(b, t, stamp, complete_before(active, stamp), level, writes, order, control)
            if blocker >= 0:
                atomic_store(active, w * LINE, NEVER)
                retries[w * LINE] += 1
                begin = ticks()
                wait_for_completion(active, blocker, control)
                sync += ticks() - begin
        if blocker >= 0:
            break
        if b.noting == 1:
            for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
                note_before(b, o)
        begin = ticks()
        failure = invoke(versioned, context, i, w)
        useful += ticks() - begin
        v_code[i] = failure
        leave(b, t, stamp, failure == 0, order, control)
        atomic_store(active, w * LINE, NEVER)
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, LOCK] += ticks() - first - useful - sync


@inlined
def take_snapshot(b: Accesses, t: int, control: Any) -> bool:
    """Reads what is installed, all rows as of one moment: a body may rely on what always holds between rows."""
    for _ in range(SNAPSHOTS):
        epoch = atomic_load(control, EPOCH * LINE)
        for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
            b.op_prev[o] = atomic_load(b.row, b.op_row[o] * LINE + TOP)
        if epoch % 2 == 0 and atomic_load(control, EPOCH * LINE) == epoch:
            return True
    return False


@inlined
def still_newest(b: Accesses, t: int) -> bool:
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if b.op_prev[o] != atomic_load(b.row, b.op_row[o] * LINE + TOP):
            return False
    return True


@inlined
def install_all(b: Accesses, t: int, stamp: int, control: Any) -> None:
    """Nobody else does at this time. EPOCH is odd meanwhile."""
    atomic_add(control, EPOCH * LINE, 1)
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if b.op_write[o] != 0:
            install_on_top(b, o, b.op_row[o] * LINE, stamp)
    atomic_add(control, EPOCH * LINE, 1)


@kernel
def stamped_in_order(
    versioned: int,
    context: int,
    todo: Any,
    b: Accesses,
    v_code: Any,
    retries: Any,
    control: Any,
    clock: Any,
    w: int,
) -> None:
    """PL4. COUNTER says whose turn it is."""
    useful, sync, again, first = 0, 0, 0, ticks()
    while not stopped(control):
        i = atomic_add(control, NEXT * LINE, 1)
        if i >= todo.shape[0]:
            break
        t, failure, spent = todo[i], 0, 0
        call_rows(b, t)
        early = take_snapshot(b, t, control)
        if early:
            begin = ticks()
            failure = invoke(versioned, context, i, w)
            spent = ticks() - begin
        waited = wait_until(control, COUNTER * LINE, i, control)
        if waited < 0:
            break
        sync += waited
        if not early or not still_newest(b, t):
            retries[w * LINE] += 1 if early else 0
            again += spent
            take_snapshot(b, t, control)
            begin = ticks()
            failure = invoke(versioned, context, i, w)
            spent = ticks() - begin
        useful += spent
        v_code[i] = failure
        if failure == 0:
            install_all(b, t, i + 1, control)
        atomic_store(control, COUNTER * LINE, i + 1)
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, ABORT] += again
    clock[w, LOCK] += ticks() - first - useful - sync - again
