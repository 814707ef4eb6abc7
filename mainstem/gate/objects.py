"""Event objects, and rows of JSON files, to columns."""

from __future__ import annotations

from operator import attrgetter
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
    rows, flaws = raw.rows, Flaws()
    kinds = _kinds(rows, request, label, flaws)
    times = _values(rows, "ts", raw.format)
    ts, bad = ts_column(times, raw.format)
    for row in bad:
        flaws.add(row, flaw.wrong_ts(times[row]))
    present = [kind for kind in np.unique(kinds).tolist() if kind != UNKNOWN]
    parts = [_part(rows, kind, kinds, request, raw.format, flaws) for kind in present]
    kind = parts[0].kind if len(parts) == 1 and parts[0].rows is None else kinds
    return Piece(len(rows), ts, kind, parts, flaws, lambda bad: [_as_json(rows[row], request) for row in bad.tolist()])


def _kinds(rows: list[Any], request: Request, label: str, flaws: Flaws) -> np.ndarray:
    """The event type of each row, as a number."""
    numbers = {request.schemas[kind].name: kind for kind in request.kinds}
    classes = {cls: numbers.get(getattr(cls, "__mainstem_event__", ""), UNKNOWN) for cls in set(map(type, rows))}
    if UNKNOWN not in classes.values():
        return np.fromiter(map(classes.__getitem__, map(type, rows)), np.uint8, len(rows))
    kinds = np.full(len(rows), UNKNOWN, dtype=np.uint8)
    for row, value in enumerate(rows):
        if isinstance(value, Malformed):
            flaws.add(row, flaw.malformed(value.reason))
            continue
        name = _name_of(value, request, label)
        kinds[row] = numbers.get(name, UNKNOWN) if isinstance(name, str) else UNKNOWN
        if kinds[row] == UNKNOWN:
            flaws.add(row, flaw.unknown_event(name, list(numbers)))
    return kinds


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


def _values(rows: list[Any], name: str, format: Format) -> list[Any]:
    """One field of all rows; None where a row does not have it."""
    if format != "typed":
        return [row.get(name) if isinstance(row, dict) else None for row in rows]
    try:
        return list(map(attrgetter(name), rows))
    except AttributeError:
        return [getattr(row, name, None) for row in rows]


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
    values = _values(rows, field.name, format)
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
        row = {"event": event_name(row), **{name: getattr(row, name, None) for name in names}}
    return rows_as_json([row])[0]


def _fields_of(row: Any, request: Request) -> tuple[Field, ...]:
    schema = next((s for s in request.schemas if s.name == event_name(row)), None)
    return schema.fields if schema else ()
