"""Tables as the bytes of an answer: JSON or an Arrow stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from mainstem.query.values import plain_rows, to_json

# Rows that are encoded in one go: the JSON encoder keeps Python's lock, and single-key requests wait for it meanwhile.
_ROWS_AT_ONCE = 200


def json_bytes(value: Any) -> bytes:
    return to_json(value).encode()


def json_rows(table: pa.Table) -> Iterator[bytes]:
    """The rows as JSON objects with commas between them, a few at a time."""
    for start in range(0, table.num_rows, _ROWS_AT_ONCE):
        rows = json_bytes(plain_rows(table.slice(start, _ROWS_AT_ONCE)))[1:-1]
        yield b"," + rows if start else rows


def json_columns(schema: pa.Schema) -> list[dict[str, str]]:
    return [{"name": field.name, "type": str(field.type)} for field in schema]


def arrow_bytes(table: pa.Table) -> bytes:
    """The table in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
