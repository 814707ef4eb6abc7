"""Hash of keys by content: the same in every process and version, because it decides which shard owns a key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from mainstem.jit import kernel
from mainstem.state.arrow import byte_column, int64_values, is_bytes, is_text, valid_flags, whole
from mainstem.state.mixing import frozen, hash_bytes, mix, product_63

_NULL = 0x6E75_6C6C  # stands for a null value
_FIRST = 0x3C6E_F372_FE94_F82B  # keeps zeros and empty texts from hashing to 0, however many there are
_LAST = 0x2127_599B_F432_5C37  # an odd constant of a second product: `hash % shards` needs good low bits


def stable_hash(arrays: Sequence[pa.Array | pa.ChunkedArray]) -> np.ndarray:
    """uint64 per row over all columns: text and bytes by their bytes, integers and times by value. The top bit is 0."""
    if not arrays:
        raise ValueError("stable_hash needs at least one column")
    states = np.full(len(arrays[0]), _FIRST, np.int64)
    for array in arrays:
        _mix_column(states, whole(array))
    _finish(states)
    return states.view(np.uint64)


def _mix_column(states: np.ndarray, array: pa.Array) -> None:
    if pt.is_dictionary(array.type):
        array = array.dictionary_decode()
    if pt.is_null(array.type):
        array = array.cast(pa.int64())
    if is_text(array.type) or is_bytes(array.type):
        column = byte_column(array)
        _mix_bytes(states, column.offsets, column.data, column.words, column.valid)
    elif pt.is_integer(array.type) or pt.is_boolean(array.type) or pt.is_temporal(array.type):
        _mix_words(states, frozen(np.ascontiguousarray(int64_values(array))), valid_flags(array))
    else:
        raise TypeError(f"a column of type {array.type} can't be hashed; keys are integers, times, text or bytes")


@kernel
def _mix_words(states: np.ndarray, values: np.ndarray, valid: np.ndarray) -> None:
    for i in range(len(states)):
        word = int(values[i])
        if len(valid) != 0 and valid[i] == 0:
            word = _NULL
        states[i] = mix(int(states[i]), word)


@kernel
def _mix_bytes(states: np.ndarray, offsets: np.ndarray, data: np.ndarray, words: np.ndarray, valid: np.ndarray) -> None:
    for i in range(len(states)):
        begin = int(offsets[i])
        word = hash_bytes(words, data, begin, int(offsets[i + 1]) - begin)
        if len(valid) != 0 and valid[i] == 0:
            word = _NULL
        states[i] = mix(int(states[i]), word)


@kernel
def _finish(states: np.ndarray) -> None:
    for i in range(len(states)):
        state = product_63(int(states[i]), _LAST)
        states[i] = state ^ (state >> 29)
