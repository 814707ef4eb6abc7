"""How much faster threads are than one when nothing holds them up: the machine's own bound, at this moment.

Virtual cores may be halves of one real core, or lent to others. No engine scales better than plain loops that share
nothing, so this figure stands beside every gain by threads, and says whether the machine was left alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from mainstem.jit import kernel
from mainstem.team import team

SECONDS = 4e-3  # of one loop: long beside the time that threads take to wake up
TURNS = 4  # of each; the fastest counts
_TURNS_PROBED = 1_000


@kernel
def _loop(value: int, turns: int) -> int:
    """Each turn needs the result of the one before; no compiler knows a short cut through them."""
    for _ in range(turns):
        value = (value * 48_271 + 11) % 2_147_483_647
    return value


def plain_scaling(threads: int) -> float:
    """Work that all threads do in the time in which one does 1."""
    work = _turns_for(SECONDS)
    together = team(threads)

    def task(worker: int) -> None:
        _loop(worker, work)

    alone, shared = float("inf"), float("inf")
    for _ in range(TURNS):
        alone = min(alone, _seconds(lambda: _loop(1, work)))
        shared = min(shared, _seconds(lambda: together.run(task)))
    return threads * alone / shared


def _turns_for(seconds: float) -> int:
    _loop(1, 1)  # compiles
    once = min(_seconds(lambda: _loop(1, _TURNS_PROBED)) for _ in range(TURNS))
    return max(1, round(_TURNS_PROBED * seconds / once))


def _seconds(function: Callable[[], object]) -> float:
    start = time.perf_counter()
    function()
    return time.perf_counter() - start
