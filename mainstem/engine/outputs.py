"""Kernel results to output rows: one Arrow record batch per batch of events."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.gate import EventBatch
from mainstem.gate.batch import fresh, identity
from mainstem.jit import kernel
from mainstem.lang import INTERNAL, Program
from mainstem.state import State

STATUSES = pa.array(["committed", "aborted"])
_INT64, _FLOAT64, _BOOL = pa.int64(), pa.float64(), pa.bool_()
_SEQ, _STATUS = np.dtype(np.int64), np.dtype(np.uint8)
_SMALL, _WIDE = pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.string())


class Mask:
    """Which rows have a value: as flags, as Arrow's bitmap and as a number of nulls, each found out once."""

    def __init__(self, valid: np.ndarray) -> None:
        self.valid = valid
        self.nulls = len(valid) - int(np.count_nonzero(valid))
        self.bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if self.nulls else None


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
        self._names_functions = program.names_functions
        self._counts = np.array([len(group) for group in self._per_kind], np.int64)
        self._simple = bool(np.all(self._counts == 1))
        slots = [(), *(columns for f in program.functions for columns in f.returns)]
        # Per column: which returns give it. Return 0 is "none", also for aborted transactions.
        given = [tuple(name in columns for columns in slots) for name, _ in program.outputs]
        self._masks = list(dict.fromkeys(given))
        self._mask_of_column = [self._masks.index(mask) for mask in given]
        self._given = [None if all(mask[1:]) else np.array(mask) for mask in self._masks]
        self._bases = [type_.base for _, type_ in program.outputs]
        self.return_dtype = np.uint8 if len(slots) <= 256 else np.uint16

    def transactions(self, batch: EventBatch) -> int:
        if self._simple:
            return len(batch)
        return int(self._counts[batch.kind].sum())

    def build(
        self, batch: EventBatch, first_seq: int, verdicts: Verdicts, ret: np.ndarray,
        columns: list[np.ndarray], nulls: list[np.ndarray | None],
    ) -> pa.RecordBatch:  # fmt: skip
        event = None if self._simple else np.repeat(np.arange(len(batch)), self._counts[batch.kind])
        ts = np.ascontiguousarray(batch.ts if event is None else batch.ts[event])
        kind = np.ascontiguousarray(batch.kind if event is None else batch.kind[event])
        seq = np.add(identity(len(batch)), first_seq, out=fresh(len(batch), _SEQ))
        arrays = [
            _numbers(_INT64, ts),
            _numbers(_INT64, seq if event is None else seq[event]),
            _dictionary(_SMALL, kind, self._events),
        ]
        if event is not None and self._names_functions:
            arrays.append(_dictionary(_SMALL, self._function_codes[self._function(batch, event)], self._functions))
        arrays.append(_dictionary(_SMALL, verdicts.status, STATUSES))
        arrays.append(_dictionary(_WIDE, verdicts.code, self._reasons, Mask(verdicts.status)))
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
        masks = [Mask(ret != 0 if given is None else given.take(ret)) for given in self._given]
        return [
            self._column(values, masks[mask] if null is None else Mask(masks[mask].valid & (null == 0)), base)
            for values, null, mask, base in zip(columns, nulls, self._mask_of_column, self._bases, strict=True)
        ]

    def _column(self, values: np.ndarray, mask: Mask, base: str) -> pa.Array:
        if base in ("str", "bytes"):
            pool = self.state.strings if base == "str" else self.state.binaries
            return pool.decode(np.where(mask.valid, values, -1))
        if base == "bool":
            bits = pa.py_buffer(np.packbits(values != 0, bitorder="little"))
            return pa.Array.from_buffers(_BOOL, len(values), [mask.bitmap, bits], mask.nulls)
        return _numbers(_FLOAT64 if base == "float" else _INT64, values, mask)


class Verdicts:
    """The codes of a batch's transactions, 0 for those that committed, and what follows from them."""

    def __init__(self, code: np.ndarray) -> None:
        self.code = code
        self.status = fresh(len(code), _STATUS)  # positions in STATUSES
        self.aborted = int(_survey(code, self.status, INTERNAL))

    @property
    def broken(self) -> bool:
        """Whether a transaction met an internal error."""
        return self.aborted < 0


@kernel
def _survey(code: np.ndarray, status: np.ndarray, internal: int) -> int:
    """How many transactions aborted; a negative number when one has the code `internal`."""
    aborted = broken = 0
    for t in range(len(code)):
        failed = code[t] != 0
        status[t] = failed
        aborted += failed
        broken |= (int(code[t]) & 0xFFFF) == internal
    return -1 if broken else aborted


def _numbers(type_: pa.DataType, values: np.ndarray, mask: Mask | None = None) -> pa.Array:
    bitmap, nulls = (None, 0) if mask is None else (mask.bitmap, mask.nulls)
    return pa.Array.from_buffers(type_, len(values), [bitmap, pa.py_buffer(values)], nulls)


def _dictionary(type_: pa.DataType, codes: np.ndarray, values: pa.Array, mask: Mask | None = None) -> Any:
    bitmap, nulls = (None, 0) if mask is None else (mask.bitmap, mask.nulls)
    return pa.DictionaryArray.from_buffers(type_, len(codes), [bitmap, pa.py_buffer(codes)], values, nulls)
