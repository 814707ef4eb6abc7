"""Strings and bytes as int64 codes: each distinct value is stored once and numbered in order of first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from mainstem.state.arrow import ByteColumn, byte_column, is_bytes, is_text, whole
from mainstem.state.jit import inlined, kernel
from mainstem.state.mixing import hash_bytes, tail_word, words_of

_FIRST_CAPACITY = 1024
_FIRST_BYTES = 16 * _FIRST_CAPACITY
_PADDING = 8  # bytes behind the data, so that a whole word can be read at every value
_CODE_BITS = 0xFFFF_FFFF
_TAG_SHIFT = 32
# What stopped the kernel.
_DONE, _FULL_CODES, _FULL_BYTES = 0, 1, 2
NULL_CODE = -1


class StringPool:
    """Values of one kind, `str` or `bytes`. The empty value has code 0, null is -1.

    Value `code` is `data[ends[code]:ends[code + 1]]`. `slots` is an open-addressing table of (high bits of the hash,
    code + 1), at most half used; the hashes are kept, so growing does not read the values again.
    """

    def __init__(self, kind: type) -> None:
        if kind not in (str, bytes):
            raise TypeError(f"a pool holds str or bytes, not {kind!r}")
        self.kind, self.count = kind, 0
        self._ends = np.zeros(_FIRST_CAPACITY + 1, np.int64)
        self._hashes = np.zeros(_FIRST_CAPACITY, np.int64)
        self._slots = np.zeros(2 * _FIRST_CAPACITY, np.int64)
        self._set_data(np.zeros(_FIRST_BYTES + _PADDING, np.uint8))
        self.intern_one(kind())

    def __len__(self) -> int:
        return self.count

    def intern(self, array: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """The code of each value, new values added; null gives -1."""
        return self._codes(whole(array), insert=True)

    def find(self, array: pa.Array | pa.ChunkedArray) -> np.ndarray:
        """The code of each value, -1 for null and for values that the pool does not hold."""
        return self._codes(whole(array), insert=False)

    def intern_one(self, value: Any) -> int:
        return int(self.intern(self._one(value))[0])

    def find_one(self, value: Any) -> int:
        return int(self.find(self._one(value))[0])

    def value(self, code: int) -> Any:
        """The value of a code; None for -1."""
        if code == NULL_CODE:
            return None
        if not 0 <= code < self.count:
            raise IndexError(f"the pool has no code {code}; it holds {self.count:,} values")
        data = self._data[self._ends[code] : self._ends[code + 1]].tobytes()
        return data.decode() if self.kind is str else data

    def decode(self, codes: np.ndarray) -> pa.Array:
        """The values of codes as a `string` or `binary` array; -1 gives null."""
        codes = np.asarray(codes, np.int64)
        if len(codes) and int(codes.max()) >= self.count:
            raise IndexError(f"the pool has no code {int(codes.max())}; it holds {self.count:,} values")
        missing = codes < 0
        picked = pa.array(codes, mask=missing) if missing.any() else pa.array(codes)
        return self._values().take(picked).cast(pa.string() if self.kind is str else pa.binary())

    def _values(self) -> pa.Array:
        """All values as an Arrow view on the pool's memory, which is only appended to."""
        type_ = pa.large_string() if self.kind is str else pa.large_binary()
        return pa.Array.from_buffers(type_, self.count, [None, pa.py_buffer(self._ends), pa.py_buffer(self._data)])

    def _one(self, value: Any) -> pa.Array:
        if not isinstance(value, self.kind):
            raise TypeError(f"a pool of {self.kind.__name__} was given {value!r} ({type(value).__name__})")
        return pa.array([value], pa.large_string() if self.kind is str else pa.large_binary())

    def _codes(self, array: pa.Array, insert: bool) -> np.ndarray:
        if pt.is_null(array.type):
            return np.full(len(array), NULL_CODE, np.int64)
        if pt.is_dictionary(array.type):
            return self._dictionary_codes(array, insert)
        if not (is_text(array.type) or (self.kind is bytes and is_bytes(array.type))):
            raise TypeError(f"a pool of {self.kind.__name__} was given a column of type {array.type}")
        return self._column_codes(byte_column(array), insert)

    def _dictionary_codes(self, array: pa.DictionaryArray, insert: bool) -> np.ndarray:
        """Look up the dictionary once, unless it is longer than the column (a slice of a large one)."""
        if len(array.dictionary) > len(array):
            return self._codes(array.dictionary_decode(), insert)
        codes = np.append(self._codes(array.dictionary, insert), NULL_CODE)
        return codes[array.indices.fill_null(len(codes) - 1).to_numpy(zero_copy_only=False).astype(np.int64)]

    def _column_codes(self, column: ByteColumn, insert: bool) -> np.ndarray:
        out = np.empty(len(column.offsets) - 1, np.int64)
        done, why = 0, _DONE
        while True:
            done, self.count, why = _intern(
                self._slots, self._hashes, self._ends, self._data, self._words, self.count,
                column.offsets, column.data, column.words, column.valid, out, done, insert,
            )  # fmt: skip
            if why == _DONE:
                return out
            if why == _FULL_CODES:
                self._grow_codes()
            else:
                self._grow_data(int(column.offsets[done + 1] - column.offsets[done]))

    def _grow_codes(self) -> None:
        capacity = 2 * len(self._hashes)
        self._ends = np.concatenate([self._ends, np.zeros(capacity + 1 - len(self._ends), np.int64)])
        self._hashes = np.concatenate([self._hashes, np.zeros(capacity - len(self._hashes), np.int64)])
        self._slots = np.zeros(2 * capacity, np.int64)
        _fill_slots(self._slots, self._hashes, self.count)

    def _grow_data(self, needed: int) -> None:
        used = int(self._ends[self.count])
        data = np.zeros(max(2 * len(self._data), used + needed + _PADDING), np.uint8)
        data[:used] = self._data[:used]
        self._set_data(data)

    def _set_data(self, data: np.ndarray) -> None:
        self._data, self._words = data, words_of(data)


