"""Whole transactions on versions, guarded by one counter per row (TStream's MVLK).

`lwm[l]` counts the writes of row l that are finished. Whoever touches a row waits until all earlier writes of it are; a
reader of an old version does not hold up the next writer. (TStream lets a write go on when the counter is equal to its
place, which is the same: the counter can't have passed it, because only the write itself raises it further.)
"""

from __future__ import annotations

import numpy as np

from .base import atomic_add, atomic_store, inlined, invoke, kernel, ticks
from .control import LINE, LOCK, NEXT, SYNC, USEFUL
from .waiting import wait_until


@inlined
def wait_for_versions(
    t: int,
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_writes_before: np.ndarray,
    lwm: np.ndarray,
    control: np.ndarray,
) -> int:
    """The ticks that it took; -1 when the run is stopped."""
    sync = 0
    for o in range(txn_lo[t], txn_lo[t + 1]):
        waited = wait_until(lwm, op_row[o], op_writes_before[o], control)
        if waited < 0:
            return -1
        sync += waited
    return sync


@inlined
def offer_versions(
    t: int,
    committed: bool,
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_write: np.ndarray,
    op_writes_before: np.ndarray,
    op_slot: np.ndarray,
    op_src: np.ndarray,
    op_ver: np.ndarray,
    lwm: np.ndarray,
) -> None:
    """First what is offered, then the counter that lets others look."""
    for o in range(txn_lo[t], txn_lo[t + 1]):
        if op_write[o] != 0:
            op_ver[o] = op_slot[o] if committed else op_src[o]
            atomic_store(lwm, op_row[o], op_writes_before[o] + 1)


@kernel
def mvlk_run(
    versioned: int,
    context: int,
    todo: np.ndarray,
    txn_lo: np.ndarray,
    op_row: np.ndarray,
    op_write: np.ndarray,
    op_writes_before: np.ndarray,
    op_slot: np.ndarray,
    op_src: np.ndarray,
    op_ver: np.ndarray,
    lwm: np.ndarray,
    v_code: np.ndarray,
    control: np.ndarray,
    clock: np.ndarray,
    w: int,
) -> None:
    """Vertex i is the whole transaction `todo[i]`. `lwm` starts at 0; `v_code[i]` becomes the abort code."""
    useful, sync, first = 0, 0, ticks()
    while True:
        i = atomic_add(control, NEXT * LINE, 1)
        if i >= todo.shape[0]:
            break
        t = todo[i]
        waited = wait_for_versions(t, txn_lo, op_row, op_writes_before, lwm, control)
        if waited < 0:
            break
        sync += waited
        begin = ticks()
        failure = invoke(versioned, context, i, w)
        useful += ticks() - begin
        v_code[i] = failure
        offer_versions(t, failure == 0, txn_lo, op_row, op_write, op_writes_before, op_slot, op_src, op_ver, lwm)
    clock[w, USEFUL] += useful
    clock[w, SYNC] += sync
    clock[w, LOCK] += ticks() - first - useful - sync
