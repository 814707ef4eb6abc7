"""How much faster threads are than one when nothing holds them up: the machine's own bound.

Virtual cores may be halves of one real core, or lent to others. No engine scales better than plain loops that share
nothing, so this figure stands beside every gain by threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mainstem.apps.work import compiled_burn
from mainstem.team import team

SECONDS = 4e-3  # of one loop: long beside the time that threads take to wake up
TURNS = 4  # of each; the fastest counts
_TURNS_PROBED = 1_000


def plain_scaling(threads: int) -> float:
    """Work that all threads do in the time in which one does 1."""
    work = _turns_for(SECONDS)
    together = team(threads)
    alone, shared = float("inf"), float("inf")
    for _ in range(TURNS):
        alone = min(alone, _seconds(lambda: compiled_burn(1, work)))
        shared = min(shared, _seconds(lambda: together.run(lambda worker: compiled_burn(worker, work))))
    return threads * alone / shared


def _turns_for(seconds: float) -> int:
    compiled_burn(1, 1)  # compiles
    once = min(_seconds(lambda: compiled_burn(1, _TURNS_PROBED)) for _ in range(TURNS))
    return max(1, round(_TURNS_PROBED * seconds / once))


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
