"""What a gate is told about its events, what is inserted, and what comes out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate.batch import EventBatch
from mainstem.gate.flaws import shown
from mainstem.gate.objects import event_name
from mainstem.gate.raw import Raw, RawBatch, RawRows
from mainstem.schema import EventSchema, Field, Type

types = pa.types
_BASES = (
    ("int", types.is_integer),
    ("float", types.is_floating),
    ("bool", types.is_boolean),
    ("str", lambda t: types.is_string(t) or types.is_large_string(t) or types.is_string_view(t)),
    ("bytes", lambda t: types.is_binary(t) or types.is_large_binary(t) or types.is_binary_view(t)),
    ("datetime", types.is_timestamp),
)


def schemas_of(events: Any) -> tuple[EventSchema, ...]:
    """The event types of an app, or the one type that an Arrow schema describes."""
    spec = getattr(events, "spec", None)
    if spec is not None:
        if not spec.events:
            raise InputError(f"app {spec.name} has no event types yet\n  declare them before you make the gate")
        return tuple(spec.events)
    if not isinstance(events, pa.Schema):
        raise InputError(f"events={shown(events)}\n  pass the app whose events come in, or a pa.Schema with ts")
    if "ts" not in events.names:
        raise InputError(f"events= has no column ts, only {', '.join(events.names) or 'none'}\n  add ts: an integer")
    return (EventSchema("Event", tuple(_field(field) for field in events if field.name != "ts")),)


def _field(field: pa.Field) -> Field:
    is_list = types.is_list(field.type) or types.is_large_list(field.type)
    element = field.type.value_type if is_list else field.type
    for base, holds in _BASES:
        if holds(element):
            return Field(field.name, Type(base, nullable=field.nullable, is_list=is_list))
    raise InputError(
        f"events= has the column '{field.name}' of type {field.type}\n"
        "  columns are integers, floats, booleans, texts, bytes, timestamps, or lists of these"
    )


def raws_of(rows: Any) -> list[Raw]:
    """What was inserted, as rows to check."""
    if isinstance(rows, pa.RecordBatch):
        return [RawBatch(rows)]
    if isinstance(rows, pa.Table):
        return [RawBatch(batch) for batch in rows.to_batches() if batch.num_rows]
    if hasattr(rows, "__arrow_c_stream__"):
        return [RawBatch(batch) for batch in pa.RecordBatchReader.from_stream(rows)]
    if isinstance(rows, Mapping) or event_name(rows) is not None:
        rows = [rows]
    if isinstance(rows, (str, bytes)) or not isinstance(rows, Iterable):
        raise InputError(
            f"{shown(rows)} ({type(rows).__name__}) can't be inserted\n"
            "  give an Arrow table or record batch, event objects, or dicts with ts"
        )
    found = list(rows)
    return [RawRows(found, "json" if isinstance(found[0], dict) else "typed")] if found else []


def table_of(batch: EventBatch, schemas: Sequence[EventSchema]) -> pa.Table:
    """A batch as one table: `ts`, with several event types `event`, and all fields; null where a type has none."""
    fields: dict[str, Field] = {}
    for schema in schemas:
        for field in schema.fields:
            if fields.setdefault(field.name, field).type.arrow != field.type.arrow:
                raise InputError(
                    f"field '{field.name}' has different types in the app's events, which no table can hold\n"
                    "  use app.run(gate), or one gate per event type"
                )
    columns: dict[str, pa.Array] = {"ts": pa.array(batch.ts)}
    if len(schemas) > 1:
        names = pa.array([schema.name for schema in schemas])
        columns["event"] = pa.DictionaryArray.from_arrays(pa.array(batch.kind), names)
    for name, field in fields.items():
        columns[name] = _column(batch, name, field)
    return pa.table(columns)


def _column(batch: EventBatch, name: str, field: Field) -> pa.Array:
    """A field of all events, in order: the arrays themselves where their rows stand in order."""
    present = [(kind, found) for kind, found in enumerate(batch.columns) if found is not None and name in found.arrays]
    if len(present) == 1 and len(present[0][1].pos) == len(batch):
        found = present[0][1]
        return found.arrays[name] if found.dense else found.arrays[name].take(pa.array(found.pos))
    parts, rows, height = [], np.full(len(batch), -1, dtype=np.int64), 0
    for kind, found in present:
        parts.append(found.arrays[name])
        rows[batch.kind == kind] = found.pos + height
        height += len(found.arrays[name])
    if not parts:
        return pa.nulls(len(batch), field.type.arrow)
    return pa.concat_arrays(parts).take(pa.array(rows, mask=rows < 0))
