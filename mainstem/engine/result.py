"""What one batch gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa


@dataclass(frozen=True)
class Breakdown:
    """Seconds of all threads of a batch by what they were spent on, as TStream and MorphStream report them."""

    useful: float = 0.0  # inside the functions
    sync: float = 0.0  # waiting for a turn, a version or a barrier
    lock: float = 0.0  # asking for locks and waiting for them; without locks, looking for conflicts
    construct: float = 0.0  # operations, versions, graphs
    explore: float = 0.0  # looking for work that can run
    abort: float = 0.0  # undoing and repeating

    @property
    def threads(self) -> float:
        """All that threads did together."""
        return self.useful + self.sync + self.lock + self.explore + self.abort


@dataclass(frozen=True)
class Ran:
    """How the transactions of a batch were run."""

    engine: str
    why: str = ""
    threads: int = 1
    breakdown: Breakdown | None = None
    retries: int = 0


@dataclass(frozen=True)
class BatchStats:
    """Counts and seconds of one batch. `engine` is the strategy that ran it, `why` the reason when `auto` chose it.

    `retries` counts executions that a protocol repeated because of others.
    """

    events: int
    transactions: int
    committed: int
    aborted: int
    engine: str
    seconds_keys: float
    seconds_run: float
    seconds_outputs: float
    why: str = ""
    threads: int = 1
    breakdown: Breakdown | None = None
    retries: int = 0

    @property
    def seconds(self) -> float:
        return self.seconds_keys + self.seconds_run + self.seconds_outputs


@dataclass(frozen=True)
class RawResult:
    """Per transaction, as kernels left it. `ret` and `nulls` hold until the next batch runs."""

    code: np.ndarray  # int16: why it aborted; 0 when it committed
    ret: np.ndarray  # number of the return that it took, 0 for none and after an abort
    columns: list[np.ndarray]  # storage of each output column; undefined where the return does not give it
    nulls: list[np.ndarray | None]  # flags of the columns that may be null
    aborted: int


@dataclass(frozen=True)
class BatchResult:
    outputs: pa.RecordBatch
    stats: BatchStats
    _deltas: Callable[[], dict[str, pa.Table]]

    def deltas(self) -> dict[str, pa.Table]:
        """The rows that the batch changed, one per key, with their final values. Call it before the next batch runs."""
        return self._deltas()
