"""Rows wait in a structure that threads share, event by event; it gives them out in order."""

from __future__ import annotations

import threading
from collections import deque
from types import ModuleType
from typing import Any

import numpy as np

from mainstem.gate.live.kernels import places, tgate
from mainstem.gate.live.order import Mark, Next, the_end

RING = 4096  # nodes of an input: memory of the list is bounded, rows beyond wait as columns
_CLOSE = "close"


class Listed:
    """The implementation for the latency of single events. `kernels` is the module of the structure: T-Gate, or one of
    those that it is measured against.

    What has no place in the structure waits in a backlog of its input, and gets there as soon as there is room: when
    the input's thread comes again, or when rows are taken.
    """

    def __init__(self, inputs: int, kernels: ModuleType = tgate, ring: int = RING) -> None:
        self._kernels: Any = kernels
        self._shared = kernels.create(inputs, ring)
        self._backlog: list[deque[np.ndarray | int | str]] = [deque() for _ in range(inputs)]
        self._locks = [threading.Lock() for _ in range(inputs)]

    def add(self, number: int, ts: np.ndarray) -> None:
        self._put(number, ts)

    def promise(self, number: int, ts: int) -> None:
        self._put(number, ts)

    def close(self, number: int) -> None:
        self._put(number, _CLOSE)

    def take(self, limit: int) -> Next:
        inputs, ts = np.empty(limit, np.int64), np.empty(limit, np.int64)
        taken, progress = 0, True
        while taken < limit and progress:
            fed = [self._feed(number) for number, backlog in enumerate(self._backlog) if backlog]
            found = self._kernels.take_ready(self._shared, 0, inputs[taken:], ts[taken:])
            taken += found
            progress = bool(found) or any(fed)
        counts = np.bincount(inputs[:taken], minlength=len(self._locks)).tolist()
        if taken == limit and taken:
            watermark: Mark | None = Mark(int(ts[-1]), int(inputs[-1]))
        else:
            watermark = self._watermark()
        order = np.empty(taken, np.int64)
        places.places_of(inputs[:taken], np.cumsum([0, *counts])[:-1], order)
        return Next(counts, watermark, (ts[:taken], order))

    def _watermark(self) -> Mark | None:
        ts, number, state = self._kernels.frontier(self._shared, 0)
        if state == places.FINISHED:
            return the_end(len(self._locks))
        return None if state == places.SILENT else Mark(int(ts), int(number))

    def _put(self, number: int, entry: np.ndarray | int | str) -> None:
        self._backlog[number].append(entry)
        self._feed(number)

    def _feed(self, number: int) -> bool:
        """Moves what there is room for; False if that is nothing."""
        backlog, moved = self._backlog[number], False
        with self._locks[number]:
            while backlog:
                entry = backlog[0]
                if isinstance(entry, np.ndarray):
                    end = int(self._kernels.insert_rows(self._shared, number, entry, 0, len(entry), 0))
                    moved = moved or end > 0
                    if end < len(entry):
                        backlog[0] = entry[end:]
                        return moved
                elif entry == _CLOSE:
                    self._kernels.close_input(self._shared, number)
                elif not self._kernels.insert_mark(self._shared, number, entry):
                    return moved
                backlog.popleft()
                moved = True
        return moved
