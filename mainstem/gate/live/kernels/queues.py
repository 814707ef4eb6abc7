"""One queue per input: whoever takes an event looks at the first of every queue. The usual way, to compare with.

Each queue has a lock, as in stream processors that merge like this. All its words are used under the lock, so they need
no atomic operations of their own.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import LINE, atomic_change, atomic_release, inlined, kernel, rest
from .places import FINISHED, MOVING, SILENT

OPEN, CLOSED = 1, 2  # in `states`, behind SILENT


class Queues(NamedTuple):
    """Words of different inputs are `LINE` apart."""

    ts: np.ndarray
    rows: np.ndarray
    ends: np.ndarray  # per input: how many were put in
    starts: np.ndarray  # per input: how many were taken out
    shown: np.ndarray
    states: np.ndarray
    locks: np.ndarray
    inputs: int
    ring: int


def create(inputs: int, ring: int) -> Queues:
    size = 1 << (ring - 1).bit_length()
    ends, starts, shown, states, locks = (np.zeros(inputs * LINE, dtype=np.int64) for _ in range(5))
    ts, rows = (np.zeros(inputs * size, dtype=np.int64) for _ in range(2))
    return Queues(ts, rows, ends, starts, shown, states, locks, inputs, size)


@inlined
def lock(queues: Queues, number: int) -> None:
    turn = 0
    while not atomic_change(queues.locks, number * LINE, 0, 1):
        turn = rest(turn)


@inlined
def unlock(queues: Queues, number: int) -> None:
    atomic_release(queues.locks, number * LINE, 0)


@inlined
def insert(queues: Queues, number: int, ts: int, row: int) -> bool:
    """False when the queue is full."""
    lock(queues, number)
    end = queues.ends[number * LINE]
    room = end - queues.starts[number * LINE] < queues.ring
    if room:
        at = number * queues.ring + (end & (queues.ring - 1))
        queues.ts[at], queues.rows[at] = ts, row
        queues.ends[number * LINE] = end + 1
        queues.shown[number * LINE], queues.states[number * LINE] = ts, OPEN
    unlock(queues, number)
    return room


@inlined
def close(queues: Queues, number: int) -> None:
    lock(queues, number)
    queues.states[number * LINE] = CLOSED
    unlock(queues, number)


@inlined
def first_of(queues: Queues, number: int) -> tuple[bool, int, int]:
    """Whether an event waits; its ts, or else how far the input is; and the state of the input."""
    lock(queues, number)
    start, state = queues.starts[number * LINE], queues.states[number * LINE]
    waits, ts = start != queues.ends[number * LINE], queues.shown[number * LINE]
    if waits:
        ts = queues.ts[number * queues.ring + (start & (queues.ring - 1))]
    unlock(queues, number)
    return waits, ts, state


@inlined
def pop(queues: Queues, reader: int) -> tuple[int, int, int]:
    """Input, ts and row of the next ready event; input -1 if there is none. There is one reader."""
    found, found_ts = -1, 0
    bar, bar_ts = -1, 0  # the first place at which an empty queue may still bring something
    for number in range(queues.inputs):
        waits, ts, state = first_of(queues, number)
        if waits:
            if found < 0 or ts < found_ts:
                found, found_ts = number, ts
        elif state == SILENT:
            return -1, 0, 0
        elif state == OPEN and (bar < 0 or ts < bar_ts):
            bar, bar_ts = number, ts
    if found < 0 or (bar >= 0 and (bar_ts < found_ts or (bar_ts == found_ts and bar < found))):
        return -1, 0, 0
    lock(queues, found)
    start = queues.starts[found * LINE]
    row = queues.rows[found * queues.ring + (start & (queues.ring - 1))]
    queues.starts[found * LINE] = start + 1
    unlock(queues, found)
    return found, found_ts, row


@kernel
def insert_rows(queues: Queues, number: int, ts: np.ndarray, first: int, stop: int, row: int) -> int:
    for at in range(first, stop):
        if not insert(queues, number, ts[at], row + at - first):
            return at
    return stop


@kernel
def insert_mark(queues: Queues, number: int, ts: int) -> bool:
    lock(queues, number)
    queues.shown[number * LINE], queues.states[number * LINE] = ts, OPEN
    unlock(queues, number)
    return True


@kernel
def close_input(queues: Queues, number: int) -> None:
    close(queues, number)


@kernel
def take_ready(queues: Queues, reader: int, inputs: np.ndarray, ts: np.ndarray) -> int:
    for at in range(len(ts)):
        number, when, _ = pop(queues, reader)
        if number < 0:
            return at
        inputs[at], ts[at] = number, when
    return len(ts)


@kernel
def frontier(queues: Queues, reader: int) -> tuple[int, int, int]:
    """The place before which nothing will be taken any more: that of the first event that waits, or may come."""
    found, found_ts = -1, 0
    for number in range(queues.inputs):
        waits, ts, state = first_of(queues, number)
        if not waits and state == SILENT:
            return 0, 0, SILENT
        if (waits or state == OPEN) and (found < 0 or ts < found_ts):
            found, found_ts = number, ts
    return found_ts, found, FINISHED if found < 0 else MOVING
