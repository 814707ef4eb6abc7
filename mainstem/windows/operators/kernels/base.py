"""What the kernels of this folder are made of; plain Python where nothing is compiled."""

from __future__ import annotations

from mainstem.jit import JIT_ENABLED, inlined, kernel

if JIT_ENABLED:
    from mainstem.atomics import atomic_add, atomic_change, atomic_load, atomic_store, rest, ticks
    from mainstem.bits import bits_from, lowest, without_lowest
else:
    from mainstem.atomics_plain import atomic_add, atomic_change, atomic_load, atomic_store, rest, ticks
    from mainstem.bits_plain import bits_from, lowest, without_lowest

__all__ = [
    "atomic_add",
    "atomic_change",
    "atomic_load",
    "atomic_store",
    "bits_from",
    "inlined",
    "kernel",
    "lowest",
    "rest",
    "ticks",
    "without_lowest",
]
