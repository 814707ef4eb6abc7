"""What one batch gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class BatchStats:
    """Counts and seconds of one batch. `engine` is the strategy that ran it."""

    events: int
    transactions: int
    committed: int
    aborted: int
    engine: str
    seconds_keys: float
    seconds_run: float
    seconds_outputs: float


@dataclass(frozen=True)
class BatchResult:
    outputs: pa.RecordBatch
    stats: BatchStats
    _deltas: Callable[[], dict[str, pa.Table]]

    def deltas(self) -> dict[str, pa.Table]:
        """The rows that the batch changed, one per key, with their final values. Call it before the next batch runs."""
        return self._deltas()
