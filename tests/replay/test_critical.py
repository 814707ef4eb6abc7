"""The critical path of a batch, against chains counted by hand and by a plain loop."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import by_hand
import numpy as np
import pyarrow as pa
import pytest
from replay_support import batches_of

import mainstem as ms
from mainstem.gate import EventBatch, open_events
from mainstem.lang.dataflow import Dataflow
from mainstem.replay.critical import critical_paths, paths_by_size
from mainstem.replay.keys import staged


def flow_of(function: Callable[[Any], Any]) -> Dataflow:
    """A program of one function, over the tables of this module."""
    app = ms.App(function.__name__)
    app.event(Pair)
    app._tables.update(A=A, B=B)
    app.on("Pair")(function)
    return staged(app.spec)


tables = ms.App("tables")


@tables.table(key=int)
class A:
    n: int = 0


@tables.table(key=int)
class B:
    n: int = 0


class Pair:
    a: int
    b: int


def counts(e):
    A[e.a].n += 1


def sets(e):
    A[e.a].n = e.b


def looks(e):
    return {"n": A[e.a].n}


def sets_or_looks(e):
    if e.b > 0:
        A[e.a].n = e.b
    return {"n": B[e.a].n}


def hands_on(e):
    A[e.a].n += 1
    B[e.b].n += A[e.a].n


def moves(e):
    ms.require(A[e.a].n >= 0, "empty")
    A[e.a].n -= 1
    A[e.b].n += 1


def computes_its_key(e):
    A[e.a % 2].n += e.b


def loops(e):
    for k in range(e.a, e.b):
        A[k].n += 1


def paths(function: Callable[[Any], Any], pairs: list[tuple[int, int]], size: int = 1_000) -> list[int]:
    flow = flow_of(function)
    return critical_paths(flow, batches_of(flow, log(pairs), size))


def log(pairs: list[tuple[int, int]]) -> pa.Table:
    first, second = zip(*pairs, strict=True)
    return pa.table({"ts": np.arange(len(pairs)), "a": first, "b": second})


@pytest.mark.parametrize(
    ("function", "pairs", "expected"),
    [
        (counts, [(1, 0)] * 7, 7),
        (counts, [(n, 0) for n in range(7)], 1),
        (counts, [(1, 0), (2, 0), (1, 0)], 2),
        (sets, [(1, 0)] * 7, 1),  # no write needs the one before it
        (looks, [(1, 0)] * 7, 1),  # no read needs another
        (hands_on, [(1, 1)], 2),
        (hands_on, [(1, 1), (1, 2), (1, 3)], 4),  # three times A[1], then B[3]
        (hands_on, [(1, 5), (2, 5), (3, 5)], 4),  # A[1], then three times B[5]
        (moves, [(1, 2), (2, 3), (3, 4)], 3),
        (moves, [(1, 2), (3, 4), (5, 6)], 1),
        (moves, [(1, 2), (3, 4), (2, 3)], 2),
        (computes_its_key, [(1, 1), (3, 1), (5, 1), (2, 1)], 3),
        (loops, [(0, 3), (3, 6), (2, 4), (9, 9)], 2),
        (loops, [(0, 3), (2, 6), (5, 8)], 3),
    ],
)
def test_chains_counted_by_hand(function: Callable[[Any], Any], pairs: list[tuple[int, int]], expected: int) -> None:
    assert paths(function, pairs) == [expected]


def test_every_batch_starts_anew() -> None:
    assert paths(counts, [(1, 0)] * 10, size=4) == [4, 4, 2]


def test_nothing_has_no_path() -> None:
    flow = flow_of(counts)
    none = EventBatch(np.zeros(0, np.uint8), np.zeros(0, np.int64), [None], ())
    assert critical_paths(flow, [none]) == [0]
    assert critical_paths(flow, []) == []


def walked(pairs: list[tuple[int, int]]) -> int:
    """`hands_on`, access by access."""
    in_a: dict[int, int] = {}
    in_b: dict[int, int] = {}
    longest = 0
    for a, b in pairs:
        in_a[a] = in_a.get(a, 0) + 1
        in_b[b] = max(in_a[a], in_b.get(b, 0)) + 1
        longest = max(longest, in_b[b])
    return longest


def moved(pairs: list[tuple[int, int]]) -> int:
    """`moves`: one access meets both rows."""
    last: dict[int, int] = {}
    for a, b in pairs:
        last[a] = last[b] = max(last.get(a, 0), last.get(b, 0)) + 1
    return max(last.values())


@pytest.mark.parametrize(("function", "reference"), [(hands_on, walked), (moves, moved)])
def test_equals_a_plain_loop(function: Callable[[Any], Any], reference: Callable[[list[tuple[int, int]]], int]) -> None:
    flow = flow_of(function)
    for seed in range(20):
        draw = random.Random(seed)
        keys = draw.choice([2, 5, 40])
        pairs = [(draw.randrange(keys), draw.randrange(keys)) for _ in range(200)]
        for size in (200, 50, 7):
            expected = [reference(pairs[first : first + size]) for first in range(0, 200, size)]
            assert critical_paths(flow, batches_of(flow, log(pairs), size)) == expected


def test_sizes_of_one_batch_equal_batches_of_that_size() -> None:
    flow = flow_of(hands_on)
    draw = random.Random(3)
    events = log([(draw.randrange(9), draw.randrange(9)) for _ in range(100)])
    (whole,) = batches_of(flow, events, 100)
    found = paths_by_size(flow, whole, [100, 30, 7])
    assert found[30] == critical_paths(flow, batches_of(flow, events, 30))[:3]  # the last ten make no batch of thirty
    assert [len(found[size]) for size in (100, 30, 7)] == [1, 3, 14]


def test_pieces_of_several_events_and_tables() -> None:
    flow = by_hand.flow()
    events = by_hand.events(seed=1, count=300, users=3)
    (found,) = critical_paths(flow, batches_of(flow, events, 300))
    mails = [row for row in events.to_pylist() if row["event"] == "Mail"]
    by_sender = max(sum(mail["who"] == who for mail in mails) for who in range(10))
    by_host = max(sum(mail["host"] == host for mail in mails) for host in {mail["host"] for mail in mails})
    assert max(by_sender, by_host) <= found <= len(events) + 2 * len(mails)


def test_what_a_stage_does_not_touch_makes_no_chain() -> None:
    """A blind write and a read of another table in one function: neither waits for anything."""
    flow = flow_of(sets_or_looks)
    stream, _ = open_events(log([(1, 1)] * 5), flow.program.events)
    assert critical_paths(flow, stream) == [1]
