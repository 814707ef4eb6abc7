"""Groups of vertices: those of one row, and groups that depend on each other in a cycle as one."""

from __future__ import annotations

from typing import Any

from .base import inlined, kernel
from .control import OWN


@inlined
def _home(v: int, v_lo: Any, ref_op: Any, ref_mode: Any, op_row: Any) -> int:
    """The row that a vertex belongs to: the first that it owns, else the first that it needs; -1 when it needs none."""
    first = -1
    for k in range(v_lo[v], v_lo[v + 1]):
        o = ref_op[k]
        if o < 0:
            continue
        if ref_mode[k] == OWN:
            return op_row[o]
        if first < 0:
            first = op_row[o]
    return first


@kernel
def group_by_row(
    v_lo: Any, ref_op: Any, ref_mode: Any, op_row: Any, row_group: Any, of: Any, group_row: Any
) -> int:  # fmt: skip
    """`of[v]`: the group of v; groups are numbered in order of their first vertices. Gives how many there are.

    `group_row[g]` is the local row of group g, -1 for a vertex that needs no row: it is a group of its own.
    `row_group` is scratch, one word per local row.
    """
    vertices = len(v_lo) - 1
    for v in range(vertices):
        row = _home(v, v_lo, ref_op, ref_mode, op_row)
        of[v] = row
        if row >= 0:
            row_group[row] = -1
    groups = 0
    for v in range(vertices):
        row = of[v]
        if row < 0 or row_group[row] < 0:
            group_row[groups] = row
            if row >= 0:
                row_group[row] = groups
            of[v] = groups
            groups += 1
        else:
            of[v] = row_group[row]
    return groups


@kernel
def unit_dependencies(
    of: Any, lo: Any, vertex: Any, dep_lo: Any, dep: Any, stamp: Any, unit_dep_lo: Any, unit_dep: Any
) -> int:  # fmt: skip
    """Lists the units that each unit depends on, each once, from the dependencies of vertices; gives how many in all.

    `vertex[lo[u] … lo[u + 1]]` are the vertices of unit u; `stamp` is scratch, one word per unit.
    """
    units = len(lo) - 1
    for u in range(units):
        stamp[u] = -1
    count = 0
    for u in range(units):
        unit_dep_lo[u] = count
        stamp[u] = u  # a unit is not in its own list
        for at in range(lo[u], lo[u + 1]):
            v = vertex[at]
            for k in range(dep_lo[v], dep_lo[v + 1]):
                d = of[dep[k]]
                if stamp[d] != u:
                    stamp[d] = u
                    unit_dep[count] = d
                    count += 1
    unit_dep_lo[units] = count
    return count


@kernel
def merge_cycles(
    dep_lo: Any, dep: Any, index: Any, low: Any, at: Any, path: Any, open_: Any, component: Any
) -> int:  # fmt: skip
    """`component[g]`: number of the cycle of groups that g is in. Gives how many there are.

    Tarjan's algorithm with a path of its own instead of recursion. It closes a component after all that it depends on,
    so components are numbered in topological order. All arrays but the first two have one word per group, and all of
    these but the last are scratch.
    """
    for g in range(len(component)):
        index[g] = -1
        component[g] = -1
    seen, components, waiting = 0, 0, 0
    for root in range(len(component)):
        if index[root] >= 0:
            continue
        depth = 0
        path[0] = root
        while depth >= 0:
            g = path[depth]
            if index[g] < 0:
                index[g] = low[g] = seen
                seen += 1
                at[g] = dep_lo[g]
                open_[waiting] = g
                waiting += 1
            if at[g] < dep_lo[g + 1]:
                d = dep[at[g]]
                at[g] += 1
                if index[d] < 0:
                    depth += 1
                    path[depth] = d
                elif component[d] < 0:
                    low[g] = min(low[g], index[d])
                continue
            if low[g] == index[g]:
                waiting = _close(g, waiting, open_, components, component)
                components += 1
            depth -= 1
            if depth >= 0:
                low[path[depth]] = min(low[path[depth]], low[g])
    return components


@inlined
def _close(g: int, waiting: int, open_: Any, number: int, component: Any) -> int:
    """Gives g and the groups that were opened after it their number; gives how many groups stay open."""
    while True:
        waiting -= 1
        component[open_[waiting]] = number
        if open_[waiting] == g:
            return waiting


@kernel
def relabel(of: Any, component: Any) -> None:
    """From the groups of vertices to the merged ones."""
    for v in range(len(of)):
        of[v] = component[of[v]]
