"""From codes of vertices to codes of transactions."""

from __future__ import annotations

from typing import Any

from .base import invoke, kernel, ticks

IMPRECISE = 1 << 20  # as in lang.versioned: set where another abort may come first in program order


@kernel
def verdicts(todo: Any, t_lo: Any, v_code: Any, code: Any, unsure: Any) -> int:
    """The code of each transaction; lists those whose reason is not sure, gives their number."""
    count = 0
    for i in range(len(todo)):
        found = 0
        for v in range(t_lo[i], t_lo[i + 1]):
            c = v_code[v]
            if c != 0 and (found == 0 or c < IMPRECISE):
                found = c
        if found >= IMPRECISE:
            unsure[count] = todo[i]
            count += 1
        code[todo[i]] = found
    return count


@kernel
def repeat(versioned: Any, context: Any, todo: Any, v_code: Any, code: Any) -> None:
    """Runs whole transactions that are known to abort, for their reasons."""
    for i in range(len(todo)):
        v_code[i] = invoke(versioned, context, i, 0)
        code[todo[i]] = v_code[i]


@kernel
def hand_over(first: int, code: Any, shown: Any, ret: Any) -> None:
    """Shows the codes of the transactions from `first` on; one that aborted has returned nothing."""
    for t in range(first, len(code)):
        shown[t] = code[t]
        if code[t] != 0:
            ret[t] = 0


@kernel
def now() -> int:
    return ticks()
