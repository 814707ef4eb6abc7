"""Protocols with locks: whole transactions on versions, at any isolation level.

Execution timestamps come from one counter. A transaction asks for all its locks, then waits for them, then runs. A row
remembers the largest timestamps that asked to write and to read it; a request that comes after a conflicting one with a
larger timestamp is refused: the transaction gives up its locks and takes a new timestamp. So locks are granted in the
order of timestamps on every row, every wait is for a smaller timestamp, and nothing can deadlock.

    PL1     locks rows that it may write; reads the newest version of the others, installed or not
    PL2     the same, and reads the newest installed version
    PL3     locks rows that it only reads, too, shared with other readers
    PL4     as PL3, and transactions ask in event order, one after the other: nothing is refused
"""

from __future__ import annotations

from typing import Any

from .base import atomic_add, atomic_load, atomic_store, inlined, invoke, kernel, ticks
from .control import COUNTER, LINE, LOCK, NEXT, STAMP, STOP, SYNC, USEFUL
from .rows import (
    ASKED,
    ASKED_WRITES,
    GONE,
    GONE_WRITES,
    PL1,
    PL2,
    PL4,
    READ,
    TOP,
    WROTE,
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


@inlined
def locks(b: Accesses, o: int, level: int) -> bool:
    return b.op_write[o] != 0 or level > PL2


@inlined
def ask(b: Accesses, o: int, stamp: int, ticket: Any, control: Any) -> bool:
    """Stands in line for a row; false when somebody with a larger timestamp does already."""
    at, writes = b.op_row[o] * LINE, b.op_write[o] != 0
    latch(b.row, at, control)
    refused = stamp < b.row[at + WROTE] or (writes and stamp < b.row[at + READ])
    if not refused:
        # How many requests must be over first: all that came before, or all of these that write.
        ticket[o] = b.row[at + ASKED] if writes else b.row[at + ASKED_WRITES]
        b.row[at + ASKED] += 1
        if writes:
            b.row[at + ASKED_WRITES] += 1
            b.row[at + WROTE] = stamp
        else:
            b.row[at + READ] = max(stamp, b.row[at + READ])
    unlatch(b.row, at)
    return not refused


@inlined
def wait_for(b: Accesses, o: int, ticket: Any, control: Any) -> bool:
    """False when the run is stopped."""
    counter = GONE if b.op_write[o] != 0 else GONE_WRITES
    return wait_until(b.row, b.op_row[o] * LINE + counter, ticket[o], control) >= 0


@inlined
def release(b: Accesses, o: int) -> None:
    at = b.op_row[o] * LINE
    if b.op_write[o] != 0:
        atomic_add(b.row, at + GONE_WRITES, 1)
    atomic_add(b.row, at + GONE, 1)


@inlined
def ask_all(b: Accesses, t: int, stamp: int, level: int, ticket: Any, control: Any) -> bool:
    """False when a request is refused. Then those before it are given up: waited for, and released."""
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if locks(b, o, level) and not ask(b, o, stamp, ticket, control):
            for given_up in range(b.txn_lo[t], o):
                if locks(b, given_up, level):
                    wait_for(b, given_up, ticket, control)
                    release(b, given_up)
            return False
    return True


@inlined
def wait_for_all(b: Accesses, t: int, level: int, ticket: Any, control: Any) -> bool:
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if locks(b, o, level) and not wait_for(b, o, ticket, control):
            return False
    return True


@inlined
def take_versions(b: Accesses, t: int, stamp: int, level: int) -> None:
    """Says which versions the transaction reads; at PL1 also shows its own, before anything is in them."""
    if level == PL1:
        for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
            if b.op_write[o] != 0:
                at = b.op_row[o] * LINE
                b.op_prev[o] = b.row[at + TOP]
                create(b, o, at, stamp)
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if level > PL1 or b.op_write[o] == 0:
            b.op_prev[o] = atomic_load(b.row, b.op_row[o] * LINE + TOP)
        if b.noting == 1:
            note_before(b, o)


@inlined
def end(b: Accesses, t: int, stamp: int, level: int, committed: bool) -> None:
    """Installs or drops what the transaction made, and lets go of its locks."""
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        at = b.op_row[o] * LINE
        if b.noting == 1:
            note_after(b, o)
        if b.op_write[o] == 0:
            continue
        if committed and level == PL1:
            install(b, o, stamp)
        elif committed:
            install_on_top(b, o, at, stamp)
        elif level == PL1:
            atomic_store(b.row, at + TOP, b.op_below[o])
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        if locks(b, o, level):
            release(b, o)


@kernel
def locked_run(
    versioned: int,
    context: int,
    level: int,
    todo: Any,
    b: Accesses,
    ticket: Any,
    v_code: Any,
    retries: Any,
    control: Any,
    clock: Any,
    w: int,
) -> None:
    """Vertex i is the whole transaction `todo[i]`. Words of rows start at 0, TOP at -1."""
    useful, sync, first = 0, 0, ticks()
    while atomic_load(control, STOP * LINE) == 0:
        i = atomic_add(control, NEXT * LINE, 1)
        if i >= todo.shape[0]:
            break
        t = todo[i]
        call_rows(b, t)
        if level == PL4:
            stamp = i + 1
            waited = wait_until(control, COUNTER * LINE, i, control)
            if waited < 0:
                break
            sync += waited
            ask_all(b, t, stamp, level, ticket, control)
            atomic_store(control, COUNTER * LINE, i + 1)
        else:
            stamp = atomic_add(control, STAMP * LINE, 1) + 1
            while not ask_all(b, t, stamp, level, ticket, control):
                retries[w * LINE] += 1
                stamp = atomic_add(control, STAMP * LINE, 1) + 1
        if not wait_for_all(b, t, level, ticket, control):
            break
        take_versions(b, t, stamp, level)
        begin = ticks()
        failure = invoke(versioned, context, i, w)
        useful += ticks() - begin
        v_code[i] = failure
        end(b, t, stamp, level, failure == 0)
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, LOCK] += ticks() - first - useful - sync
