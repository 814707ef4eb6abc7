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

    def extend(self, others: Rejects) -> None:
        self._batches.extend(others._batches)

    @property
    def count(self) -> int:
        return sum(len(batch) for batch in self._batches)

    @property
    def table(self) -> pa.Table:
        table = pa.Table.from_batches(self._batches, schema=SCHEMA)
        return table.sort_by([("input", "ascending"), ("offset", "ascending")])


def rows_as_json(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as valid JSON texts: bytes as base64, times in ISO format, nan and infinities as strings."""
    return [_encodable(json.dumps(_plain(row), ensure_ascii=False)) for row in rows]


def batch_as_json(batch: pa.RecordBatch, rows: np.ndarray) -> list[str]:
    """Some rows of a record batch as JSON texts."""
    columns = [values_of(column) for column in batch.take(pa.array(rows)).columns]
    names = batch.schema.names
    return rows_as_json([dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)])


def values_of(array: pa.Array) -> list[Any]:
    """The values as Python objects; as texts where Python has no such value, e.g. a time in the year 200,000."""
    try:
        return array.to_pylist()
    except (ValueError, OverflowError):
        return array.cast(pa.string()).to_pylist()


def _encodable(text: str) -> str:
    """A lone surrogate can't be stored as UTF-8; its escape can, and means the same in JSON."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


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
