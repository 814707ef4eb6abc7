"""Sums of few keys in many panes: a matrix that has a line of keys for each pane.

An event is added to one element, wherever its input stands; a window slides down the lines and adds and subtracts whole
ones. Nothing is sorted, listed or looked up.
"""

from __future__ import annotations

import numpy as np

from mainstem.windows.kernels import COUNT, HIGH, LOW

from .base import inlined, kernel


@kernel
def add_to_panes(
    ts: np.ndarray, keys: np.ndarray, base: int, values: np.ndarray, part: int, first: int, length: int, size: int,
    matrix: np.ndarray,
) -> None:  # fmt: skip
    """Adds a `part` of the values of a run that is sorted by time; line 0 of the matrix is pane `first`.

    Panes have `length` units of time, of which windows cover the first `size`.
    """
    row, rows = 0, len(ts)
    while row < rows:
        pane = ts[row] // length
        start = pane * length
        stop = row
        while stop < rows and ts[stop] - start < size:
            stop += 1
        add_to_line(keys[row:stop], base, values[row:stop], part, matrix[pane - first])
        row = stop
        while row < rows and ts[row] - start < length:  # between windows
            row += 1


@inlined
def add_to_line(keys: np.ndarray, base: int, values: np.ndarray, part: int, line: np.ndarray) -> None:
    """No values are needed to count."""
    if part == COUNT:
        for row in range(len(keys)):
            line[keys[row] - base] += 1
    elif part == HIGH:
        for row in range(len(keys)):
            line[keys[row] - base] += values[row] >> 32
    elif part == LOW:
        for row in range(len(keys)):
            line[keys[row] - base] += values[row] & 0xFFFFFFFF
    else:
        for row in range(len(keys)):
            line[keys[row] - base] += values[row]


@kernel
def count_matrix(counts: np.ndarray, lead: int, panes: int, step: int, running: np.ndarray, rows: np.ndarray) -> None:
    """How many keys each window has events of. Window w starts at line `lead + w * step` and has `panes` lines."""
    for w in range(len(rows)):
        slide_lines(counts, w, lead, panes, step, running)
        found = 0
        for key in range(len(running)):
            found += 1 if running[key] > 0 else 0
        rows[w] = found


@inlined
def slide_lines(lines: np.ndarray, w: int, lead: int, panes: int, step: int, running: np.ndarray) -> None:
    """From window w - 1 to window w; to window 0 from none. Windows may reach beyond both ends of the matrix."""
    start = lead + w * step
    if w > 0:
        for line in range(max(start - step, 0), min(start, len(lines))):
            for key in range(len(running)):
                running[key] -= lines[line, key]
    entered = start + panes - step if w > 0 else start
    for line in range(max(entered, 0), min(start + panes, len(lines))):
        for key in range(len(running)):
            running[key] += lines[line, key]


@kernel
def write_matrix(
    matrix: np.ndarray, counted: int, lead: int, panes: int, step: int, rows: np.ndarray, running: np.ndarray,
    key_of: np.ndarray, words: np.ndarray,
) -> None:  # fmt: skip
    """The rows of windows, by key: `counted` is the matrix that counts events. There is room for one row more."""
    low, keys = 0, running.shape[1]
    for w in range(len(rows)):
        for t in range(len(matrix)):
            slide_lines(matrix[t], w, lead, panes, step, running[t])
        high = low + rows[w]
        if rows[w] == keys:
            for key in range(keys):
                key_of[low + key] = key
            for t in range(len(words)):
                for key in range(keys):
                    words[t, low + key] = running[t, key]
        elif rows[w] > 0:
            row = low
            for key in range(keys):
                key_of[row] = key
                row += 1 if running[counted, key] > 0 else 0
            for t in range(len(words)):
                for row in range(low, high):
                    words[t, row] = running[t, key_of[row]]
        low = high


@kernel
def write_bounds(rows: np.ndarray, begin: int, advance: int, size: int, start: np.ndarray, end: np.ndarray) -> None:
    """When the windows of rows start and end; the first window starts at `begin`."""
    low = 0
    for w in range(len(rows)):
        high = low + rows[w]
        start[low:high] = begin + w * advance
        end[low:high] = begin + w * advance + size
        low = high
