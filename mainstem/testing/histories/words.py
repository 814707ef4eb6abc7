"""What happened in a history, in words."""

from __future__ import annotations

import numpy as np

from mainstem.engine.history import QUERY_SEQ, History
from mainstem.testing.histories.graph import Graph, Kind

STEPS_TOLD_MAX = 12
"""Of a longer cycle the first steps are told, and the last one."""

_NAMES: dict[tuple[Kind, ...], str] = {
    (Kind.WR, Kind.RW): "read skew",
    (Kind.RW, Kind.RW): "write skew",
    (Kind.WR, Kind.WR): "circular read",
}


def transaction(history: History, number: int) -> str:
    seq = int(history.txn_seq[number])
    if seq == QUERY_SEQ:
        return f"query (transaction {number} of the history)"
    return f"transaction {seq} ({history.functions[int(history.txn_function[number])]})"


def version(history: History, number: int) -> str:
    """`number` as in `read_version`."""
    if number < 0:
        return f"version 0 of {history.row_name(-1 - number)}"
    place, name = int(history.write_place[number]), history.row_name(int(history.write_row[number]))
    if not history.write_final[number]:
        return f"an intermediate version of {name}"
    return f"version {place} of {name}" if place else f"a version of {name} that was never installed"


def edge(history: History, graph: Graph, number: int) -> str:
    """Why the source of an edge comes before its target."""
    before = transaction(history, int(graph.source[number]))
    after = transaction(history, int(graph.target[number]))
    via, kind = int(graph.via[number]), graph.kind[number]
    if kind == Kind.WW:
        new = int(history.write_place[via])
        row = history.row_name(int(history.write_row[via]))
        return f"{before} wrote {row} before {after} wrote version {new} of it"
    read = version(history, int(history.read_version[via]))
    if kind == Kind.WR:
        return f"{before} wrote {read}, which {after} read"
    return f"{before} read {read}, which {after} replaced"


def cycle(history: History, graph: Graph, edges: list[int]) -> str:
    """The steps of a cycle, one per line."""
    told = edges if len(edges) <= STEPS_TOLD_MAX else edges[: STEPS_TOLD_MAX - 1]
    lines = [edge(history, graph, number) for number in told]
    if told is not edges:
        lines += [f"… {len(edges) - STEPS_TOLD_MAX:,} more …", edge(history, graph, edges[-1])]
    return f"{_name(history, graph, edges)}\n" + "\n".join(lines)


def _name(history: History, graph: Graph, edges: list[int]) -> str:
    """What textbooks call the cycle, if anything."""
    kinds = tuple(sorted(Kind(graph.kind[number]) for number in edges))
    if kinds == (Kind.WW, Kind.RW) and len({_row(history, graph, number) for number in edges}) == 1:
        return "lost update"
    return _NAMES.get(kinds) or f"cycle of {len(edges):,} transactions"


def _row(history: History, graph: Graph, number: int) -> int:
    via = int(graph.via[number])
    if graph.kind[number] == Kind.WW:
        return int(history.write_row[via])
    read = int(history.read_version[via])
    return int(history.write_row[read]) if read >= 0 else -1 - read


def rows_installed(history: History, number: int) -> str:
    """How much of what a transaction wrote was installed."""
    own = (history.write_txn == number) & history.write_final
    return f"{np.count_nonzero(own & (history.write_place > 0))} of the {np.count_nonzero(own)} rows that it wrote"
