"""`atomics` for uncompiled runs: the same names in plain Python. Threads take turns under Python's own lock."""

from __future__ import annotations

import threading
import time
from typing import Any

_turnstile = threading.Lock()  # makes read-modify-write one step


def atomic_add(array: Any, index: int, value: int) -> int:
    with _turnstile:
        before = int(array[index])
        array[index] = before + value
    return before


def atomic_load(array: Any, index: int) -> int:
    return int(array[index])


def atomic_store(array: Any, index: int, value: int) -> None:
    array[index] = value


atomic_release = atomic_store


def atomic_change(array: Any, index: int, expected: int, value: int) -> bool:
    with _turnstile:
        if array[index] != expected:
            return False
        array[index] = value
    return True


def keep_loads_apart() -> None:
    pass


def prefetch(array: Any, index: int) -> None:
    pass


def ticks() -> int:
    return time.perf_counter_ns()


def rest(turn: int) -> int:
    time.sleep(0)
    return turn + 1
