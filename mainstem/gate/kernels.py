"""Loops that NumPy has no fast form for. They run the same with the JIT off."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mainstem.gate.batch import fresh
from mainstem.gate.packed import fits, merge_packed
from mainstem.jit import kernel


def merge_order(runs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """All rows of sorted runs by (ts, run): their ts, and their places in the runs put one behind the other."""
    if _dense(runs):
        return _merge_counted(runs)
    if fits(runs):
        return merge_packed(runs)
    ts = np.concatenate(runs)
    order = np.arange(len(ts), dtype=np.int64)
    bounds = np.cumsum([0, *(len(run) for run in runs)])
    while len(bounds) > 2:
        next_ts, next_order = np.empty_like(ts), np.empty_like(order)
        _merge_pairs(ts, order, bounds, next_ts, next_order)
        ts, order = next_ts, next_order
        bounds = bounds[::2] if len(bounds) % 2 else np.append(bounds[::2], bounds[-1])
    return ts, order


_RUNS_MIN = 3  # two runs are merged in one pass
_SPAN_SHARE = 4  # times per row, at most: the counts of rows have to be cleared and added up
_ROWS_MAX = 2**18  # every run writes all over the result, which has to stay in the processor's cache


def _dense(runs: Sequence[np.ndarray]) -> bool:
    """Whether enough of these runs have rows, there are not too many, and their times lie close together."""
    found = [run for run in runs if len(run)]
    rows = sum(map(len, found))
    if len(found) < _RUNS_MIN or rows > _ROWS_MAX:
        return False
    return max(int(run[-1]) for run in found) - min(int(run[0]) for run in found) < _SPAN_SHARE * rows


def _merge_counted(runs: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Puts each row where the rows of its time begin, which is counted first. A row costs the same however many runs
    there are, while merging pairs of runs moves it once per doubling of them."""
    found = [run for run in runs if len(run)]
    base, last = min(int(run[0]) for run in found), max(int(run[-1]) for run in found)
    ts = np.concatenate(found)
    merged, order = fresh(len(ts), np.int64), fresh(len(ts), np.int64)
    _place_rows(ts, base, np.zeros(last - base + 1, np.int32), merged, order)
    return merged, order


@kernel
def _place_rows(ts: np.ndarray, base: int, places: np.ndarray, merged: np.ndarray, order: np.ndarray) -> None:
    """Rows of equal times keep their order. `places` has a zero for each time from `base` on."""
    for row in range(len(ts)):
        places[ts[row] - base] += 1
    _begin(places)
    for row in range(len(ts)):
        time = ts[row]
        at = places[time - base]
        places[time - base] = at + 1
        merged[at], order[at] = time, row


@kernel
def _begin(places: np.ndarray) -> None:
    """How many rows there are of each value becomes where the first of them belongs."""
    start = 0
    for value in range(len(places)):
        count = places[value]
        places[value] = start
        start += count


@kernel
def _merge_pairs(
    ts: np.ndarray, order: np.ndarray, bounds: np.ndarray, merged_ts: np.ndarray, merged_order: np.ndarray
) -> None:
    """Merge run 0 with run 1, run 2 with run 3, …; run r is `ts[bounds[r]:bounds[r + 1]]`; an odd last run is copied.

    The inner loop has no branch on the data: which head is smaller is a coin flip that a processor can't predict.
    """
    at = 0
    runs = len(bounds) - 1
    for run in range(0, runs, 2):
        left, left_end = bounds[run], bounds[run + 1]
        right, right_end = left_end, bounds[min(run + 2, runs)]
        while left < left_end and right < right_end:
            from_right = np.int64(ts[right] < ts[left])
            head = left + (right - left) * from_right
            merged_ts[at] = ts[head]
            merged_order[at] = order[head]
            right += from_right
            left += 1 - from_right
            at += 1
        for row in range(left, left_end):
            merged_ts[at], merged_order[at] = ts[row], order[row]
            at += 1
        for row in range(right, right_end):
            merged_ts[at], merged_order[at] = ts[row], order[row]
            at += 1


_DIGIT_BITS = 11  # of a radix sort: the counts of all digits stay in the first-level cache


