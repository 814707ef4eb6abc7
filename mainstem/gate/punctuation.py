"""Inputs whose events may be out of order inside a batch.

A punctuation closes a batch: it releases the batch's events, in total order `(ts, input, offset)`, and nothing may come
before them any more. With `unsorted="batch"`:

1. The **clock** of a row is the largest `ts` of its input up to and with the row.
2. Rows of all inputs **arrive** in the order of `(clock, input, offset)`. It depends on the inputs alone, not on how
   fast or in what pieces they are read. In sorted inputs it is the total order, since the clock of a row is its `ts`.
3. A row that arrives with a `ts` below the largest `ts` released so far is **late**: an error, or a reject that
   takes no place in a batch.
4. A batch is the next `batch` rows that arrive and are not late. It is closed when it is full, or when all inputs end.

So sorted inputs give the very same batches as without the option; inputs with rows shuffled inside these batches give
them too; and `batch=1` is the same as refusing every row that goes back in time.

Memory stays that of one batch and of one chunk per input, as for sorted inputs. An input with an event that is early by
much has a clock that is early by as much: its next rows wait until the other inputs have come so far.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mainstem.gate.assemble import Slice
from mainstem.gate.kernels import first_rows
from mainstem.gate.ready import Merger, Taken, ready_rows, rows_before
from mainstem.gate.stream import Stream
from mainstem.schema import INT64_MIN


class PunctuatedMerger(Merger):
    """Takes the events of a batch as they arrive, and sorts out those that are late. It does not put them in order."""

    def __init__(self, streams: Sequence[Stream], batch_size: int) -> None:
        super().__init__(streams, batch_size)
        self._released = INT64_MIN
        self._each_alone = False

    def take(self, count: int) -> Taken:
        self._live(count)  # rows to skip count as released, and are known when the first row behind them is
        # A clock is the ts of a row of its input that arrived before and was not late, so that ts is released.
        self._released = max((stream.reached for stream in self._streams), default=INT64_MIN)
        return super().take(count)

    def _take_of(self, size: int, left: int) -> Taken:
        """In batches of one event, what is late shows without cutting them: every row that goes back in time is."""
        self._each_alone = size == 1
        taken = self.take(min(self._batch_size if self._each_alone else size, left))
        self._each_alone = False
        return taken

    def _step(self, live: list[int], limit: int) -> list[tuple[int, Slice]]:
        streams = [self._streams[number] for number in live]
        late = [] if all(stream.in_order for stream in streams) else [self._late(stream) for stream in streams]
        if not any(rows.any() for rows in late):
            return super()._step(live, limit)
        clocks = [stream.clock for stream in streams]
        ready = ready_rows(clocks)
        fresh = [np.flatnonzero(~rows[:count]) for rows, count in zip(late, ready, strict=True)]
        if sum(map(len, fresh)) >= limit:
            ready = _until_full(clocks, fresh, limit)
        self._report(streams, late, ready)
        return [
            (number, part)
            for number, stream, rows, count in zip(live, streams, late, ready, strict=True)
            if count and len(part := _without(stream.take(count), rows[:count]))
        ]

    def _late(self, stream: Stream) -> np.ndarray:
        """Which rows at hand are late, if they arrive before this batch is full. Later on they are so all the more."""
        if stream.in_order:  # each row has the largest clock so far, and its ts is its clock
            return np.zeros(len(stream.ts), dtype=bool)
        return stream.ts < self._bound(stream)

    def _bound(self, stream: Stream) -> np.ndarray:
        return stream.clock if self._each_alone else np.broadcast_to(np.int64(self._released), len(stream.clock))

    def _report(self, streams: list[Stream], late: list[np.ndarray], ready: list[int]) -> None:
        """Name the late rows among those that are ready, beginning with the input whose late row arrives first."""
        found = [
            (int(stream.clock[rows[0]]), number, stream, rows)
            for number, (stream, flags, count) in enumerate(zip(streams, late, ready, strict=True))
            if len(rows := np.flatnonzero(flags[:count]))
        ]
        for _, _, stream, rows in sorted(found, key=lambda item: item[:2]):
            stream.report_late(rows, self._bound(stream)[rows])


def _until_full(clocks: list[np.ndarray], fresh: list[np.ndarray], limit: int) -> list[int]:
    """How many rows of each input arrive until `limit` of the fresh ones have; those behind are in the next batch."""
    counts = first_rows([clock[rows] for clock, rows in zip(clocks, fresh, strict=True)], limit)
    last = [(int(clocks[at][fresh[at][count - 1]]), at) for at, count in enumerate(counts) if count]
    clock, number = max(last)
    return rows_before(clocks, number, clock, int(fresh[number][counts[number] - 1]) + 1)


def _without(part: Slice, late: np.ndarray) -> Slice:
    """The rows of a slice that are not late."""
    if not late.any():
        return part
    keep = np.zeros(len(part.chunk), dtype=bool)
    keep[part.start : part.stop] = ~late
    chunk = part.chunk.where(keep)
    return Slice(chunk, 0, len(chunk))
