"""One queue per input: whoever takes an event looks at the first of every queue. The usual way, to compare with.

Each queue has a lock, as in stream processors that merge like this; with `locked` 0 it does without, which one writer
and one reader per queue allow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import LINE, atomic_change, atomic_load, atomic_store, inlined, kernel, rest
from .places import FINISHED, MOVING, SILENT

OPEN, CLOSED = 1, 2  # in `states`, behind SILENT


class Queues(NamedTuple):
    """Words of different threads are `LINE` apart."""

    ts: np.ndarray
    rows: np.ndarray
    ends: np.ndarray  # per input: how many were put in
    starts: np.ndarray  # per input: how many were taken out
    shown: np.ndarray
    states: np.ndarray
    locks: np.ndarray
    inputs: int
    ring: int
    locked: int


def create(inputs: int, ring: int, locked: int = 1) -> Queues:
    size = 1 << (ring - 1).bit_length()
    ends, starts, shown, states, locks = (np.zeros(inputs * LINE, dtype=np.int64) for _ in range(5))
    ts, rows = (np.zeros(inputs * size, dtype=np.int64) for _ in range(2))
    return Queues(ts, rows, ends, starts, shown, states, locks, inputs, size, locked)


@inlined
def lock(queues: Queues, number: int) -> None:
    if queues.locked:
        turn = 0
        while not atomic_change(queues.locks, number * LINE, 0, 1):
            turn = rest(turn)


@inlined
def unlock(queues: Queues, number: int) -> None:
    if queues.locked:
        atomic_store(queues.locks, number * LINE, 0)


@inlined
def insert(queues: Queues, number: int, ts: int, row: int) -> bool:
    """False when the queue is full."""
    lock(queues, number)
    end = queues.ends[number * LINE]
    room = end - atomic_load(queues.starts, number * LINE) < queues.ring
    if room:
        at = number * queues.ring + (end & (queues.ring - 1))
        queues.ts[at], queues.rows[at] = ts, row
        atomic_store(queues.ends, number * LINE, end + 1)
        show(queues, number, ts)
    unlock(queues, number)
    return room


@inlined
def show(queues: Queues, number: int, ts: int) -> None:
    atomic_store(queues.shown, number * LINE, ts)
    if queues.states[number * LINE] == SILENT:
        atomic_store(queues.states, number * LINE, OPEN)


@inlined
def close(queues: Queues, number: int) -> None:
    atomic_store(queues.states, number * LINE, CLOSED)


@inlined
def pop(queues: Queues, reader: int) -> tuple[int, int, int]:
    """Input, ts and row of the next ready event; input -1 if there is none. There is one reader."""
    found, found_ts = -1, 0
    bar, bar_ts = -1, 0  # the first place at which an empty queue may still bring something
    for number in range(queues.inputs):
        lock(queues, number)
        state, shown = atomic_load(queues.states, number * LINE), atomic_load(queues.shown, number * LINE)
        start = queues.starts[number * LINE]
        empty = start == atomic_load(queues.ends, number * LINE)
        ts = queues.ts[number * queues.ring + (start & (queues.ring - 1))]
        unlock(queues, number)
        if empty and state == SILENT:
            return -1, 0, 0
        if not empty and (found < 0 or ts < found_ts):
            found, found_ts = number, ts
        if empty and state == OPEN and (bar < 0 or shown < bar_ts):
            bar, bar_ts = number, shown
    if found < 0 or (bar >= 0 and (bar_ts < found_ts or (bar_ts == found_ts and bar < found))):
        return -1, 0, 0
    lock(queues, found)
    start = queues.starts[found * LINE]
    row = queues.rows[found * queues.ring + (start & (queues.ring - 1))]
    atomic_store(queues.starts, found * LINE, start + 1)
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
    show(queues, number, ts)
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
        state, ts = atomic_load(queues.states, number * LINE), atomic_load(queues.shown, number * LINE)
        start = queues.starts[number * LINE]
        waiting = start != atomic_load(queues.ends, number * LINE)
        if waiting:
            ts = queues.ts[number * queues.ring + (start & (queues.ring - 1))]
        elif state == SILENT:
            return 0, 0, SILENT
        if (waiting or state == OPEN) and (found < 0 or ts < found_ts):
            found, found_ts = number, ts
    return found_ts, found, FINISHED if found < 0 else MOVING
