"""Looks at the rows of an input: are they sorted, and which of them fulfil the condition, whose bits Arrow keeps?"""

from __future__ import annotations

import numpy as np

from .base import bits_from, inlined, kernel, lowest, without_lowest

BITS, WORD = 6, 64
UNSORTED = -1


@kernel
def in_order(ts: np.ndarray, low: int, high: int) -> bool:
    """Whether none of these rows is before the one before it."""
    return ascends(ts, low, high)


@inlined
def ascends(ts: np.ndarray, low: int, high: int) -> bool:
    """Looks at all, and without a sum as an index: so it is vectorized."""
    low, wrong = max(low, 1), 0
    if low >= high:
        return True
    earlier, later = ts[low - 1 : high - 1], ts[low:high]
    for row in range(len(later)):
        wrong |= 1 if later[row] < earlier[row] else 0
    return wrong == 0


@kernel
def choose_rows(
    ts: np.ndarray, low: int, high: int, words: np.ndarray, offset: int, rows: np.ndarray, times: np.ndarray
) -> int:  # fmt: skip
    """Lists the rows from `low` on, before `high`, whose bits are set, and their times; row 0 is bit `offset`.

    Gives how many these are, or UNSORTED.
    """
    if not ascends(ts, low, high):
        return UNSORTED
    found = 0
    first, stop = offset + low, offset + high
    for word in range(first >> BITS, (stop + WORD - 1) >> BITS):
        bits = words[word]
        begin = word << BITS
        if begin < first:
            bits &= bits_from(first - begin)
        if stop < begin + WORD:
            bits &= ~bits_from(stop - begin)
        while bits != 0:
            row = begin + lowest(bits) - offset
            rows[found], times[found] = row, ts[row]
            found += 1
            bits = without_lowest(bits)
    return found
