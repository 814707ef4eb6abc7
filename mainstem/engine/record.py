"""Writes down what a protocol did: the history that `app.run(history=True)` returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from mainstem.engine.history import History, concatenate
from mainstem.engine.kernels import load
from mainstem.engine.work import Work, operations_of
from mainstem.lang import Program
from mainstem.state import TableState


class Recorder:
    """Collects one history per batch, rows numbered over the whole run."""

    def __init__(self, program: Program, tables: list[TableState], jit: bool) -> None:
        self._tables, self._jit = tables, jit
        self._functions = tuple(f.name for f in program.functions)
        self._functions_of_kind = np.array([len(group) for group in program.per_kind], np.int64)
        self._numbers = [np.zeros(0, np.int64) for _ in tables]  # per table: 1 + number of each row, 0: none yet
        self._rows: list[tuple[int, int]] = []  # table and row by number
        self._batches: list[History] = []
        self.first_seq = 0  # of the next batch

    def history(self) -> History:
        if not self._batches:
            return _empty(self._functions)
        return concatenate(self._batches)

    def note(self, works: list[Work], kind: np.ndarray) -> None:
        """Takes what the works of one batch left in their arrays; `kind` of its events."""
        batch = works[0].batch
        event = np.repeat(np.arange(len(kind)), self._functions_of_kind[kind])
        committed = np.zeros(batch.transactions, np.bool_)
        reads, writes = [], []
        for work in works:
            assert work.graph is not None
            committed[work.todo] = work.graph.v_code[: len(work.todo)] == 0
            read, write = _accesses(work, self._row_numbers(work))
            reads.append(read)
            writes.append(write)
        read_txn, read_version = _joined(reads, writes)
        write_txn, write_row, write_place, write_final = (np.concatenate(c) for c in zip(*writes, strict=True))
        self._batches.append(
            History(
                self.first_seq + event, batch.fn.copy(), committed, read_txn, read_version,
                write_txn, write_row, write_place, write_final, self._functions, self._row_name,
            )
        )  # fmt: skip

    def _row_numbers(self, work: Work) -> np.ndarray:
        """Of each local row of the batch."""
        batch = work.batch
        found = np.zeros(batch.rows, np.int64)
        for i, table in enumerate(self._tables):
            local = np.flatnonzero(batch.row_table[: batch.rows] == i)
            at = batch.row_at[local]
            numbers = self._numbers[i]
            if len(numbers) < len(table.rows):
                numbers = np.zeros(len(table.rows), np.int64)
                numbers[: len(self._numbers[i])] = self._numbers[i]
                self._numbers[i] = numbers
            new = at[numbers[at] == 0]
            numbers[new] = 1 + len(self._rows) + np.arange(len(new))
            self._rows += [(i, int(row)) for row in new]
            found[local] = numbers[at] - 1
        return found

    def _row_name(self, row: int) -> str:
        table, at = self._rows[row]
        keys = [column[0].as_py() for column in self._tables[table].keys_of(np.array([at]))]
        return f"{self._tables[table].schema.name}[{', '.join(map(repr, keys))}]"


def _accesses(work: Work, row_number: np.ndarray) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
    """Reads (transaction, version) and versions (transaction, row, place, final) of one work.

    Versions are numbered from 0. Those that somebody saw before they were finished come last.
    """
    b = work.accesses
    txn = np.repeat(work.todo, b.txn_lo[work.todo + 1] - b.txn_lo[work.todo])
    ops = operations_of(work)
    row = row_number[b.op_row[ops]]
    writes = b.op_write[ops] == 1
    made = ops[writes]
    version_of = np.full(work.batch.ops, -1, np.int64)
    version_of[made] = np.arange(len(made))
    prev = b.op_prev[ops]
    version = np.where(prev >= 0, version_of[prev], -1 - row)
    finals = np.ones(len(made), np.bool_)
    written: tuple[np.ndarray, ...] = (txn[writes], row[writes], _places(row[writes], b.op_place[made]), finals)
    unfinished = _unfinished(work, b, ops)
    if len(unfinished):
        owner = np.zeros(work.batch.ops, np.int64)
        owner[ops] = txn
        version[unfinished] = len(made) + np.arange(len(unfinished))
        zeros = np.zeros(len(unfinished), np.int64)
        seen = (owner[prev[unfinished]], row[unfinished], zeros, zeros.astype(np.bool_))
        written = tuple(np.concatenate(pair) for pair in zip(written, seen, strict=True))
    return (txn, version), written


def _unfinished(work: Work, b: Any, ops: np.ndarray) -> np.ndarray:
    """Positions of reads that saw something else than their version held in the end."""
    if b.noting == 0:
        return np.zeros(0, np.int64)
    rows = load("rows", work.jit)
    dirty = np.flatnonzero(b.op_seen[ops] != rows.CLEAN)
    unlike = np.zeros(len(dirty), np.int64)
    rows.unlike(b, ops[dirty], unlike)
    return dirty[unlike == 1]


def _places(row: np.ndarray, stamp: np.ndarray) -> np.ndarray:
    """Ranks the installed versions of each row by their timestamps, from 1; 0 for those that are not installed."""
    place = np.zeros(len(row), np.int64)
    installed = np.flatnonzero(stamp > 0)
    order = installed[np.lexsort((stamp[installed], row[installed]))]
    if len(order):
        starts = np.flatnonzero(np.diff(row[order], prepend=-1))
        sizes = np.diff(np.append(starts, len(order)))
        place[order] = np.arange(len(order)) - np.repeat(starts, sizes) + 1
    return place


def _joined(reads: list[tuple[np.ndarray, ...]], writes: list[tuple[np.ndarray, ...]]) -> tuple[np.ndarray, np.ndarray]:
    """Reads of several works, their versions numbered one work after the other."""
    versions, offset = [], 0
    for (_, version), (write_txn, *_) in zip(reads, writes, strict=True):
        versions.append(np.where(version >= 0, version + offset, version))
        offset += len(write_txn)
    return np.concatenate([txn for txn, _ in reads]), np.concatenate(versions)


def _empty(functions: tuple[str, ...]) -> History:
    none = np.zeros(0, np.int64)
    flags = np.zeros(0, np.bool_)
    return History(none, none, flags, none, none, none, none, none, flags, functions)
