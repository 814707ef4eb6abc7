"""What a transaction of each function costs, as measured: so that threads get about the same work.

A kernel times some of its transactions, by worker and function. A worker that lost its core meanwhile has measured too
much, so the least of all workers counts.
"""

from __future__ import annotations

import numpy as np

STEPS = 8  # weights are whole numbers: the lightest function has this one
LINE_FUNCTIONS = 4  # functions whose figures fill a cache line: workers write to lines of their own


class Weights:
    """Functions that have not run yet count as the others do."""

    def __init__(self, functions: int) -> None:
        self._ticks = np.zeros(max(1, functions))  # per transaction; 0: unknown

    def sheet(self, workers: int) -> np.ndarray:
        """For a kernel to fill: `[worker, function]`, ticks and number of the transactions that it has timed."""
        lines = -(-len(self._ticks) // LINE_FUNCTIONS)
        return np.zeros((workers, lines * LINE_FUNCTIONS, 2), np.int64)

    def learn(self, sheet: np.ndarray) -> None:
        ticks, timed = sheet[:, : len(self._ticks), 0], sheet[:, : len(self._ticks), 1]
        each = np.where(timed > 0, ticks / np.maximum(timed, 1), np.inf).min(axis=0)
        ran = np.isfinite(each)
        before = self._ticks[ran]
        self._ticks[ran] = np.where(before > 0, (before + each[ran]) / 2, each[ran])

    def whole_numbers(self) -> np.ndarray:
        """By function, relative to each other."""
        known = self._ticks > 0
        if not known.any():
            return np.full(len(self._ticks), STEPS, np.int64)
        ticks = np.where(known, self._ticks, self._ticks[known].mean())
        return np.maximum(1, np.rint(STEPS * ticks / ticks.min())).astype(np.int64)
