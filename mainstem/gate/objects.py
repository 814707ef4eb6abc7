"""Event objects, and rows of JSON files, to columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate import flaws as flaw
from mainstem.gate.columns import default_array, filled, rows_where
from mainstem.gate.flaws import Flaws
from mainstem.gate.piece import UNKNOWN, Part, Piece
from mainstem.gate.raw import Format, Malformed, RawRows, Request
from mainstem.gate.rejects import rows_as_json
from mainstem.gate.rows import column, ts_column
from mainstem.schema import MISSING, EventSchema, Field


def event_name(value: Any) -> str | None:
    """The event type of an event object; None for anything else."""
    return getattr(type(value), "__mainstem_event__", None)


def piece_of_rows(raw: RawRows, request: Request, label: str) -> Piece:
    """Python rows, gathered per event type."""
    flaws, format = Flaws(), raw.format
    known = [schema.name for schema in request.schemas]
    numbers = {known[kind]: kind for kind in request.kinds}
    kinds = np.empty(len(raw), dtype=np.uint8)
    for row, value in enumerate(raw.rows):
        if isinstance(value, Malformed):
            kinds[row] = UNKNOWN
            flaws.add(row, flaw.malformed(value.reason))
            continue
        name = _name_of(value, request, label)
        kinds[row] = numbers.get(name, UNKNOWN)
        if kinds[row] == UNKNOWN:
            flaws.add(row, flaw.unknown_event(name, list(numbers)))
    ts, bad = ts_column([_value(value, "ts") for value in raw.rows], format)
    for row in bad:
        flaws.add(row, flaw.wrong_ts(_value(raw.rows[row], "ts")))
    present = [kind for kind in np.unique(kinds).tolist() if kind != UNKNOWN]
    parts = [_part(raw.rows, kind, kinds, request, format, flaws) for kind in present]
    one_kind = parts[0].kind if len(parts) == 1 and parts[0].rows is None else None
    return Piece(
        len(raw),
        ts,
        kinds if one_kind is None else one_kind,
        parts,
        flaws,
        lambda rows: [_as_json(raw.rows[row], request) for row in rows.tolist()],
    )


def _name_of(value: Any, request: Request, label: str) -> Any:
    if isinstance(value, dict):
        named = value.get("event") if request.by_column else None
        return request.schemas[request.kinds[0]].name if named is None and len(request.kinds) == 1 else named
    name = event_name(value)
    if name is None:
        raise InputError(
            f"{label}: {flaw.shown(value)} is no event object\n"
            f"  give instances of the app's event classes, e.g. {request.schemas[0].name}(ts=0, …), or an Arrow table"
        )
    return name


def _value(row: Any, name: str) -> Any:
    if isinstance(row, dict):
        return row.get(name)
    return getattr(row, name, None)


def _part(rows: list[Any], kind: int, kinds: np.ndarray, request: Request, format: Format, flaws: Flaws) -> Part:
    at = np.flatnonzero(kinds == kind)
    whole = len(at) == len(rows)
    own = rows if whole else [rows[row] for row in at.tolist()]
    schema = request.schemas[kind]
    arrays = {field.name: _field(own, at, schema, field, format, flaws) for field in request.fields[kind]}
    return Part(kind, None if whole else at, None, arrays)


def _field(
    rows: list[Any], at: np.ndarray, schema: EventSchema, field: Field, format: Format, flaws: Flaws
) -> pa.Array:
    values = [_value(row, field.name) for row in rows]
    array, bad = column(values, field.type, format)
    for row in bad:
        flaws.add(int(at[row]), flaw.wrong_value(schema, field, values[row]))
    if array.null_count and format == "json" and field.default is not MISSING:
        array = filled(array, default_array(field))
    if array.null_count and not field.type.nullable:
        for row in rows_where(array.is_null(), None):
            flaws.add(int(at[row]), flaw.null_value(schema, field))
    if field.type.is_list and array.flatten().null_count:
        for row, value in enumerate(values):
            if value is not None and any(item is None for item in value):
                flaws.add(int(at[row]), flaw.null_item(schema, field))
    return array


def _as_json(row: Any, request: Request) -> str:
    if isinstance(row, Malformed):
        return row.text
    if not isinstance(row, dict):
        names = ["ts", *(field.name for field in _fields_of(row, request))]
        row = {"event": event_name(row), **{name: _value(row, name) for name in names}}
    return rows_as_json([row])[0]


def _fields_of(row: Any, request: Request) -> tuple[Field, ...]:
    schema = next((s for s in request.schemas if s.name == event_name(row)), None)
    return schema.fields if schema else ()
