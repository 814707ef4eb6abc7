"""What the threads of one run share, as arrays; and the numbers that all kernels know.

Windows have numbers: window n covers `[n * advance, n * advance + size)`. An event is a row number. Words that
different threads write have a cache line each: word i of such an array is at `i * LINE`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

LINE = 8  # words of 8 bytes in a cache line
LEVELS = 3  # of the skip list of winsets, as in the evaluation of W-Hive
BURST = 32  # events that a thread takes from one input before it looks at its next one

# Numbers below and above those of all windows, which are within 1.5 * 2**62 (see `TS_MAX` and `SIZE_MAX`).
BEFORE_ALL, AFTER_ALL = -(2**63) + 1, 2**63 - 2**61
NOTHING = -1  # a key that is free, a link that leads nowhere, an event that is not there

# What a window does with a value. A window is a few words: how many events it has, and what each of these made of them.
SUM, MIN, MAX, FIRST, LAST = 0, 1, 2, 3, 4

# How a kernel ends that writes results.
FINISHED, FULL, STOPPED = 0, 1, 2


class Events(NamedTuple):
    """Rows of all inputs, one input behind the other: input i has the rows `lo[i]` to `lo[i + 1]`."""

    ts: np.ndarray
    key: np.ndarray  # codes from 0
    value: np.ndarray  # int64[rows, ops]
    keep: np.ndarray  # bool[rows]: whether the event belongs to any window at all
    lo: np.ndarray


class Feed(NamedTuple):
    """How events arrive. An input is served by one thread only, which alone writes its words."""

    at: np.ndarray  # per input: the next row
    due: np.ndarray  # per row: ticks after `start` before which it is not there yet; empty: all are there
    start: int
    threads: int  # thread w serves the inputs w, w + threads, …


class Shape(NamedTuple):
    """The window."""

    size: int
    advance: int
    ops: np.ndarray  # SUM, …; none of them when events are only counted
    initial: np.ndarray  # the value of each before the first event


class Out(NamedTuple):
    """Closed windows: those of one winset lie together, in no order."""

    key: np.ndarray
    cell: np.ndarray  # int64[rows, 1 + ops]: how many events, and what each op made of them
    set_number: np.ndarray  # per winset: number of its windows
    set_end: np.ndarray  # where its rows end
    set_ticks: np.ndarray  # when it was closed
    filled: np.ndarray  # (rows, winsets)
