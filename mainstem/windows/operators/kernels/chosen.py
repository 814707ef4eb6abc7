"""Looks at the rows of an input: are they sorted, and which of them fulfil the condition, whose bits Arrow keeps?"""

from __future__ import annotations

import numpy as np

from mainstem.windows.slide import ALL_BITS, BITS, WORD, lowest

from .base import kernel


@kernel
def in_order(earlier: np.ndarray, later: np.ndarray) -> bool:
    """Whether no time is before the one before it. Looks at all, and without a sum as an index: so it is vectorized."""
    wrong = 0
    for row in range(len(later)):
        wrong |= 1 if later[row] < earlier[row] else 0
    return wrong == 0


@kernel
def chosen_rows(words: np.ndarray, offset: int, low: int, high: int, out: np.ndarray) -> int:
    """Lists the rows from `low` on, before `high`, whose bits are set; gives their number. Row 0 is bit `offset`."""
    found = 0
    first, stop = offset + low, offset + high
    for word in range(first >> BITS, (stop + WORD - 1) >> BITS):
        bits = int(np.int64(words[word]))
        begin = word << BITS
        if begin < first:
            bits &= ALL_BITS << (first - begin)
        if stop < begin + WORD:
            bits &= (1 << (stop - begin)) - 1
        while bits != 0:
            out[found] = begin + lowest(bits) - offset
            found += 1
            bits &= bits - 1
    return found
