"""Connected components of a batch: transactions that share a row that somebody writes, directly or through others.

Components have nothing to do with each other, so each runs in order on one thread without any lock. `find_components`
finds and weighs them, `pack` deals them out to bins of about equal weight, both on one thread; `components_run` runs
the bins on all.
"""

from __future__ import annotations

import numpy as np

from .base import atomic_add, atomic_load, inlined, kernel, ticks
from .control import LINE, NEXT, STOP, USEFUL
from .stretch import run_one

UNWRITTEN = -1  # parent of a row that is only read
NO_COMPONENT = -1

# A component that weighs less than this part of a bin's fair share is light: the order in which light ones are packed
# moves the result by less than that, so only heavy ones are sorted, and there are few of them.
LIGHT_PART = 16

# Transactions of which one is timed. A prime: functions often take turns.
TIMED_EVERY = 13


@inlined
def root_of(parent: np.ndarray, row: int) -> int:
    """The row that stands for the component of `row`; halves the path to it on the way."""
    while parent[row] != row:
        parent[row] = parent[parent[row]]
        row = parent[row]
    return row


@inlined
def join_rows(
    todo: np.ndarray, txn_lo: np.ndarray, op_row: np.ndarray, parent: np.ndarray, joined_row: np.ndarray
) -> None:
    """Puts the written rows of each transaction into one component; `joined_row[i]` is one of them, or `UNWRITTEN`."""
    for i in range(todo.shape[0]):
        t = todo[i]
        joined = UNWRITTEN
        for o in range(txn_lo[t], txn_lo[t + 1]):
            row = op_row[o]
            if parent[row] == UNWRITTEN:
                continue
            root = root_of(parent, row)
            if joined == UNWRITTEN or root < joined:
                if joined != UNWRITTEN:
                    parent[joined] = root
                joined = root
            else:
                parent[root] = joined
        joined_row[i] = joined


@inlined
def number_components(
    todo: np.ndarray,
    fn: np.ndarray,
    cost: np.ndarray,
    parent: np.ndarray,
    row_component: np.ndarray,
    component: np.ndarray,
    size: np.ndarray,
    weight: np.ndarray,
) -> int:
    """Turns a row of each transaction in `component` into the number of its component; gives how many there are."""
    components = 0
    for i in range(todo.shape[0]):
        root = component[i]
        number = NO_COMPONENT
        if root != UNWRITTEN:
            root = root_of(parent, root)
            number = row_component[root]
        if number == NO_COMPONENT:
            number = components
            components += 1
            size[number] = 0
            weight[number] = 0
            if root != UNWRITTEN:
                row_component[root] = number
        component[i] = number
        size[number] += 1
        weight[number] += max(cost[fn[todo[i]]], 1)
    return components


@kernel
def find_components(
    todo: np.ndarray,
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_write: np.ndarray,
    fn: np.ndarray,
    cost: np.ndarray,
    parent: np.ndarray,
    row_component: np.ndarray,
    component: np.ndarray,
    size: np.ndarray,
    weight: np.ndarray,
) -> tuple[int, int, int]:
    """Gives the number of components, the weight of the heaviest and the weight of all.

    `cost[f]` is what one run of function f costs, a whole number of any unit; 0 counts as 1. `parent` and
    `row_component` are scratch, one word per local row. Out, with room for one word per transaction each:
    `component[i]` of transaction `todo[i]`, numbered by first appearance; per component its `size` (transactions) and
    its `weight` (sum of their costs).
    """
    for row in range(parent.shape[0]):
        parent[row] = UNWRITTEN
        row_component[row] = NO_COMPONENT
    for i in range(todo.shape[0]):
        for o in range(txn_lo[todo[i]], txn_lo[todo[i] + 1]):
            if op_write[o] != 0:
                parent[op_row[o]] = op_row[o]
    join_rows(todo, txn_lo, op_row, parent, component)
    components = number_components(todo, fn, cost, parent, row_component, component, size, weight)
    heaviest, total = 0, 0
    for c in range(components):
        heaviest = max(heaviest, weight[c])
        total += weight[c]
    return components, heaviest, total


@inlined
def sift_down(heap: np.ndarray, length: int, at: int, weight: np.ndarray) -> None:
    """Restores the heap (lightest on top) below `at`."""
    item = heap[at]
    while 2 * at + 1 < length:
        child = 2 * at + 1
        if child + 1 < length and weight[heap[child + 1]] < weight[heap[child]]:
            child += 1
        if weight[item] <= weight[heap[child]]:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = item