@inlined
def _same(words, start, other_words, other_data, other_start, length):  # type: ignore[no-untyped-def]
    """Are `length` bytes equal? The first side is padded, so its last word can be read whole."""
    while length >= 8:
        if words[start] != other_words[other_start]:
            return False
        start, other_start, length = start + 8, other_start + 8, length - 8
    if length == 0:
        return True
    return (int(words[start]) & ((1 << (8 * length)) - 1)) == tail_word(other_words, other_data, other_start, length)


@kernel
def _intern(slots, hashes, ends, data, words, count, in_offsets, in_data, in_words, in_valid, out, start, insert):  # type: ignore[no-untyped-def]  # fmt: skip
    """Codes of the values from `start` on. -> (stop, count, why)."""
    mask = len(slots) - 1
    for i in range(start, len(out)):
        if len(in_valid) != 0 and in_valid[i] == 0:
            out[i] = NULL_CODE
            continue
        begin = int(in_offsets[i])
        length = int(in_offsets[i + 1]) - begin
        hashed = hash_bytes(in_words, in_data, begin, length)
        tag = hashed >> _TAG_SHIFT
        at = hashed & mask
        code = NULL_CODE
        while slots[at] != 0:
            slot = int(slots[at])
            if slot >> _TAG_SHIFT == tag:
                known = (slot & _CODE_BITS) - 1
                if ends[known + 1] - ends[known] == length and _same(
                    words, ends[known], in_words, in_data, begin, length
                ):
                    code = known
                    break
            at = (at + 1) & mask
        if code == NULL_CODE and insert:
            if count == len(hashes):
                return i, count, _FULL_CODES
            end = int(ends[count])
            if end + length + _PADDING > len(data):
                return i, count, _FULL_BYTES
            data[end : end + length] = in_data[begin : begin + length]
            code = count
            ends[code + 1] = end + length
            hashes[code] = hashed
            slots[at] = tag << _TAG_SHIFT | code + 1
            count += 1
        out[i] = code
    return len(out), count, _DONE


@kernel
def _fill_slots(slots, hashes, count):  # type: ignore[no-untyped-def]
    mask = len(slots) - 1
    for code in range(count):
        hashed = int(hashes[code])
        at = hashed & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = hashed >> _TAG_SHIFT << _TAG_SHIFT | code + 1
