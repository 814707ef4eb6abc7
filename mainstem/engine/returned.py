"""What interpreted functions return: checked when they do, and typed by all the values of a column."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from mainstem.errors import UserCodeError
from mainstem.lang import FIXED_COLUMNS, Program, arith

Record = dict[str, Any]
_UNFIT = (pa.ArrowException, OverflowError, TypeError, ValueError)  # what values that don't go together raise


def checked(function: Callable[..., Any]) -> Callable[[SimpleNamespace], Record]:
    """The function, held to returning nothing or a dict of columns."""

    def returning(event: SimpleNamespace) -> Record:
        values = function(event)
        if values is None:
            return {}
        if not isinstance(values, dict):
            raise TypeError(f"it returns a {type(values).__name__}: return a dict of columns, or nothing")
        for name in values:
            if not isinstance(name, str):
                raise TypeError(f"it returns a column {name!r}: names of columns are strings")
            if name in FIXED_COLUMNS:
                raise ValueError(f"every output has a column {name!r} already: return it by another name")
        return values

    return returning


def outputs_to_arrow(rows: list[Record], schema: pa.Schema) -> pa.RecordBatch:
    columns = []
    for field in schema:
        values = [r[field.name] if field.name in FIXED_COLUMNS else r["values"].get(field.name) for r in rows]
        if pa.types.is_dictionary(field.type):
            columns.append(pa.array(values, pa.string()).dictionary_encode().cast(field.type))
        else:
            columns.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class InferredOutputs:
    """Outputs of a program whose functions show their columns only as they run.

    A column is of the type that all its values have; ints among floats are floats. Batches follow each other: what an
    earlier one showed counts for the later ones, so that how events are cut into batches makes no difference.
    """

    def __init__(self, program: Program) -> None:
        self._fixed = program.output_schema
        self._types: dict[str, tuple[pa.DataType, str]] = {}  # by column, with the function that it is known from
        self._wide: set[str] = set()  # columns with ints that no float holds

    def batch(self, rows: list[Record]) -> pa.RecordBatch:
        outputs = outputs_to_arrow(rows, self._fixed)
        for name in dict.fromkeys(name for row in rows for name in row["values"]):
            outputs = outputs.append_column(name, self._column(name, rows))
        return outputs

    def _column(self, name: str, rows: list[Record]) -> pa.Array:
        for kind in dict.fromkeys(type(row["values"].get(name)) for row in rows):
            self._learn(name, [row for row in rows if type(row["values"].get(name)) is kind])
        type_, function = self._types[name]
        try:
            return pa.array([row["values"].get(name) for row in rows], type_)
        except _UNFIT as error:
            raise UserCodeError(f"column {name!r} of function {function} does not fit {type_}: {error}") from error

    def _learn(self, name: str, rows: list[Record]) -> None:
        """The type of a column after these values, which are of one Python type."""
        function, values = rows[0]["function"], [row["values"].get(name) for row in rows]
        try:
            found = pa.array(values).type
        except _UNFIT as error:
            raise UserCodeError(
                f"function {function} returns {values[0]!r} as column {name!r}, which Arrow has no type for: {error}"
            ) from error
        known, giver = self._types.setdefault(name, (found, function))
        common = common_type(known, found)
        if pa.types.is_integer(found) and max(max(values), -int(min(values))) > arith.EXACT_FLOAT:
            self._wide.add(name)
        if common is None or (pa.types.is_floating(common) and name in self._wide):
            raise UserCodeError(
                f"function {function} returns {found} as column {name!r}, but {giver} returned {known} before\n"
                "  return values of one type, or choose another name for the others"
            )
        self._types[name] = (common, function if pa.types.is_null(known) else giver)


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that holds values of both without changing what they are; None when there is none."""
    if {str(one), str(other)} == {"string", "binary"}:  # Arrow would take text for bytes
        return None
    both = [pa.schema([("column", one)]), pa.schema([("column", other)])]
    try:
        return pa.unify_schemas(both, promote_options="permissive").field(0).type
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return None
