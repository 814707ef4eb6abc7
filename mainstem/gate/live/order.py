"""What an implementation of the gate does: keep the times of waiting rows, and say which come next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np

from mainstem.schema import INT64_MAX


class Mark(NamedTuple):
    """A place in the total order, without an offset."""

    ts: int
    input: int


@dataclass(frozen=True)
class Next:
    """The rows that come next: how many of each input, and in which order unless it is left to a merge."""

    counts: list[int]
    watermark: Mark | None
    merged: tuple[np.ndarray, np.ndarray] | None = None  # their ts, and their places, inputs put one behind the other

    def __len__(self) -> int:
        return sum(self.counts)


class Order(Protocol):
    """One thread at a time calls the first three methods for an input, with a `ts` that never goes back; one thread at
    a time, which may be another one, takes rows."""

    def add(self, number: int, ts: np.ndarray) -> None:
        """Sorted rows have come from an input."""

    def promise(self, number: int, ts: int) -> None:
        """Nothing before `ts` will come from an input."""

    def close(self, number: int) -> None:
        """Nothing more will come from an input."""

    def take(self, limit: int) -> Next:
        """Up to `limit` rows that are ready."""


def the_end(inputs: int) -> Mark:
    """The watermark when all inputs are closed: behind all events."""
    return Mark(INT64_MAX, inputs)
