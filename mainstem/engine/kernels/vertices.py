"""Vertices of a batch: whole transactions, or their parts, with the refs of each."""

from __future__ import annotations

from typing import Any

from .base import inlined, kernel
from .control import OWN, PRIVATE, READ, SAME


@kernel
def count_whole(todo: Any, inst_lo: Any) -> int:
    refs = 0
    for i in range(len(todo)):
        refs += inst_lo[todo[i] + 1] - inst_lo[todo[i]]
    return refs


@kernel
def whole(
    todo: Any, fn: Any, inst_lo: Any, inst_op: Any, op_row: Any, op_write: Any, row_table: Any, row_at: Any,
    op_first: Any, v_txn: Any, v_part: Any, v_turn: Any, v_lo: Any, t_lo: Any,
    ref_op: Any, ref_mode: Any, ref_slot: Any, ref_table: Any, ref_row: Any, op_owner: Any,
) -> None:  # fmt: skip
    """One vertex per transaction of `todo`."""
    ref = 0
    for i in range(len(todo)):
        t_lo[i] = i
        v_lo[i] = ref
        ref = _whole_vertex(
            i, todo[i], fn, inst_lo, inst_op, op_row, op_write, row_table, row_at, op_first, v_txn, v_part, v_turn,
            ref, ref_op, ref_mode, ref_slot, ref_table, ref_row, op_owner,
        )  # fmt: skip
    t_lo[len(todo)] = len(todo)
    v_lo[len(todo)] = ref


@inlined
def _whole_vertex(
    v: int, t: int, fn: Any, inst_lo: Any, inst_op: Any, op_row: Any, op_write: Any, row_table: Any, row_at: Any,
    op_first: Any, v_txn: Any, v_part: Any, v_turn: Any,
    ref: int, ref_op: Any, ref_mode: Any, ref_slot: Any, ref_table: Any, ref_row: Any, op_owner: Any,
) -> int:  # fmt: skip
    v_txn[v], v_part[v], v_turn[v] = t, fn[t], 0
    for k in range(inst_lo[t], inst_lo[t + 1]):
        if inst_op[k] >= 0:
            op_first[inst_op[k]] = -1
    for k in range(inst_lo[t], inst_lo[t + 1]):
        o = inst_op[k]
        ref_op[ref], ref_mode[ref], ref_slot[ref], ref_table[ref] = o, READ, -1, -1
        if o >= 0:
            ref_table[ref], ref_row[ref] = row_table[op_row[o]], row_at[op_row[o]]
            if op_first[o] >= 0:
                ref_mode[ref], ref_slot[ref] = SAME, op_first[o]
            else:
                op_first[o] = ref
                op_owner[o] = -1
                if op_write[o] == 1:
                    ref_mode[ref] = OWN
                    op_owner[o] = v
        ref += 1
    return ref


@kernel
def count_parts(
    todo: Any, fn: Any, ev: Any, alias: Any, inst_lo: Any, static: Any, inst_site: Any,
    part_lo: Any, part_static: Any, part_turns: Any, turn_counts: Any, site_modes: Any, sites: int, counts: Any,
) -> None:  # fmt: skip
    """`counts[0]`: vertices, `counts[1]`: refs."""
    vertices, refs = 0, 0
    for i in range(len(todo)):
        t = todo[i]
        f = fn[t]
        if alias[t] == 1 or part_lo[f] == part_lo[f + 1]:
            vertices += 1
            refs += inst_lo[t + 1] - inst_lo[t]
            continue
        for p in range(part_lo[f], part_lo[f + 1]):
            turns = turn_counts[part_turns[p] + ev[t]] if part_turns[p] >= 0 else 1
            vertices += turns
            refs += turns * (part_static[p + 1] - part_static[p])
            for k in range(inst_lo[t] + static[f], inst_lo[t + 1]):
                if site_modes[p * sites + inst_site[k]] >= 0:
                    refs += 1
    counts[0], counts[1] = vertices, refs


