"""Columns between Arrow and NumPy, without copies where the layout allows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.gate.batch import fresh, frozen
from mainstem.schema import Type

INT32_MAX = 2**31 - 1


def is_plain(type_: Type) -> bool:
    """Whether a column is just numbers or flags: kernels move those; anything else goes through Arrow's `take`."""
    return not (type_.nullable or type_.is_list or type_.pooled)


def storage(type_: Type) -> Any:
    """What kernels move for a plain column: 8 bytes, whatever they mean, or a byte per flag."""
    return np.uint8 if type_.base == "bool" else np.int64


def plain_values(array: pa.Array) -> np.ndarray:
    """A plain column as kernels move it; nulls hold anything."""
    return frozen(flags(array)) if array.type == pa.bool_() else numbers(array)


def words(array: pa.Array) -> np.ndarray:
    """A column of 8-byte numbers as int64, whatever they mean; nulls hold anything."""
    return _view(array, np.dtype(np.int64))


def numbers(array: pa.Array) -> np.ndarray:
    """A view of a column of fixed-width numbers; those of 8 bytes as int64, whatever they mean."""
    if array.type.bit_width == 64:
        return words(array)
    return _view(array, np.dtype(array.type.to_pandas_dtype()))


def flags(array: pa.Array) -> np.ndarray:
    """A column of bools as bytes."""
    bits = array.buffers()[1]
    if bits is None or len(array) == 0:
        return np.zeros(0, np.uint8)
    skip = array.offset % 8
    packed = np.frombuffer(bits, np.uint8)[array.offset // 8 : (array.offset + len(array) + 7) // 8]
    return np.unpackbits(packed, bitorder="little", count=skip + len(array))[skip:]


def _view(array: pa.Array, dtype: np.dtype) -> np.ndarray:
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        return frozen(np.zeros(0, dtype))
    return frozen(np.frombuffer(buffer, dtype, len(array), array.offset * dtype.itemsize))


def to_arrow(values: np.ndarray, type_: pa.DataType, valid: np.ndarray | None = None) -> pa.Array:
    """Wraps numbers of the type's width; `valid` has a flag per value."""
    count = len(values)
    nulls = 0 if valid is None else count - int(np.count_nonzero(valid))
    bitmap = pa.py_buffer(np.packbits(valid, bitorder="little")) if nulls and valid is not None else None
    if type_ == pa.bool_():
        values = np.packbits(values != 0, bitorder="little")
    return pa.Array.from_buffers(type_, count, [bitmap, pa.py_buffer(values)], nulls)


def joined(arrays: list[pa.Array], type_: pa.DataType) -> pa.Array:
    """One array; joined lists and strings must stay within 32-bit offsets, which a range is small enough for."""
    if len(arrays) == 1:
        return arrays[0]
    return pa.concat_arrays(arrays) if arrays else pa.array([], type_)


def room(count: int, dtype: Any = np.int64) -> np.ndarray:
    """Numbers of undefined content."""
    return fresh(count, np.dtype(dtype))
