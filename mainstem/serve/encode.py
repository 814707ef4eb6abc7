"""Values as JSON, tables as JSON or as an Arrow stream.

JSON has no bytes, times, NaN or infinities. They are text: Base64, ISO 8601, "NaN", "Infinity", "-Infinity", as in the
JSON form of Protocol Buffers. Integers are numbers, however large.
"""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import math
import uuid
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

# Rows that are encoded in one go: the JSON encoder keeps Python's lock, and single-key requests wait for it meanwhile.
_ROWS_AT_ONCE = 200


def json_bytes(value: Any) -> bytes:
    """JSON of plain values, as they come from a table."""
    try:
        return _encode(value).encode()
    except ValueError:  # NaN or an infinity somewhere, which the fast encoder refuses
        return _encode(_spelled(value)).encode()


def json_rows(table: pa.Table) -> Iterator[bytes]:
    """The rows as JSON objects with commas between them, a few at a time."""
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        rows = json_bytes(table.slice(start, _ROWS_AT_ONCE).to_pylist())[1:-1]
        yield b"," + rows if start else rows


def json_columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": str(field.type)} for field in schema]


def arrow_bytes(table: pa.Table) -> bytes:
    """The table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _plain(value: Any) -> Any:
    """What the JSON encoder does not know."""
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, decimal.Decimal):  # DuckDB sums integers into decimals
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, (datetime.datetime, datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, (datetime.timedelta, uuid.UUID)):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
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
