"""Rows as plain values and as JSON: one set of rules for the command line and the server.

JSON has no bytes, times, NaN or infinities. They are text: Base64, ISO 8601, "NaN", "Infinity", "-Infinity", as in the
JSON form of Protocol Buffers. Integers are numbers, however large.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import QueryError


def plain_columns(table: pa.Table) -> list[list[Any]]:
    """Per column its values as Python's; years that Python has no dates for are text."""
    return [_values(field, column) for field, column in zip(table.schema, table.columns, strict=True)]


def plain_rows(table: pa.Table) -> list[dict[str, Any]]:
    names = table.column_names
    return [dict(zip(names, row, strict=True)) for row in zip(*plain_columns(table), strict=True)]


def to_json(value: Any) -> str:
    """JSON of plain values, as they come from a table."""
    try:
        return _encode(value)
    except ValueError:  # NaN or an infinity somewhere, which the fast encoder refuses
        return _encode(_spelled(value))


def _values(field: pa.Field, column: pa.ChunkedArray) -> list[Any]:
    try:
        return column.to_pylist()
    except (OverflowError, ValueError) as error:
        if not (pa.types.is_timestamp(field.type) or pa.types.is_date(field.type)):
            raise QueryError(
                f"column {field.name} of type {field.type} has a value that has no form here: {error}\n"
                f"  cast it to text (::varchar), or ask for Arrow"
            ) from error
    texts = np.datetime_as_string(column.to_numpy())
    return [text if known else None for text, known in zip(texts.tolist(), column.is_valid().to_pylist(), strict=True)]


def _plain(value: Any) -> Any:
    """What the JSON encoder does not know."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, decimal.Decimal):  # DuckDB sums integers into decimals
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    return str(value)


def _spelled(value: Any) -> Any:
    """The same value with text for what is no number."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _spelled(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_spelled(inner) for inner in value]
    return value


_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain).encode
