"""`panes` over whole tables: by slices of time where no merge is needed, else merged and in batches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from mainstem.gate import open_events
from mainstem.schema import EventSchema
from mainstem.windows.operators.prepare import refusal
from mainstem.windows.operators.reading import own_rows
from mainstem.windows.operators.sliced import aggregate_slices, joined_table
from mainstem.windows.panes import Panes
from mainstem.windows.window import Window


def why_panes(window: Window) -> str:
    """What makes it the choice for this window."""
    why = refusal(window, in_order=True)
    if why:
        return f"{why}, which only panes computes: the inputs are merged first"
    return "each event is folded once, whatever size / advance is; inputs need no merge, threads take slices of time"


def aggregate_panes(window: Window, inputs: Sequence[pa.Table], threads: int) -> pa.Table:
    if not refusal(window, in_order=True):
        return aggregate_slices(window, inputs, threads)
    fields = tuple(f for f in (*window.event.fields, *window.event.derived) if f.name in window.columns)
    event = EventSchema(window.event.name, fields)  # derived columns are there already
    panes = Panes(replace(window, event=event, kind=0))
    stream, _ = open_events([own_rows(window, table) for table in inputs], [event])
    closed = [panes.push(batch) for batch in stream]
    closed.append(panes.finish())
    return joined_table(window, [part.columns for part in closed])