@inlined
def sort_heaviest_first(items: np.ndarray, length: int, weight: np.ndarray) -> None:
    """Heap sort: in place, because kernels do not allocate."""
    for at in range(length // 2 - 1, -1, -1):
        sift_down(items, length, at, weight)
    for end in range(length - 1, 0, -1):
        lightest_item = items[0]
        items[0] = items[end]
        items[end] = lightest_item
        sift_down(items, end, 0, weight)


@inlined
def lightest(bin_weight: np.ndarray) -> int:
    best = 0
    for b in range(1, bin_weight.shape[0]):
        if bin_weight[b] < bin_weight[best]:
            best = b
    return best


@inlined
def choose_bins(
    components: int,
    total: int,
    weight: np.ndarray,
    heavy: np.ndarray,
    component_bin: np.ndarray,
    bin_weight: np.ndarray,
) -> None:
    """Each heavy component goes into the lightest bin, the heaviest first; then light ones fill up the lightest bins.

    Light ones are dealt out in portions of neighbours: their events lie side by side in memory.
    """
    portion = total // (bin_weight.shape[0] * LIGHT_PART) + 1
    heavies = 0
    for c in range(components):
        if weight[c] >= portion:
            heavy[heavies] = c
            heavies += 1
    sort_heaviest_first(heavy, heavies, weight)
    for k in range(heavies):
        b = lightest(bin_weight)
        component_bin[heavy[k]] = b
        bin_weight[b] += weight[heavy[k]]
    b = lightest(bin_weight)
    full = bin_weight[b] + portion
    for c in range(components):
        if weight[c] >= portion:
            continue
        if bin_weight[b] >= full:
            b = lightest(bin_weight)
            full = bin_weight[b] + portion
        component_bin[c] = b
        bin_weight[b] += weight[c]


@kernel
def pack(
    todo: np.ndarray,
    components: int,
    total: int,
    component: np.ndarray,
    size: np.ndarray,
    weight: np.ndarray,
    heavy: np.ndarray,
    place: np.ndarray,
    bin_weight: np.ndarray,
    bin_lo: np.ndarray,
    bin_txn: np.ndarray,
) -> None:
    """Deals the components out to bins: bin b runs `bin_txn[bin_lo[b] … bin_lo[b + 1]]`, component after component.

    Takes what `find_components` gave. Out: `bin_weight`, one word per bin (its length is the number of bins); `bin_lo`,
    one more; `bin_txn`, one word per transaction. The heaviest component opens bin 0, the next one bin 1 and so on, so
    bins should be taken in order. Scratch: `heavy`, `LIGHT_PART` words per bin, and `place`, one word per component.
    """
    bins = bin_weight.shape[0]
    for b in range(bins):
        bin_weight[b] = 0
        bin_lo[b] = 0
    bin_lo[bins] = 0
    choose_bins(components, total, weight, heavy, place, bin_weight)
    for c in range(components):
        bin_lo[place[c] + 1] += size[c]
    for b in range(bins):
        bin_lo[b + 1] += bin_lo[b]
    for c in range(components):  # bin_lo[b] runs to the end of bin b, which is where bin b + 1 begins
        b = place[c]
        place[c] = bin_lo[b]
        bin_lo[b] += size[c]
    for b in range(bins, 0, -1):
        bin_lo[b] = bin_lo[b - 1]
    bin_lo[0] = 0
    for i in range(todo.shape[0]):
        c = component[i]
        bin_txn[place[c]] = todo[i]
        place[c] += 1


@kernel
def components_run(
    direct: int,
    context: int,
    bin_lo: np.ndarray,
    bin_txn: np.ndarray,
    fn: np.ndarray,
    sheet: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Threads take bins until none is left. `sheet[w, f]` gets ticks and number of some transactions of function f."""
    useful = 0
    while True:
        b = atomic_add(control, NEXT * LINE, 1)
        if b >= bin_lo.shape[0] - 1:
            break
        begin = ticks()
        for k in range(bin_lo[b], bin_lo[b + 1]):
            if atomic_load(control, STOP * LINE) != 0:
                break
            t = bin_txn[k]
            if k % TIMED_EVERY != 0:
                run_one(direct, context, t, w)
                continue
            start = ticks()
            run_one(direct, context, t, w)
            sheet[w, fn[t], 0] += ticks() - start
            sheet[w, fn[t], 1] += 1
        useful += ticks() - begin
    clock[w, USEFUL] += useful
