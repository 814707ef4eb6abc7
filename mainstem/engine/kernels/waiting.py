"""Waiting for a number that another thread raises."""

from __future__ import annotations

import numpy as np

from .base import atomic_load, inlined, rest, ticks
from .control import LINE, STOP


@inlined
def wait_until(counters: np.ndarray, index: int, value: int, control: np.ndarray) -> int:
    """Waits until `counters[index]`, which only grows, is `value` or more.

    Gives the ticks that it took, 0 when there was nothing to wait for, -1 when the run is stopped. Most waits are over
    before they begin, so those don't even look at the time.
    """
    if atomic_load(counters, index) >= value:
        return 0
    begin = ticks()
    turn = 0
    while atomic_load(counters, index) < value:
        if atomic_load(control, STOP * LINE) != 0:
            return -1
        turn = rest(turn)
    return max(ticks() - begin, 0)
