"""Ready units of each thread, earliest first: heaps that others may take from, each under a lock of its own.

A heap is a tree through `left` and `right`; all entries hold unit + 1, 0 is nothing. Merging two trees down their right
sides, and changing sides on the way, keeps them flat (a skew heap): it needs no room beside two words per unit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .base import atomic_add, atomic_change, atomic_load, atomic_store, inlined, rest
from .control import LINE, STOP

LOCK = 0  # words of a thread's line in `heads`
TOP = 1


class Queues(NamedTuple):
    roots: Any  # units that depend on nothing, ascending
    pending: Any  # per unit; at first the number of its dependencies
    left: Any  # per unit
    right: Any
    heads: Any  # LINE words per thread, zeros at first


@inlined
def first_of(queues: Queues, owner: int) -> int:
    """The earliest unit in a queue, a moment ago; the number of units when it is empty."""
    top = atomic_load(queues.heads, owner * LINE + TOP)
    return top - 1 if top > 0 else len(queues.pending)


@inlined
def push(queues: Queues, owner: int, u: int, control: Any) -> None:
    if _lock(queues.heads, owner, control):
        queues.left[u], queues.right[u] = 0, 0
        top = _merge(queues.left, queues.right, queues.heads[owner * LINE + TOP], u + 1)
        _unlock(queues.heads, owner, top)


@inlined
def pop(queues: Queues, owner: int, control: Any) -> int:
    """Takes the earliest unit out of a queue; -1 when there is none, or it is not ready any more."""
    if atomic_load(queues.heads, owner * LINE + TOP) == 0 or not _lock(queues.heads, owner, control):
        return -1
    u = queues.heads[owner * LINE + TOP] - 1
    top = 0
    if u >= 0:
        top = _merge(queues.left, queues.right, queues.left[u], queues.right[u])
    _unlock(queues.heads, owner, top)
    if u < 0:
        return -1
    if atomic_load(queues.pending, u) == 0 or atomic_add(queues.pending, u, -1) == 1:
        return u
    return -1


@inlined
def _lock(heads: Any, owner: int, control: Any) -> bool:
    """False when the run is stopped: who holds the lock may have failed."""
    turn = 0
    while not atomic_change(heads, owner * LINE + LOCK, 0, 1):
        if atomic_load(control, STOP * LINE) != 0:
            return False
        turn = rest(turn)
    return True


@inlined
def _unlock(heads: Any, owner: int, top: int) -> None:
    atomic_store(heads, owner * LINE + TOP, top)
    atomic_store(heads, owner * LINE + LOCK, 0)


@inlined
def _merge(left: Any, right: Any, a: int, b: int) -> int:
    """One tree of two; gives its top."""
    if a == 0 or b == 0:
        return a + b
    top, a, b = min(a, b), min(a, b), max(a, b)
    while True:
        c = right[a - 1]
        right[a - 1] = left[a - 1]
        if c == 0:
            left[a - 1] = b
            return top
        left[a - 1] = min(b, c)
        a, b = min(b, c), max(b, c)
