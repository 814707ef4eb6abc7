"""What the kernels of this folder are made of; plain Python where nothing is compiled.

Modules beside this one take everything from here, by relative imports, so that a test can put another `base` in its
place and decide about every single atomic step.
"""

from __future__ import annotations

from mainstem.jit import JIT_ENABLED, inlined, kernel
from mainstem.thread_words import LINE

if JIT_ENABLED:
    from mainstem.atomics import (
        atomic_change,
        atomic_load,
        atomic_release,
        atomic_store,
        keep_loads_apart,
        rest,
        ticks,
    )
else:
    from mainstem.atomics_plain import (
        atomic_change,
        atomic_load,
        atomic_release,
        atomic_store,
        keep_loads_apart,
        rest,
        ticks,
    )

__all__ = [
    "LINE",
    "atomic_change",
    "atomic_load",
    "atomic_release",
    "atomic_store",
    "inlined",
    "keep_loads_apart",
    "kernel",
    "rest",
    "ticks",
]
