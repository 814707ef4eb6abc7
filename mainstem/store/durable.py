"""A program on a store: recover, run batches, commit each before its outputs are visible."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from mainstem.engine import BatchResult, make_executor
from mainstem.errors import InputError
from mainstem.gate import EventBatch
from mainstem.lang import Program
from mainstem.state import State
from mainstem.store.lock import FolderLock
from mainstem.store.outputs import Output, discard_staged, hold_folder, pending
from mainstem.store.parquet import write_outputs
from mainstem.store.partitions import gather, load_state
from mainstem.store.recovery import Told
from mainstem.store.snapshot import KEEP
from mainstem.store.store import Store
from mainstem.store.writer import Durability

QUERIES = "queries"
"""Key of a commit's meta: the last batch of every live query on this state. Every commit carries it on."""


_NO_OPTIONS: Mapping[str, Any] = MappingProxyType({})


class DurableRun:
    """The steps of one batch: 1 run in memory, 2 stage outputs, 3 commit, 4 publish outputs.

    With `durability="batch"` a thread of the store does 2 to 4 for all batches that wait, while the next ones run.
    """

    def __init__(
        self, program: Program, path: str | Path, *, initial: Mapping[str, pa.Table] | None = None,
        out: str | Path | None = None, durability: Durability = "sync", keep: int = KEEP,
        how: Mapping[str, Any] = _NO_OPTIONS, told: Told | None = None,
    ) -> None:  # fmt: skip
        schemas = {t.name: t for t in program.tables}
        self.store, self.out = Store.open(path, schemas, durability=durability, keep=keep, told=told), out
        self._folder: FolderLock | None = None
        try:
            if out is not None:
                self._folder = hold_folder(Path(out), self.store.path, self.store.meta)
            self.state = load_state(self.store, State(schemas))
            self.store.publish_pending()
            gather(self.store, self.state)
            if out is not None:
                discard_staged(out)
            if self.store.epoch == 0 and initial:
                self.state.load(initial)
            # What the engine refuses is refused before anything is committed.
            self.executor = make_executor(program, self.state, track=True, **how)
            if self.store.epoch == 0 and initial:
                self.store.commit(dict(initial), {"seq": 0, "ts": None})
        except BaseException:
            self.close()
            raise

    @property
    def seq(self) -> int:
        """How many events are committed."""
        return int(self.store.meta.get("seq", 0))

    def run(self, batch: EventBatch, also: Callable[[BatchResult], dict[str, Any]] = lambda result: {}) -> BatchResult:
        """Execute and commit one batch. `also` gives more to keep in the commit's meta."""
        self._check_order(batch)
        result = self.executor.run(batch, self.seq)
        meta: dict[str, Any] = {"seq": self.seq + len(batch), "ts": int(batch.ts[-1])}
        if QUERIES in self.store.meta:
            meta[QUERIES] = self.store.meta[QUERIES]
        meta |= also(result)
        outputs = []
        if self.out is not None:
            outputs.append(self._output(self.out, result.outputs))
            meta |= pending(self.out, [output.staged for output in outputs])
        self.store.commit(result.deltas(), meta, outputs=outputs)
        return result

    def _check_order(self, batch: EventBatch) -> None:
        last = self.store.meta.get("ts")
        if last is not None and len(batch) and batch.ts[0] < last:
            raise InputError(
                f"event {self.seq} has ts {int(batch.ts[0])}, but {self.store.path} is committed up to ts {last}\n"
                "  pass resume=True when this is the same log from its start; else give later events only"
            )

    def _output(self, out: str | Path, rows: pa.RecordBatch) -> Output:
        return Output.named(out, f"part-{self.seq:020d}.parquet", lambda path: write_outputs(rows, path), rows.nbytes)

    def flush(self) -> None:
        """Returns when every batch so far is durable, as far as the chosen durability goes, and visible."""
        self.store.flush()

    def close(self) -> None:
        try:
            self.store.close()
        finally:
            if self._folder is not None:
                self._folder.release()

    def __enter__(self) -> DurableRun:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
