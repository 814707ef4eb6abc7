"""The closing side of W-Hive: one thread passes complete winsets and gives their nodes back."""

from __future__ import annotations

import numpy as np

from .arrays import AFTER_ALL, FINISHED, FULL, LEVELS, LINE, NOTHING, STOPPED, Out, Shape
from .base import atomic_load, atomic_store, inlined, kernel, rest
from .cells import emit
from .feeding import is_stopped
from .hive import (
    ENTRY,
    HEIGHT,
    INSIDE,
    LEAVING,
    LIMBO,
    LOW,
    NEWER,
    NEXT,
    OLDER,
    POOL,
    POOL_TAIL,
    SEEN,
    WRITTEN,
    Hive,
    following,
    number_of,
)


@inlined
def complete_before(hive: Hive) -> int:
    """The first window that an event may still come for."""
    number = AFTER_ALL
    for writer in range(len(hive.writers) // LINE):
        number = min(number, atomic_load(hive.writers, writer * LINE + WRITTEN))
    return number


@inlined
def pass_node(hive: Hive, node: int) -> None:
    """The node becomes the entry of all its levels; who was entry of its own highest level is out of reach now."""
    for level in range(hive.nodes[node * LINE + HEIGHT]):
        left = hive.words[ENTRY + level]
        atomic_store(hive.words, ENTRY + level, node)
        if hive.nodes[left * LINE + HEIGHT] == level + 1:
            hive.lists[NEWER, hive.words[LIMBO]] = left
            hive.words[LIMBO] += 1


@inlined
def give_back(hive: Hive) -> None:
    """Frees the older nodes in limbo if every thread has been outside since; then the newer ones are the older ones."""
    threads, leaving = len(hive.threads) // LINE, hive.words[LEAVING]
    for w in range(threads):
        seen = hive.lists[SEEN, w]
        if leaving > 0 and seen % 2 == 1 and atomic_load(hive.threads, w * LINE + INSIDE) == seen:
            return
    tail = hive.words[POOL_TAIL]
    for i in range(leaving):
        node = hive.lists[OLDER, i]
        for level in range(LEVELS):
            hive.nodes[node * LINE + NEXT + level] = NOTHING
        hive.lists[POOL, (tail + i) % hive.lists.shape[1]] = node
    atomic_store(hive.words, POOL_TAIL, tail + leaving)
    for i in range(hive.words[LIMBO]):
        hive.lists[OLDER, i] = hive.lists[NEWER, i]
    hive.words[LEAVING], hive.words[LIMBO] = hive.words[LIMBO], 0
    for w in range(threads):
        hive.lists[SEEN, w] = atomic_load(hive.threads, w * LINE + INSIDE)


@kernel
def windows_of_hive(hive: Hive, shape: Shape, out: Out, control: np.ndarray) -> int:
    """The output thread: closes winsets as they become complete. Gives FULL when it must be called again."""
    turn = 0
    while True:
        complete, passed = complete_before(hive), False
        node = following(hive, hive.words[ENTRY], 0)
        while node != NOTHING and number_of(hive, node) < complete:
            if not emit(hive.cells, hive.used, hive.nodes, node, number_of(hive, node), shape, out):
                return FULL
            pass_node(hive, node)
            passed = True
            node = following(hive, node, 0)
        if complete == AFTER_ALL:
            return FINISHED
        if complete != hive.words[LOW]:
            atomic_store(hive.words, LOW, complete)
            passed = True
        give_back(hive)
        if passed:
            turn = 0
        elif is_stopped(control):
            return STOPPED
        else:
            turn = rest(turn)
