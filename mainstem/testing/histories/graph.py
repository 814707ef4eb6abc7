"""Adya's direct serialization graph of a history, and cycles in it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from mainstem.engine.history import History
from mainstem.testing.histories.kernels import closest_pair, order_by_source, strong_components
from mainstem.testing.histories.versions import Versions

SEARCH_EDGES_MAX = 20_000_000
"""So many edges are looked at to find a shortest cycle of one knot: a few tenths of a second."""


class Kind(IntEnum):
    """Why one transaction comes before another."""

    WW = 0  # it installed a version, the other one the next version of the row
    WR = 1  # it installed a version that the other one read
    RW = 2  # it read a version, and the other one installed the next version of the row


@dataclass(frozen=True)
class Graph:
    """Edges between transactions: columns `source`, `target`, `kind`, and `via`, the later version (ww) or the read."""

    nodes: int
    source: np.ndarray  # int32
    target: np.ndarray  # int32
    kind: np.ndarray  # int8
    via: np.ndarray  # int32

    @property
    def edges(self) -> int:
        return len(self.source)

    def part(self, chosen: np.ndarray) -> Graph:
        """The same nodes with some of the edges."""
        return Graph(self.nodes, self.source[chosen], self.target[chosen], self.kind[chosen], self.via[chosen])

    @cached_property
    def _by_source(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Edges ordered by their source: where those of each node begin, edges, their targets."""
        heads = np.zeros(self.nodes + 1, np.int64)
        edge_at = np.empty(self.edges, np.int32)
        order_by_source(self.source, heads, edge_at)
        return heads, edge_at, self.target[edge_at]

    @cached_property
    def knot(self) -> np.ndarray:
        """The strongly connected component of every node, as a number."""
        heads, _, targets = self._by_source
        knot = np.full(self.nodes, -1, np.int32)
        seen = np.zeros(self.nodes, np.int32)
        low, open_nodes, path = np.empty((3, self.nodes), np.int32)
        strong_components(heads, targets, knot, seen, low, open_nodes, path, heads[:-1].copy())
        return knot

    @cached_property
    def on_cycle(self) -> np.ndarray:
        """Per edge, whether it lies on a cycle."""
        return self.knot[self.source] == self.knot[self.target]

    def shortest_cycle(self, through: np.ndarray) -> list[int]:
        """A shortest cycle through one of these edges, all of which lie on cycles: its edges, that one first."""
        heads, edge_at, targets = self._by_source
        stamps = np.zeros(self.nodes, np.int64)
        queue, arrived_by = np.empty((2, self.nodes), np.int64)
        begins, ends = self.target[through], self.source[through]
        work = np.zeros(1, np.int64)
        longest, budget = self.nodes, SEARCH_EDGES_MAX
        pair = closest_pair(heads, targets, begins, ends, longest, budget, stamps, queue, arrived_by, work)
        back: list[int] = []
        node = int(ends[pair])
        while node != begins[pair]:
            back.append(int(edge_at[arrived_by[node]]))
            node = int(self.source[back[-1]])
        return [int(through[pair]), *reversed(back)]


def serialization_graph(history: History, versions: Versions, readers: np.ndarray) -> Graph:
    """All ww, wr and rw edges between different transactions; reads count where `readers` (per transaction) is true.

    Within the edges of one transaction, ww come first and rw last, so that a search prefers the plainer reason.
    """
    writer = history.write_txn
    earlier, later = versions.consecutive
    reads = np.flatnonzero(readers[history.read_txn])
    version = history.read_version[reads]
    reader = history.read_txn[reads]
    of_installed = versions.are_current(version)
    next_version = versions.next_of(version)
    replaced = next_version >= 0
    parts = [
        (writer[earlier], writer[later], Kind.WW, later),
        (writer[version[of_installed]], reader[of_installed], Kind.WR, reads[of_installed]),
        (reader[replaced], writer[next_version[replaced]], Kind.RW, reads[replaced]),
    ]
    source = np.concatenate([part[0] for part in parts]).astype(np.int32)
    target = np.concatenate([part[1] for part in parts]).astype(np.int32)
    kind = np.repeat(np.array([part[2] for part in parts], np.int8), [len(part[0]) for part in parts])
    via = np.concatenate([part[3] for part in parts]).astype(np.int32)
    return Graph(history.transactions, source, target, kind, via).part(source != target)
