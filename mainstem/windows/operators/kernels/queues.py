"""Multi-queue: one queue per input, and one thread that takes the smallest of all heads, if all have one.

`locked` is the usual form, with a lock around each queue; without, a queue is a ring that one thread fills and one
empties, so a counter on either side is enough. To look at all heads takes time linear in the inputs, per event.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import AFTER_ALL, BURST, FINISHED, FULL, LINE, NOTHING, STOPPED, Events, Feed, Out, Shape
from .base import atomic_change, atomic_load, atomic_store, inlined, kernel, rest
from .feeding import is_due, is_stopped
from .sorted import Winsets, add_sorted, close_before

CLOSED = -2  # instead of a head: there will be none any more


class Queues(NamedTuple):
    """The queue of input i: rows from `head[i]` to `tail[i]`, at these numbers modulo the ring's length."""

    ring: np.ndarray  # int64[inputs, length]
    head: np.ndarray
    tail: np.ndarray
    lock: np.ndarray
    closed: np.ndarray
    locked: bool


@inlined
def enter(queues: Queues, i: int) -> None:
    turn = 0
    while queues.locked and not atomic_change(queues.lock, i * LINE, 0, 1):
        turn = rest(turn)


@inlined
def leave(queues: Queues, i: int) -> None:
    if queues.locked:
        atomic_store(queues.lock, i * LINE, 0)


@inlined
def put(queues: Queues, i: int, row: int) -> bool:
    """False when the queue is full."""
    length = queues.ring.shape[1]
    enter(queues, i)
    tail = queues.tail[i * LINE]
    room = tail - atomic_load(queues.head, i * LINE) < length
    if room:
        queues.ring[i, tail % length] = row
        atomic_store(queues.tail, i * LINE, tail + 1)
    leave(queues, i)
    return room


@inlined
def peek(queues: Queues, i: int) -> int:
    """The row at the head; NOTHING when there is none, CLOSED when there will be none."""
    enter(queues, i)
    head, row = queues.head[i * LINE], NOTHING
    closed = atomic_load(queues.closed, i * LINE)  # before the look at the tail: nothing comes after it
    if head < atomic_load(queues.tail, i * LINE):
        row = queues.ring[i, head % queues.ring.shape[1]]
    elif closed != 0:
        row = CLOSED
    leave(queues, i)
    return row


@inlined
def drop(queues: Queues, i: int) -> None:
    enter(queues, i)
    atomic_store(queues.head, i * LINE, queues.head[i * LINE] + 1)
    leave(queues, i)


@kernel
def feed_queues(events: Events, feed: Feed, queues: Queues, control: np.ndarray, w: int) -> None:
    """An input thread: puts the events of its inputs into their queues until all are closed."""
    inputs, turn, moved = len(events.lo) - 1, 0, True
    while moved or not is_stopped(control):
        turn = 0 if moved else rest(turn)
        moved, still_open = False, False
        for i in range(w, inputs, feed.threads):
            row, end = feed.at[i * LINE], events.lo[i + 1]
            burst_end = min(row + BURST, end)
            begin = row
            while row < burst_end and is_due(feed, row) and put(queues, i, row):
                row += 1
            feed.at[i * LINE] = row
            moved |= row > begin
            if row < end:
                still_open = True
            else:
                atomic_store(queues.closed, i * LINE, 1)
        if not still_open:
            return


@inlined
def earliest(events: Events, queues: Queues) -> int:
    """The input whose head is next in the order; NOTHING when one is missing, CLOSED when all queues are."""
    chosen, ts, waiting = CLOSED, 0, False
    for i in range(queues.ring.shape[0]):
        row = peek(queues, i)
        if row >= 0 and (chosen == CLOSED or events.ts[row] < ts):
            chosen, ts = i, events.ts[row]
        waiting |= row == NOTHING
    return NOTHING if waiting else chosen


@kernel
def windows_of_queues(
    events: Events, queues: Queues, winsets: Winsets, shape: Shape, out: Out, control: np.ndarray
) -> int:
    """The output thread: merges, updates and closes windows. Gives FULL when it must be called again."""
    turn = 0
    while True:
        i = earliest(events, queues)
        if i >= 0:
            turn = 0
            if not add_sorted(peek(queues, i), events, winsets, shape, out):
                return FULL
            drop(queues, i)
        elif i == CLOSED:
            return FINISHED if close_before(AFTER_ALL, winsets, shape, out) else FULL
        elif is_stopped(control):
            return STOPPED
        else:
            turn = rest(turn)
