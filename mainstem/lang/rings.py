"""What generated code calls on the ring of a history's row: plain loops over a few hundred values.

A window is `count` entries from slot `first` on, oldest first, round the end of the array. Every function is plain
Python, so that kernels run with the JIT off.
"""

from __future__ import annotations

from typing import Any

from numba.extending import register_jitable

from mainstem.lang.arith import add, truediv

# Up to here a look at every time is faster than halving (31 ns against 94 ns for 256 entries): it has no branches.
_SCAN_MAX = 256


@register_jitable
def ring_newer(stamps: Any, appended: Any, after: Any) -> int:
    """How many entries are newer than `after`. They are in order of time; `appended` of them were ever added."""
    keep = len(stamps)
    size = min(appended, keep)
    found = 0
    if keep <= _SCAN_MAX:
        for slot in range(keep):  # the first `size` slots are in use
            if (slot < size) & (stamps[slot] > after):
                found += 1
        return found
    end = appended % keep
    step = 1
    while 2 * step <= size:
        step *= 2
    while step > 0:
        slot = end - found - step
        if found + step <= size and stamps[slot if slot >= 0 else slot + keep] > after:
            found += step
        step //= 2
    return found


@register_jitable
def _cut(values: Any, first: Any, start: Any, stop: Any) -> tuple[Any, Any]:
    """Positions `start` to `stop` of a window as the two pieces of memory that they lie in."""
    keep = len(values)
    low, high = first + start, first + stop
    return values[min(low, keep) : min(high, keep)], values[max(low - keep, 0) : max(high - keep, 0)]


@register_jitable
def ring_sum_int(values: Any, first: Any, count: Any) -> tuple[int, int]:
    total = 0
    for piece in _cut(values, first, 0, count):
        for i in range(len(piece)):
            total, code = add(total, piece[i])
            if code != 0:
                return 0, code
    return total, 0


@register_jitable
def ring_sum_float(values: Any, first: Any, count: Any) -> float:
    total = 0.0
    for piece in _cut(values, first, 0, count):
        for i in range(len(piece)):
            total += piece[i]
    return total


@register_jitable
def ring_sum_bool(values: Any, first: Any, count: Any) -> int:
    """How many are true; they are stored as bytes."""
    total = 0
    for piece in _cut(values, first, 0, count):
        for i in range(len(piece)):
            if piece[i] != 0:
                total += 1
    return total


@register_jitable
def ring_mean_int(values: Any, first: Any, count: Any) -> tuple[float, int]:
    total, code = ring_sum_int(values, first, count)
    if code != 0 or count == 0:
        return 0.0, code
    return truediv(total, count)


@register_jitable
def ring_mean_float(values: Any, first: Any, count: Any) -> float:
    return ring_sum_float(values, first, count) / max(count, 1)


@register_jitable
def ring_mean_bool(values: Any, first: Any, count: Any) -> float:
    return ring_sum_bool(values, first, count) / max(count, 1)


@register_jitable
def ring_min(values: Any, first: Any, count: Any) -> Any:
    """As CPython's `min`: a later one wins only when it is strictly better, also beside nan."""
    best = values[first]
    for piece in _cut(values, first, 0, count):
        for i in range(len(piece)):
            if piece[i] < best:
                best = piece[i]
    return best


@register_jitable
def ring_max(values: Any, first: Any, count: Any) -> Any:
    best = values[first]
    for piece in _cut(values, first, 0, count):
        for i in range(len(piece)):
            if piece[i] > best:
                best = piece[i]
    return best


@register_jitable
def _equal(values: Any, first: Any, start: Any, stop: Any, value: Any) -> int:
    """How many of the positions `start` to `stop` hold this value. No branches: several are compared at once."""
    found = 0
    for piece in _cut(values, first, start, stop):
        for i in range(len(piece)):
            if piece[i] == value:
                found += 1
    return found


@register_jitable
def ring_distinct(values: Any, first: Any, count: Any) -> int:
    """The number of different values: those that none before them equals."""
    found = 0
    for i in range(count):
        if _equal(values, first, 0, i, values[(first + i) % len(values)]) == 0:
            found += 1
    return found


@register_jitable
def ring_top(values: Any, first: Any, count: Any, rank: Any) -> int:
    """The slot where the value of this rank is first seen; -1 when there are fewer values.

    In each round the best of the values that come after the best one of the round before: less often, or as often and
    seen later. A value counts from where it is first seen; nan, which equals nothing, once.
    """
    times, place = count + 1, -1
    for _ in range(rank):
        times_before, place_before = times, place
        times = 0
        for i in range(count):
            if count - i <= times:
                break  # too few are left
            value = values[(first + i) % len(values)]
            occurs = 1 + _equal(values, first, i + 1, count, value)
            after = occurs < times_before or (occurs == times_before and i > place_before)
            if after and occurs > times and _equal(values, first, 0, i, value) == 0:
                times, place = occurs, i
    return (first + place) % len(values) if times > 0 else -1


FUNCTIONS = (
    ring_newer, ring_sum_int, ring_sum_float, ring_sum_bool, ring_mean_int, ring_mean_float, ring_mean_bool,
    ring_min, ring_max, ring_distinct, ring_top,
)  # fmt: skip
