"""`base` for uncompiled runs: the same names in plain Python. Threads take turns under Python's own lock."""

from __future__ import annotations

import ctypes
from typing import Any

from mainstem.atomics_plain import (
    atomic_add,
    atomic_change,
    atomic_load,
    atomic_release,
    atomic_store,
    prefetch,
    rest,
    ticks,
)
from mainstem.lang.direct import STRETCH_BITS

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
    return function


inlined = kernel


def byte_at(address: int) -> int:
    return ctypes.c_uint8.from_address(int(address)).value


def invoke(function: Any, context: Any, item: int, worker: int) -> int:
    return int(function(context, item, worker))
