"""The bits of int64 words for compiled kernels. The highest bit is the sign, so a word has all 64.

`bits_plain.py` has the same names in plain Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic as _intrinsic

from mainstem.jit import compile_kernel

# Numba declares an intrinsic with the arguments of its generator; its callers give those after the typing context.
intrinsic: Any = _intrinsic


@intrinsic
def lowest(typing_context: Any, bits: Any) -> Any:
    """The place of the lowest bit that is set; any number if none is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.IntType(1)(0))

    return types.int64(types.int64), generate


@intrinsic
def count(typing_context: Any, bits: Any) -> Any:
    """How many bits are set."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.int64), generate


def _inlined(function: Any) -> Any:
    return compile_kernel(function, forceinline=True)


@_inlined
def without_lowest(bits: int) -> int:
    """All but the lowest bit; of no bits none."""
    return bits & (bits - 1)


@_inlined
def bits_from(place: int) -> int:
    """All bits from a place on."""
    return -1 << place
