"""Strings and bytes as int64 codes: each distinct value is stored once and numbered in order of first appearance."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from mainstem.jit import inlined, kernel
from mainstem.state.arrow import ByteColumn, byte_column, is_bytes, is_text, whole
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
        """Guess codes by hash, check them against the values, then settle what is left; each is one plain loop."""
        out = np.empty(len(column.offsets) - 1, np.int64)
        offsets, data, words, valid = column.offsets, column.data, column.words, column.valid
        _guess(self._slots, offsets, data, words, out)
        if _check(self._ends, self._words, offsets, data, words, valid, out):
            self._settle(column, out, insert)
        return out

    def _settle(self, column: ByteColumn, out: np.ndarray, insert: bool) -> None:
        done = 0
        while True:
            done, self.count, why = _settle(
                self._slots, self._hashes, self._ends, self._data, self._words, self.count,
                column.offsets, column.data, column.words, column.valid, out, done, insert,
            )  # fmt: skip
            if why == _DONE:
                return
            if why == _FULL_CODES:
                self._grow_codes()
            else:
                self._grow_data(int(column.offsets[done + 1]) - int(column.offsets[done]))

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
def _is_value(
    ends: np.ndarray, own_words: np.ndarray, code: int, words: np.ndarray, data: np.ndarray, begin: int, end: int
) -> bool:
    """Is `data[begin:end]` the value of `code`? The pool's data is padded, so its last word can be read whole."""
    own = int(ends[code])
    left = end - begin
    if int(ends[code + 1]) - own != left:
        return False
    while left >= 8:
        if own_words[own] != words[begin]:
            return False
        own, begin, left = own + 8, begin + 8, left - 8
    if left == 0:
        return True
    return (int(own_words[own]) & ((1 << (8 * left)) - 1)) == tail_word(words, data, begin, left)


@kernel
def _guess(slots: np.ndarray, offsets: np.ndarray, data: np.ndarray, words: np.ndarray, out: np.ndarray) -> None:
    """The first code whose hash tag fits, -1 when there is none: nearly always the code of the value."""
    mask = len(slots) - 1
    for i in range(len(out)):
        begin = int(offsets[i])
        hashed = hash_bytes(words, data, begin, int(offsets[i + 1]) - begin)
        at = hashed & mask
        while slots[at] != 0 and slots[at] >> _TAG_SHIFT != hashed >> _TAG_SHIFT:
            at = (at + 1) & mask
        out[i] = (int(slots[at]) & _CODE_BITS) - 1


@kernel
def _check(
    ends: np.ndarray,
    own_words: np.ndarray,
    offsets: np.ndarray,
    data: np.ndarray,
    words: np.ndarray,
    valid: np.ndarray,
    out: np.ndarray,
) -> int:
    """Take back wrong guesses and those for nulls; returns how many values have no code yet."""
    missing = 0
    for i in range(len(out)):
        if len(valid) != 0 and valid[i] == 0:
            out[i] = NULL_CODE
            continue
        code = out[i]
        if code < 0 or not _is_value(ends, own_words, code, words, data, int(offsets[i]), int(offsets[i + 1])):
            out[i] = NULL_CODE
            missing += 1
    return missing


@kernel
def _settle(
    slots: np.ndarray,
    hashes: np.ndarray,
    ends: np.ndarray,
    own_data: np.ndarray,
    own_words: np.ndarray,
    count: int,
    offsets: np.ndarray,
    data: np.ndarray,
    words: np.ndarray,
    valid: np.ndarray,
    out: np.ndarray,
    start: int,
    insert: bool,
) -> tuple[int, int, int]:
    """Probe for the values without a code, from `start` on, and add those that are missing. -> (stop, count, why)."""
    mask = len(slots) - 1
    for i in range(start, len(out)):
        if out[i] >= 0 or (len(valid) != 0 and valid[i] == 0):
            continue
        begin, end = int(offsets[i]), int(offsets[i + 1])
        hashed = hash_bytes(words, data, begin, end - begin)
        at = hashed & mask
        code = NULL_CODE
        while slots[at] != 0 and code < 0:
            known = (int(slots[at]) & _CODE_BITS) - 1
            if hashes[known] == hashed and _is_value(ends, own_words, known, words, data, begin, end):
                code = known
            at = (at + 1) & mask
        if code < 0 and insert:
            if count == len(hashes):
                return i, count, _FULL_CODES
            used = int(ends[count])
            if used + end - begin + _PADDING > len(own_data):
                return i, count, _FULL_BYTES
            for k in range(end - begin):
                own_data[used + k] = data[begin + k]
            ends[count + 1] = used + end - begin
            hashes[count] = hashed
            code = count
            count += 1
            slots[at] = hashed >> _TAG_SHIFT << _TAG_SHIFT | code + 1
        out[i] = code
    return len(out), count, _DONE


@kernel
def _fill_slots(slots: np.ndarray, hashes: np.ndarray, count: int) -> None:
    mask = len(slots) - 1
    for code in range(count):
        hashed = int(hashes[code])
        at = hashed & mask
        while slots[at] != 0:
            at = (at + 1) & mask
        slots[at] = hashed >> _TAG_SHIFT << _TAG_SHIFT | code + 1