@kernel
def parts(
    todo: Any, fn: Any, ev: Any, alias: Any, inst_lo: Any, inst_op: Any, inst_site: Any, inst_turn: Any, static: Any,
    part_lo: Any, part_number: Any, part_static: Any, static_site: Any, static_mode: Any,
    part_turns: Any, turn_counts: Any, site_modes: Any, sites: int,
    op_row: Any, op_write: Any, row_table: Any, row_at: Any, op_first: Any, slots: Any, v_at: Any,
    v_txn: Any, v_part: Any, v_turn: Any, v_lo: Any, t_lo: Any,
    ref_op: Any, ref_mode: Any, ref_slot: Any, ref_table: Any, ref_row: Any, op_owner: Any,
) -> None:  # fmt: skip
    """Vertices of the transactions of `todo`, split into parts where their functions are and no row meets itself."""
    v, ref = 0, 0
    for i in range(len(todo)):
        t = todo[i]
        f = fn[t]
        t_lo[i] = v
        if alias[t] == 1 or part_lo[f] == part_lo[f + 1]:
            v_lo[v] = ref
            ref = _whole_vertex(
                v, t, fn, inst_lo, inst_op, op_row, op_write, row_table, row_at, op_first, v_txn, v_part, v_turn,
                ref, ref_op, ref_mode, ref_slot, ref_table, ref_row, op_owner,
            )  # fmt: skip
            v += 1
            continue
        for p in range(part_lo[f], part_lo[f + 1]):
            turns = turn_counts[part_turns[p] + ev[t]] if part_turns[p] >= 0 else 1
            for turn in range(turns):
                v_txn[v + turn], v_part[v + turn], v_turn[v + turn] = t, part_number[p], turn
                v_lo[v + turn + 1] = part_static[p + 1] - part_static[p]
            # The refs of each vertex: first how many, then where they begin, then the refs themselves.
            for k in range(inst_lo[t] + static[f], inst_lo[t + 1]):
                if site_modes[p * sites + inst_site[k]] >= 0:
                    v_lo[v + 1 + (inst_turn[k] if part_turns[p] >= 0 else 0)] += 1
            v_lo[v] = ref
            for turn in range(turns):
                v_at[v + turn] = ref
                ref += v_lo[v + turn + 1]
                v_lo[v + turn + 1] = ref
            for turn in range(turns):
                for s in range(part_static[p], part_static[p + 1]):
                    _part_ref(
                        v + turn, inst_op[inst_lo[t] + static_site[s]], static_mode[s], v_lo, v_at, op_first, op_row,
                        row_table, row_at, slots, ref_op, ref_mode, ref_slot, ref_table, ref_row, op_owner,
                    )  # fmt: skip
            for k in range(inst_lo[t] + static[f], inst_lo[t + 1]):
                mode = site_modes[p * sites + inst_site[k]]
                if mode >= 0:
                    _part_ref(
                        v + (inst_turn[k] if part_turns[p] >= 0 else 0), inst_op[k], mode, v_lo, v_at, op_first, op_row,
                        row_table, row_at, slots, ref_op, ref_mode, ref_slot, ref_table, ref_row, op_owner,
                    )  # fmt: skip
            v += turns
    t_lo[len(todo)] = v
    v_lo[v] = ref


@inlined
def _part_ref(
    v: int, o: int, mode: int, v_lo: Any, v_at: Any, op_first: Any, op_row: Any, row_table: Any, row_at: Any,
    slots: Any,
    ref_op: Any, ref_mode: Any, ref_slot: Any, ref_table: Any, ref_row: Any, op_owner: Any,
) -> None:  # fmt: skip
    ref = v_at[v]
    v_at[v] = ref + 1
    ref_op[ref], ref_mode[ref], ref_slot[ref], ref_table[ref] = o, mode, -1, -1
    if o < 0:
        return
    table = row_table[op_row[o]]
    ref_table[ref], ref_row[ref] = table, row_at[op_row[o]]
    # `op_first` may hold anything for an operation that this vertex has not met yet.
    first = op_first[o]
    if mode != READ and v_lo[v] <= first < ref and ref_op[first] == o:
        ref_mode[ref], ref_slot[ref] = SAME, first
        return
    op_first[o] = ref
    if mode == OWN:
        op_owner[o] = v
    elif mode == PRIVATE:
        ref_slot[ref] = slots[table]
        slots[table] += 1
