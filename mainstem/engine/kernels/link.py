"""A batch as operations: transactions numbered, their rows listed, operations linked to the last write before them."""

from __future__ import annotations

from typing import Any

from .base import kernel

# What `link` knows about a row so far lies side by side: an operation visits one cache line for it.
LAST_WRITE = 0  # the last operation that writes
WRITES = 1
OPS = 2
LAST = 3  # the last operation
FIRST = 4  # its first instance
ROW_WORDS = 8

MARK = 32  # bits below the mark in `seen`: the number of the row in the batch


@kernel
def number(kind: Any, group_lo: Any, group_fn: Any, seen: Any, fn_lo: Any, fn: Any, ev: Any, fn_txn: Any) -> int:
    """Numbers transactions in total order: function of each, and its event's number among those of its type.

    The transactions of function f are `fn_txn[fn_lo[f] …]`, in the order of their events.
    """
    t = 0
    for i in range(len(kind)):
        k = kind[i]
        j = seen[k]
        for g in range(group_lo[k], group_lo[k + 1]):
            f = group_fn[g]
            fn[t] = f
            ev[t] = j
            fn_txn[fn_lo[f] + j] = t
            t += 1
        seen[k] = j + 1
    return t


@kernel
def count_listed(start: int, txns: Any, ends: Any, count: Any) -> None:
    """Adds the keys of dynamic sites to the number of instances of a function's transactions from `start` on."""
    for j in range(len(txns)):
        if txns[j] >= start:
            count[txns[j]] += ends[j] - (ends[j - 1] if j > 0 else 0)


@kernel
def lay_out(start: int, count: Any, static: Any, fn: Any, inst_lo: Any, inst_at: Any) -> int:
    """Room for the instances of every transaction: static sites first, then listed keys (from `inst_at` on).

    Transactions before `start` have none: they have run already.
    """
    total = 0
    for t in range(start):
        inst_lo[t] = 0
    for t in range(start, len(fn)):
        inst_lo[t] = total
        inst_at[t] = total + static[fn[t]]
        total += static[fn[t]] + count[t]
    inst_lo[len(fn)] = total
    return total


@kernel
def place_static(
    start: int, txns: Any, k: int, rows: Any, offset: int, writes: int, site: int,
    inst_lo: Any, inst_row: Any, inst_write: Any, inst_site: Any, inst_turn: Any,
) -> None:  # fmt: skip
    for j in range(len(txns)):
        if txns[j] >= start:
            at = inst_lo[txns[j]] + k
            row = rows[j]
            inst_row[at] = offset + row if row >= 0 else -1
            inst_write[at] = writes
            inst_site[at] = site
            inst_turn[at] = -1


@kernel
def place_listed(
    start: int, txns: Any, ends: Any, rows: Any, sites: Any, turns: Any, offset: int, site_writes: Any,
    inst_at: Any, inst_row: Any, inst_write: Any, inst_site: Any, inst_turn: Any,
) -> None:  # fmt: skip
    for j in range(len(txns)):
        t = txns[j]
        if t >= start:
            for q in range(ends[j - 1] if j > 0 else 0, ends[j]):
                at = inst_at[t]
                inst_at[t] = at + 1
                inst_row[at] = offset + rows[q]
                inst_write[at] = site_writes[sites[q]]
                inst_site[at] = sites[q]
                inst_turn[at] = turns[q]


