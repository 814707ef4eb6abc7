"""Compiled structures under real threads: no event is lost, doubled, early or out of order, and memory is bounded."""

from __future__ import annotations

import random
import threading
import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from mainstem.gate.live.kernels import queues, skiplist, tgate

SECONDS_MAX = 300.0  # of a run: a lost event would be waited for without end
NODE_BYTES_MAX = 160  # per place of a ring, with all that belongs to it


def feed(kernels: ModuleType, shared: Any, runs: list[np.ndarray], mine: list[int], seed: int, deadline: float) -> None:
    chosen = random.Random(seed)
    at = dict.fromkeys(mine, 0)
    while at and time.monotonic() < deadline:
        number = chosen.choice(list(at))
        end = min(at[number] + chosen.choice([1, 3, 50, 300]), len(runs[number]))
        at[number] = kernels.insert_rows(shared, number, runs[number], at[number], end, 0)
        if at[number] == len(runs[number]):
            kernels.close_input(shared, number)
            del at[number]


def drain(kernels: ModuleType, shared: Any, reader: int, total: int, found: list[np.ndarray], deadline: float) -> None:
    taken = 0
    while taken < total and time.monotonic() < deadline:
        inputs, ts = np.zeros(256, np.int64), np.zeros(256, np.int64)
        count = kernels.take_ready(shared, reader, inputs, ts)
        found.append(np.stack([ts[:count], inputs[:count]]))
        taken += count


def run(kernels: ModuleType, ring: int, inputs: int, events: int, seed: int, readers: int = 1) -> None:
    steps = np.random.default_rng(seed)
    runs = [np.cumsum(steps.integers(0, 4, events // inputs)) for _ in range(inputs)]
    assert events // inputs > 20 * ring  # nodes are used again and again
    shared = kernels.create(inputs, ring, readers) if readers > 1 else kernels.create(inputs, ring)
    size = sum(part.nbytes for part in shared if isinstance(part, np.ndarray))
    assert size <= NODE_BYTES_MAX * inputs * ring + 4096 * (inputs + readers)
    total, deadline = sum(map(len, runs)), time.monotonic() + SECONDS_MAX
    found: list[list[np.ndarray]] = [[] for _ in range(readers)]
    threads = [
        threading.Thread(target=feed, args=(kernels, shared, runs, list(range(w, inputs, 2)), seed + w, deadline))
        for w in range(2)
    ]
    threads += [
        threading.Thread(target=drain, args=(kernels, shared, r, total, found[r], deadline)) for r in range(readers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert time.monotonic() < deadline, "an event was lost, or the machine is too busy"
    number = np.repeat(np.arange(inputs), [len(r) for r in runs])
    ts = np.concatenate(runs)
    order = np.lexsort((number, ts))
    for of_reader in found:
        assert np.array_equal(np.concatenate(of_reader, axis=1), np.stack([ts[order], number[order]]))


@pytest.mark.parametrize("kernels", [tgate, skiplist, queues], ids=lambda k: k.__name__.split(".")[-1])
@pytest.mark.parametrize(("ring", "inputs", "events"), [(8, 7, 10_000), (64, 20, 100_000), (1024, 5, 200_000)])
def test_every_event_once_and_in_order(kernels: ModuleType, ring: int, inputs: int, events: int) -> None:
    run(kernels, ring, inputs, events, seed=inputs)


@pytest.mark.parametrize(("ring", "events"), [(8, 10_000), (256, 100_000)])
def test_every_reader_gets_every_event(ring: int, events: int) -> None:
    run(tgate, ring, 5, events, 1, readers=3)


@pytest.mark.long
@pytest.mark.parametrize("kernels", [tgate, skiplist, queues], ids=lambda k: k.__name__.split(".")[-1])
@pytest.mark.parametrize(
    ("ring", "inputs", "events"), [(8, 2, 500_000), (8, 20, 2_000_000), (64, 20, 2_000_000), (4096, 20, 2_000_000)]
)
def test_every_event_once_and_in_order_in_long_runs(kernels: ModuleType, ring: int, inputs: int, events: int) -> None:
    run(kernels, ring, inputs, events, 7)
