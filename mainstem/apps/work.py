"""Computation of a chosen length inside transactions: what a user-defined function costs per row that it writes.

Programs call `burn` on a value that they read from state, so that the work can't be done before the state is known, and
store what comes out, so that it can't be left out. Generators put the number of turns into the events: as microseconds
(`cost`), which differ from machine to machine, or as turns, which give the same log everywhere.
"""

from __future__ import annotations

import functools
import statistics
import time
from typing import Any

from mainstem.errors import InputError
from mainstem.jit import kernel

__all__ = ["MODULUS", "burn", "compiled_burn", "turns_for", "turns_per_microsecond"]

MODULUS = 2_147_483_647
"""A prime. What `burn` gives is below it, so that programs may add up and multiply such values within 64 bits."""

_TURNS_TIMED = 20_000  # about 0.1 ms compiled: long for the clock, too short to be interrupted often
_RUNS = 15


def burn(value: int, work: int) -> int:
    """`value` after `work` turns, each of which needs the result of the one before; with no turns, `value % MODULUS`.

    A turn is a multiplication and a remainder: no compiler knows a short cut through a chain of these.
    """
    value = value % MODULUS
    for _ in range(work):
        value = (value * 48_271 + 11) % MODULUS
    return value


compiled_burn: Any = kernel(burn)
"""For kernels. Programs use `burn`: Mainstem compiles what they call."""


@functools.cache
def turns_per_microsecond() -> float:
    """Turns of `burn` that this machine does in a microsecond, measured once per process."""
    compiled_burn(1, 1)  # compiles
    return _TURNS_TIMED / statistics.median(_microseconds() for _ in range(_RUNS))


def _microseconds() -> float:
    started = time.perf_counter()
    compiled_burn(1, _TURNS_TIMED)
    return (time.perf_counter() - started) * 1e6


def turns_for(cost: float, turns: int | None) -> int:
    """The turns that an event carries: `turns` when given, else as many as take `cost` microseconds here."""
    if turns is None and cost >= 0:
        return round(cost * turns_per_microsecond()) if cost else 0
    if turns is None or turns < 0:
        given = f"cost={cost}" if turns is None else f"turns={turns}"
        raise InputError(f"{given} is negative: give the work per written row as a number from 0")
    return turns
