"""A winset: the windows of one time interval, as a hash table from key to accumulators.

Tables lie side by side in `cells`, and have a line of words each in `heads`, one of which is TAKEN. A slot is
`2 + ops` words: the key, the number of events, the value of each op. A table has twice as many slots as there can be
keys, so a free one is always near. `used` lists the slots that were taken, so that a closed winset costs no more than
it has windows. Free slots always hold the initial values: whoever takes one may fold at once.
"""

from __future__ import annotations

import numpy as np

from .arrays import FIRST, LAST, LINE, MAX, MIN, NOTHING, SUM, Events, Out, Shape
from .base import atomic_add, atomic_change, atomic_load, inlined, kernel, ticks

# 2**63 divided by the golden ratio, cut to 31 bits: products of codes stay within 63 bits.
SPREAD = 1_327_217_885

TAKEN = 0  # word of a table's line: how many slots are taken


@inlined
def first_slot(key: int, capacity: int) -> int:
    return ((key & 0x7FFF_FFFF) * SPREAD >> 15) & (capacity - 1)


@kernel
def clear_cells(cells: np.ndarray, shape: Shape) -> None:
    """All slots of all tables become free."""
    width = 2 + len(shape.ops)
    for at in range(0, len(cells), width):
        free_cell(cells, at, shape)


@inlined
def free_cell(cells: np.ndarray, at: int, shape: Shape) -> None:
    cells[at] = NOTHING
    cells[at + 1] = 0
    for a in range(len(shape.ops)):
        cells[at + 2 + a] = shape.initial[a]


@inlined
def cell_of(cells: np.ndarray, used: np.ndarray, heads: np.ndarray, table: int, key: int, width: int) -> int:
    """Where the key's slot is in `cells`; takes a free one for a new key. For tables of one thread."""
    capacity = len(used) // (len(heads) // LINE)
    slot = first_slot(key, capacity)
    while True:
        at = (table * capacity + slot) * width
        if cells[at] == key:
            return at
        if cells[at] == NOTHING:
            cells[at] = key
            used[table * capacity + heads[table * LINE + TAKEN]] = slot
            heads[table * LINE + TAKEN] += 1
            return at
        slot = (slot + 1) & (capacity - 1)


@inlined
def shared_cell_of(cells: np.ndarray, used: np.ndarray, heads: np.ndarray, table: int, key: int, width: int) -> int:
    """`cell_of` for tables that several threads fill: a slot belongs to the key that is swapped in first."""
    capacity = len(used) // (len(heads) // LINE)
    slot = first_slot(key, capacity)
    while True:
        at = (table * capacity + slot) * width
        found = atomic_load(cells, at)
        if found == key:
            return at
        if found != NOTHING:
            slot = (slot + 1) & (capacity - 1)
        elif atomic_change(cells, at, NOTHING, key):
            used[table * capacity + atomic_add(heads, table * LINE + TAKEN, 1)] = slot
            return at


@inlined
def fold(cells: np.ndarray, at: int, events: Events, row: int, shape: Shape) -> None:
    """Adds an event to a window that only this thread writes."""
    for a in range(len(shape.ops)):
        place, op, value = at + 2 + a, shape.ops[a], events.value[row, a]
        if op == SUM:
            cells[place] += value
        elif op == MIN:
            cells[place] = min(cells[place], value)
        elif op == MAX:
            cells[place] = max(cells[place], value)
        elif op == LAST or (op == FIRST and cells[at + 1] == 0):
            cells[place] = value
    cells[at + 1] += 1


@inlined
def shared_fold(cells: np.ndarray, at: int, events: Events, row: int, shape: Shape) -> None:
    """Adds an event to a window that several threads write. FIRST and LAST have no meaning here."""
    for a in range(len(shape.ops)):
        place, op, value = at + 2 + a, shape.ops[a], events.value[row, a]
        if op == SUM:
            atomic_add(cells, place, value)
        elif op == MIN:
            so_far = atomic_load(cells, place)
            while value < so_far and not atomic_change(cells, place, so_far, value):
                so_far = atomic_load(cells, place)
        elif op == MAX:
            so_far = atomic_load(cells, place)
            while value > so_far and not atomic_change(cells, place, so_far, value):
                so_far = atomic_load(cells, place)
    atomic_add(cells, at + 1, 1)


@inlined
def emit(
    cells: np.ndarray, used: np.ndarray, heads: np.ndarray, table: int, number: int, shape: Shape, out: Out
) -> bool:
    """Moves a winset to the results and frees its table; false when there is no room. An empty one leaves no trace."""
    count = heads[table * LINE + TAKEN]
    if count == 0:
        return True
    row, sets = out.filled[0], out.filled[1]
    if row + count > len(out.key) or sets == len(out.set_number):
        return False
    capacity = len(used) // (len(heads) // LINE)
    width = 2 + len(shape.ops)
    for i in range(table * capacity, table * capacity + count):
        at = (table * capacity + used[i]) * width
        out.key[row] = cells[at]
        for word in range(width - 1):
            out.cell[row, word] = cells[at + 1 + word]
        free_cell(cells, at, shape)
        row += 1
    heads[table * LINE + TAKEN] = 0
    out.set_number[sets], out.set_end[sets], out.set_ticks[sets] = number, row, ticks()
    out.filled[0], out.filled[1] = row, sets + 1
    return True
