"""What a batch is like: how much of it can run at the same time, and how close its conflicts are."""

from __future__ import annotations

from typing import Any

from .base import kernel

# Places in `found`.
PATH_VERSIONS = 0  # cost of the longest chain of whole transactions, each reading what the one before wrote
PATH_LOCKS = 1  # the same when a writer also waits for earlier readers
PATH_PARTS = 2  # the same when a transaction is split: its writes wait for their own rows only
DEPENDENT = 3  # operations that need a version made in this batch
NEAR = 4  # transactions that need what one of the few just before them makes
HOTTEST = 5  # writes of the row with most of them
SHARED_PARTS = 6  # transactions that stay whole although their function is split
PLACES = 7


@kernel
def measure(
    first: int, near: int, fn: Any, cost: Any, splits: Any, alias: Any, txn_lo: Any, op_row: Any, op_write: Any,
    op_prev: Any, rows: int, row_writes: Any, op_txn: Any, wrote: Any, locked: Any, read: Any, part: Any, found: Any,
) -> None:  # fmt: skip
    """Fills `found`. `cost[f]` is that of one transaction of f; `splits[f]` in how many writes it can be split."""
    for r in range(rows):
        wrote[r], locked[r], read[r], part[r] = 0, 0, 0, 0
        found[HOTTEST] = max(found[HOTTEST], row_writes[r])
    for t in range(first, len(fn)):
        f = fn[t]
        start, held, soon, whole = 0, 0, 0, 0
        for o in range(txn_lo[t], txn_lo[t + 1]):
            r = op_row[o]
            op_txn[o] = t
            start = max(start, wrote[r])
            held = max(held, locked[r])
            whole = max(whole, part[r])
            if op_write[o] == 1:
                held = max(held, read[r])
            if op_prev[o] >= 0:
                found[DEPENDENT] += 1
                if t - op_txn[op_prev[o]] <= near:
                    soon = 1
        found[NEAR] += soon
        end, end_held = start + cost[f], held + cost[f]
        found[PATH_VERSIONS] = max(found[PATH_VERSIONS], end)
        found[PATH_LOCKS] = max(found[PATH_LOCKS], end_held)
        split = splits[f] > 1 and alias[t] == 0
        if splits[f] > 1 and alias[t] == 1:
            found[SHARED_PARTS] += 1
        for o in range(txn_lo[t], txn_lo[t + 1]):
            r = op_row[o]
            if op_write[o] == 1:
                wrote[r], locked[r] = end, end_held
                part[r] = part[r] + cost[f] // splits[f] if split else whole + cost[f]
                found[PATH_PARTS] = max(found[PATH_PARTS], part[r])
            else:
                read[r] = max(read[r], end_held)
