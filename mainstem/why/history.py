"""Who came before: the earlier transactions of a batch that may have written the rows of its last event."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from mainstem.engine import Executor
from mainstem.engine.interpret import rows_of_arrow
from mainstem.engine.layout import Batch, Layout
from mainstem.engine.returned import Record
from mainstem.gate import Columns, EventBatch
from mainstem.gate.batch import identity
from mainstem.why.observe import Observation, RowName

LOOK_BACKS = (1, 8, 64)
"""So many committed transactions that may have written a row are looked at to find one that did: mostly the last."""
PLAIN_EVENTS = 2_000
"""Batches up to this size are linked uncompiled: that takes less time than loading compiled kernels."""


@dataclass(frozen=True)
class Writer:
    """A transaction that may have written a row: position of its event in the batch, function, whether it committed."""

    at: int
    function: str
    committed: bool


@dataclass(frozen=True)
class Reach:
    """A row that a transaction may reach, and its earlier writers in the batch, the latest first.

    These are the latest of all, which is what the transaction waits for, and some that committed.
    """

    row: RowName
    writers: tuple[Writer, ...]

    @property
    def committed(self) -> tuple[Writer, ...]:
        return tuple(writer for writer in self.writers if writer.committed)


def part_of(batch: EventBatch, start: int, stop: int) -> EventBatch:
    """Some events of a batch, as a batch with columns of its own."""
    columns: list[Columns | None] = []
    for kind, found in enumerate(batch.columns):
        before = int(np.count_nonzero(batch.kind[:start] == kind))
        own = int(np.count_nonzero(batch.kind[start:stop] == kind))
        if found is None or own == 0:
            columns.append(None)
            continue
        rows = pa.array(found.pos[before : before + own])
        columns.append(Columns(identity(own), {name: array.take(rows) for name, array in found.arrays.items()}))
    return EventBatch(batch.kind[start:stop], batch.ts[start:stop], columns, batch.position)


def linked(executor: Executor, batch: EventBatch, committed: np.ndarray, look_back: int) -> list[list[Reach]]:
    """The rows that each transaction of the last event may reach. Keys follow from events, so nothing has to run.

    `committed` tells for all transactions of the batch whether they did; `look_back` of those are listed per row.
    """
    with np.errstate(all="ignore"):  # as the executor does for uncompiled kernels
        arrays = executor.operations.build(batch)
        executor.operations.list_keys(arrays)
    ends = np.cumsum(np.array([len(group) for group in executor.program.per_kind])[batch.kind])
    compiled = executor.jit and len(batch) > PLAIN_EVENTS
    layout = Layout(executor.program, executor.operations.tables, compiled)
    links = _Links(executor, layout.batch(arrays, int(ends[-1]), executor.operations.scratch), ends, committed)
    first = int(ends[-2]) if len(ends) > 1 else 0
    return [links.reaches(t, look_back) for t in range(first, int(ends[-1]))]


class _Links:
    def __init__(self, executor: Executor, batch: Batch, ends: np.ndarray, committed: np.ndarray) -> None:
        self._executor, self._batch, self._ends, self._committed = executor, batch, ends, committed
        self._txn_lo = batch.txn_lo[: batch.transactions + 1]

    def reaches(self, t: int, look_back: int) -> list[Reach]:
        ops = range(int(self._txn_lo[t]), int(self._txn_lo[t + 1]))
        return [Reach(self._row(int(self._batch.op_row[o])), self._writers(o, look_back)) for o in ops]

    def _row(self, local: int) -> RowName:
        table = self._executor.operations.tables[int(self._batch.row_table[local])]
        one = table.delta(np.array([self._batch.row_at[local]]))
        return table.schema.name, next(iter(rows_of_arrow(table.schema, one)))

    def _writers(self, op: int, look_back: int) -> tuple[Writer, ...]:
        found: list[Writer] = []
        op, committed = int(self._batch.op_prev[op]), 0
        while op >= 0 and committed < look_back:
            writer = self._owner(op)
            committed += writer.committed
            if writer.committed or not found:
                found.append(writer)
            op = int(self._batch.op_prev[op])
        return tuple(found)

    def _owner(self, op: int) -> Writer:
        t = int(np.searchsorted(self._txn_lo, op, side="right")) - 1
        at = int(np.searchsorted(self._ends, t, side="right"))
        function = self._executor.program.functions[int(self._batch.fn[t])].name
        return Writer(at, function, bool(self._committed[t]))


class Observed:
    """The same from transactions that were all observed: what an interpreted program reaches shows only as it runs."""

    def __init__(self) -> None:
        self._last: dict[RowName, Writer] = {}

    def follow(self, done: list[Record], first_seq: int) -> list[list[Reach]]:
        """Takes note of rows that an `Observer` gave; the rows that each transaction reached."""
        reaches = []
        for record in done:
            seen: Observation = record["seen"]
            rows = dict.fromkeys([*((r.table, r.key) for r in seen.reads), *seen.writes])
            reaches.append([Reach(row, (self._last[row],)) for row in rows if row in self._last])
            if record["status"] == "committed":
                writer = Writer(record["seq"] - first_seq, record["function"], True)
                self._last.update(dict.fromkeys(seen.writes, writer))
        return reaches
