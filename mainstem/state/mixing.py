"""Bit mixing that gives the same numbers compiled and uncompiled.

Compiled, integers are int64; uncompiled, they are Python's and grow. Products are cut to 63 bits at once and a
word is made a Python integer with `int()` first, so both agree (and NumPy scalars, which warn about overflow, never
appear in the arithmetic).
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic, overload

from mainstem.jit import inlined

LOW_63 = 0x7FFF_FFFF_FFFF_FFFF
_LOW_32 = 0xFFFF_FFFF
# 2**63 divided by the golden ratio, made odd: spreads consecutive integers evenly over the high bits.
_GOLDEN = 0x4F1B_BCDC_BFA5_3E0B


def product_63(a: int, b: int) -> int:
    """The low 63 bits of a product."""
    return (a * b) & LOW_63


@intrinsic
def _wrapping_product(typing_context: Any, a: Any, b: Any) -> Any:
    # Numba marks `int64 * int64` as never overflowing, and LLVM takes its word: a constant product would be anything.
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.mul(*arguments)

    return types.int64(types.int64, types.int64), generate


@overload(product_63, strict=False)  # annotations differ
def _product_63_compiled(a: Any, b: Any) -> Any:
    return lambda a, b: _wrapping_product(a, b) & LOW_63  # type: ignore[call-arg]  # the context is implied


@inlined
def mix(state: int, word: int) -> int:
    """The 63-bit state after one more 64-bit word; low and high bits are both usable."""
    word = state ^ word ^ ((word >> 32) & _LOW_32)
    word = product_63(word, _GOLDEN)
    return word ^ (word >> 32)


@inlined
def tail_word(words: np.ndarray, data: np.ndarray, start: int, length: int) -> int:
    """The last `length` (1 to 7) bytes of a value as one word; near the buffer's end there is no whole word to read."""
    if start < len(words):
        return int(words[start]) & ((1 << (8 * length)) - 1)
    word = 0
    for i in range(length):
        word |= int(data[start + i]) << (8 * i)
    return word


@inlined
def hash_bytes(words: np.ndarray, data: np.ndarray, start: int, length: int) -> int:
    """Hash of `data[start:start + length]`; the length goes in first, so that zero bytes count."""
    state = mix(0, length)
    end = start + length
    while end - start >= 8:
        state = mix(state, int(words[start]))
        start += 8
    if start < end:
        state = mix(state, tail_word(words, data, start, end - start))
    return state


def words_of(data: np.ndarray) -> np.ndarray:
    """A view of bytes in which element `i` is the 8 bytes from position `i` on (unaligned, overlapping).

    Fewer than 9 bytes are copied into 9: with two elements or more the view is always strided, which keeps
    one type, and so one compiled form, for all inputs.
    """
    if len(data) < 9:
        padded = np.zeros(9, np.uint8)
        padded[: len(data)] = data
        data = frozen(padded) if not data.flags.writeable else padded
    return np.ndarray(shape=(len(data) - 7,), dtype=np.int64, buffer=data.data, strides=(1,))


def frozen(array: np.ndarray) -> np.ndarray:
    """A read-only view. Arrow's buffers are read-only; one flag for all inputs means one compiled form per kernel."""
    view = array.view()
    view.flags.writeable = False
    return view
