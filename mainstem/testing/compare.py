"""Exact comparison of two runs: outputs and state, to the last bit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

_SHOWN_COLUMNS_MAX = 40


@dataclass(frozen=True)
class Outcome:
    """What a run leaves behind: its output rows and the state of every table."""

    outputs: pa.Table
    state: Mapping[str, pa.Table] = field(default_factory=dict)


def assert_same(expected: Any, actual: Any, *, context: str = "") -> None:
    """Fail unless two outcomes (anything with `outputs` and `state`) are equal.

    Column names, types (a dictionary counts as its values) and order must agree, floats bit by bit; nan equals nan.
    `context` (the program and its seed) is part of the failure message.
    """
    difference = _difference("outputs", expected.outputs, actual.outputs) or _state_difference(
        expected.state, actual.state
    )
    if difference:
        raise AssertionError(f"{difference}\n{context}" if context else difference)


def _state_difference(expected: Mapping[str, pa.Table], actual: Mapping[str, pa.Table]) -> str | None:
    if list(expected) != list(actual):
        return f"state: expected the tables {list(expected)}, got {list(actual)}"
    differences = (_difference(f"state of {name}", expected[name], actual[name]) for name in expected)
    return next((d for d in differences if d), None)


def _difference(what: str, expected: pa.Table, actual: pa.Table) -> str | None:
    """A description of the first difference, or None."""
    wanted, got = _signature(expected), _signature(actual)
    if wanted != got:
        return f"{what}: expected the columns {wanted}, got {got}"
    if expected.num_rows == actual.num_rows:
        pairs = zip(expected.columns, actual.columns, strict=True)
        if all(exact(a).equals(exact(b)) for a, b in pairs):
            return None
    return _first_row(what, expected, actual)


def _signature(table: pa.Table) -> list[tuple[str, str]]:
    return [(f.name, str(_plain(f.type))) for f in table.schema]


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without dictionary encoding, and without the names and nullability of list items."""
    if pa.types.is_dictionary(kind):
        return kind.value_type
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_plain(kind.value_type), kind.list_size)
    return pa.list_(_plain(kind.value_type)) if pa.types.is_list(kind) else kind


def exact(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """The column with floats as their bits, so that equality means identity: -0.0 differs from 0.0, nan is nan."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if pa.types.is_dictionary(array.type):
        return array.dictionary_decode()
    if pa.types.is_fixed_size_list(array.type):
        return pa.FixedSizeListArray.from_arrays(exact(array.flatten()), array.type.list_size)
    if pa.types.is_floating(array.type):
        values = array.fill_null(0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(values), np.nan, values).view(np.int64)
        return pa.array(bits, mask=np.asarray(array.is_null()))
    return array


def _first_row(what: str, expected: pa.Table, actual: pa.Table) -> str:
    wanted, got = _rows(expected), _rows(actual)
    shown = expected.column_names[:_SHOWN_COLUMNS_MAX]
    for i, (a, b) in enumerate(zip(wanted, got, strict=False)):
        if a != b:
            columns = [name for name, x, y in zip(expected.column_names, a, b, strict=True) if x != y]
            return (
                f"{what}: row {i} differs in {', '.join(columns)}\n"
                f"  expected {_show(expected, i, shown)}\n  got      {_show(actual, i, shown)}"
            )
    i = min(len(wanted), len(got))
    longer, which = (expected, "missing") if len(wanted) > len(got) else (actual, "unexpected")
    return f"{what}: {len(wanted)} rows expected, {len(got)} got; the first {which} row is {_show(longer, i, shown)}"


def _rows(table: pa.Table) -> list[tuple[Any, ...]]:
    columns = [exact(c).to_pylist() for c in table.columns]
    return list(zip(*columns, strict=True)) if columns else []


def _show(table: pa.Table, row: int, columns: list[str]) -> dict[str, Any]:
    return table.select(columns).slice(row, 1).to_pylist()[0]
