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
        else:
            code[todo[i]] = found
    return count


@kernel
def repeat(versioned: Any, context: Any, todo: Any, v_code: Any, code: Any) -> None:
    """Runs whole transactions that are known to abort, for their reasons."""
    for i in range(len(todo)):
        v_code[i] = invoke(versioned, context, i, 0)
        code[todo[i]] = v_code[i]


@kernel
def clear_returns(first: int, code: Any, ret: Any) -> None:
    """Of the transactions from `first` on: some part may have returned before another one aborted."""
    for t in range(first, len(code)):
        if code[t] != 0:
            ret[t] = 0


@kernel
def call(function: Any, context: Any, item: int, worker: int) -> int:
    """Calls generated code, without Python's lock."""
    return invoke(function, context, item, worker)


@kernel
def now() -> int:
    return ticks()
