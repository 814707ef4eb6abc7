"""TuML: a T-Gate merges the inputs; one thread reads the order (SC), or several, which share the keys (MC)."""

from __future__ import annotations

import numpy as np

from mainstem.gate.live.kernels.tgate import CLOSED, ROW, TAIL, TGate, close, insert, next_ready

from .arrays import AFTER_ALL, BURST, FINISHED, FULL, LINE, NOTHING, STOPPED, Events, Feed, Out, Shape
from .base import atomic_load, atomic_store, inlined, kernel, rest
from .feeding import is_due, is_stopped
from .hive import WRITTEN, Hive, add_to_hive, enter_or_leave
from .sorted import Winsets, add_sorted, close_before

END = -2  # instead of a row


@kernel
def feed_gate(events: Events, feed: Feed, gate: TGate, control: np.ndarray, w: int) -> None:
    """An input thread: inserts the events of its inputs until all are closed."""
    inputs, turn, moved = len(events.lo) - 1, 0, True
    while moved or not is_stopped(control):
        turn = 0 if moved else rest(turn)
        moved, still_open = False, False
        for i in range(w, inputs, feed.threads):
            row, end = feed.at[i * LINE], events.lo[i + 1]
            begin, burst_end = row, min(row + BURST, end)
            while row < burst_end and is_due(feed, row) and insert(gate, i, events.ts[row], row):
                row += 1
            feed.at[i * LINE] = row
            moved |= row > begin
            if row < end:
                still_open = True
            elif gate.written[i * LINE] != CLOSED:
                close(gate, i)
        if not still_open:
            return


@inlined
def next_row(gate: TGate, reader: int) -> int:
    """The next event in order; NOTHING when none is ready, END when there will be none any more."""
    node = next_ready(gate, reader)
    if node != TAIL:
        return gate.nodes[node * LINE + ROW]
    for i in range(gate.inputs):
        if atomic_load(gate.written, i * LINE) != CLOSED:
            return NOTHING
    node = next_ready(gate, reader)  # what came between the look at the list and the look at the inputs
    return gate.nodes[node * LINE + ROW] if node != TAIL else END


@kernel
def windows_of_gate(
    events: Events, gate: TGate, winsets: Winsets, shape: Shape, pending: np.ndarray, out: Out, control: np.ndarray
) -> int:
    """The output thread of SC: updates and closes windows in order. Gives FULL when it must be called again; `pending`
    is the event that it is at."""
    turn = 0
    while True:
        if pending[0] == NOTHING:
            pending[0] = next_row(gate, 0)
        if pending[0] >= 0:
            turn = 0
            if not add_sorted(pending[0], events, winsets, shape, out):
                return FULL
            pending[0] = NOTHING
        elif pending[0] == END:
            return FINISHED if close_before(AFTER_ALL, winsets, shape, out) else FULL
        elif is_stopped(control):
            return STOPPED
        else:
            turn = rest(turn)


@kernel
def update_from_gate(events: Events, gate: TGate, hive: Hive, shape: Shape, control: np.ndarray, w: int) -> None:
    """Update thread w of MC: reads the whole order, and adds the events whose keys are its own."""
    updaters, turn, row = len(hive.threads) // LINE, 0, NOTHING
    while True:
        if row == NOTHING:
            row = next_row(gate, w)
        if row == END:
            atomic_store(hive.writers, w * LINE + WRITTEN, AFTER_ALL)
            return
        if row >= 0 and add_own(row, events, hive, shape, w, updaters):
            row, turn = NOTHING, 0
        elif is_stopped(control):
            return
        else:
            turn = rest(turn)


@inlined
def add_own(row: int, events: Events, hive: Hive, shape: Shape, w: int, updaters: int) -> bool:
    """False when the event must be tried again. Events of others only show how far the order is."""
    if events.key[row] % updaters != w:
        first = (events.ts[row] - shape.size) // shape.advance + 1
        if hive.writers[w * LINE + WRITTEN] != first:
            atomic_store(hive.writers, w * LINE + WRITTEN, first)
        return True
    enter_or_leave(hive, w)
    done = add_to_hive(row, events, hive, shape, w, w, True)
    enter_or_leave(hive, w)
    return done
