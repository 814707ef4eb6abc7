"""Threads that tell each other when to begin and that they have ended, by numbers that one raises and the other awaits.

All of it is done without Python's lock. Who is told something in Python code wants the lock at once, which the one who
told it still has: it would go to sleep, and waking up takes longer than many a batch. For the same reason a thread that
is looking out for its next run does it at once, if that is compiled code, and looks out for another.

Runs of a thread are numbered from 1 on. What a thread and its callers tell each other are its words
(`thread_words.py`); they begin at `at` among those of all threads of a team.
"""

from __future__ import annotations

import numpy as np

from mainstem.atomics import SPINS, YIELDS, atomic_load, atomic_store, inlined, rest_at_work
from mainstem.jit import kernel
from mainstem.pointers import invoke
from mainstem.thread_words import AWAITED, BEGUN, COMPILED, CONTEXT, ENDED, FUNCTION, LOOKING, STARTED, THREAD_WORDS

# Turns of `rest`; from SPINS on each gives the core away, for about half a microsecond if nobody wants it.
PATIENCE = SPINS + YIELDS
PATIENCE_BETWEEN = SPINS + 4 * YIELDS  # of threads between two batches: the caller has to turn from one to the next
# From the first line of a task to compiled code: kernels of strategies have few arguments, the serial one many.
SETTLING, SETTLING_SERIAL = 6, 30


@inlined
def _wait(words: np.ndarray, at: int, value: int, patience: int) -> bool:
    turn = 0
    while atomic_load(words, at) < value:
        if turn == patience:
            return False
        turn = rest_at_work(turn)
    return True


@inlined
def _post(words: np.ndarray, at: int, function: int, context: int) -> int:
    number = words[at + STARTED] + 1
    if function != 0:
        words[at + FUNCTION], words[at + CONTEXT], words[at + COMPILED] = function, context, number
    atomic_store(words, at + STARTED, number)
    return number


@kernel
def wait_briefly(words: np.ndarray, at: int, value: int) -> None:
    """Returns when `words[at]` is `value` or more, or after some microseconds."""
    _wait(words, at, value, PATIENCE)


@kernel
def tell(words: np.ndarray, at: int, function: int, context: int, settling: int) -> None:
    """Has the thread do one more run; `function` 0: in Python.

    If it is looking out for that, returns when it has begun, and has had the time to get from Python to compiled code,
    `settling` turns, or after some microseconds; else at once.
    """
    number = _post(words, at, function, context)
    if atomic_load(words, at + LOOKING) != 0 and _wait(words, at + BEGUN, number, PATIENCE) and function == 0:
        for turn in range(settling):
            rest_at_work(SPINS + turn)


@kernel
def look_out(words: np.ndarray, at: int, ended: int, worker: int) -> int:
    """Says that run `ended` has ended; then does what comes, as long as it comes within some microseconds, is compiled,
    and nobody sleeps until something has ended. Gives the number of the last run that has ended."""
    atomic_store(words, at + LOOKING, 1)
    atomic_store(words, at + ENDED, ended)
    while atomic_load(words, at + AWAITED) == 0:
        if not _wait(words, at + STARTED, ended + 1, PATIENCE_BETWEEN) or words[at + COMPILED] != ended + 1:
            break
        ended += 1
        atomic_store(words, at + BEGUN, ended)
        invoke(words[at + FUNCTION], words[at + CONTEXT], 0, worker)
        atomic_store(words, at + ENDED, ended)
    atomic_store(words, at + LOOKING, 0)
    return ended


@kernel
def pass_on(
    words: np.ndarray, threads: int, function: int, context: int, next_function: int, next_context: int
) -> bool:
    """Takes part in the run at hand of all threads; when they have ended it, has them do the next one. False: one of
    them has not, for some microseconds."""
    invoke(function, context, 0, 0)
    for thread in range(threads):
        at = thread * THREAD_WORDS
        if not _wait(words, at + ENDED, words[at + STARTED], PATIENCE_BETWEEN):
            return False
    for thread in range(threads):
        _post(words, thread * THREAD_WORDS, next_function, next_context)
    return True
