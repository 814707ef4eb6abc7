"""Bits of 64-bit words: compiled and plain code agree, the sign included."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from mainstem import bits, bits_plain
from mainstem.jit import compile_kernel

words = st.integers(-(2**63), 2**63 - 1)


@compile_kernel
def _lowest(word: int) -> int:
    return bits.lowest(word)


@compile_kernel
def _count(word: int) -> int:
    return bits.count(word)


@given(words)
@example(-(2**63))
@example(-1)
def test_bits_one_after_the_other(word: int) -> None:
    found, left = [], word
    while left:
        assert _lowest(left) == bits_plain.lowest(left)
        found.append(bits_plain.lowest(left))
        assert bits.without_lowest(left) == bits_plain.without_lowest(left)
        left = bits_plain.without_lowest(left)
    assert len(found) == _count(word) == bits_plain.count(word)
    assert found == [place for place in range(64) if word >> place & 1]


@given(st.integers(0, 63))
def test_all_bits_from_a_place_on(place: int) -> None:
    expected = [p >= place for p in range(64)]
    for found in (bits.bits_from(place), bits_plain.bits_from(place)):
        assert [bool(int(found) >> p & 1) for p in range(64)] == expected
