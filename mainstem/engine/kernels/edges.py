"""Dependencies between vertices as lists: those of item x are `items[lo[x] … lo[x + 1]]`."""

from __future__ import annotations

from typing import Any

from .base import kernel


@kernel
def index_vertices(t_lo: Any, v_index: Any) -> None:
    """`v_index[v]` = i for the vertices of transaction i."""
    for i in range(len(t_lo) - 1):
        for v in range(t_lo[i], t_lo[i + 1]):
            v_index[v] = i


@kernel
def find_dependencies(
    v_lo: Any, ref_op: Any, op_prev: Any, op_owner: Any, stamp: Any, dep_lo: Any, dep: Any
) -> int:  # fmt: skip
    """Lists the vertices that each vertex depends on, each once; gives how many that are in all.

    A vertex depends on the owner of the last version before each of its refs. `dep` needs room for one entry per ref,
    `stamp` one word per vertex: `stamp[d] == v` says that d is in the list of v.
    """
    vertices = len(v_lo) - 1
    for v in range(vertices):
        stamp[v] = -1
    count = 0
    for v in range(vertices):
        dep_lo[v] = count
        for k in range(v_lo[v], v_lo[v + 1]):
            o = ref_op[k]
            if o < 0 or op_prev[o] < 0:
                continue
            d = op_owner[op_prev[o]]
            if stamp[d] != v:
                stamp[d] = v
                dep[count] = d
                count += 1
    dep_lo[vertices] = count
    return count


@kernel
def transpose(lo: Any, items: Any, out_lo: Any, out: Any) -> None:
    """The same pairs the other way round: x is in the new list of y when y was in that of x; new lists ascend."""
    for y in range(len(out_lo)):
        out_lo[y] = 0
    for k in range(lo[len(lo) - 1]):
        out_lo[items[k]] += 1
    _ends(out_lo)
    # From the back, so that each list fills from its end to its beginning and `out_lo` is right when all is done.
    for x in range(len(lo) - 2, -1, -1):
        for k in range(lo[x], lo[x + 1]):
            y = items[k]
            out_lo[y] -= 1
            out[out_lo[y]] = x


@kernel
def bucket(of: Any, lo: Any, items: Any) -> None:
    """Lists the items of each bucket, ascending; `of[x]` is the bucket of item x."""
    for b in range(len(lo)):
        lo[b] = 0
    for x in range(len(of)):
        lo[of[x]] += 1
    _ends(lo)
    for x in range(len(of) - 1, -1, -1):
        lo[of[x]] -= 1
        items[lo[of[x]]] = x


@kernel
def _ends(counts: Any) -> None:
    """Counts become the position behind each list."""
    total = 0
    for b in range(len(counts)):
        total += counts[b]
        counts[b] = total
