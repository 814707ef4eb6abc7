"""Tables as CSV and back. Arrays are JSON, bytes are hexadecimal digits, times are ISO; of NaNs there is one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as csv
import pyarrow.types as pt


def write_csv(path: Path, schema: pa.Schema, pieces: Iterable[pa.Table]) -> None:
    with csv.CSVWriter(path, pa.schema([_field_as_text(field) for field in schema])) as writer:
        for piece in pieces:
            writer.write_table(pa.table([_as_text(column) for column in piece.columns], names=piece.column_names))


def read_csv(path: Path, schema: pa.Schema) -> pa.Table:
    """The rows of a file that `write_csv` wrote, with the columns of `schema`."""
    kinds = {field.name: _field_as_text(field).type for field in schema}
    # No text means null: fields of tables are never null, and "" is a value.
    convert = csv.ConvertOptions(column_types=kinds, null_values=[], strings_can_be_null=False)
    text = csv.read_csv(
        path, convert_options=convert, parse_options=csv.ParseOptions(newlines_in_values=True),
        read_options=csv.ReadOptions(block_size=1 << 24),
    )  # fmt: skip
    return pa.table([_from_text(text[field.name], field.type) for field in schema], schema=schema)


def as_in_csv(rows: pa.Table) -> pa.Table:
    """The rows that come back from a file: every NaN is the same, as text has no sign and no bits of one."""
    return pa.table([_with_one_nan(column.combine_chunks()) for column in rows.columns], schema=rows.schema)


def _with_one_nan(array: pa.Array) -> pa.Array:
    if pt.is_fixed_size_list(array.type):
        return pa.FixedSizeListArray.from_arrays(_with_one_nan(array.flatten()), type=array.type)
    if not pt.is_floating(array.type):
        return array
    return pc.if_else(pc.is_nan(array), pa.scalar(float("nan")), array)


def _field_as_text(field: pa.Field) -> pa.Field:
    return field.with_type(pa.string()) if _is_encoded(field.type) else field


def _is_encoded(kind: pa.DataType) -> bool:
    return pt.is_binary(kind) or pt.is_fixed_size_list(kind)


def _as_text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if not _is_encoded(column.type):
        return column
    encode = bytes.hex if pt.is_binary(column.type) else json.dumps
    return pa.chunked_array([pa.array(map(encode, column.to_pylist()), pa.string())])


def _from_text(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if not _is_encoded(kind):
        return column
    decode: Any = bytes.fromhex if pt.is_binary(kind) else json.loads
    return pa.chunked_array([pa.array(map(decode, column.to_pylist()), kind)])
