"""Which rows come next: those that no other input can still precede."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

import numpy as np

from mainstem.errors import InputError
from mainstem.gate.assemble import Slice
from mainstem.gate.cuts import Cuts
from mainstem.gate.kernels import first_rows
from mainstem.gate.stream import Stream

Taken = list[list[Slice]]
"""Rows in order per input; inputs without rows are left out."""


class Merger:
    """Takes ready events. Rows of all inputs come in the order of `(clock, input, offset)`; in inputs that are sorted
    that is the total order."""

    def __init__(self, streams: Sequence[Stream], batch_size: int) -> None:
        self._streams, self._batch_size = streams, batch_size

    @property
    def position(self) -> tuple[int, ...]:
        return tuple(stream.consumed for stream in self._streams)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def drop(self, cuts: Cuts) -> None:
        """Leave out the events of the batches that were cut like this."""
        done = 0
        for size, end in cuts.spans:
            while done < end:
                taken = sum(map(len, chain.from_iterable(self._take_of(size, end - done))))
                if not taken:
                    raise InputError(
                        f"the inputs hold {done} good events, but {cuts.events} were already processed\n"
                        "  give the same inputs as before"
                    )
                done += taken

    def _take_of(self, size: int, left: int) -> Taken:
        """Some of the next `left` events, which an earlier run took in batches of `size`."""
        return self.take(min(size, left))

    def take(self, count: int) -> Taken:
        """The next `count` events (fewer at the end)."""
        taken: Taken = [[] for _ in self._streams]
        left = count
        while left and (live := self._live(left)):
            for number, part in self._step(live, left):
                taken[number].append(part)
                left -= len(part)
        return [slices for slices in taken if slices]

    def _live(self, left: int) -> list[int]:
        """The inputs with rows at hand. A single input is read in steps that fit the batch: batches stay views."""
        limit = left if len(self._streams) == 1 else self._batch_size
        return [number for number, stream in enumerate(self._streams) if stream.fill(limit)]

    def _step(self, live: list[int], limit: int) -> list[tuple[int, Slice]]:
        """The rows that come next, `limit` at most, as some of the rows at hand of some inputs."""
        if len(live) == 1:  # nothing can precede its rows
            stream = self._streams[live[0]]
            return [(live[0], stream.take(min(stream.at_hand, limit)))]
        clocks = [self._streams[number].clock for number in live]
        ready = ready_rows(clocks)
        if sum(ready) > limit:
            ready = first_rows([clock[:rows] for clock, rows in zip(clocks, ready, strict=True)], limit)
        return [(number, self._streams[number].take(rows)) for number, rows in zip(live, ready, strict=True) if rows]


def ready_rows(clocks: list[np.ndarray]) -> list[int]:
    """How many rows at hand of each live input are ready.

    The input whose last row at hand is smallest decides: any input may still deliver rows with the clock of its
    last row, and they precede equal ones of inputs that come later in the list.
    """
    slowest = min(range(len(clocks)), key=lambda at: (clocks[at][-1], at))
    return rows_before(clocks, slowest, int(clocks[slowest][-1]), len(clocks[slowest]))


def rows_before(clocks: list[np.ndarray], number: int, clock: int, rows: int) -> list[int]:
    """How many rows of each input come up to a row of input `number`: its first `rows`, the last with `clock`."""
    return [
        rows if at == number else int(np.searchsorted(other, clock, side="right" if at < number else "left"))
        for at, other in enumerate(clocks)
    ]
