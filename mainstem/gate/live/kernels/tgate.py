"""T-Gate: a lock-free skip list that is sorted by `(ts, input, number)` and gives out what is ready.

A **node** is a line of eight words in `nodes`; links are node numbers. Each input has a ring of nodes of its own, which
it uses in turn, so to allocate a node is to count. The **key** of a node is `ts` and `tie`, the input and the node's
count in one word: no two keys are equal, and the order never depends on who came first.

**Ready.** `written` names the newest node of each open input. All that this input will still insert stands behind it.
A reader never goes beyond a node that is the newest of its input; so, at a node that is not, every open input's newest
node stands further on, and the next node of the list is final. That is one look, whatever the number of inputs. A
heartbeat is a node without a row. A closed input has no newest node.

**Inserting** begins where the input's last search ended, on each of the three levels. Heights follow from the count, so
that of four consecutive nodes of an input one has all levels.

**Reuse.** A reader *holds* a node with all levels that it has passed, one of the last. An inserter *pins* the first
node of its search before it follows links. Nodes before all nodes that are held or pinned are free. An inserter whose
last search ended before what is held by now starts at what is held: it never waits for others, and a silent input
keeps no nodes. Why that is safe: whoever frees looks first at what is held and then at what is pinned, an inserter
pins first and then looks at what is held, and what is held only moves forward. So either the pin is seen, or its node
is not before what the freeing thread saw as held.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import LINE, atomic_change, atomic_load, atomic_release, atomic_store, inlined, keep_loads_apart, kernel
from .places import FINISHED, MOVING, SILENT

LEVELS = 3
TAIL = -1  # a link that leads nowhere
CLOSED = -2  # in `written`: nothing more comes from this input
NOTHING = -1  # in `pins`: no search is under way
NO_ROW = -1  # of nodes that only say how far an input is

# Words of a node, behind its links.
TS, TIE, ROW, CAN_HOLD = 3, 4, 5, 6
TIE_BITS = 48  # of the count: enough for years at a million nodes per second
SMALLEST = -(2**63)

# Words of an input that only the thread that serves it uses: two lines.
OWN = 2 * LINE
COUNT, FREE_UNTIL, FREED, UPDATE, UPDATE_TS, UPDATE_TIE = 0, 1, 2, 3, 6, 9


class TGate(NamedTuple):
    """Words of different threads are `LINE` apart."""

    nodes: np.ndarray
    written: np.ndarray  # per input: its newest node, or CLOSED
    pins: np.ndarray  # per input: where its search began, or NOTHING
    heads: np.ndarray  # per reader: the node it has reached
    holds: np.ndarray  # per reader: a node with all levels, at most a few before
    own: np.ndarray
    inputs: int
    readers: int
    ring: int  # nodes per input, a power of two
    hold_every: int  # of so many consecutive nodes of an input, a reader holds one


def create(inputs: int, ring: int, readers: int = 1) -> TGate:
    """An empty gate, in which every input has yet to show something."""
    size = max(8, 1 << (ring - 1).bit_length())  # of eight nodes, four can always be free
    first = inputs * size  # where every list begins
    gate = TGate(
        np.full((first + 1) * LINE, TAIL, dtype=np.int64),
        np.full(inputs * LINE, NOTHING, dtype=np.int64),
        np.full(inputs * LINE, NOTHING, dtype=np.int64),
        np.full(readers * LINE, first, dtype=np.int64),
        np.full(readers * LINE, first, dtype=np.int64),
        np.zeros(inputs * OWN, dtype=np.int64),
        inputs,
        readers,
        size,
        4 if size < 256 else 32,  # every look of an inserter at what is held waits for the reader's cache line
    )
    gate.nodes[first * LINE + TS] = SMALLEST
    gate.nodes[first * LINE + TIE] = -1
    for number in range(inputs):
        own = number * OWN
        gate.own[own + FREE_UNTIL] = size
        gate.own[own + UPDATE : own + UPDATE + LEVELS] = first
        gate.own[own + UPDATE_TS : own + UPDATE_TS + LEVELS] = SMALLEST
        gate.own[own + UPDATE_TIE : own + UPDATE_TIE + LEVELS] = -1
    for number in range(inputs):
        insert(gate, number, SMALLEST, NO_ROW)
    return gate


@inlined
def before(ts: int, tie: int, other_ts: int, other_tie: int) -> bool:
    return ts < other_ts or (ts == other_ts and tie < other_tie)


@inlined
def input_of(gate: TGate, node: int) -> int:
    return gate.nodes[node * LINE + TIE] >> TIE_BITS


@inlined
def insert(gate: TGate, number: int, ts: int, row: int) -> bool:
    """Puts an event of input `number` where it belongs; `NO_ROW` makes it a heartbeat. False when the ring is full.

    Only one thread at a time serves an input, and its `ts` never goes back.
    """
    nodes, own = gate.nodes, number * OWN
    count = gate.own[own + COUNT]
    if count >= gate.own[own + FREE_UNTIL]:
        reclaim(gate, number)
        if count >= gate.own[own + FREE_UNTIL]:
            return False
    node = number * gate.ring + (count & (gate.ring - 1))
    tie = (number << TIE_BITS) | count
    phase = count + number  # inputs that march in step have their high nodes at different times
    height = 3 if phase & 3 == 0 else 2 if phase & 1 == 0 else 1
    line = node * LINE
    nodes[line + TS], nodes[line + TIE], nodes[line + ROW] = ts, tie, row
    nodes[line + CAN_HOLD] = phase & (gate.hold_every - 1) == 0
    gate.own[own + COUNT] = count + 1
    search(gate, number, ts, tie)
    for level in range(height):
        link(gate, gate.own[own + UPDATE + level], node, ts, tie, level)
        remember(gate, own, level, node)
    atomic_release(gate.written, number * LINE, node)
    atomic_release(gate.pins, number * LINE, NOTHING)
    return True


@inlined
def search(gate: TGate, number: int, ts: int, tie: int) -> None:
    """Finds, on each level, the last node before a key; leaves the input's pin set."""
    nodes, own = gate.nodes, number * OWN
    here = pinned_start(gate, number)
    here_ts, here_tie = nodes[here * LINE + TS], nodes[here * LINE + TIE]
    for level in range(LEVELS - 1, -1, -1):
        last_ts, last_tie = gate.own[own + UPDATE_TS + level], gate.own[own + UPDATE_TIE + level]
        if before(here_ts, here_tie, last_ts, last_tie):  # where the last search on this level ended is further on
            here, here_ts, here_tie = gate.own[own + UPDATE + level], last_ts, last_tie
        following = atomic_load(nodes, here * LINE + level)
        while following != TAIL:
            next_ts, next_tie = nodes[following * LINE + TS], nodes[following * LINE + TIE]
            if before(ts, tie, next_ts, next_tie):
                break
            here, here_ts, here_tie = following, next_ts, next_tie
            following = atomic_load(nodes, here * LINE + level)
        gate.own[own + UPDATE + level] = here
        gate.own[own + UPDATE_TS + level] = here_ts
        gate.own[own + UPDATE_TIE + level] = here_tie


