"""Vectorised functions that add columns to the events of a type."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError, ProgramError
from mainstem.gate import flaws as flaw
from mainstem.gate.batch import Columns, EventBatch, identity
from mainstem.gate.cast import to_type
from mainstem.gate.rejects import values_of
from mainstem.schema import EventSchema, Field


@dataclass(frozen=True)
class Derive:
    """`function(pa.RecordBatch of ts and the declared fields) -> columns named as in fields`, for one event type."""

    event: str
    fields: tuple[Field, ...]
    function: Callable[[pa.RecordBatch], Any]

    @property
    def label(self) -> str:
        return f"derive function {getattr(self.function, '__name__', repr(self.function))} of {self.event}"


def with_derived(batch: EventBatch, schemas: Sequence[EventSchema], derives: Sequence[Derive]) -> EventBatch:
    """The batch with all derived columns. Functions see the events of their type in total order, one row each."""
    columns = list(batch.columns)
    for kind, schema in enumerate(schemas):
        own = [derive for derive in derives if derive.event == schema.name]
        found = columns[kind]
        if own and found is not None:
            rows = _declared(batch, kind, schema, found)
            arrays = dict(zip(rows.schema.names[1:], rows.columns[1:], strict=True))
            for derive in own:
                arrays.update(_run(derive, rows))
            columns[kind] = Columns(identity(rows.num_rows), arrays)
    return EventBatch(batch.kind, batch.ts, columns, batch.position)


def _declared(batch: EventBatch, kind: int, schema: EventSchema, columns: Columns) -> pa.RecordBatch:
    ts = batch.ts if len(columns.pos) == len(batch) else batch.ts[batch.kind == kind]
    names = [field.name for field in schema.fields]
    arrays = [columns.arrays[name] for name in names]
    if not columns.dense:
        at = pa.array(columns.pos)
        arrays = [array.take(at) for array in arrays]
    return pa.RecordBatch.from_arrays([pa.array(ts), *arrays], names=["ts", *names])


def _run(derive: Derive, rows: pa.RecordBatch) -> dict[str, pa.Array]:
    try:
        result = derive.function(rows)
    except Exception as error:
        raise InputError(
            f"{derive.label} raised {type(error).__name__}: {error}\n"
            f"  it was given {rows.num_rows} rows with the columns {', '.join(rows.schema.names)}"
        ) from error
    found = _columns_of(derive, result)
    wanted = [field.name for field in derive.fields]
    if set(found) != set(wanted):
        raise ProgramError(
            f"{derive.label} returned the columns {', '.join(map(str, found)) or '(none)'}; "
            f"declared are {', '.join(wanted)}",
            remedy="return exactly the declared columns",
        )
    return {field.name: _checked(derive, field, found[field.name], rows.num_rows) for field in derive.fields}


def _columns_of(derive: Derive, result: Any) -> dict[str, Any]:
    if isinstance(result, (pa.RecordBatch, pa.Table)):
        return dict(zip(result.schema.names, result.columns, strict=True))
    if isinstance(result, Mapping):
        return dict(result)
    raise ProgramError(
        f"{derive.label} returned {type(result).__name__}",
        remedy="return a dict of column name to array, a pyarrow RecordBatch or a Table",
    )


def _checked(derive: Derive, field: Field, values: Any, length: int) -> pa.Array:
    array = _as_array(derive, field, values)
    if len(array) != length:
        raise ProgramError(
            f"{derive.label} returned {len(array)} values in column '{field.name}' for {length} events",
            remedy="return one value per row of the batch that it was given",
        )
    cast = to_type(array, field.type, "typed")
    if len(cast.bad):
        raise ProgramError(
            f"{derive.label} returned column '{field.name}' as {array.type}, "
            f"with {flaw.shown(values_of(array.slice(int(cast.bad[0]), 1))[0])}; declared is {field.type}",
            remedy=f"return the column as {field.type.arrow}",
        )
    items = cast.array.flatten() if field.type.is_list else None
    if (cast.array.null_count and not field.type.nullable) or (items is not None and items.null_count):
        raise ProgramError(
            f"{derive.label} returned a null in column '{field.name}', declared as {field.type}",
            remedy=f"return a value in every row, or declare the column as {field.type} | None",
        )
    return cast.array


def _as_array(derive: Derive, field: Field, values: Any) -> pa.Array:
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    try:
        return pa.array(values) if isinstance(values, np.ndarray) else pa.array(values, field.type.arrow)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise ProgramError(
            f"{derive.label} returned column '{field.name}' as {type(values).__name__}, "
            f"which is no array of {field.type}: {error}",
            remedy="return an Arrow array, a NumPy array or a list",
        ) from error
