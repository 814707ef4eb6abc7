"""Which anomalies a history has: Adya's G0, G1a, G1b, G1c and G2, order violations, half-installed transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

import numpy as np

from mainstem.engine.history import QUERY_SEQ, History
from mainstem.testing.histories import words
from mainstem.testing.histories.graph import Graph, Kind, serialization_graph
from mainstem.testing.histories.report import Anomaly, Report, check_level
from mainstem.testing.histories.versions import order_versions

WITNESSES_MAX = 10
"""So many witnesses of one kind of anomaly are put into words; the rest is counted."""

# The edges that a cycle of each kind consists of, and the one that it must have.
_CYCLES = {"G0": ((Kind.WW,), Kind.WW), "G1c": ((Kind.WW, Kind.WR), Kind.WR), "G2": (tuple(Kind), Kind.RW)}


def check_history(history: History, level: str = "PL4", *, aborted: bool = False) -> Report:
    """Looks for anomalies; `report.ok` says that none was found that `level` ("PL1" … "PL4") forbids.

    With `aborted`, what aborted transactions read counts like the reads of queries. Adya's levels leave it open; but
    whoever acts on an abort relies on it. Raises HistoryError when the history contradicts itself.
    """
    check_level(level)
    versions = order_versions(history)
    readers = history.txn_committed | aborted
    graph = serialization_graph(history, versions, readers)
    search = _Search(history)
    search.atomicity()
    search.dirty_reads(readers)
    search.cycles(graph)
    search.order(graph)
    return Report(level, history.transactions, tuple(search.found), search.counts)


class _Search:
    """One pass over a history; collects what it finds."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.found: list[Anomaly] = []
        self.counts: dict[str, int] = {}

    def atomicity(self) -> None:
        """Versions that are installed though they must not be, and the other way round."""
        history = self.history
        committed, installed = history.txn_committed[history.write_txn], history.write_place > 0
        self._add("ATOMICITY", np.flatnonzero(installed & ~committed), self._undone_but_installed)
        self._add("ATOMICITY", np.flatnonzero(installed & committed & ~history.write_final), self._half_made)
        self._add("ATOMICITY", np.flatnonzero(~installed & committed & history.write_final), self._half_installed)

    def dirty_reads(self, readers: np.ndarray) -> None:
        """Reads of versions that no committed transaction left behind."""
        history = self.history
        reads = np.flatnonzero(readers[history.read_txn] & (history.read_version >= 0))
        version = history.read_version[reads]
        writer = history.write_txn[version]
        others = writer != history.read_txn[reads]
        undone = ~history.txn_committed[writer]
        self._add("G1a", reads[others & undone], self._undone)
        self._add("G1b", reads[others & ~undone & ~history.write_final[version]], self._intermediate)

    def cycles(self, graph: Graph) -> None:
        """Cycles of each kind: first whether there is any at all, which takes the time; then in what lies on some."""
        knotted = graph.part(graph.on_cycle)
        if not knotted.edges:
            return
        for kind, (allowed, needed) in _CYCLES.items():
            part = knotted.part(np.isin(knotted.kind, allowed))
            shown = np.flatnonzero(part.on_cycle & (part.kind == needed))
            self.counts[kind] = len(shown)
            for through in islice(_by_knot(part, shown), WITNESSES_MAX):
                edges = part.shortest_cycle(through)
                members = tuple(int(part.source[number]) for number in edges)
                self.found.append(Anomaly(kind, words.cycle(self.history, part, edges), members))

    def order(self, graph: Graph) -> None:
        """Edges against event order, and queries that saw one event and not an earlier one.

        Edges on cycles are left out: no order satisfies them, and they are told as cycles.
        """
        place = event_places(self.history.txn_seq)
        source, target = place[graph.source], place[graph.target]
        backwards = (target >= 0) & (source > target) & ~graph.on_cycle
        self._add("ORDER", np.flatnonzero(backwards), lambda number: self._against_order(graph, [number]))
        self._out_of_order_queries(graph, source, target)

    def _out_of_order_queries(self, graph: Graph, source: np.ndarray, target: np.ndarray) -> None:
        seen = np.flatnonzero((target < 0) & ~graph.on_cycle)
        missed = np.flatnonzero((source < 0) & ~graph.on_cycle)
        last_seen = np.full(graph.nodes, -1, np.int64)
        first_missed = np.full(graph.nodes, graph.nodes, np.int64)
        np.maximum.at(last_seen, graph.target[seen], source[seen])
        np.minimum.at(first_missed, graph.source[missed], target[missed])
        wrong = np.flatnonzero((first_missed < last_seen) & (self.history.txn_seq == QUERY_SEQ))

        def tell(query: int) -> Anomaly:
            last = seen[(graph.target[seen] == query) & (source[seen] == last_seen[query])][0]
            first = missed[(graph.source[missed] == query) & (target[missed] == first_missed[query])][0]
            return self._against_order(graph, [int(last), int(first)])

        self._add("ORDER", wrong, tell)

    def _add(self, kind: str, places: np.ndarray, tell: Callable[[int], Anomaly]) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + len(places)
        self.found += [tell(int(place)) for place in places[:WITNESSES_MAX]]

    def _undone_but_installed(self, version: int) -> Anomaly:
        writer = int(self.history.write_txn[version])
        text = f"aborted, and installed {words.version(self.history, version)}"
        return Anomaly("ATOMICITY", f"{words.transaction(self.history, writer)} {text}", (writer,))

    def _half_made(self, version: int) -> Anomaly:
        writer = int(self.history.write_txn[version])
        place = self.history.write_place[version]
        text = f"installed {words.version(self.history, version)}, as version {place}"
        return Anomaly("ATOMICITY", f"{words.transaction(self.history, writer)} {text}", (writer,))

    def _half_installed(self, version: int) -> Anomaly:
        history, writer = self.history, int(self.history.write_txn[version])
        row = history.row_name(int(history.write_row[version]))
        text = f"committed without {row}: {words.rows_installed(history, writer)} were installed"
        return Anomaly("ATOMICITY", f"{words.transaction(history, writer)} {text}", (writer,))

    def _undone(self, read: int) -> Anomaly:
        reader, writer, text, made_by = self._read(read)
        return Anomaly("G1a", f"{text}, made by {made_by}, which aborted", (reader, writer))

    def _intermediate(self, read: int) -> Anomaly:
        reader, writer, text, made_by = self._read(read)
        return Anomaly("G1b", f"{text}, which {made_by} replaced itself", (reader, writer))

    def _read(self, read: int) -> tuple[int, int, str, str]:
        """Who read, who wrote; and both in words."""
        history = self.history
        reader, version = int(history.read_txn[read]), int(history.read_version[read])
        writer = int(history.write_txn[version])
        text = f"{words.transaction(history, reader)} read {words.version(history, version)}"
        return reader, writer, text, words.transaction(history, writer)

    def _against_order(self, graph: Graph, edges: list[int]) -> Anomaly:
        members = dict.fromkeys(int(node) for number in edges for node in (graph.source[number], graph.target[number]))
        text = "\n".join(words.edge(self.history, graph, number) for number in edges)
        return Anomaly("ORDER", f"against event order\n{text}", tuple(members))


def event_places(seq: np.ndarray) -> np.ndarray:
    """Each transaction's place in event order, -1 for queries. Those of one event have the order of the history."""
    events = np.flatnonzero(seq != QUERY_SEQ)
    if np.any(np.diff(seq[events]) < 0):
        events = events[np.argsort(seq[events], kind="stable")]
    place = np.full(len(seq), -1, np.int64)
    place[events] = np.arange(len(events))
    return place


def _by_knot(graph: Graph, edges: np.ndarray) -> Iterator[np.ndarray]:
    """The given edges of one knot after the other, smallest knots first: they tell more."""
    knot = graph.knot[graph.source[edges]]
    size = np.bincount(graph.knot)
    order = np.lexsort((edges, knot, size[knot]))
    cuts = np.flatnonzero(np.diff(knot[order])) + 1
    if len(edges):
        yield from np.split(edges[order], cuts)