def sort_order(ts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows by ts, equal ones in the order in which they stand: their ts, and their places.

    A radix sort: times of one batch lie close together, so two or three passes do, while comparing rows that come in
    no order at all is ten times as slow.
    """
    keys = ts.view(np.uint64) - np.uint64(int(ts.min()) % 2**64)  # differences fit, though not into 63 bits
    order, next_order = np.arange(len(ts), dtype=np.int64), np.empty(len(ts), dtype=np.int64)
    places = np.empty(1 << _DIGIT_BITS, dtype=np.int64)
    for shift in range(0, int(keys.max()).bit_length(), _DIGIT_BITS):
        _sort_by_digit(keys, np.uint64(shift), order, places, next_order)
        order, next_order = next_order, order
    return ts[order], order


@kernel
def _sort_by_digit(
    keys: np.ndarray, shift: np.uint64, order: np.ndarray, places: np.ndarray, sorted_order: np.ndarray
) -> None:
    """Stable: rows with the same digit keep their order. `places` has a power of two of entries, one for each digit."""
    mask = np.uint64(len(places) - 1)
    places[:] = 0
    for row in range(len(keys)):
        places[(keys[row] >> shift) & mask] += 1
    _begin(places)
    for at in range(len(order)):
        row = order[at]
        digit = (keys[row] >> shift) & mask
        sorted_order[places[digit]] = row
        places[digit] += 1


def grouped_in_order(
    kind: np.ndarray, order: np.ndarray, pos: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """`kind` and `pos` with row `order[i]` as row i. In `pos` the rows of each kind stand together, before and after:
    those of kind k begin at `starts[k]`."""
    new_kind, new_pos, of_row = np.empty_like(kind), np.empty_like(pos), np.empty_like(pos)
    _group_in_order(kind, order, pos, starts.copy(), starts.copy(), of_row, new_kind, new_pos)
    return new_kind, new_pos


@kernel
def _group_in_order(
    kind: np.ndarray,
    order: np.ndarray,
    pos: np.ndarray,
    heads: np.ndarray,
    new_heads: np.ndarray,
    of_row: np.ndarray,
    new_kind: np.ndarray,
    new_pos: np.ndarray,
) -> None:
    """No branch on the data here either: kinds come in no pattern. `of_row` is scratch: the `pos` of each row."""
    for row in range(len(kind)):
        number = kind[row]
        of_row[row] = pos[heads[number]]
        heads[number] += 1
    for at in range(len(order)):
        row = order[at]
        number = kind[row]
        new_kind[at] = number
        new_pos[new_heads[number]] = of_row[row]
        new_heads[number] += 1


def first_rows(runs: Sequence[np.ndarray], limit: int) -> list[int]:
    """How many rows of each sorted run are among the first `limit` of all by (ts, run); there are at least as many."""
    low = min(int(run[0]) for run in runs if len(run))
    high = max(int(run[-1]) for run in runs if len(run))
    while low < high:  # the smallest ts up to which there are enough rows
        middle = (low + high) // 2
        if sum(int(np.searchsorted(run, middle, side="right")) for run in runs) >= limit:
            high = middle
        else:
            low = middle + 1
    counts = [int(np.searchsorted(run, low, side="left")) for run in runs]
    left = limit - sum(counts)
    for number, run in enumerate(runs):  # rows with this very ts: earlier inputs first
        ties = min(left, int(np.searchsorted(run, low, side="right")) - counts[number])
        counts[number] += ties
        left -= ties
    return counts


@kernel
def ascending(ts: np.ndarray, clock: int) -> bool:
    """Whether no ts is below `clock` or its predecessor. Without a way out of the loop it takes several at once."""
    if len(ts) == 0:
        return True
    falls = ts[0] < clock
    for row in range(1, len(ts)):
        falls |= ts[row] < ts[row - 1]
    return not falls


@kernel
def rows_by_kind(kind: np.ndarray, rows: np.ndarray, ends: np.ndarray) -> int:
    """The rows of kind 0, then those of kind 1, …; those of kind k end before `ends[k]`. Gives how many there are.

    `rows` has one place more than there are rows: each is written down before it is known to be of the kind, which
    spares a branch that a processor can't predict.
    """
    at = 0
    for number in range(len(ends)):
        for row in range(len(kind)):
            rows[at] = row
            at += kind[row] == number
        ends[number] = at
    return at


@kernel
def all_valid(bits: np.ndarray, first: int, count: int) -> bool:
    """Whether `count` validity bits from `first` on are set."""
    valid = 1
    for at in range(first, first + count):
        valid &= bits[at >> 3] >> (at & 7)
    return valid == 1


@kernel
def all_valid_at(bits: np.ndarray, first: int, rows: np.ndarray) -> bool:
    """Whether the validity bits of these rows are set, row 0 having bit `first`."""
    valid = 1
    for row in rows:
        at = first + row
        valid &= bits[at >> 3] >> (at & 7)
    return valid == 1
