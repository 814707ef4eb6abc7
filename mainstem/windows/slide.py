"""Windows of time that slide over cells: what enters, what leaves, and a row for every key that has something in it.

The keys of the window at hand are bits by rank, so they are read in order without sorting. A bit of `words_used` says
that a word of `live` may have any; it goes when the word is read and has none. So cells enter and leave without a
branch, and none could foresee whether a key has other cells.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from mainstem.jit import JIT_ENABLED, inlined, kernel
from mainstem.windows.kernels import NONE, Cells, Ends, Tracks, extend_left, extend_right, joined_sides

if JIT_ENABLED:
    from mainstem.bits import count as count_bits
    from mainstem.bits import lowest, without_lowest
else:
    from mainstem.bits_plain import count as count_bits
    from mainstem.bits_plain import lowest, without_lowest

# What `slide` remembers between calls.
NEXT, EXPIRED, ENTERED, LIVE, BLOCK, ROWS, WINDOWS = range(7)
PLACES = 7
NO_BLOCK = -(2**62) - 1  # no block of panes has this number

BITS, WORD = 6, 64
ALL_BITS = -1
_ONE = np.int64(1)  # shifted to any place, it stays an int64
LISTED = 3  # keys of a word that are written without a branch: it is chance how many a word has, and often few
CROWDED = 24  # used words of a group from which on it is faster to look at all of them
SPARE = LISTED  # rows behind the last one that may be written, too


class Keys(NamedTuple):
    """By key: its cells in the window; by rank: which key it is, and whether it is in the window."""

    cells: np.ndarray  # int64: how many, 0 while it has nothing in the window; empty where its events are counted
    head: np.ndarray  # the first; empty where cells are not linked
    tail: np.ndarray  # the last; the same
    rank: np.ndarray
    of_rank: np.ndarray  # empty when keys are their own ranks
    live: np.ndarray  # bits
    words_used: np.ndarray  # bits


class Shape(NamedTuple):
    size: int
    pane: int
    panes: int
    step: int
    linked: bool  # whether cells of a key are, and rows name their first and last ones
    counted: int  # the track of sums that counts events, or -1


class Folds(NamedTuple):
    """What cells hold. Of `sums` only what is `running` is used here."""

    sums: Tracks
    ints: Tracks
    floats: Tracks
    ends: Ends


class Out(NamedTuple):
    """Rows of closed windows; of `words` there is a line per track of sums, integers and ends, in this order."""

    key: np.ndarray
    start: np.ndarray
    end: np.ndarray
    words: np.ndarray
    floats: np.ndarray
    first: np.ndarray
    last: np.ndarray
    window_end: np.ndarray  # of each window, and how many rows it has
    window_rows: np.ndarray


@kernel
def slide(
    at: np.ndarray, latest: int, count: int, shape: Shape, cells: Cells, keys: Keys, folds: Folds, out: Out
) -> bool:  # fmt: skip
    """Closes windows one after the other, up to the one that starts in pane `latest`: for each, its keys by rank.

    Cells stand in the order of time, so those that leave and enter a window follow each other. False when rows are
    full: then it goes on where it stopped.
    """
    panes, step = shape.panes, shape.step
    while at[NEXT] <= latest:
        expire(at, shape, cells, keys, folds.sums)
        if at[LIVE] == 0:  # nothing before the next cell: go there
            if at[ENTERED] >= count:
                return True
            earliest = -((panes - 1 - cells.pane[at[ENTERED]]) // step) * step
            if earliest > at[NEXT]:
                at[NEXT] = earliest
                continue
        enter(at, count, shape, cells, keys, folds)
        if at[ROWS] + at[LIVE] + SPARE > len(out.key) or at[WINDOWS] == len(out.window_rows):
            return False  # called again, it expires and enters nothing more
        if at[NEXT] // panes != at[BLOCK]:
            at[BLOCK] = at[NEXT] // panes
            if len(folds.ints.op) + len(folds.floats.op) > 0:
                look_back(at, panes, cells, folds)
        tell(at, shape, cells, keys, folds, out)
        at[NEXT] += step
    return True


@inlined
def expire(at: np.ndarray, shape: Shape, cells: Cells, keys: Keys, sums: Tracks) -> None:
    """Takes off what is before the window."""
    first, stop, live = at[EXPIRED], at[EXPIRED], at[LIVE]
    while stop < at[ENTERED] and cells.pane[stop] < at[NEXT]:
        stop += 1
    counted = shape.counted
    present = sums.running[counted] if counted >= 0 else keys.cells
    own_ranks = len(keys.of_rank) == 0
    for c in range(first, stop):
        key = cells.key[c]
        left = present[key] - (sums.values[counted, c] if counted >= 0 else 1)
        present[key] = left
        if shape.linked:
            keys.head[key] = cells.after[c]
        gone = 1 if left == 0 else 0
        unlist(keys, key if own_ranks else keys.rank[key], gone)
        live -= gone
    for t in range(len(sums.op)):
        if t != counted:
            values, running = sums.values[t], sums.running[t]
            for c in range(first, stop):
                running[cells.key[c]] -= values[c]
    at[EXPIRED], at[LIVE] = stop, live


@inlined
def enter(at: np.ndarray, count: int, shape: Shape, cells: Cells, keys: Keys, folds: Folds) -> None:
    end, first, stop, live, sums = at[NEXT] + shape.panes, at[ENTERED], at[ENTERED], at[LIVE], folds.sums
    while stop < count and cells.pane[stop] < end:
        stop += 1
    counted = shape.counted
    present = sums.running[counted] if counted >= 0 else keys.cells
    own_ranks = len(keys.of_rank) == 0
    for c in range(first, stop):
        key = cells.key[c]
        known = present[key]
        present[key] = known + (sums.values[counted, c] if counted >= 0 else 1)
        if shape.linked:
            keys.tail[key] = c
            if known == 0:
                keys.head[key] = c
        enlist(keys, key if own_ranks else keys.rank[key])
        live += 1 if known == 0 else 0
    for t in range(len(sums.op)):
        if t != counted:
            values, running = sums.values[t], sums.running[t]
            for c in range(first, stop):
                running[cells.key[c]] += values[c]
    if len(folds.ints.op) + len(folds.floats.op) > 0:
        look_on(at[NEXT], first, stop, shape.panes, cells, folds)
    at[ENTERED], at[LIVE] = stop, live


@inlined
def look_on(start: int, first: int, stop: int, panes: int, cells: Cells, folds: Folds) -> None:
    """`right` of the cells that enter the window."""
    begin = end = start // panes * panes  # of the block of the cell at hand
    for c in range(first, stop):
        while cells.pane[c] >= end:
            begin, end = end, end + panes
        extend_right(folds.ints, cells, begin, c)
        extend_right(folds.floats, cells, begin, c)


@inlined
def look_back(at: np.ndarray, panes: int, cells: Cells, folds: Folds) -> None:
    """`left` of the cells in the block that the window starts in; all of them have entered."""
    end, c = (at[BLOCK] + 1) * panes, at[EXPIRED]
    while c < at[ENTERED] and cells.pane[c] < end:
        c += 1
    while c > at[EXPIRED]:
        c -= 1
        extend_left(folds.ints, cells, end, c)
        extend_left(folds.floats, cells, end, c)


@inlined
def tell(at: np.ndarray, shape: Shape, cells: Cells, keys: Keys, folds: Folds, out: Out) -> None:
    """The rows of one window."""
    low = at[ROWS]
    high = list_live(keys, out.key, low)
    begin = at[NEXT] * shape.pane
    out.start[low:high] = begin
    out.end[low:high] = begin + shape.size
    for t in range(len(folds.sums.op)):
        words, running = out.words[t], folds.sums.running[t]
        for row in range(low, high):
            words[row] = running[out.key[row]]
    if shape.linked:
        for row in range(low, high):
            out.first[row], out.last[row] = keys.head[out.key[row]], keys.tail[out.key[row]]
        write_rows(at[NEXT], shape.panes, cells, folds, out, low, high)
    out.window_end[at[WINDOWS]], out.window_rows[at[WINDOWS]] = begin + shape.size, high - low
    at[WINDOWS] += 1
    at[ROWS] = high


@inlined
def write_rows(start: int, panes: int, cells: Cells, folds: Folds, out: Out, low: int, high: int) -> None:
    """What follows from the first and last cells of windows that start in pane `start`."""
    border, line = -(-start // panes) * panes, len(folds.sums.op)
    for t in range(len(folds.ints.op)):
        for row in range(low, high):
            out.words[line + t, row] = joined_sides(folds.ints, t, cells, border, out.first[row], out.last[row])
    line += len(folds.ints.op)
    for t in range(len(folds.ends.last)):
        for row in range(low, high):
            c = out.last[row] if folds.ends.last[t] != 0 else out.first[row]
            out.words[line + t, row] = folds.ends.values[t, c]
    for t in range(len(folds.floats.op)):
        for row in range(low, high):
            out.floats[t, row] = joined_sides(folds.floats, t, cells, border, out.first[row], out.last[row])


@kernel
def write_full(panes: int, cells: Cells, folds: Folds, out: Out, rows: int) -> None:
    """The same for windows of events, each from where it starts; their sums have two sides, too."""
    for row in range(rows):
        start = cells.pane[out.last[row]] + 1 - panes
        border = -(-start // panes) * panes
        for t in range(len(folds.sums.op)):
            out.words[t, row] = joined_sides(folds.sums, t, cells, border, out.first[row], out.last[row])
        write_rows(start, panes, cells, folds, out, row, row + 1)


@inlined
def enlist(keys: Keys, rank: int) -> None:
    word = rank >> BITS
    keys.live[word] |= _ONE << (rank & (WORD - 1))
    keys.words_used[word >> BITS] |= _ONE << (word & (WORD - 1))


@inlined
def unlist(keys: Keys, rank: int, gone: int) -> None:
    """If it is `gone`, which is 1 then, or else 0."""
    keys.live[rank >> BITS] &= ~(np.int64(gone) << (rank & (WORD - 1)))


@inlined
def list_live(keys: Keys, out: np.ndarray, at: int) -> int:
    """The keys of the window by rank, from `out[at]` on; gives where they end. There is room for SPARE more.

    Where the keys of a word go depends only on how many there are before: words do not wait for each other.
    """
    first = at
    for group in range(len(keys.words_used)):
        words = used = keys.words_used[group]
        low = group << BITS
        if count_bits(used) >= CROWDED:
            for word in range(low, min(low + WORD, len(keys.live))):
                bits = keys.live[word]
                used &= ~(np.int64(1 if bits == 0 else 0) << (word - low))
                at = list_word(bits, word << BITS, out, at)
        else:
            while words != 0:
                place = lowest(words)
                words = without_lowest(words)
                bits = keys.live[low + place]
                used ^= np.int64(1 if bits == 0 else 0) << place
                at = list_word(bits, (low + place) << BITS, out, at)
        keys.words_used[group] = used
    if len(keys.of_rank) > 0:
        for row in range(first, at):
            out[row] = keys.of_rank[out[row]]
    return at


@inlined
def list_word(bits: int, base: int, out: np.ndarray, at: int) -> int:
    """The keys of one word, the first of which is `base`."""
    if bits == ALL_BITS:
        for bit in range(WORD):
            out[at + bit] = base + bit
        return at + WORD
    count = count_bits(bits)
    for place in range(LISTED):
        out[at + place] = base + lowest(bits)
        bits = without_lowest(bits)
    for place in range(LISTED, count):
        out[at + place] = base + lowest(bits)
        bits = without_lowest(bits)
    return at + count


@kernel
def relist(keys: Keys, count: int, counted: int, sums: Tracks) -> None:
    """After ranks have changed."""
    keys.live[:] = 0
    keys.words_used[:] = 0
    present = sums.running[counted] if counted >= 0 else keys.cells
    for key in range(count):
        if present[key] > 0:
            enlist(keys, keys.rank[key])


@kernel
def drop_cells(
    gone: int, count: int, cells: Cells, newest: np.ndarray, keys: Keys, known: int, folds: Folds
) -> None:  # fmt: skip
    """Moves cells from number `gone` on to the front: no window needs those before."""
    for c in range(gone, count):
        to = c - gone
        cells.pane[to], cells.key[to] = cells.pane[c], cells.key[c]
        cells.before[to] = max(cells.before[c] - gone, NONE)
        cells.after[to] = max(cells.after[c] - gone, NONE)
        move_tracks(folds.sums, c, to)
        move_tracks(folds.ints, c, to)
        move_tracks(folds.floats, c, to)
        for t in range(len(folds.ends.last)):
            folds.ends.values[t, to], folds.ends.times[t, to] = folds.ends.values[t, c], folds.ends.times[t, c]
    for key in range(known):
        newest[key] = max(newest[key] - gone, NONE)
    for key in range(min(known, len(keys.head))):
        keys.head[key] = max(keys.head[key] - gone, NONE)
        keys.tail[key] = max(keys.tail[key] - gone, NONE)


@inlined
def move_tracks(tracks: Tracks, c: int, to: int) -> None:
    for t in range(len(tracks.op)):
        tracks.values[t, to] = tracks.values[t, c]
        if tracks.left.shape[1] > 0:
            tracks.left[t, to], tracks.right[t, to] = tracks.left[t, c], tracks.right[t, c]