@inlined
def remember(gate: TGate, own: int, level: int, node: int) -> None:
    gate.own[own + UPDATE + level] = node
    gate.own[own + UPDATE_TS + level] = gate.nodes[node * LINE + TS]
    gate.own[own + UPDATE_TIE + level] = gate.nodes[node * LINE + TIE]


@inlined
def pinned_start(gate: TGate, number: int) -> int:
    """A node with all levels that stays where it is until the pin is taken away: where the last search on the highest
    level ended, or else what a reader holds."""
    own = number * OWN
    last, last_ts = gate.own[own + UPDATE + LEVELS - 1], gate.own[own + UPDATE_TS + LEVELS - 1]
    last_tie = gate.own[own + UPDATE_TIE + LEVELS - 1]
    atomic_store(gate.pins, number * LINE, last)
    while True:
        held, held_ts, held_tie = first_held(gate)
        if not before(last_ts, last_tie, held_ts, held_tie):
            return last
        last, last_ts, last_tie = held, held_ts, held_tie
        atomic_store(gate.pins, number * LINE, last)


@inlined
def first_held(gate: TGate) -> tuple[int, int, int]:
    """The first of the nodes that readers hold, and its key. A node that is held at two looks was not reused between
    them, or is held again; either way what was read of it in between is not too late."""
    found, found_ts, found_tie = NOTHING, 0, 0
    for reader in range(gate.readers):
        node = atomic_load(gate.holds, reader * LINE)
        while True:
            ts, tie = gate.nodes[node * LINE + TS], gate.nodes[node * LINE + TIE]
            keep_loads_apart()
            again = atomic_load(gate.holds, reader * LINE)
            if again == node:
                break
            node = again
        if found == NOTHING or before(ts, tie, found_ts, found_tie):
            found, found_ts, found_tie = node, ts, tie
    return found, found_ts, found_tie


