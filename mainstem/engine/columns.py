"""Arrow columns to the arrays that kernels read: views where Arrow's layout allows, strings as codes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.engine.buffers import Scratch
from mainstem.gate.spans import ReadColumns, Span
from mainstem.schema import Type
from mainstem.state import State


def frozen(array: np.ndarray) -> np.ndarray:
    """Contiguous, aligned and read-only: one array type for all inputs means one compiled form of a kernel."""
    flags = array.flags
    if not (flags.c_contiguous and flags.aligned):
        array = np.array(array)
    elif not flags.writeable:
        return array
    view = array.view()
    view.flags.writeable = False
    return view


@dataclass(frozen=True)
class FieldPlan:
    """A field of an event type, and what kernels call its arrays."""

    name: str
    type: Type
    names: dict[str, str]  # by role, as `kernel_arrays` names them
    numeric: bool  # kernels may read its values, or the items of its lists, where Arrow has them

    @classmethod
    def of(cls, kind: int, name: str, type_: Type) -> FieldPlan:
        names = {role: f"{role}{kind}_{name}" for role in ("x", "ok", "off")}
        numeric = not type_.nullable and type_.base in ("int", "float", "datetime")
        return cls(name, type_, names, numeric)


class InPlace:
    """Reads the numbers of an event type where Arrow has them. What it knows about a record batch it keeps, because
    many batches may be cut from it."""

    def __init__(self, fields: Sequence[FieldPlan], scratch: Scratch) -> None:
        self._fields, self._scratch = fields, scratch
        self._source: ReadColumns | None = None
        self._values: list[tuple[str, np.ndarray]] = []
        self._lists: list[tuple[str, np.ndarray, str, np.ndarray]] = []
        self._others: list[FieldPlan] = []

    def read(self, span: Span, arrays: dict[str, Any]) -> list[FieldPlan]:
        """Adds the arrays that kernels read; gives the fields that are left."""
        if span.source is not self._source:
            self._open(span.source)
        start, stop = span.start, span.stop
        for name, values in self._values:
            arrays[name] = values[start:stop]
        for offsets_name, offsets, name, items in self._lists:
            wide = self._scratch.array(offsets_name, stop + 1 - start, np.int64)
            np.copyto(wide, offsets[start : stop + 1])
            arrays[offsets_name], arrays[name] = frozen(wide), items
        return self._others

    def _open(self, source: ReadColumns) -> None:
        self._source, self._values, self._lists, self._others = source, [], [], []
        for field in self._fields:
            values = source.values(field.name) if field.numeric and not field.type.is_list else None
            lists = source.lists(field.name) if field.numeric and field.type.is_list else None
            if values is not None:
                self._values.append((field.names["x"], values))
            elif lists is not None:
                self._lists.append((field.names["off"], lists[0], field.names["x"], lists[1]))
            else:
                self._others.append(field)


def kernel_arrays(type_: Type, column: pa.Array | None, state: State) -> dict[str, np.ndarray]:
    """By role: `x` the values, `ok` validity when nullable, `off` offsets of lists; empty arrays without a column."""
    if column is None:
        column = pa.array([], type_.arrow)
    arrays: dict[str, np.ndarray] = {}
    if type_.nullable:
        arrays["ok"] = frozen(validity(column))
    if type_.is_list:
        offsets, column = _list_parts(column)
        arrays["off"] = frozen(offsets)
    arrays["x"] = frozen(values(column, type_.base, state))
    return arrays


def values(column: pa.Array, base: str, state: State) -> np.ndarray:
    if base == "str":
        return state.strings.intern(column)
    if base == "bytes":
        return state.binaries.intern(column)
    if base == "bool":
        return _bits(column.buffers()[1], column.offset, len(column))
    dtype: Any = np.float64 if base == "float" else np.int64
    buffer = column.buffers()[1]
    if buffer is None or len(column) == 0:
        return np.zeros(0, dtype)
    return np.frombuffer(buffer, dtype, len(column), column.offset * 8)


def validity(column: pa.Array) -> np.ndarray:
    """1 where there is a value, 0 where there is null."""
    if column.null_count == 0:
        return np.ones(len(column), np.uint8)
    return _bits(column.buffers()[0], column.offset, len(column))


def _bits(buffer: pa.Buffer | None, offset: int, length: int) -> np.ndarray:
    if buffer is None or length == 0:
        return np.zeros(length, np.uint8)
    first = offset // 8
    data = np.frombuffer(buffer, np.uint8)[first : (offset + length + 7) // 8]
    return np.unpackbits(data, bitorder="little", count=offset - 8 * first + length)[offset - 8 * first :]


def _list_parts(column: pa.Array) -> tuple[np.ndarray, pa.Array]:
    """Offsets from 0 and just the items that this slice covers."""
    offsets = np.asarray(column.offsets).astype(np.int64)
    if len(offsets) == 0:
        return np.zeros(1, np.int64), column.values
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, column.values.slice(first, last - first)
