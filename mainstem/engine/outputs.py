"""Kernel results to output rows: one Arrow record batch per batch of events."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mainstem.gate import EventBatch
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
        self._first_slot, self._given = self._return_slots()

    def _return_slots(self) -> tuple[np.ndarray, list[np.ndarray]]:
        """Numbers every return of every function (0: none, aborted), and says per column which of them give it."""
        first, slots = [], [()]  # type: list[int], list[tuple[str, ...]]
        for function in self.program.functions:
            first.append(len(slots))
            slots.extend(function.returns)
        given = [np.array([name in columns for columns in slots]) for name, _ in self.program.outputs]
        return np.array(first, np.int16), given

    def transactions(self, batch: EventBatch) -> int:
        if self._simple:
            return len(batch)
        return int(self._counts[batch.kind].sum())

    def build(
        self, batch: EventBatch, first_seq: int, code: np.ndarray, ret: np.ndarray,
        columns: list[np.ndarray], nulls: list[np.ndarray | None],
    ) -> pa.RecordBatch:  # fmt: skip
        event, function = self._layout(batch)
        ts = batch.ts if event is None else batch.ts[event]
        kind = batch.kind if event is None else batch.kind[event]
        seq = np.arange(first_seq, first_seq + len(batch), dtype=np.int64)
        aborted = code != 0
        arrays = [pa.array(ts), pa.array(seq if event is None else seq[event]), _dictionary(kind.view(np.int8), self._events)]
        if self.program.names_functions:
            arrays.append(_dictionary(self._function_codes[function], self._functions))
        arrays.append(_dictionary(aborted.view(np.int8), STATUSES))
        arrays.append(_dictionary(code.view(np.int16), self._reasons, aborted))
        if columns:
            arrays += self._columns(function, aborted, ret, columns, nulls)
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _layout(self, batch: EventBatch) -> tuple[np.ndarray | None, np.ndarray]:
        """Per output row: its event (None: row i is event i) and its function."""
        if self._simple:
            only = np.array([group[0] for group in self._per_kind], np.int64)
            return None, only[batch.kind] if len(only) > 1 else np.broadcast_to(only, len(batch))
        event = np.repeat(np.arange(len(batch)), self._counts[batch.kind])
        starts = np.concatenate([[0], np.cumsum(self._counts)])[:-1]
        flat = np.array([f for group in self._per_kind for f in group], np.int64)
        first_row = np.concatenate([[0], np.cumsum(self._counts[batch.kind])])[:-1]
        turn = np.arange(len(event)) - first_row[event]
        return event, flat[starts[batch.kind[event]] + turn]

    def _columns(
        self, function: np.ndarray, aborted: np.ndarray, ret: np.ndarray,
        columns: list[np.ndarray], nulls: list[np.ndarray | None],
    ) -> list[pa.Array]:  # fmt: skip
        single = len(self._first_slot) == 1
        slot = ret.astype(np.int16) + (self._first_slot[0] if single else self._first_slot[function])
        slot[aborted] = 0
        masks: dict[bytes, np.ndarray] = {}
        out = []
        for (_, type_), values, null, given in zip(self.program.outputs, columns, nulls, self._given, strict=True):
            key = given.tobytes()
            valid = masks.get(key)
            if valid is None:
                valid = masks[key] = given[slot]
            out.append(self._column(values, valid if null is None else valid & (null == 0), type_.base))
        return out

    def _column(self, values: np.ndarray, valid: np.ndarray, base: str) -> pa.Array:
        if base in ("str", "bytes"):
            pool = self.state.strings if base == "str" else self.state.binaries
            return pool.decode(np.where(valid, values, -1))
        count = len(values)
        bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
        if base == "bool":
            return pa.Array.from_buffers(pa.bool_(), count, [bitmap, pa.py_buffer(np.packbits(values != 0, bitorder="little"))])
        return pa.Array.from_buffers(pa.float64() if base == "float" else pa.int64(), count, [bitmap, pa.py_buffer(values)])


def _dictionary(indices: np.ndarray, values: pa.Array, valid: np.ndarray | None = None) -> pa.DictionaryArray:
    bitmap = None if valid is None else pa.py_buffer(np.packbits(valid, bitorder="little"))
    type_ = pa.from_numpy_dtype(indices.dtype)
    codes = pa.Array.from_buffers(type_, len(indices), [bitmap, pa.py_buffer(np.ascontiguousarray(indices))])
    return pa.DictionaryArray.from_arrays(codes, values, safe=False)
