"""Transactions that a thread runs one after the other, by one call of generated code."""

from __future__ import annotations

import numpy as np

from .base import STRETCH_BITS, inlined, invoke


@inlined
def run_one(direct: int, context: int, t: int, w: int) -> None:
    invoke(direct, context, t << STRETCH_BITS, w)


@inlined
def run_stretch(direct: int, context: int, todo: np.ndarray, begin: int, end: int, w: int) -> int:
    """Runs those of `todo` from `begin` on that are neighbours in the batch, at most up to `end`; gives how many."""
    n = 1
    while begin + n < end and todo[begin + n] == todo[begin] + n and n < 1 << STRETCH_BITS:
        n += 1
    invoke(direct, context, todo[begin] << STRETCH_BITS | n - 1, w)
    return n
