"""Memory of a run: the structures that its threads share, empty."""

from __future__ import annotations

import numpy as np

from mainstem.windows.operators.kernels.arrays import BEFORE_ALL, LEVELS, LINE, NOTHING, Out
from mainstem.windows.operators.kernels.cells import clear_cells
from mainstem.windows.operators.kernels.hive import (
    HEIGHT,
    HIVE_WORDS,
    LISTS,
    LOW,
    NEXT,
    NUMBER,
    POOL,
    POOL_TAIL,
    SPARE,
    WRITTEN,
    Hive,
)
from mainstem.windows.operators.kernels.queues import Queues
from mainstem.windows.operators.kernels.sorted import NEWEST, OLDEST, Winsets
from mainstem.windows.operators.prepare import Prepared

QUEUE_LENGTH = 1_024  # events that an input may be ahead
SPAN_MIN = 16  # windows that a writer may be ahead of the slowest, besides those of one event
OUT_ROWS, OUT_SETS = 1 << 16, 1 << 12  # results that are handed over at once


def new_queues(prepared: Prepared, *, locked: bool) -> Queues:
    inputs = prepared.inputs
    ring = np.empty((inputs, QUEUE_LENGTH), np.int64)
    return Queues(ring, words(inputs), words(inputs), words(inputs), words(inputs), locked)


def new_winsets(prepared: Prepared) -> Winsets:
    return Winsets(*_tables(prepared, windows_per_event(prepared)), open_windows())


def open_windows() -> np.ndarray:
    """None."""
    bounds = np.zeros(2, np.int64)
    bounds[OLDEST], bounds[NEWEST] = BEFORE_ALL, BEFORE_ALL - 1
    return bounds


def new_hive(prepared: Prepared, *, writers: int, threads: int) -> Hive:
    """Node 0 stands before all winsets; the others are free."""
    span = windows_per_event(prepared) + SPAN_MIN
    count = 2 * span + threads + LEVELS
    cells, used, nodes = _tables(prepared, count)
    nodes[NUMBER::LINE], nodes[HEIGHT::LINE] = BEFORE_ALL, LEVELS
    for level in range(LEVELS):
        nodes[NEXT + level :: LINE] = NOTHING
    hive = Hive(
        nodes, cells, used, words(writers), words(threads), np.zeros(HIVE_WORDS, np.int64),
        np.zeros((LISTS, max(count, threads)), np.int64), span,
    )  # fmt: skip
    hive.writers[WRITTEN::LINE], hive.threads[SPARE::LINE] = BEFORE_ALL, NOTHING
    hive.words[POOL_TAIL], hive.words[LOW] = count - 1, BEFORE_ALL
    hive.lists[POOL, : count - 1] = np.arange(1, count)
    return hive


def new_out(prepared: Prepared) -> Out:
    rows = max(OUT_ROWS, prepared.winset_max)
    number, end, ticks = (np.empty(OUT_SETS, np.int64) for _ in range(3))
    cell = np.empty((rows, 1 + len(prepared.shape.ops)), np.int64)
    return Out(np.empty(rows, np.int64), cell, number, end, ticks, np.zeros(2, np.int64))


def words(count: int, value: int = 0) -> np.ndarray:
    """`count` words with a cache line each."""
    return np.full(count * LINE, value, np.int64)


def windows_per_event(prepared: Prepared) -> int:
    return -(-prepared.shape.size // prepared.shape.advance)


def _tables(prepared: Prepared, tables: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(cells, used, heads) of free hash tables, at most half of which will be taken."""
    capacity = 1 << int(2 * prepared.winset_max - 1).bit_length()
    cells = np.empty(tables * capacity * (2 + len(prepared.shape.ops)), np.int64)
    clear_cells(cells, prepared.shape)
    return cells, np.empty(tables * capacity, np.int64), words(tables)