@inlined
def link(gate: TGate, start: int, node: int, ts: int, tie: int, level: int) -> None:
    """Puts `node` into a level behind `start`, wherever others have put theirs meanwhile."""
    here = start
    while True:
        following = atomic_load(gate.nodes, here * LINE + level)
        if following != TAIL and before(gate.nodes[following * LINE + TS], gate.nodes[following * LINE + TIE], ts, tie):
            here = following
            continue
        gate.nodes[node * LINE + level] = following  # seen by others after the change below
        if atomic_change(gate.nodes, here * LINE + level, following, node):
            return


@inlined
def reclaim(gate: TGate, number: int) -> None:
    """Finds nodes of an input that no thread will touch again. What is held has to be looked at before pins."""
    _, ts, tie = first_held(gate)
    for other in range(gate.inputs):
        node = atomic_load(gate.pins, other * LINE)
        while node != NOTHING:
            pin_ts, pin_tie = gate.nodes[node * LINE + TS], gate.nodes[node * LINE + TIE]
            keep_loads_apart()
            again = atomic_load(gate.pins, other * LINE)
            if again == node:
                if before(pin_ts, pin_tie, ts, tie):
                    ts, tie = pin_ts, pin_tie
                break
            node = again
    own = number * OWN
    freed, count = gate.own[own + FREED], gate.own[own + COUNT]
    while freed < count:
        line = (number * gate.ring + (freed & (gate.ring - 1))) * LINE
        if not before(gate.nodes[line + TS], gate.nodes[line + TIE], ts, tie):
            break
        freed += 1
    gate.own[own + FREED] = freed
    gate.own[own + FREE_UNTIL] = freed + gate.ring


@inlined
def close(gate: TGate, number: int) -> None:
    atomic_store(gate.written, number * LINE, CLOSED)


@inlined
def next_ready(gate: TGate, reader: int) -> int:
    """The node of the next ready event for this reader, or TAIL. Every reader gets every event, once."""
    node = gate.heads[reader * LINE]
    while True:
        if node < gate.inputs * gate.ring and atomic_load(gate.written, input_of(gate, node) * LINE) == node:
            return TAIL
        node = atomic_load(gate.nodes, node * LINE)
        if node == TAIL:  # every input is closed
            return TAIL
        gate.heads[reader * LINE] = node
        if gate.nodes[node * LINE + CAN_HOLD]:
            atomic_release(gate.holds, reader * LINE, node)
        if gate.nodes[node * LINE + ROW] != NO_ROW:
            return node


@inlined
def pop(gate: TGate, reader: int) -> tuple[int, int, int]:
    """Input, ts and row of the next ready event; input -1 if there is none."""
    node = next_ready(gate, reader)
    if node == TAIL:
        return -1, 0, 0
    return input_of(gate, node), gate.nodes[node * LINE + TS], gate.nodes[node * LINE + ROW]


@kernel
def insert_rows(gate: TGate, number: int, ts: np.ndarray, first: int, stop: int, row: int) -> int:
    """Inserts rows `first` to `stop` of a column, the first of them as row `row`; gives where the ring was full."""
    for at in range(first, stop):
        if not insert(gate, number, ts[at], row + at - first):
            return at
    return stop


@kernel
def insert_mark(gate: TGate, number: int, ts: int) -> bool:
    """Nothing before `ts` will come from this input."""
    return insert(gate, number, ts, NO_ROW)


@kernel
def close_input(gate: TGate, number: int) -> None:
    close(gate, number)


@kernel
def take_ready(gate: TGate, reader: int, inputs: np.ndarray, ts: np.ndarray) -> int:
    """Fills the arrays with the next ready events; gives how many there were."""
    for at in range(len(ts)):
        number, when, _ = pop(gate, reader)
        if number < 0:
            return at
        inputs[at], ts[at] = number, when
    return len(ts)


@kernel
def frontier(gate: TGate, reader: int) -> tuple[int, int, int]:
    """The place `(ts, input)` before which this reader will get nothing any more."""
    node = gate.heads[reader * LINE]
    if node == gate.inputs * gate.ring:
        return 0, 0, SILENT
    number = input_of(gate, node)
    ts, tie = gate.nodes[node * LINE + TS], gate.nodes[node * LINE + TIE]
    if atomic_load(gate.nodes, node * LINE) == TAIL and atomic_load(gate.written, number * LINE) == CLOSED:
        return ts, number, FINISHED
    return ts, number, SILENT if tie == number << TIE_BITS else MOVING
