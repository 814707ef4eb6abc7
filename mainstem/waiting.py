"""Threads that tell each other when to begin and that they have ended, by numbers that one raises and the other awaits.

All of it is done without Python's lock. Who is told something in Python code wants the lock at once, which the one who
told it still has: it would go to sleep, and waking up takes longer than many a batch.
"""

from __future__ import annotations

import numpy as np

from mainstem.atomics import SPINS, YIELDS, atomic_load, atomic_store, inlined, rest_at_work
from mainstem.jit import kernel

# Turns of `rest`; from SPINS on each gives the core away, for about half a microsecond if nobody wants it.
PATIENCE = SPINS + YIELDS
PATIENCE_BETWEEN = SPINS + 4 * YIELDS  # of threads between two batches: the caller has to turn from one to the next
# From the first line of a task to compiled code: kernels of strategies have few arguments, the serial one many.
SETTLING, SETTLING_SERIAL = 6, 30


@inlined
def _wait(counters: np.ndarray, index: int, value: int, patience: int) -> None:
    turn = 0
    while turn < patience and atomic_load(counters, index) < value:
        turn = rest_at_work(turn)


@kernel
def wait_briefly(counters: np.ndarray, index: int, value: int) -> None:
    """Returns when `counters[index]` is `value` or more, or after some microseconds."""
    _wait(counters, index, value, PATIENCE)


@kernel
def tell(started: np.ndarray, value: int, looking: np.ndarray, begun: np.ndarray, settling: int) -> None:
    """Raises `started[0]`. If its thread is looking out for that, returns when `begun[0]` is as high and the thread has
    had the time to get from there to compiled code, `settling` turns, or after some microseconds; else at once."""
    atomic_store(started, 0, value)
    if atomic_load(looking, 0) != 0:
        _wait(begun, 0, value, PATIENCE)
        for turn in range(settling):
            rest_at_work(SPINS + turn)


@kernel
def look_out(ended: np.ndarray, value: int, awaited: np.ndarray, looking: np.ndarray, started: np.ndarray) -> None:
    """Raises `ended[0]`; then, unless somebody sleeps until that is known, returns when `started[0]` is higher, or
    after some microseconds."""
    atomic_store(looking, 0, 1)
    atomic_store(ended, 0, value)
    if atomic_load(awaited, 0) == 0:
        _wait(started, 0, value + 1, PATIENCE_BETWEEN)
    atomic_store(looking, 0, 0)
