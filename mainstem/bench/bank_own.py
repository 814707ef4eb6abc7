"""The transfers on Mainstem, as one contender among the others: batch after batch, as `app.run` does it.

Time counts from the first batch until every transfer is as durable as was asked for and its output row is there.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import numpy as np
import pyarrow as pa

import mainstem as ms
from mainstem.app import BATCH
from mainstem.bench.bank_peers import LATER, MEMORY, SYNCED, Config, Peer, Turn
from mainstem.bench.bank_programs import transfers
from mainstem.bench.bank_workload import Workload, account_table
from mainstem.bench.engines import batches_of
from mainstem.engine import make_executor
from mainstem.gate import EventBatch
from mainstem.state import State
from mainstem.store import DurableRun

MAINSTEM = "Mainstem"
SMALL_BATCH = 100  # as many as the pipelined contenders have under way

Kept = Literal["none", "batch", "sync"]
_DURABLE = {None: MEMORY, "none": LATER, "batch": SYNCED, "sync": SYNCED}


class _InMemory:
    """State that lives and dies with the process; every batch is done when it has run."""

    def __init__(self, tables: dict[str, pa.Table]) -> None:
        program = transfers.program
        self._state = State({table.name: table for table in program.tables})
        self._state.load(tables)
        self._executor = make_executor(program, self._state)
        self.done, self._seq = 0, 0

    def run(self, batch: EventBatch) -> pa.RecordBatch:
        outputs = self._executor.run(batch, self._seq).outputs
        self.done, self._seq = self.done + 1, self._seq + len(batch)
        return outputs

    def flush(self) -> None:
        """Nothing is under way."""

    def account(self) -> pa.Table:
        return self._state.export()["Account"]

    def close(self) -> None:
        """Nothing is open."""


class _InDirectory:
    """State in a directory."""

    def __init__(self, path: Path, tables: dict[str, pa.Table], durability: Kept) -> None:
        self._path = path
        self._run = DurableRun(transfers.program, path, initial=tables, durability=durability)
        self._run.store.flush()
        self._before = self._run.store.epoch

    @property
    def done(self) -> int:
        """Batches whose outputs may be seen."""
        return self._run.store.durable - self._before

    def run(self, batch: EventBatch) -> pa.RecordBatch:
        return self._run.run(batch).outputs

    def flush(self) -> None:
        self._run.store.flush()

    def account(self) -> pa.Table:
        """As another process sees it."""
        with ms.open(self._path) as db:
            return db.table("Account")

    def close(self) -> None:
        self._run.close()


class OwnPeer:
    """One configuration: durability (None: in memory) and transfers per commit."""

    def __init__(self, folder: Path, workload: Workload, durability: Kept | None, batch: int) -> None:
        setting = "no directory" if durability is None else f"durability={durability}"
        self.config = Config(MAINSTEM, f"batches of {batch:,}", setting, _DURABLE[durability])
        self._folder, self._workload, self._durability, self._batch = folder, workload, durability, batch
        self.step = batch  # a batch that is not full would be another configuration
        self._running: _InMemory | _InDirectory | None = None

    def reset(self) -> None:
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        tables = account_table(self._workload.start())
        if self._durability is None:
            self._running = _InMemory(tables)
        else:
            self._running = _InDirectory(self._folder, tables, self._durability)

    def run(self, first: int, count: int) -> Turn:
        """The latency is the mean over batches: from handing over to the moment that its outputs may be seen."""
        return self._timed(self._workload.transfers(count, first).events, alone=False)

    def run_alone(self, first: int, count: int) -> Turn:
        """The same, but the next batch comes when the one before is done."""
        return self._timed(self._workload.transfers(count, first).events, alone=True)

    def _timed(self, events: pa.Table, *, alone: bool) -> Turn:
        running = self._running
        assert running is not None, "reset comes first"
        outputs, waiting, latencies = [], deque[tuple[int, float]](), []
        number = running.done
        began = time.perf_counter()
        for batch in batches_of(transfers.program, events, self._batch):
            number += 1
            waiting.append((number, time.perf_counter()))
            outputs.append(running.run(batch))
            if alone:
                running.flush()
            latencies += list(_done(waiting, running.done))
        running.flush()
        latencies += list(_done(waiting, number))
        return Turn(time.perf_counter() - began, sum(latencies) / len(latencies))

    def balances(self) -> np.ndarray:
        assert self._running is not None, "reset comes first"
        return self._running.account()["balance"].to_numpy()

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
        self._running = None


def _done(waiting: deque[tuple[int, float]], number: int) -> Iterator[float]:
    """Takes batches up to `number` out of those that wait: seconds that each has waited."""
    now = time.perf_counter()
    while waiting and waiting[0][0] <= number:
        yield now - waiting.popleft()[1]


@contextmanager
def own_peers(workload: Workload) -> Iterator[tuple[str, list[Peer]]]:
    """The version, and every configuration."""
    wanted: list[tuple[Kept | None, int]] = [("batch", BATCH), ("sync", BATCH), ("none", BATCH), (None, BATCH)]
    wanted += [("batch", SMALL_BATCH), ("sync", SMALL_BATCH), ("sync", 1)]
    with tempfile.TemporaryDirectory(prefix="mainstem-bank-") as folder:
        peers = [OwnPeer(Path(folder) / str(number), workload, *one) for number, one in enumerate(wanted)]
        try:
            yield ms.__version__, list(peers)
        finally:
            for peer in peers:
                peer.close()
