"""Loops that NumPy has no fast form for. They run the same with the JIT off."""

from __future__ import annotations

from collections.abc import Sequence

import numba
import numpy as np

_kernel = numba.njit(nogil=True, cache=True)


def merge_order(runs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All rows of sorted runs by (ts, run): their ts, and their places in the runs put one behind the other."""
    ts = np.concatenate(runs)
    order = np.arange(len(ts), dtype=np.int64)
    bounds = np.cumsum([0, *(len(run) for run in runs)])
    while len(bounds) > 2:
        next_ts, next_order = np.empty_like(ts), np.empty_like(order)
        _merge_pairs(ts, order, bounds, next_ts, next_order)
        ts, order = next_ts, next_order
        bounds = bounds[::2] if len(bounds) % 2 else np.append(bounds[::2], bounds[-1])
    return ts, order


@_kernel
def _merge_pairs(
    ts: np.ndarray, order: np.ndarray, bounds: np.ndarray, merged_ts: np.ndarray, merged_order: np.ndarray
) -> None:
    """Merge run 0 with run 1, run 2 with run 3, …; run r is `ts[bounds[r]:bounds[r + 1]]`; an odd last run is copied.

    The inner loop has no branch on the data: which head is smaller is a coin flip that a processor can't predict.
    """
    at = 0
    runs = len(bounds) - 1
    for run in range(0, runs, 2):
        left, left_end = bounds[run], bounds[run + 1]
        right, right_end = left_end, bounds[min(run + 2, runs)]
        while left < left_end and right < right_end:
            from_right = np.int64(ts[right] < ts[left])
            head = left + (right - left) * from_right
            merged_ts[at] = ts[head]
            merged_order[at] = order[head]
            right += from_right
            left += 1 - from_right
            at += 1
        for row in range(left, left_end):
            merged_ts[at], merged_order[at] = ts[row], order[row]
            at += 1
        for row in range(right, right_end):
            merged_ts[at], merged_order[at] = ts[row], order[row]
            at += 1


def first_rows(runs: Sequence[np.ndarray], limit: int) -> list[int]:
    """How many rows of each sorted run are among the first `limit` of all by (ts, run); there are at least as many."""
    low = min(int(run[0]) for run in runs if len(run))
    high = max(int(run[-1]) for run in runs if len(run))
    while low < high:  # the smallest ts up to which there are enough rows
        middle = (low + high) // 2
        if sum(int(np.searchsorted(run, middle, side="right")) for run in runs) >= limit:
            high = middle
        else:
            low = middle + 1
    counts = [int(np.searchsorted(run, low, side="left")) for run in runs]
    left = limit - sum(counts)
    for number, run in enumerate(runs):  # rows with this very ts: earlier inputs first
        ties = min(left, int(np.searchsorted(run, low, side="right")) - counts[number])
        counts[number] += ties
        left -= ties
    return counts
