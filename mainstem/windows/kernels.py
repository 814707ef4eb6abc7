"""Loops of the `panes` operator from events to cells. They allocate nothing and run the same with the JIT off.

A **cell** is what one key has in one pane. Cells are numbered in order of time; `before[c]` and `after[c]` are the
cells of the same key around it, -1 for none. A **block** is as many panes as a window has, beginning at a multiple of
that number. A window lies across one border of blocks, so it is the end of one block and the beginning of the next:
`left[c]` folds from cell c to the end of its block, `right[c]` from the beginning of the block to c. Sums of integers
need neither when windows slide over time: what leaves is taken off again.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from mainstem.jit import inlined, kernel

ADD, MIN, MAX = range(3)
COUNT, HIGH, LOW, WHOLE = range(4)
"""What is added: 1, one half of a 64-bit integer, so that no sum overflows, or all of it."""
NONE = -1


class Cells(NamedTuple):
    pane: np.ndarray
    key: np.ndarray
    before: np.ndarray
    after: np.ndarray


class Tracks(NamedTuple):
    """Numbers of one type that every cell has, and what they are folded from."""

    op: np.ndarray  # int64[tracks]: ADD, MIN or MAX
    part: np.ndarray  # int64[tracks]: COUNT, HIGH, LOW or WHOLE, of integers that are added
    column: np.ndarray  # int64[tracks]: the row of the events' columns
    values: np.ndarray  # [tracks, cells]
    left: np.ndarray  # [tracks, cells]
    right: np.ndarray  # [tracks, cells]
    running: np.ndarray  # [tracks, keys]: over the window at hand, where sums are kept that way


class Ends(NamedTuple):
    """The first or last value of every cell, with the time of its event."""

    last: np.ndarray  # int64[tracks]: 0 for the first, 1 for the last
    column: np.ndarray
    values: np.ndarray  # int64[tracks, cells]
    times: np.ndarray  # int64[tracks, cells]


@inlined
def combine(op: int, a: Any, b: Any) -> Any:
    """Of equal values the first stays, and so does the first nan."""
    if op == ADD:
        return a + b
    better = b < a if op == MIN else b > a
    return b if better or (b != b and a == a) else a


@kernel
def assign_times(
    ts: np.ndarray, keys: np.ndarray, base: int, at: np.ndarray, end: np.ndarray, length: int, size: int,
    linked: bool, cells: Cells, newest: np.ndarray, count: int, cell: np.ndarray,
) -> int:  # fmt: skip
    """Finds the cell of each event (-1: in no window); gives the number of cells. Who needs no links may save them.

    Rows `at[i]` to `end[i]` are a run that is sorted by time; all runs go on together, pane by pane. Keys count from
    `base`, and those below are no keys. Panes have `length` units of time, of which windows cover the first `size`.
    """
    nearest = later = 0
    left = False
    for i in range(len(at)):
        if at[i] < end[i]:
            nearest = min(nearest, int(ts[at[i]])) if left else int(ts[at[i]])
            left = True
    while left:
        pane = nearest // length
        start = pane * length
        until = start + length
        oldest = count  # cells from here on are in this pane
        while oldest > 0 and cells.pane[oldest - 1] == pane:
            oldest -= 1
        left = False
        for i in range(len(at)):
            row, stop = at[i], end[i]
            while row < stop and ts[row] < until:
                key = keys[row] - base
                if key < 0 or ts[row] - start >= size:
                    cell[row] = NONE
                else:
                    known = newest[key]
                    if known < oldest:
                        add_cell(cells, linked, newest, count, pane, key)
                        known = count
                        count += 1
                    cell[row] = known
                row += 1
            at[i] = row
            if row < stop:
                later = min(later, int(ts[row])) if left else int(ts[row])
                left = True
        nearest = later
    return count


@inlined
def add_cell(cells: Cells, linked: bool, newest: np.ndarray, c: int, pane: int, key: int) -> None:
    cells.pane[c], cells.key[c] = pane, key
    if linked:
        known = newest[key]
        cells.before[c], cells.after[c] = known, NONE
        if known >= 0:
            cells.after[known] = c
    newest[key] = c


@kernel
def assign_events(
    keys: np.ndarray, pane: int, size: int, panes: int, step: int, seen: np.ndarray, head: np.ndarray, cells: Cells,
    newest: np.ndarray, count: int, cell: np.ndarray, full: np.ndarray, ends: np.ndarray, places: np.ndarray,
    first: np.ndarray, last: np.ndarray,
) -> tuple[int, int, int, int]:  # fmt: skip
    """The same for windows of `size` events of a key: `seen` counts them, panes have `pane` of them.

    Cells that get full are listed in `full`; those of a whole block, from its end to its beginning, in `ends`. A window
    that gets full is listed by the row that fills it, its first and its last cell. Gives the four numbers.
    """
    filled = ended = closed = 0
    for row in range(len(keys)):
        key = keys[row]
        if key < 0:
            cell[row] = NONE
            continue
        number = seen[key]
        seen[key] = number + 1
        now = number // pane
        place = number - now * pane
        if place >= size:
            cell[row] = NONE
            continue
        known = newest[key]
        if known < 0 or cells.pane[known] != now:
            add_cell(cells, True, newest, count, now, key)
            known = count
            if head[key] < 0:
                head[key] = count
            count += 1
        cell[row] = known
        if place != min(pane, size) - 1:
            continue
        full[filled] = known
        filled += 1
        if (now + 1) % panes == 0:
            part = known
            while part >= 0 and cells.pane[part] > now - panes:
                ends[ended] = part
                ended += 1
                part = cells.before[part]
        if now + 1 >= panes and (now + 1 - panes) % step == 0:
            places[closed], first[closed], last[closed] = row, head[key], known
            closed += 1
            part = head[key]
            for _ in range(step):
                if part >= 0:
                    part = cells.after[part]
            head[key] = part
    return count, filled, ended, closed


@kernel
def fold_sums(sums: Tracks, cell: np.ndarray, columns: np.ndarray) -> None:
    for t in range(len(sums.op)):
        part, column = sums.part[t], sums.column[t]
        for row in range(len(cell)):
            c = cell[row]
            if c < 0:
                continue
            if part == COUNT:
                sums.values[t, c] += 1
            elif part == HIGH:
                sums.values[t, c] += columns[column, row] >> 32
            elif part == LOW:
                sums.values[t, c] += columns[column, row] & 0xFFFFFFFF
            else:
                sums.values[t, c] += columns[column, row]


@kernel
def fold_tracks(tracks: Tracks, cell: np.ndarray, columns: np.ndarray) -> None:
    """What is no sum of integers: one value of a column after the other."""
    for t in range(len(tracks.op)):
        op, column = tracks.op[t], tracks.column[t]
        for row in range(len(cell)):
            c = cell[row]
            if c >= 0:
                tracks.values[t, c] = combine(op, tracks.values[t, c], columns[column, row])


@kernel
def fold_ends(ends: Ends, cell: np.ndarray, ts: np.ndarray, columns: np.ndarray) -> None:
    """Rows of the same time stand in their order, others in any."""
    for t in range(len(ends.last)):
        last, column = ends.last[t] != 0, ends.column[t]
        for row in range(len(cell)):
            c = cell[row]
            if c < 0:
                continue
            time = ts[row]
            known = ends.times[t, c]
            if (last and time >= known) or (not last and time < known):
                ends.values[t, c], ends.times[t, c] = columns[column, row], time


@kernel
def scan_right(tracks: Tracks, cells: Cells, panes: int, order: np.ndarray) -> None:
    """`right` of cells that are complete, in the order of time."""
    for at in range(len(order)):
        extend_right(tracks, cells, cells.pane[order[at]] // panes * panes, order[at])


@inlined
def extend_right(tracks: Tracks, cells: Cells, begin: int, c: int) -> None:
    """The block of cell c begins with pane `begin`."""
    other = cells.before[c]
    joined = other >= 0 and cells.pane[other] >= begin
    for t in range(len(tracks.op)):
        value = tracks.values[t, c]
        tracks.right[t, c] = combine(tracks.op[t], tracks.right[t, other], value) if joined else value


@kernel
def scan_left(tracks: Tracks, cells: Cells, panes: int, order: np.ndarray) -> None:
    """`left` of the cells of complete blocks, back in time."""
    for at in range(len(order)):
        extend_left(tracks, cells, (cells.pane[order[at]] // panes + 1) * panes, order[at])


@inlined
def extend_left(tracks: Tracks, cells: Cells, end: int, c: int) -> None:
    """The block of cell c ends before pane `end`."""
    other = cells.after[c]
    joined = other >= 0 and cells.pane[other] < end
    for t in range(len(tracks.op)):
        value = tracks.values[t, c]
        tracks.left[t, c] = combine(tracks.op[t], value, tracks.left[t, other]) if joined else value


@inlined
def joined_sides(tracks: Tracks, t: int, cells: Cells, border: int, first: int, last: int) -> Any:
    """A window from its first and its last cell."""
    if cells.pane[first] >= border:
        return tracks.right[t, last]
    if cells.pane[last] < border:
        return tracks.left[t, first]
    return combine(tracks.op[t], tracks.left[t, first], tracks.right[t, last])


@kernel
def whole_sums(high: np.ndarray, low: np.ndarray, out: np.ndarray) -> int:
    """Puts the halves of sums together; gives the first row whose sum needs more than 64 bits, or -1."""
    wrong = NONE
    for row in range(len(out)):
        upper, lower = high[row] + (low[row] >> 32), low[row] & 0xFFFFFFFF
        if wrong < 0 and (upper < -(2**31) or upper >= 2**31):
            wrong = row
        out[row] = (upper << 32) | lower
    return wrong
