"""What kernels of strategies are made of: compilation, atomic operations, waiting, calls of generated code.

A module of this folder imports only from its neighbours, by relative imports. So the whole folder can be loaded a
second time with `base_plain` in place of this module, and runs uncompiled with the same meaning (see `kernels.load`).
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from mainstem.atomics import (
    atomic_add,
    atomic_change,
    atomic_load,
    atomic_release,
    atomic_store,
    inlined,
    intrinsic,
    prefetch,
    ticks,
)
from mainstem.atomics import rest_at_work as rest
from mainstem.jit import compile_kernel
from mainstem.lang.direct import STRETCH_BITS
from mainstem.pointers import invoke

__all__ = [
    "STRETCH_BITS",
    "atomic_add",
    "atomic_change",
    "atomic_load",
    "atomic_release",
    "atomic_store",
    "byte_at",
    "inlined",
    "invoke",
    "kernel",
    "prefetch",
    "rest",
    "ticks",
]


def kernel(function: Any) -> Any:
    return compile_kernel(function)


@intrinsic
def byte_at(typing_context: Any, address: Any) -> Any:
    """The byte at an address, for kernels that look at records of any table."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return builder.zext(builder.load(pointer), ir.IntType(64))

    return types.int64(types.int64), generate