@kernel
def link(
    inst_lo: Any, inst_row: Any, inst_write: Any, inst_site: Any, inst_turn: Any, inst_op: Any,
    mark: int, seen: Any, known: Any, table_lo: Any,
    bases: Any, row_table: Any, row_at: Any, row_base: Any, row_last: Any, row_writes: Any, row_ops: Any,
    txn_lo: Any, op_row: Any, op_write: Any, op_prev: Any, op_writes_before: Any, alias: Any,
) -> int:  # fmt: skip
    """One operation per transaction and row. Gives the number of distinct rows; `txn_lo` ends with that of operations.

    `seen` has a word for each row of all tables: the mark of the batch that met it last, and its number there. `known`
    is scratch, `ROW_WORDS` for each row of this batch. `alias[t]` is 1 when two sites of t (or two turns of its loop)
    meet in one row and one of them may write it.
    """
    rows, ops = 0, 0
    for t in range(len(alias)):
        txn_lo[t] = ops
        twice = 0
        for k in range(inst_lo[t], inst_lo[t + 1]):
            g = inst_row[k]
            if g < 0:
                inst_op[k] = -1
                continue
            word = seen[g]
            if word >> MARK != mark:
                word = mark << MARK | rows
                seen[g] = word
                i = 0
                while g >= table_lo[i + 1]:
                    i += 1
                row_table[rows] = i
                row_at[rows] = g - table_lo[i]
                row_base[rows] = bases[i]
                bases[i] += 1
                at = rows * ROW_WORDS
                known[at + LAST_WRITE], known[at + WRITES], known[at + OPS], known[at + LAST] = -1, 0, 0, -1
                rows += 1
            r = word - (mark << MARK)
            at = r * ROW_WORDS
            o = known[at + LAST]
            if o >= txn_lo[t]:
                if op_write[o] == 1 or inst_write[k] == 1:
                    first = known[at + FIRST]
                    if inst_site[k] != inst_site[first] or inst_turn[k] != inst_turn[first]:
                        twice = 1
                    op_write[o] = 1
            else:
                o = ops
                ops += 1
                op_row[o], op_write[o] = r, inst_write[k]
                op_prev[o], op_writes_before[o] = known[at + LAST_WRITE], known[at + WRITES]
                known[at + LAST], known[at + FIRST] = o, k
                known[at + OPS] += 1
            inst_op[k] = o
        for o in range(txn_lo[t], ops):
            if op_write[o] == 1:
                at = op_row[o] * ROW_WORDS
                known[at + LAST_WRITE] = o
                known[at + WRITES] += 1
        alias[t] = twice
    txn_lo[len(alias)] = ops
    for r in range(rows):
        at = r * ROW_WORDS
        row_last[r], row_writes[r], row_ops[r] = known[at + LAST_WRITE], known[at + WRITES], known[at + OPS]
    return rows


@kernel
def give_slots(
    op_row: Any, op_write: Any, row_table: Any, row_base: Any, ops: int, slots: Any, op_slot: Any, op_ver: Any
) -> None:
    """A slot per operation that may write; `slots[i]` counts those of table i, after its committed records.

    Until it runs, an operation offers the committed record: `install` leaves rows alone that no vertex has written.
    """
    for o in range(ops):
        op_ver[o] = row_base[op_row[o]]
        if op_write[o] == 1:
            i = row_table[op_row[o]]
            op_slot[o] = slots[i]
            slots[i] += 1


@kernel
def gather(table: int, rows: int, row_table: Any, row_at: Any, row_base: Any, records: Any, versions: Any) -> None:
    """Copies the committed records of the batch's rows; both sides as rows of words."""
    for r in range(rows):
        if row_table[r] == table:
            for c in range(records.shape[1]):
                versions[row_base[r], c] = records[row_at[r], c]


@kernel
def install(
    table: int, rows: int, row_table: Any, row_at: Any, row_last: Any, row_base: Any, op_ver: Any,
    versions: Any, records: Any, changed: Any,
) -> int:  # fmt: skip
    """Copies the last valid version of every row into the table; lists the rows that changed."""
    count = 0
    for r in range(rows):
        if row_table[r] != table or row_last[r] < 0:
            continue
        version = op_ver[row_last[r]]
        if version == row_base[r]:
            continue
        differs = 0
        for c in range(records.shape[1]):
            if records[row_at[r], c] != versions[version, c]:
                differs = 1
                records[row_at[r], c] = versions[version, c]
        if differs == 1:
            changed[count] = row_at[r]
            count += 1
    return count


@kernel
def list_marked(table: int, rows: int, row_table: Any, row_at: Any, marks: Any, mark: int, changed: Any) -> int:
    """Rows of a table that transactions, run in place, marked as written."""
    count = 0
    for r in range(rows):
        if row_table[r] == table and marks[row_at[r]] == mark:
            changed[count] = row_at[r]
            count += 1
    return count
