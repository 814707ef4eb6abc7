"""WiML: every input thread adds its events to their windows at once; the hive knows when a window is complete."""

from __future__ import annotations

import numpy as np

from .arrays import AFTER_ALL, BURST, LINE, Events, Feed, Shape
from .base import atomic_store, inlined, kernel, rest
from .feeding import is_due, is_stopped
from .hive import WRITTEN, Hive, add_to_hive, enter_or_leave


@inlined
def add_burst(i: int, events: Events, feed: Feed, hive: Hive, shape: Shape, w: int) -> bool:
    """Adds the next events of input i; gives whether there was any."""
    row = feed.at[i * LINE]
    first, end = row, min(row + BURST, events.lo[i + 1])
    enter_or_leave(hive, w)
    while row < end and is_due(feed, row) and add_to_hive(row, events, hive, shape, i, w, False):
        row += 1
    enter_or_leave(hive, w)
    feed.at[i * LINE] = row
    return row > first


@kernel
def feed_hive(events: Events, feed: Feed, hive: Hive, shape: Shape, control: np.ndarray, w: int) -> None:
    """An input thread: adds the events of its inputs until all are closed."""
    inputs, turn, moved = len(events.lo) - 1, 0, True
    while moved or not is_stopped(control):
        turn = 0 if moved else rest(turn)
        moved, still_open = False, False
        for i in range(w, inputs, feed.threads):
            if feed.at[i * LINE] < events.lo[i + 1]:
                moved |= add_burst(i, events, feed, hive, shape, w)
            if feed.at[i * LINE] < events.lo[i + 1]:
                still_open = True
            else:
                atomic_store(hive.writers, i * LINE + WRITTEN, AFTER_ALL)
        if not still_open:
            return
