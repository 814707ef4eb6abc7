"""The checker against trying out every order: a level holds just when some order explains what was read and written."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from itertools import permutations
from random import Random

import numpy as np
import pytest

from mainstem.engine.history import History
from mainstem.testing import check_history
from mainstem.testing.histories import LEVELS, scheduled_history
from mainstem.testing.histories.graph import Graph, Kind


def random_history(random: Random, transactions: int) -> History:
    """Any reads and any order of writes: mostly broken somehow."""
    builder = History.build()
    running = [builder.begin() if random.random() < 0.8 else builder.query() for _ in range(transactions)]
    rows = range(random.randint(1, 3))
    for one in running:
        if builder.begun[one.number][0] >= 0:
            for row in rows:
                for _ in range(random.choice((0, 0, 1, 1, 1, 2)) if random.random() < 0.5 else 0):
                    one.write(row)
    for one in random.sample(running, len(running)):
        for row in rows:
            makers = [builder.start, *(other for other in running if row in other.own)]
            if random.random() < 0.3:
                one.read(row, of=random.choice(makers))
    ends = [(one, row) for one in running for row in one.own]
    aborting = {one.number for one in running if random.random() < 0.1}
    for one, row in random.sample(ends, len(ends)):
        if one.number not in aborting:
            one.install(row)
    for one in running:
        one.abort() if one.number in aborting else one.commit()
    return builder.done()


def disturbed_history(random: Random, transactions: int) -> History:
    """A clean history of some level in which one read is another one: often still clean."""
    history = scheduled_history(random.choice(LEVELS), random.randrange(10**6), transactions=transactions, rows=3)
    if not history.reads:
        return history
    read = random.randrange(history.reads)
    old = int(history.read_version[read])
    row = int(history.write_row[old]) if old >= 0 else -1 - old
    changed = history.read_version.copy()
    changed[read] = random.choice([-1 - row, *np.flatnonzero(history.write_row == row)])
    return dataclasses.replace(history, read_version=changed)


def holds_in_some_order(history: History, level: str) -> bool:
    committed = np.flatnonzero(history.txn_committed).tolist()
    return any(explains(history, level, order) for order in orders(history, level, committed))


def orders(history: History, level: str, committed: list[int]) -> Iterator[Sequence[int]]:
    events = [one for one in committed if history.txn_seq[one] >= 0]
    for order in permutations(committed):
        if level != "PL4" or [one for one in order if history.txn_seq[one] >= 0] == events:
            yield order


def explains(history: History, level: str, order: Sequence[int]) -> bool:
    """Whether a serial run in this order makes versions in their places, with reads as the level asks."""
    content: dict[int, int] = {}  # row: version
    earlier: set[int] = set()
    for one in order:
        for version in history.read_version[history.read_txn == one].tolist():
            if version >= 0 and history.write_txn[version] == one:
                continue
            row = int(history.write_row[version]) if version >= 0 else -1 - version
            if level == "PL2" and version >= 0:
                if history.write_txn[version] not in earlier or not history.write_final[version]:
                    return False
            elif level in ("PL3", "PL4") and content.get(row, -1 - row) != version:
                return False
        for version in np.flatnonzero((history.write_txn == one) & history.write_final).tolist():
            row = int(history.write_row[version])
            place_before = history.write_place[content[row]] if row in content else 0
            if history.write_place[version] != place_before + 1:
                return False
            content[row] = version
        earlier.add(one)
    return True


def compare(source: str, seeds: range, share_of_six: float) -> None:
    """Two to five transactions each, sometimes six: that takes six times as long as five."""
    verdicts: dict[str, set[bool]] = {level: set() for level in LEVELS}
    for seed in seeds:
        random = Random(f"{source} {seed}")
        make = random_history if source == "random" else disturbed_history
        history = make(random, 6 if random.random() < share_of_six else random.randint(2, 5))
        for level in LEVELS:
            report = check_history(history, level)
            assert report.ok == holds_in_some_order(history, level), f"{source} {seed}: {report}\n{history}"
            verdicts[level].add(report.ok)
    both = {True, False}
    assert all(verdicts[level] == both for level in (LEVELS if source == "random" else LEVELS[1:]))


@pytest.mark.parametrize("source", ["random", "disturbed"])
def test_a_level_holds_when_some_order_explains_the_history(source: str) -> None:
    compare(source, range(400), share_of_six=0.05)


@pytest.mark.long
@pytest.mark.parametrize("source", ["random", "disturbed"])
def test_many_small_histories_against_all_orders(source: str) -> None:
    compare(source, range(1_000, 6_000), share_of_six=0.5)


def random_graph(random: Random) -> Graph:
    nodes = random.randint(2, 9)
    dense = random.choice((0.1, 0.2, 0.4))
    pairs = [(a, b) for a in range(nodes) for b in range(nodes) if a != b and random.random() < dense]
    source, target = np.array(pairs, np.int32).reshape(-1, 2).T.copy()
    kind = np.array([random.choice(list(Kind)) for _ in pairs], np.int8)
    return Graph(nodes, source, target, kind, np.arange(len(pairs), dtype=np.int32))


def distances(graph: Graph) -> np.ndarray:
    """Edges on the shortest path between all pairs of nodes (Floyd and Warshall)."""
    far = np.full((graph.nodes, graph.nodes), graph.nodes + 1)
    np.fill_diagonal(far, 0)
    far[graph.source, graph.target] = 1
    for middle in range(graph.nodes):
        far = np.minimum(far, far[:, middle, None] + far[None, middle, :])
    return far


def test_knots_and_witnesses_against_all_distances() -> None:
    cycles = 0
    for seed in range(400):
        graph = random_graph(Random(seed))
        far = distances(graph)
        back = far[graph.target, graph.source]
        assert (graph.on_cycle == (back <= graph.nodes)).all(), seed
        through = np.flatnonzero(graph.on_cycle & (graph.kind == Kind.RW))
        if not len(through):
            continue
        cycles += 1
        cycle = graph.shortest_cycle(through)
        assert cycle[0] in through
        assert len(cycle) == 1 + back[through].min(), seed
        follows = [*cycle[1:], cycle[0]]
        assert (graph.target[cycle] == graph.source[follows]).all(), seed
    assert cycles > 100
