"""Kernel results to output rows: one Arrow record batch per batch of events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mainstem.engine.buffers import fresh
from mainstem.gate import EventBatch
from mainstem.gate.batch import identity
from mainstem.lang import Program
from mainstem.state import State

STATUSES = pa.array(["committed", "aborted"])


class OutputBuilder:
    """Knows the shape of a program's outputs; builds record batches without touching rows in Python."""

    def __init__(self, program: Program, state: State) -> None:
        self.program, self.state = program, state
        self.schema = program.output_schema
        self._events = pa.array([e.name for e in program.events])
        self._reasons = pa.array(program.reasons)
        names = [name for _, name in program.bindings]
        self._functions = pa.array(list(dict.fromkeys(names)))
        self._function_codes = np.array([list(dict.fromkeys(names)).index(n) for n in names], np.int8)
        self._per_kind = program.per_kind
        self._counts = np.array([len(group) for group in self._per_kind], np.int64)
        self._simple = bool(np.all(self._counts == 1))
        slots = [(), *(columns for f in program.functions for columns in f.returns)]
        # Per column: which returns give it. Return 0 is "none", also for aborted transactions.
        self._given = [np.array([name in columns for columns in slots]) for name, _ in program.outputs]
        self.return_dtype = np.uint8 if len(slots) <= 256 else np.uint16

    def transactions(self, batch: EventBatch) -> int:
        if self._simple:
            return len(batch)
        return int(self._counts[batch.kind].sum())

    def build(
        self, batch: EventBatch, first_seq: int, code: np.ndarray, ret: np.ndarray,
        columns: list[np.ndarray], nulls: list[np.ndarray | None],
    ) -> pa.RecordBatch:  # fmt: skip
        event = None if self._simple else np.repeat(np.arange(len(batch)), self._counts[batch.kind])
        ts = batch.ts if event is None else batch.ts[event]
        kind = batch.kind if event is None else batch.kind[event]
        seq = np.add(identity(len(batch)), first_seq, out=fresh(len(batch), np.int64))
        aborted = np.not_equal(code, 0, out=fresh(len(code), np.bool_))
        arrays = [
            pa.array(ts),
            pa.array(seq if event is None else seq[event]),
            _dictionary(kind.view(np.int8), self._events),
        ]
        if event is not None and self.program.names_functions:
            arrays.append(_dictionary(self._function_codes[self._function(batch, event)], self._functions))
        arrays.append(_dictionary(aborted.view(np.int8), STATUSES))
        arrays.append(_dictionary(code, self._reasons, aborted))
        arrays += self._columns(ret, columns, nulls)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _function(self, batch: EventBatch, event: np.ndarray) -> np.ndarray:
        """Per output row: the function that it came from."""
        starts = np.concatenate([[0], np.cumsum(self._counts)])[:-1]
        flat = np.array([f for group in self._per_kind for f in group], np.int64)
        first_row = np.concatenate([[0], np.cumsum(self._counts[batch.kind])])[:-1]
        turn = np.arange(len(event)) - first_row[event]
        return flat[starts[batch.kind[event]] + turn]

    def _columns(self, ret: np.ndarray, columns: list[np.ndarray], nulls: list[np.ndarray | None]) -> list[pa.Array]:
        masks: dict[bytes, np.ndarray] = {}
        out = []
        for (_, type_), values, null, given in zip(self.program.outputs, columns, nulls, self._given, strict=True):
            key = given.tobytes()
            valid = masks.get(key)
            if valid is None:
                valid = masks[key] = ret != 0 if given[1:].all() else given[ret]
            out.append(self._column(values, valid if null is None else valid & (null == 0), type_.base))
        return out

    def _column(self, values: np.ndarray, valid: np.ndarray, base: str) -> pa.Array:
        if base in ("str", "bytes"):
            pool = self.state.strings if base == "str" else self.state.binaries
            return pool.decode(np.where(valid, values, -1))
        count = len(values)
        bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        if base == "bool":
            return pa.Array.from_buffers(
                pa.bool_(), count, [bitmap, pa.py_buffer(np.packbits(values != 0, bitorder="little"))]
            )
        return pa.Array.from_buffers(
            pa.float64() if base == "float" else pa.int64(), count, [bitmap, pa.py_buffer(values)]
        )


def _dictionary(indices: np.ndarray, values: pa.Array, valid: np.ndarray | None = None) -> pa.DictionaryArray:
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    type_ = pa.from_numpy_dtype(indices.dtype)
    codes = pa.Array.from_buffers(type_, len(indices), [bitmap, pa.py_buffer(np.ascontiguousarray(indices))])
    return pa.DictionaryArray.from_arrays(codes, values, safe=False)
