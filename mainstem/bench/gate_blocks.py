"""What the merge of blocks costs: the order of rows alone, and a gate from `insert` to `ready`."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstem.gate import Gate
from mainstem.gate.kernels import merge_order

ORDER_ROWS = 65_536  # of all inputs together; they stay in the processor's cache
INSERT_ROWS = 16_384  # of one input: about as many as a Parquet page or an Arrow batch brings
SCHEMA = pa.schema([pa.field(name, pa.int64(), nullable=False) for name in ("ts", "value")])


@dataclass
class BlockRates:
    """Events per second of CPU time: both run in one thread."""

    inputs: int
    order: float
    gate: float


def block_rates(inputs: int, ts: np.ndarray, least: int) -> BlockRates:
    """`ts`: of each input as many sorted times; at least `least` events are merged."""
    return BlockRates(inputs, _order_rate(ts[:, : ORDER_ROWS // inputs], least), _gate_rate(ts))


def _order_rate(ts: np.ndarray, least: int) -> float:
    """`merge_order` again and again on the same rows: what the merge itself could do."""
    runs, turns = list(np.ascontiguousarray(ts)), max(1, least // ts.size)
    start = time.process_time()
    for _ in range(turns):
        merge_order(runs)
    return turns * ts.size / (time.process_time() - start)


def _gate_rate(ts: np.ndarray) -> float:
    """Every input brings a block of `ts` and one more column, then what is ready is read, as tables."""
    gate = Gate(len(ts), events=SCHEMA, kind="blocks")
    rounds = [
        [_block(times[first : first + INSERT_ROWS]) for times in ts] for first in range(0, ts.shape[1], INSERT_ROWS)
    ]
    start, taken = time.process_time(), 0
    for blocks in rounds:
        for number, block in enumerate(blocks):
            gate.insert(block, input=number)
        taken += sum(map(len, gate.ready()))
    for number in range(len(ts)):
        gate.close(number)
    taken += sum(map(len, gate.ready()))
    assert taken == ts.size
    return taken / (time.process_time() - start)


def _block(ts: np.ndarray) -> pa.RecordBatch:
    return pa.record_batch([pa.array(ts), pa.array(-ts)], schema=SCHEMA)
