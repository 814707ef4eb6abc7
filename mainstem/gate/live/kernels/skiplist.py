"""A lock-free skip list that knows nothing of inputs, and a reader that asks all of them what is ready: a baseline.

As concurrent skip lists usually are: every search begins at the first node, on the highest of many levels; a removed
node is marked in the last bit of its links, so that nothing is put behind it, and unlinked by whoever meets it. Nodes
are reused when every search has ended that was under way when they were removed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .base import LINE, atomic_change, atomic_load, atomic_release, atomic_store, inlined, kernel
from .places import FINISHED, MOVING, SILENT

LEVELS = 11
TAIL = -1
NODE = 2 * LINE  # words: the links, then
TS, TIE, ROW, HEIGHT, STAMP = 11, 12, 13, 14, 15
TIE_BITS = 48
LINKING, LINKED = -2, -1  # stamps of nodes that are not removed
OPEN, CLOSED = 1, 2  # in `states`, behind SILENT
INACTIVE = -1  # in `pins`
OWN = 2 * LINE
COUNT, FREED, BEFORE = 0, 1, 2  # words of an input; BEFORE: the node before its new one on each level


class SkipList(NamedTuple):
    nodes: np.ndarray
    shown: np.ndarray
    states: np.ndarray
    pins: np.ndarray  # per input: how many nodes were removed when its search began
    removed: np.ndarray
    own: np.ndarray
    inputs: int
    ring: int


def create(inputs: int, ring: int) -> SkipList:
    size = 1 << (ring - 1).bit_length()
    nodes = np.full((inputs * size + 1) * NODE, TAIL << 1, dtype=np.int64)
    shown, states = np.zeros(inputs * LINE, dtype=np.int64), np.zeros(inputs * LINE, dtype=np.int64)
    pins, removed = np.full(inputs * LINE, INACTIVE, dtype=np.int64), np.zeros(LINE, dtype=np.int64)
    return SkipList(nodes, shown, states, pins, removed, np.zeros(inputs * OWN, dtype=np.int64), inputs, size)


@inlined
def before(ts: int, tie: int, other_ts: int, other_tie: int) -> bool:
    return ts < other_ts or (ts == other_ts and tie < other_tie)


@inlined
def height_of(number: int, count: int) -> int:
    """1, 2, 3, … with probability 1/2, 1/4, 1/8, …"""
    mixed = (count * 0x2545F491 + number * 0x9E3779B1 + 0x7F4A7C15) & 0x7FFFFFFF
    mixed = ((mixed ^ (mixed >> 15)) * 0x2C1B3C6D) & 0x7FFFFFFF
    mixed ^= mixed >> 12
    height = 1
    while mixed & 1 and height < LEVELS:
        mixed >>= 1
        height += 1
    return height


@inlined
def insert(shared: SkipList, number: int, ts: int, row: int) -> bool:
    """False when the ring of the input is full."""
    own = number * OWN
    count = shared.own[own + COUNT]
    if count >= shared.own[own + FREED] + shared.ring:
        reclaim(shared, number)
        if count >= shared.own[own + FREED] + shared.ring:
            return False
    node, tie = number * shared.ring + (count & (shared.ring - 1)), (number << TIE_BITS) | count
    height = height_of(number, count)
    at = node * NODE
    shared.nodes[at + TS], shared.nodes[at + TIE], shared.nodes[at + ROW] = ts, tie, row
    shared.nodes[at + HEIGHT], shared.nodes[at + STAMP] = height, LINKING
    shared.own[own + COUNT] = count + 1
    atomic_store(shared.pins, number * LINE, atomic_load(shared.removed, 0))
    search(shared, own, ts, tie)
    for level in range(height):
        while not link(shared, own, node, ts, tie, level):
            search(shared, own, ts, tie)
    atomic_release(shared.nodes, at + STAMP, LINKED)
    show(shared, number, ts)
    atomic_release(shared.pins, number * LINE, INACTIVE)
    return True


@inlined
def search(shared: SkipList, own: int, ts: int, tie: int) -> None:
    """The last node before a key on each level, from the first node on; once more when it stood on a removed one."""
    while not search_once(shared, own, ts, tie):
        pass


@inlined
def search_once(shared: SkipList, own: int, ts: int, tie: int) -> bool:
    nodes, here = shared.nodes, shared.inputs * shared.ring
    for level in range(LEVELS - 1, -1, -1):
        link_out = atomic_load(nodes, here * NODE + level)
        while True:
            if link_out & 1:
                return False
            following = link_out >> 1
            if following == TAIL:
                break
            beyond = atomic_load(nodes, following * NODE + level)
            if beyond & 1:  # help to unlink it
                atomic_change(nodes, here * NODE + level, link_out, beyond & ~1)
                link_out = atomic_load(nodes, here * NODE + level)
                continue
            if before(ts, tie, nodes[following * NODE + TS], nodes[following * NODE + TIE]):
                break
            here, link_out = following, beyond
        shared.own[own + BEFORE + level] = here
    return True


@inlined
def link(shared: SkipList, own: int, node: int, ts: int, tie: int, level: int) -> bool:
    """False when the node before was removed meanwhile."""
    nodes, here = shared.nodes, shared.own[own + BEFORE + level]
    while True:
        link_out = atomic_load(nodes, here * NODE + level)
        if link_out & 1:
            return False
        following = link_out >> 1
        if following != TAIL and before(nodes[following * NODE + TS], nodes[following * NODE + TIE], ts, tie):
            here = following
            continue
        nodes[node * NODE + level] = link_out  # seen by others after the change below
        if atomic_change(nodes, here * NODE + level, link_out, node << 1):
            return True


@inlined
def reclaim(shared: SkipList, number: int) -> None:
    """What was removed before every search that is under way began; the count has to be read before the pins."""
    limit = atomic_load(shared.removed, 0)
    for other in range(shared.inputs):
        pin = atomic_load(shared.pins, other * LINE)
        if pin != INACTIVE:
            limit = min(limit, pin)
    own = number * OWN
    freed, count = shared.own[own + FREED], shared.own[own + COUNT]
    while freed < count:
        stamp = atomic_load(shared.nodes, (number * shared.ring + (freed & (shared.ring - 1))) * NODE + STAMP)
        if stamp < 0 or stamp >= limit:
            break
        freed += 1
    shared.own[own + FREED] = freed


@inlined
def show(shared: SkipList, number: int, ts: int) -> None:
    atomic_release(shared.shown, number * LINE, ts)
    if shared.states[number * LINE] == SILENT:
        atomic_release(shared.states, number * LINE, OPEN)


@inlined
def close(shared: SkipList, number: int) -> None:
    atomic_release(shared.states, number * LINE, CLOSED)


@inlined
def reached(shared: SkipList) -> tuple[int, int, int]:
    """The first place at which something may still come: a look at every input."""
    found, found_ts = -1, 0
    for number in range(shared.inputs):
        state, shown = atomic_load(shared.states, number * LINE), atomic_load(shared.shown, number * LINE)
        if state == SILENT:
            return 0, 0, SILENT
        if state == OPEN and (found < 0 or shown < found_ts):
            found, found_ts = number, shown
    return found_ts, found, FINISHED if found < 0 else MOVING


@inlined
def pop(shared: SkipList, reader: int) -> tuple[int, int, int]:
    """Input, ts and row of the next ready event; input -1 if there is none. There is one reader."""
    limit_ts, limit, state = reached(shared)  # before the first node is looked at: what comes later is not before it
    nodes, start = shared.nodes, shared.inputs * shared.ring * NODE
    node = atomic_load(nodes, start) >> 1
    if state == SILENT or node == TAIL:
        return -1, 0, 0
    at = node * NODE
    ts, number, row = nodes[at + TS], nodes[at + TIE] >> TIE_BITS, nodes[at + ROW]
    if state == MOVING and (ts > limit_ts or (ts == limit_ts and number > limit)):
        return -1, 0, 0
    if atomic_load(nodes, at + STAMP) == LINKING:
        return -1, 0, 0
    for level in range(nodes[at + HEIGHT] - 1, -1, -1):
        out = atomic_load(nodes, at + level)
        while not atomic_change(nodes, at + level, out, out | 1):
            out = atomic_load(nodes, at + level)
        atomic_change(nodes, start + level, node << 1, out)
    count = shared.removed[0]
    atomic_release(nodes, at + STAMP, count)
    atomic_release(shared.removed, 0, count + 1)
    return number, ts, row


@kernel
def insert_rows(shared: SkipList, number: int, ts: np.ndarray, first: int, stop: int, row: int) -> int:
    for at in range(first, stop):
        if not insert(shared, number, ts[at], row + at - first):
            return at
    return stop


@kernel
def insert_mark(shared: SkipList, number: int, ts: int) -> bool:
    show(shared, number, ts)
    return True


@kernel
def close_input(shared: SkipList, number: int) -> None:
    close(shared, number)


@kernel
def take_ready(shared: SkipList, reader: int, inputs: np.ndarray, ts: np.ndarray) -> int:
    for at in range(len(ts)):
        number, when, _ = pop(shared, reader)
        if number < 0:
            return at
        inputs[at], ts[at] = number, when
    return len(ts)


@kernel
def frontier(shared: SkipList, reader: int) -> tuple[int, int, int]:
    """The place before which nothing will be taken any more: that of the first event that waits, or may come."""
    ts, number, state = reached(shared)
    node = atomic_load(shared.nodes, shared.inputs * shared.ring * NODE) >> 1
    if state == SILENT or node == TAIL:
        return ts, number, state
    first_ts, first = shared.nodes[node * NODE + TS], shared.nodes[node * NODE + TIE] >> TIE_BITS
    if state == FINISHED or first_ts < ts or (first_ts == ts and first < number):
        return first_ts, first, MOVING
    return ts, number, MOVING
