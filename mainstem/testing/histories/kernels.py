"""Graph algorithms of the history checker, as plain loops over arrays (see `mainstem/jit.py`)."""

from __future__ import annotations

import numpy as np

from mainstem.jit import kernel


@kernel
def order_by_source(source: np.ndarray, heads: np.ndarray, edge_at: np.ndarray) -> None:
    """Edges of node n become `edge_at[heads[n]:heads[n + 1]]`, in their given order. `heads` comes in as zeros."""
    for edge in range(len(source)):
        heads[source[edge] + 1] += 1
    for node in range(len(heads) - 1):
        heads[node + 1] += heads[node]
    for edge in range(len(source)):  # moves the head of each node to its end, which is the head of the next
        node = source[edge]
        edge_at[heads[node]] = edge
        heads[node] += 1
    for node in range(len(heads) - 1, 0, -1):
        heads[node] = heads[node - 1]
    heads[0] = 0


@kernel
def strong_components(
    heads: np.ndarray,
    targets: np.ndarray,
    component: np.ndarray,
    seen: np.ndarray,
    low: np.ndarray,
    open_nodes: np.ndarray,
    path: np.ndarray,
    cursor: np.ndarray,
) -> int:
    """Tarjan's algorithm without recursion: numbers the strongly connected component of every node; gives how many.

    `component` comes in as -1 and `seen` as 0 everywhere, `cursor` as a copy of `heads`; the rest is scratch of the
    same length.
    """
    components = visited = opened = 0
    for root in range(len(component)):
        if seen[root] != 0:
            continue
        visited += 1
        seen[root] = low[root] = visited
        open_nodes[opened] = path[0] = root
        opened += 1
        depth = 1
        while depth > 0:
            node = path[depth - 1]
            if cursor[node] < heads[node + 1]:
                target = targets[cursor[node]]
                cursor[node] += 1
                if seen[target] == 0:
                    visited += 1
                    seen[target] = low[target] = visited
                    open_nodes[opened] = path[depth] = target
                    opened += 1
                    depth += 1
                elif component[target] < 0:
                    low[node] = min(low[node], seen[target])
                continue
            depth -= 1
            if depth > 0:
                low[path[depth - 1]] = min(low[path[depth - 1]], low[node])
            if low[node] == seen[node]:
                member = -1
                while member != node:
                    opened -= 1
                    member = open_nodes[opened]
                    component[member] = components
                components += 1
    return components


@kernel
def way_back(
    heads: np.ndarray,
    targets: np.ndarray,
    begin: int,
    end: int,
    longest: int,
    stamp: int,
    stamps: np.ndarray,
    queue: np.ndarray,
    arrived_by: np.ndarray,
    work: np.ndarray,
) -> int:
    """Length of the shortest path from `begin` to `end`, 0 when none has at most `longest` edges.

    `arrived_by[n]` is the position in `targets` by which node n was reached first. `stamp` is new for every call, so
    that nothing has to be cleared; `work[0]` grows by the edges that were looked at.
    """
    first, last, level_end, length = 0, 1, 1, 1
    queue[0] = begin
    stamps[begin] = stamp
    while first < last and length <= longest:
        node = queue[first]
        first += 1
        for position in range(heads[node], heads[node + 1]):
            work[0] += 1
            target = targets[position]
            if stamps[target] == stamp:
                continue
            stamps[target] = stamp
            arrived_by[target] = position
            if target == end:
                return length
            queue[last] = target
            last += 1
        if first == level_end:
            level_end = last
            length += 1
    return 0


@kernel
def closest_pair(
    heads: np.ndarray,
    targets: np.ndarray,
    begins: np.ndarray,
    ends: np.ndarray,
    longest: int,
    budget: int,
    stamps: np.ndarray,
    queue: np.ndarray,
    arrived_by: np.ndarray,
    work: np.ndarray,
) -> int:
    """The pair whose path `begins[i]` → `ends[i]` is shortest; every pair has one. `arrived_by` then describes it.

    Tries all pairs with paths of one edge, then of up to two, and so on: what is found first is shortest. When the
    budget of edges to look at is used up, the path of the first pair has to do.
    """
    stamp = 0
    for length in range(1, longest + 1):
        for pair in range(len(begins)):
            if work[0] > budget:
                break
            stamp += 1
            if way_back(heads, targets, begins[pair], ends[pair], length, stamp, stamps, queue, arrived_by, work) > 0:
                return pair
    way_back(heads, targets, begins[0], ends[0], len(stamps), stamp + 1, stamps, queue, arrived_by, work)
    return 0
