"""Loops of the `panes` operator. They allocate nothing and run the same with the JIT off.

A **cell** is what one key has in one pane. Cells are numbered in order of their first event; `before[c]` and `after[c]`
are the cells of the same key around it, -1 for none. A **block** is as many panes as a window has, beginning at a
multiple of that number. A window lies across one border of blocks, so it is the end of one block and the beginning of
the next: `left[c]` folds from cell c to the end of its block, `right[c]` from the beginning of the block to c.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mainstem.jit import inlined, kernel

ADD, MIN, MAX = range(3)
NONE = -1

# What `slide` remembers between calls.
NEXT, EXPIRED, ENTERED, LIVE, ROWS = range(5)
PLACES = 5


@inlined
def combine(op: int, a: Any, b: Any) -> Any:
    """Of equal values the first stays, and so does the first nan."""
    if op == ADD:
        return a + b
    better = b < a if op == MIN else b > a
    return b if better or (b != b and a == a) else a


@kernel
def assign_times(
    ts: np.ndarray, keys: np.ndarray, length: int, size: int, pane_of: np.ndarray, key_of: np.ndarray,
    before: np.ndarray, after: np.ndarray, newest: np.ndarray, count: int, cell: np.ndarray,
) -> int:  # fmt: skip
    """Finds the cell of each event (-1: in no window); gives the number of cells. Panes have `length` units of time, of
    which windows cover the first `size`."""
    pane = 0
    start = until = int(ts[0])
    for row in range(len(keys)):
        time = ts[row]
        if time >= until:
            pane = time // length
            start = pane * length
            until = start + length
        key = keys[row]
        if key < 0 or time - start >= size:
            cell[row] = NONE
            continue
        known = newest[key]
        if known < 0 or pane_of[known] != pane:
            pane_of[count], key_of[count], before[count], after[count] = pane, key, known, NONE
            if known >= 0:
                after[known] = count
            newest[key] = known = count
            count += 1
        cell[row] = known
    return count


@kernel
def assign_events(
    keys: np.ndarray, pane: int, size: int, panes: int, step: int, seen: np.ndarray, head: np.ndarray,
    pane_of: np.ndarray, key_of: np.ndarray, before: np.ndarray, after: np.ndarray, newest: np.ndarray, count: int,
    cell: np.ndarray, full: np.ndarray, ends: np.ndarray, places: np.ndarray, first: np.ndarray, last: np.ndarray,
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
        if known < 0 or pane_of[known] != now:
            pane_of[count], key_of[count], before[count], after[count] = now, key, known, NONE
            if known >= 0:
                after[known] = count
            newest[key] = known = count
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
            while part >= 0 and pane_of[part] > now - panes:
                ends[ended] = part
                ended += 1
                part = before[part]
        if now + 1 >= panes and (now + 1 - panes) % step == 0:
            places[closed], first[closed], last[closed] = row, head[key], known
            closed += 1
            part = head[key]
            for _ in range(step):
                if part >= 0:
                    part = after[part]
            head[key] = part
    return count, filled, ended, closed


@kernel
def fold_cells(op: int, cell: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    for row in range(len(cell)):
        at = cell[row]
        if at >= 0:
            out[at] = combine(op, out[at], values[row])


@kernel
def count_cells(cell: np.ndarray, out: np.ndarray) -> None:
    for row in range(len(cell)):
        at = cell[row]
        if at >= 0:
            out[at] += 1


@kernel
def sum_words(cell: np.ndarray, values: np.ndarray, high: np.ndarray, low: np.ndarray) -> None:
    """Sums of both halves of 64-bit integers: neither overflows."""
    for row in range(len(cell)):
        at = cell[row]
        if at >= 0:
            value = values[row]
            high[at] += value >> 32
            low[at] += value & 0xFFFFFFFF


@kernel
def first_of_cells(cell: np.ndarray, values: np.ndarray, new: int, out: np.ndarray) -> None:
    """Cells before `new` have their first value already."""
    for back in range(len(cell)):
        row = len(cell) - 1 - back
        if cell[row] >= new:
            out[cell[row]] = values[row]


@kernel
def last_of_cells(cell: np.ndarray, values: np.ndarray, out: np.ndarray) -> None:
    for row in range(len(cell)):
        if cell[row] >= 0:
            out[cell[row]] = values[row]


@kernel
def scan_right(
    op: int, order: np.ndarray, before: np.ndarray, pane_of: np.ndarray, panes: int, values: np.ndarray, out: np.ndarray
) -> None:
    """`right` of cells that are complete, in the order of time."""
    for at in range(len(order)):
        c = order[at]
        other = before[c]
        if other >= 0 and pane_of[other] // panes == pane_of[c] // panes:
            out[c] = combine(op, out[other], values[c])
        else:
            out[c] = values[c]


@kernel
def scan_left(
    op: int, order: np.ndarray, after: np.ndarray, pane_of: np.ndarray, panes: int, values: np.ndarray, out: np.ndarray
) -> None:
    """`left` of the cells of complete blocks, back in time."""
    for at in range(len(order)):
        c = order[at]
        other = after[c]
        if other >= 0 and pane_of[other] // panes == pane_of[c] // panes:
            out[c] = combine(op, values[c], out[other])
        else:
            out[c] = values[c]


@kernel
def join_sides(
    op: int, first: np.ndarray, last: np.ndarray, starts: np.ndarray, pane_of: np.ndarray, panes: int,
    left: np.ndarray, right: np.ndarray, out: np.ndarray,
) -> None:  # fmt: skip
    """Windows from their first and last cells."""
    for row in range(len(first)):
        border = -(-starts[row] // panes) * panes
        c1, c2 = first[row], last[row]
        if pane_of[c1] >= border:
            out[row] = right[c2]
        elif pane_of[c2] < border:
            out[row] = left[c1]
        else:
            out[row] = combine(op, left[c1], right[c2])


@kernel
def slide(
    at: np.ndarray, latest: int, panes: int, step: int, count: int, pane_of: np.ndarray, key_of: np.ndarray,
    after: np.ndarray, rank: np.ndarray, head: np.ndarray, tail: np.ndarray, listed: np.ndarray, live: np.ndarray,
    new: np.ndarray, spare: np.ndarray, starts: np.ndarray, first: np.ndarray, last: np.ndarray,
) -> bool:  # fmt: skip
    """Closes windows one after the other, up to the one that starts in pane `latest`: for each, its keys by rank.

    Cells stand in the order of time, so those that leave and enter a window follow each other. `live` lists the keys of
    the window by rank; keys that leave and come back at once keep their place, so few have to be sorted in. False when
    rows are full: then it goes on where it stopped.
    """
    while True:
        if at[LIVE] == 0:  # nothing before the next cell: go there
            if at[ENTERED] >= count:
                return True
            earliest = -((panes - 1 - pane_of[at[ENTERED]]) // step) * step
            if earliest > at[NEXT]:
                at[NEXT] = earliest
        start = at[NEXT]
        if start > latest:
            return True
        while at[EXPIRED] < at[ENTERED] and pane_of[at[EXPIRED]] < start:
            c = at[EXPIRED]
            key = key_of[c]
            head[key] = after[c] if tail[key] != c else NONE
            at[EXPIRED] += 1
        fresh = 0
        while at[ENTERED] < count and pane_of[at[ENTERED]] < start + panes:
            c = at[ENTERED]
            key = key_of[c]
            tail[key] = c
            if head[key] < 0:
                head[key] = c
                if listed[key] == 0:
                    listed[key] = 1
                    new[fresh] = key
                    fresh += 1
            at[ENTERED] += 1
        at[LIVE] = relist(live, at[LIVE], new, fresh, rank, head, listed, spare)
        rows = at[ROWS]
        if rows + at[LIVE] > len(first):
            return False  # done again, this window expires and enters nothing more
        for number in range(at[LIVE]):
            key = live[number]
            starts[rows + number] = start
            first[rows + number] = head[key]
            last[rows + number] = tail[key]
        at[ROWS] = rows + at[LIVE]
        at[NEXT] = start + step
        if at[ENTERED] >= count or pane_of[at[ENTERED]] >= start + step + panes:
            drop_ended(at, live, head, tail, listed, pane_of, start + step)


@kernel
def drop_ended(
    at: np.ndarray, live: np.ndarray, head: np.ndarray, tail: np.ndarray, listed: np.ndarray, pane_of: np.ndarray,
    start: int,
) -> None:  # fmt: skip
    """When no key reaches into the window that comes next, the list is emptied, so that `slide` can jump."""
    for number in range(at[LIVE]):
        if pane_of[tail[live[number]]] >= start:
            return
    for number in range(at[LIVE]):
        listed[live[number]] = 0
        head[live[number]] = NONE
    at[LIVE] = 0
    at[EXPIRED] = at[ENTERED]


@kernel
def relist(
    live: np.ndarray, count: int, new: np.ndarray, fresh: int, rank: np.ndarray, head: np.ndarray,
    listed: np.ndarray, spare: np.ndarray,
) -> int:  # fmt: skip
    """`live` without keys that have left and with `new` ones, by rank."""
    sort_by_rank(new, fresh, rank, spare)
    kept = 0
    for number in range(count):
        key = live[number]
        if head[key] >= 0:
            spare[kept] = key
            kept += 1
        else:
            listed[key] = 0
    i = j = 0
    for number in range(kept + fresh):
        if j == fresh or (i < kept and rank[spare[i]] < rank[new[j]]):
            live[number] = spare[i]
            i += 1
        else:
            live[number] = new[j]
            j += 1
    return kept + fresh


@kernel
def sort_by_rank(keys: np.ndarray, count: int, rank: np.ndarray, spare: np.ndarray) -> None:
    """A merge sort: runs of 1, 2, 4 … keys."""
    width = 1
    while width < count:
        for low in range(0, count, 2 * width):
            middle, high = min(low + width, count), min(low + 2 * width, count)
            i, j = low, middle
            for number in range(low, high):
                if j == high or (i < middle and rank[keys[i]] < rank[keys[j]]):
                    spare[number] = keys[i]
                    i += 1
                else:
                    spare[number] = keys[j]
                    j += 1
        for number in range(count):
            keys[number] = spare[number]
        width *= 2
