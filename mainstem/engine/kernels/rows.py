"""What transactions know about each other's rows and versions when a protocol runs them (docs/design/acid.md).

Every row of a batch has a cache line of words in `row`; every operation has words in the `op_` arrays. A version is
called by the operation that made it. `row[TOP]` is the newest version that others may find, `op_below` leads to older
ones, largest execution timestamp first.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_change, atomic_load, atomic_store, byte_at, inlined, kernel, prefetch, rest
from .control import LINE, STOP

PL1, PL2, PL3, PL4 = 1, 2, 3, 4

# Words of a row.
LATCH = 0  # 1 while somebody reads or changes the other words; never while a transaction's body runs
WROTE = 1  # largest timestamp that asked for a write lock
READ = 2  # largest timestamp that asked for a read lock, or has read the row
ASKED = 3  # lock requests so far
ASKED_WRITES = 4  # of these: to write
GONE = 5  # lock requests that are over
GONE_WRITES = 6  # of these: to write
TOP = 7  # newest version, -1: the one before the batch, OTHERS: a row of transactions that run some other way

OTHERS = -2

CLEAN = -1  # in `op_seen`: the version was installed when it was read
_PRIME = 2_147_483_647  # products of numbers below it fit into a word, compiled or not


class Accesses(NamedTuple):
    """Operations of a batch, which versions they read and make, and the rows that they meet in."""

    txn_lo: Any
    op_row: Any
    op_write: Any
    op_slot: Any
    op_ver: Any
    op_prev: Any  # the version that was read, -1: the one before the batch
    op_below: Any
    op_stamp: Any  # of the execution that made the version, 0: there is none
    op_place: Any  # the same once it is installed: versions of a row are installed in the order of their timestamps
    op_read: Any  # timestamp of the version that was read; noted at PL1, like the next
    op_seen: Any  # what its content was like (`content_of`) if it was not installed, else CLEAN
    row: Any
    row_table: Any
    record_at: Any  # per table: address of its versions
    record_size: Any  # and bytes of one
    noting: int  # 1: fill `op_read` and `op_seen`


@inlined
def call_rows(b: Accesses, t: int) -> None:
    """The rows of a transaction come from memory all at once."""
    for o in range(b.txn_lo[t], b.txn_lo[t + 1]):
        prefetch(b.row, b.op_row[o] * LINE)


@inlined
def latch(row: Any, at: int, control: Any) -> None:
    """Waits for the row's words. A run that is stopped goes on without: what it leaves is thrown away."""
    turn = 0
    while not atomic_change(row, at + LATCH, 0, 1):
        if atomic_load(control, STOP * LINE) != 0:
            return
        turn = rest(turn)


@inlined
def unlatch(row: Any, at: int) -> None:
    atomic_store(row, at + LATCH, 0)


@inlined
def create(b: Accesses, o: int, at: int, stamp: int) -> None:
    """Puts o's version on top, for others to find. Its slot holds something sensible already."""
    b.op_below[o] = b.row[at + TOP]
    b.op_ver[o] = b.op_slot[o]
    b.op_place[o] = 0
    atomic_store(b.op_stamp, o, stamp)
    atomic_store(b.row, at + TOP, o)


@inlined
def install(b: Accesses, o: int, stamp: int) -> None:
    """Makes a created version a part of the row's history."""
    atomic_store(b.op_place, o, stamp)


@inlined
def install_on_top(b: Accesses, o: int, at: int, stamp: int) -> None:
    """Installs a version that nobody could find before."""
    b.op_ver[o] = b.op_slot[o]
    b.op_stamp[o] = stamp
    b.op_place[o] = stamp
    atomic_store(b.row, at + TOP, o)


@inlined
def note_before(b: Accesses, o: int) -> None:
    """Which version is read; a copy is made of it at once when the row will be written, so its content counts now."""
    version = b.op_prev[o]
    b.op_read[o], b.op_seen[o] = 0, CLEAN
    if version >= 0:
        b.op_read[o] = atomic_load(b.op_stamp, version)
        if atomic_load(b.op_place, version) == 0:
            b.op_seen[o] = content_of(b, version) if b.op_write[o] != 0 else 0


@inlined
def note_after(b: Accesses, o: int) -> None:
    """A row that is only read is read in place while the body runs: what it was like in the end counts."""
    if b.op_seen[o] != CLEAN and b.op_write[o] == 0:
        b.op_seen[o] = content_of(b, b.op_prev[o])


@inlined
def content_of(b: Accesses, o: int) -> int:
    """A number that tells contents of a version apart."""
    table = b.row_table[b.op_row[o]]
    size = b.record_size[table]
    first = b.record_at[table] + b.op_slot[o] * size
    found = 1
    for k in range(size):
        found = (found * 1_000_003 + byte_at(first + k)) % _PRIME
    return found


@kernel
def unlike(b: Accesses, reads: Any, found: Any) -> None:
    """For each of these dirty reads: whether it saw something else than its version held in the end."""
    for i in range(len(reads)):
        o = reads[i]
        version = b.op_prev[o]
        retried = b.op_read[o] != b.op_stamp[version]
        found[i] = 1 if retried or b.op_seen[o] != content_of(b, version) else 0


@kernel
def newest(rows: int, row: Any, row_last: Any) -> None:
    """When all is over: the version of each written row that the tables get, -1 where nothing was installed."""
    for r in range(rows):
        if row_last[r] >= 0 and row[r * LINE + TOP] != OTHERS:
            row_last[r] = row[r * LINE + TOP]


@kernel
def fill_slots(
    table: int, ops: int, op_row: Any, op_write: Any, op_slot: Any, row_table: Any, row_base: Any, records: Any
) -> None:
    """Copies the record before the batch into the slot of every version of a table; `records` as rows of words."""
    for o in range(ops):
        row = op_row[o]
        if op_write[o] != 0 and row_table[row] == table:
            for c in range(records.shape[1]):
                records[op_slot[o], c] = records[row_base[row], c]
