"""The clock of the kernels, for those who start them."""

from __future__ import annotations

from .base import kernel, ticks


@kernel
def now() -> int:
    return ticks()
