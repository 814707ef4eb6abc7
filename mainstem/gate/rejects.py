"""Rows that were set aside, with the reason."""

from __future__ import annotations

import base64
import datetime
import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("input", pa.int32()),
        ("offset", pa.int64()),
        ("event", pa.string()),
        ("reason", pa.string()),
        ("data", pa.string()),
    ]
)


class Rejects:
    """Collects rejected rows; `table` lists them by input and offset, however the input was cut into chunks."""

    def __init__(self) -> None:
        self._batches: list[pa.RecordBatch] = []

    def add(
        self,
        input: int,
        offsets: Sequence[int] | np.ndarray,
        event: str | Sequence[str | None] | None,
        reason: str | Sequence[str],
        rows_as_json: Sequence[str],
    ) -> None:
        """Add rows of one input; `event` and `reason` are given once for all rows, or per row."""
        count = len(offsets)
        columns = [
            pa.array(np.full(count, input, dtype=np.int32)),
            pa.array(np.asarray(offsets, dtype=np.int64)),
            _per_row(event, count),
            _per_row(reason, count),
            pa.array(rows_as_json, pa.string()),
        ]
        self._batches.append(pa.RecordBatch.from_arrays(columns, schema=SCHEMA))

    @property
    def count(self) -> int:
        return sum(len(batch) for batch in self._batches)

    @property
    def table(self) -> pa.Table:
        table = pa.Table.from_batches(self._batches, schema=SCHEMA)
        return table.sort_by([("input", "ascending"), ("offset", "ascending")])


def rows_as_json(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as valid JSON texts: bytes as base64, times in ISO format, nan and infinities as strings."""
    return [json.dumps(_plain(row), ensure_ascii=False) for row in rows]


def _per_row(value: str | Sequence[str | None] | None, count: int) -> pa.Array:
    if value is None or isinstance(value, str):
        return pa.repeat(pa.scalar(value, pa.string()), count)
    return pa.array(value, pa.string())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, (datetime.date, datetime.time)):
        return value.isoformat()
    if isinstance(value, np.generic):
        return _plain(value.item())
    return str(value)
