"""Arrow columns as NumPy views, whatever their slices, chunks and encodings."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from mainstem.state.mixing import frozen, words_of

_NO_BYTES = frozen(np.empty(0, np.uint8))


@dataclass(frozen=True)
class ByteColumn:
    """A string or binary array: value `i` is `data[offsets[i]:offsets[i + 1]]`."""

    offsets: np.ndarray  # int32 or int64, read-only
    data: np.ndarray  # uint8, read-only
    words: np.ndarray  # `words_of(data)`
    valid: np.ndarray  # uint8 per value; empty when there are no nulls


def whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """One contiguous array."""
    if isinstance(array, pa.ChunkedArray):
        return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays(array.chunks or [pa.array([], array.type)])
    return array


def is_text(type_: pa.DataType) -> bool:
    return pt.is_string(type_) or pt.is_large_string(type_) or pt.is_string_view(type_)


def is_bytes(type_: pa.DataType) -> bool:
    binary = pt.is_binary(type_) or pt.is_large_binary(type_) or pt.is_binary_view(type_)
    return binary or pt.is_fixed_size_binary(type_)


def byte_column(array: pa.Array) -> ByteColumn:
    """A view of a string or binary array; views and fixed-size values are copied to offsets + data first."""
    if pt.is_string_view(array.type):
        array = array.cast(pa.large_string())
    elif pt.is_binary_view(array.type) or pt.is_fixed_size_binary(array.type):
        array = array.cast(pa.large_binary())
    wide = pt.is_large_string(array.type) or pt.is_large_binary(array.type)
    _, offsets, data = array.buffers()
    item = np.int64 if wide else np.int32
    if offsets is None or offsets.size == 0:  # allowed for an empty array
        places = frozen(np.zeros(len(array) + 1, item))
    else:
        places = frozen(np.frombuffer(offsets, item)[array.offset : array.offset + len(array) + 1])
    octets = _NO_BYTES if data is None or data.size == 0 else frozen(np.frombuffer(data, np.uint8))
    return ByteColumn(places, octets, words_of(octets), valid_flags(array))


def valid_flags(array: pa.Array) -> np.ndarray:
    """uint8 per value; empty when there are no nulls."""
    if array.null_count == 0:
        return _NO_BYTES
    return frozen(array.is_valid().cast(pa.uint8()).to_numpy(zero_copy_only=False))


def int64_values(array: pa.Array) -> np.ndarray:
    """Integers, bools and timestamps as int64 (zero-copy for 64-bit input without offset tricks); nulls become 0."""
    if array.null_count:
        array = array.fill_null(False if pt.is_boolean(array.type) else pa.scalar(0, pa.int64()).cast(array.type))
    if pt.is_boolean(array.type):
        array = array.cast(pa.uint8())
    elif pt.is_temporal(array.type):
        array = array.view(pa.int64() if array.type.bit_width == 64 else pa.int32())
    values = array.to_numpy(zero_copy_only=False)
    return values.view(np.int64) if values.dtype == np.uint64 else values.astype(np.int64, copy=False)
