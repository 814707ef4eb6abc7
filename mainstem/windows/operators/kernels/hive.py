"""W-Hive: winsets that several threads update and one thread closes, without a lock.

Winsets are nodes of a skip list, by the number of their windows. Who misses one links a new node with a swap at every
level; at the lowest, the first of two such swaps wins. WRITTEN is, per writer, the first window that its last event
belongs to; a writer's events come in order, so windows below all of these are complete. The closing thread passes them
one by one.

Nodes come from a pool. The list is never unlinked: its front is left behind, and entry l, the last passed node on level
l, is where a search begins to use that level. So of the passed nodes only the entries are in reach of later searches. A
node that is no entry any more waits in limbo until every thread has been outside of the list once since then (INSIDE of
a thread is odd while it is inside), and goes back to the pool.

A writer may not be more than `span` windows ahead of what was passed, so a pool of a fixed size is enough: who finds it
empty leaves the list and tries again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import LEVELS, LINE, NOTHING, Events, Shape
from .base import atomic_change, atomic_load, atomic_store, inlined
from .cells import fold, shared_cell_of, shared_fold

# Words of a node, behind TAKEN of its table.
NUMBER, HEIGHT, NEXT = 1, 2, 3  # LEVELS links

# Words of a writer.
WRITTEN = 0
PROGRESS = 1  # the next window of the event that it is at
REFUSED = 2  # 1 when it is in the middle of an event

# Words of a thread. PATH: the last node before the one it searched, on each level.
INSIDE, SPARE, PATH = 0, 1, 2  # SPARE: a node that it took but did not need

# Words that all share.
POOL_HEAD, POOL_TAIL, LOW, ENTRY, LIMBO, LEAVING = 0, LINE, 2 * LINE, 3 * LINE, 4 * LINE, 4 * LINE + 1
HIVE_WORDS = 5 * LINE

# Rows of `lists`. The pool is a ring; LEAVING nodes of limbo may still be in use, LIMBO newer ones come after them.
POOL, OLDER, NEWER, SEEN = 0, 1, 2, 3  # SEEN: INSIDE of each thread when the older ones came into limbo
LISTS = 4


class Hive(NamedTuple):
    nodes: np.ndarray  # a line per node, and per table
    cells: np.ndarray
    used: np.ndarray
    writers: np.ndarray  # a line per writer
    threads: np.ndarray  # a line per thread that updates
    words: np.ndarray
    lists: np.ndarray
    span: int


@inlined
def enter_or_leave(hive: Hive, w: int) -> None:
    atomic_store(hive.threads, w * LINE + INSIDE, hive.threads[w * LINE + INSIDE] + 1)


@inlined
def following(hive: Hive, node: int, level: int) -> int:
    return atomic_load(hive.nodes, node * LINE + NEXT + level)


@inlined
def number_of(hive: Hive, node: int) -> int:
    return hive.nodes[node * LINE + NUMBER]


@inlined
def take_node(hive: Hive, w: int) -> int:
    """A free node; NOTHING when all are in use."""
    node = hive.threads[w * LINE + SPARE]
    if node != NOTHING:
        hive.threads[w * LINE + SPARE] = NOTHING
        return node
    while True:
        head = atomic_load(hive.words, POOL_HEAD)
        if head >= atomic_load(hive.words, POOL_TAIL):
            return NOTHING
        node = hive.lists[POOL, head % hive.lists.shape[1]]
        if atomic_change(hive.words, POOL_HEAD, head, head + 1):
            # Every second node has one level, every fourth two: as good as chance, and never unlucky.
            hive.nodes[node * LINE + HEIGHT] = LEVELS if head % 4 == 0 else 2 - head % 2
            return node


@inlined
def search(hive: Hive, number: int, path: int) -> int:
    """The last node up to `number`; words of the thread from `path` on become the way to it."""
    node = atomic_load(hive.words, ENTRY + LEVELS - 1)
    for level in range(LEVELS - 1, -1, -1):
        entry = atomic_load(hive.words, ENTRY + level)
        if number_of(hive, entry) > number_of(hive, node):
            node = entry
        ahead = following(hive, node, level)
        while ahead != NOTHING and number_of(hive, ahead) <= number:
            node = ahead
            ahead = following(hive, node, level)
        hive.threads[path + level] = node
    return node


@inlined
def link(hive: Hive, node: int, level: int, before: int) -> int:
    """Puts a node into a level, somewhere after `before`. Gives the node that is there now: of two with one number, the
    first stays."""
    number = number_of(hive, node)
    while True:
        ahead = following(hive, before, level)
        while ahead != NOTHING and number_of(hive, ahead) < number:
            before = ahead
            ahead = following(hive, before, level)
        if ahead != NOTHING and number_of(hive, ahead) == number:
            return ahead
        atomic_store(hive.nodes, node * LINE + NEXT + level, ahead)
        if atomic_change(hive.nodes, before * LINE + NEXT + level, ahead, node):
            return node


@inlined
def winset_of(hive: Hive, number: int, w: int) -> int:
    """The node of the winset, made if it is missing; NOTHING when the pool is empty."""
    path = w * LINE + PATH
    found = search(hive, number, path)
    if number_of(hive, found) == number:
        return found
    node = take_node(hive, w)
    if node == NOTHING:
        return NOTHING
    hive.nodes[node * LINE + NUMBER] = number
    there = node
    for level in range(hive.nodes[node * LINE + HEIGHT]):
        there = link(hive, node, level, hive.threads[path + level])
        if there != node:  # only on the lowest level
            hive.threads[w * LINE + SPARE] = node
            break
    return there


@inlined
def add_to_hive(row: int, events: Events, hive: Hive, shape: Shape, writer: int, w: int, owned: bool) -> bool:
    """Adds an event to each of its windows; false when it must be tried again.

    `owned`: no other thread has events of its key, so order matters and atomic operations are not needed.
    """
    first = (events.ts[row] - shape.size) // shape.advance + 1
    last, own = events.ts[row] // shape.advance, writer * LINE
    if hive.writers[own + WRITTEN] != first:  # most events leave it where it is
        atomic_store(hive.writers, own + WRITTEN, first)
    if not events.keep[row]:
        return True
    number = hive.writers[own + PROGRESS] if hive.writers[own + REFUSED] != 0 else first
    hive.writers[own + REFUSED] = 1
    if last >= first and last >= atomic_load(hive.words, LOW) + hive.span:
        hive.writers[own + PROGRESS] = number
        return False
    key, width, node = events.key[row], 2 + len(shape.ops), NOTHING
    while number <= last:
        # Windows of one event follow each other, so the next winset is mostly the next node.
        node = following(hive, node, 0) if node != NOTHING else NOTHING
        if node == NOTHING or number_of(hive, node) != number:
            node = winset_of(hive, number, w)
            if node == NOTHING:
                hive.writers[own + PROGRESS] = number
                return False
        at = shared_cell_of(hive.cells, hive.used, hive.nodes, node, key, width)
        if owned:
            fold(hive.cells, at, events, row, shape)
        else:
            shared_fold(hive.cells, at, events, row, shape)
        number += 1
    hive.writers[own + REFUSED] = 0
    return True
