"""Waiting for a number that another thread raises, for those who have something better to sleep on."""

from __future__ import annotations

import numpy as np

from mainstem.atomics import SPINS, YIELDS, atomic_load, rest
from mainstem.jit import kernel

PATIENCE = SPINS + YIELDS  # turns of `rest` before it would sleep


@kernel
def wait_briefly(counters: np.ndarray, index: int, value: int) -> None:
    """Returns when `counters[index]` is `value` or more, or after some microseconds."""
    turn = 0
    while turn < PATIENCE and atomic_load(counters, index) < value:
        turn = rest(turn)
