"""Closed windows as events among the events of a batch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mainstem.gate.batch import Columns, EventBatch, frozen, identity
from mainstem.windows.window import Closed


def with_closed(batch: EventBatch, closed: Sequence[Closed], inputs: int) -> EventBatch:
    """The batch with one more event type for each window, after the first `inputs`.

    Windows that close at the same place come by time, then in the order in which they were declared.
    """
    columns = [*batch.columns[:inputs], *(_columns(rows) for rows in closed)]
    total = sum(map(len, closed))
    if not total:
        return EventBatch(batch.kind, batch.ts, columns, batch.position)
    kinds = np.repeat(np.arange(inputs, inputs + len(closed), dtype=np.uint8), [len(rows) for rows in closed])
    before = np.concatenate([rows.before for rows in closed])
    ts = np.concatenate([rows.ts for rows in closed])
    if sum(map(bool, map(len, closed))) > 1:
        order = np.lexsort((ts, before))  # stable: the rows of one window are in this order already
        kinds, before, ts = kinds[order], before[order], ts[order]
    places = before + np.arange(total)
    return EventBatch(_inserted(batch.kind, kinds, places), _inserted(batch.ts, ts, places), columns, batch.position)


def _columns(rows: Closed) -> Columns | None:
    return Columns(identity(len(rows)), rows.columns) if len(rows) else None


def _inserted(array: np.ndarray, values: np.ndarray, places: np.ndarray) -> np.ndarray:
    out = np.empty(len(array) + len(values), array.dtype)
    own = np.ones(len(out), np.bool_)
    own[places] = False
    out[places] = values
    out[own] = array
    return frozen(out)
