"""How many transfers make a run of about the wanted time, whether a system does a hundred or ten million per second."""

from __future__ import annotations

from collections.abc import Callable

_GROWTH_MAX = 8
_LONG_ENOUGH = 0.4  # of the wanted time: a rate seen for less says too little


def fitting_count(
    run: Callable[[int], float], first: int, seconds: float, *, step: int = 1, count_max: int | None = None
) -> int:
    """Calls `run` (transfers -> seconds) with growing counts, multiples of `step`. The first call only warms up."""
    most = count_max or 1 << 62
    count = _multiple(min(first, most), step)
    run(count)
    taken = min(run(count), run(count))  # so short a run that is interrupted would look like a slow system
    while taken < _LONG_ENOUGH * seconds and count < most:
        count = _multiple(min(round(count * min(_GROWTH_MAX, 1 + seconds / taken)), most), step)
        taken = run(count)
    return _multiple(min(round(count / taken * seconds), most), step)


def _multiple(count: int, step: int) -> int:
    return max(1, round(count / step)) * step
