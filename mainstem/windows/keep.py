"""What an operator must know of earlier events, as text that a commit holds."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import StoreError
from mainstem.windows.folds import Kept
from mainstem.windows.panes import Panes
from mainstem.windows.window import Window

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def text_of(operator: Panes) -> dict[str, str]:
    """`{"of": the declaration, "panes": Arrow columns}`."""
    window, kept = operator.window, operator.kept()
    bases = _text_bases(window)
    arrays = [operator.pools.arrow(a, bases[n]) if n in bases else pa.array(a) for n, a in kept.items()]
    lists = [pa.ListArray.from_arrays(pa.array([0, len(a)], pa.int32()), a) for a in arrays]
    sink = pa.BufferOutputStream()
    batch = pa.RecordBatch.from_arrays(lists, names=list(kept))
    with pa.ipc.new_stream(sink, batch.schema, options=_OPTIONS) as writer:
        writer.write_batch(batch)
    return {"of": window.signature, "panes": base64.b64encode(sink.getvalue()).decode()}


def restore(operator: Panes, text: dict[str, Any]) -> None:
    """Goes on from what `text_of` gave."""
    window = operator.window
    if text["of"] != window.signature:
        raise StoreError(
            f"the state was kept for another window {window.name}\n"
            f"  it was {text['of']}\n  now it is {window.signature}\n"
            "  declare it under another name, or begin with an empty folder"
        )
    with pa.ipc.open_stream(base64.b64decode(text["panes"])) as stream:
        batch = stream.read_next_batch()
    bases = _text_bases(window)
    kept: Kept = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = column.values.slice(column.offsets[0].as_py(), len(column.values))
        kept[name] = operator.pools.array(values, bases[name]) if name in bases else np.array(values.to_numpy())
    operator.restore(kept)


def _text_bases(window: Window) -> dict[str, str]:
    """The kept columns that are codes of texts, with the type of the text."""
    bases = {f"key.{n}": f.type.base for n, f in enumerate(window.by) if f.type.pooled}
    for name, aggregate in window.aggregates:
        column = window.column_type(aggregate.column)
        if column is not None and column.pooled:
            bases[f"{name}.value"] = column.base
    return bases
