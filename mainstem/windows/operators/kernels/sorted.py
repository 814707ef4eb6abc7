"""Windows over events that come in their total order: all winsets belong to the one thread that reads the order.

Used by the queues and by the single consumer of a T-Gate. The windows that one event belongs to follow each other, so
the open ones fit into a ring: window n has the table `n % tables`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import LINE, Events, Out, Shape
from .base import inlined
from .cells import cell_of, emit, fold

OLDEST, NEWEST = 0, 1  # words of `open`: all windows that may have events are in between


class Winsets(NamedTuple):
    cells: np.ndarray
    used: np.ndarray
    heads: np.ndarray  # a line per table
    open: np.ndarray


@inlined
def close_before(number: int, winsets: Winsets, shape: Shape, out: Out) -> bool:
    """Moves the windows below `number` to the results; false when there is no room for all: call it again then."""
    tables = len(winsets.heads) // LINE
    while winsets.open[OLDEST] < number:
        if winsets.open[OLDEST] > winsets.open[NEWEST]:
            winsets.open[OLDEST] = number
            break
        table = winsets.open[OLDEST] % tables
        if not emit(winsets.cells, winsets.used, winsets.heads, table, winsets.open[OLDEST], shape, out):
            return False
        winsets.open[OLDEST] += 1
    return True


@inlined
def add_sorted(row: int, events: Events, winsets: Winsets, shape: Shape, out: Out) -> bool:
    """Closes the windows that end before the event, then adds it to each of its windows; false as `close_before`."""
    first = (events.ts[row] - shape.size) // shape.advance + 1
    if not close_before(first, winsets, shape, out):
        return False
    last = events.ts[row] // shape.advance
    if events.keep[row] and last >= first:
        winsets.open[NEWEST] = max(last, winsets.open[NEWEST])
        tables, key, width = len(winsets.heads) // LINE, events.key[row], 2 + len(shape.ops)
        for number in range(first, last + 1):
            at = cell_of(winsets.cells, winsets.used, winsets.heads, number % tables, key, width)
            fold(winsets.cells, at, events, row, shape)
    return True
