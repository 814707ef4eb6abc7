"""`bits` for uncompiled runs: the same names in plain Python, whose integers have no highest bit."""

from __future__ import annotations

_ALL = 2**64 - 1
_SIGN = 2**63


def lowest(bits: int) -> int:
    bits = int(bits)
    return (bits & -bits).bit_length() - 1


def count(bits: int) -> int:
    return (int(bits) & _ALL).bit_count()


def without_lowest(bits: int) -> int:
    bits = int(bits) & _ALL
    return _signed(bits & (bits - 1))


def bits_from(place: int) -> int:
    return _signed((-1 << int(place)) & _ALL)


def _signed(bits: int) -> int:
    return bits - 2 * _SIGN if bits & _SIGN else bits
