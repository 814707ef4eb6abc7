"""Histories as people read them: one row per entry instead of one ring per key."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError
from mainstem.schema import RING_COUNT as COUNT
from mainstem.schema import RING_LOST as LOST
from mainstem.schema import RING_TS as TS
from mainstem.state.arrow import whole


def entries(table: pa.Table) -> pa.Table:
    """The entries of a history, given as `app.state[name]` or `db.table(name)` give it.

    Key columns, `ts`, then the fields; keys in the order of the table, the entries of each from old to new.
    """
    if not {COUNT, LOST, TS} <= set(table.column_names):
        raise InputError(
            f"a table with the columns {', '.join(table.column_names)} is no history; "
            "pass app.state[name] or db.table(name) of a table declared with @app.history"
        )
    counts = whole(table[COUNT]).to_numpy()
    keep = table.schema.field(TS).type.list_size
    sizes = np.minimum(counts, keep)
    owners = np.repeat(np.arange(len(counts)), sizes)
    nth = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    cells = pa.array(owners * keep + ((counts - sizes)[owners] + nth) % keep)
    columns = {}
    for name in table.column_names:
        column = whole(table[name])
        if name == TS:
            columns["ts"] = column.flatten().take(cells)
        elif pa.types.is_fixed_size_list(column.type):
            columns[name] = column.flatten().take(cells)
        elif name not in (COUNT, LOST):
            columns[name] = column.take(pa.array(owners))
    return pa.table(columns)
