"""From tables to the arrays that the operators' threads share, and from their results back to a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import InputError, ProgramError
from mainstem.gate.kernels import sort_order
from mainstem.jit import kernel
from mainstem.schema import INT64_MAX, INT64_MIN
from mainstem.windows.aggregates import Aggregate
from mainstem.windows.keys import RankedKeys
from mainstem.windows.operators.kernels.arrays import FIRST, LAST, MAX, MIN, SUM, Events, Shape
from mainstem.windows.values import Pools
from mainstem.windows.window import Window

_OPS = {"sum": SUM, "avg": SUM, "min": MIN, "max": MAX, "any": MAX, "all": MIN, "first": FIRST, "last": LAST}
_INITIAL = {SUM: 0, MIN: INT64_MAX, MAX: INT64_MIN, FIRST: 0, LAST: 0}
_ANY: dict[str, Any] = {"int64": 0, "bool": False, "string": ""}  # in place of null, by the type of the column
_BY_ROW = (FIRST, LAST)
"""These keep the number of the event's row, so they serve columns of all types."""


@dataclass(frozen=True)
class Prepared:
    """The events of one window as arrays."""

    window: Window
    events: Events
    shape: Shape
    keys: dict[str, pa.Array]  # the `by` columns of key code 0, 1, …
    columns: dict[str, pa.ChunkedArray]  # of the aggregates that keep rows
    winset_max: int  # windows that a winset can have

    @property
    def inputs(self) -> int:
        return len(self.events.lo) - 1


def prepare(window: Window, inputs: Sequence[pa.Table]) -> Prepared:
    """Checks and converts inputs that are each sorted by `ts`.

    An `event` column, if there is one, says which rows are of the window's event; the others only let time pass.
    """
    check_inputs(window, inputs)
    wanted = [name for name in ("ts", "event", *window.columns) if all(name in table.column_names for table in inputs)]
    table = pa.concat_tables([one.select(wanted) for one in inputs], promote_options="permissive")
    ts = np.array(table["ts"].to_numpy(), np.int64)  # a copy: Arrow's arrays are read-only, a type of its own to Numba
    lo = np.cumsum([0, *(one.num_rows for one in inputs)])
    _check_sorted(ts, lo)
    if len(ts):
        window.check_ts(int(ts.min()), int(ts.max()))
    keep = _kept(window, table)
    key, keys = _codes(window, table)
    value, ops = _values(window, table, keep)
    initial = np.array([_INITIAL[op] for op in ops], np.int64)
    shape = Shape(window.size, window.advance, np.array(ops, np.int64), initial)
    by_row = {a.column: table[a.column] for _, a in window.aggregates if a.column and _OPS[a.op] in _BY_ROW}
    crowd = int(_crowd(sort_order(ts[keep])[0], window.size)) if keep.any() else 1
    return Prepared(
        window, Events(ts, key, value, keep, lo), shape, keys, by_row, min(int(key.max(initial=0)) + 1, crowd)
    )


def refusal(window: Window, *, in_order: bool) -> str:
    """Why operators that add each event to all its windows can't compute this one; empty when they can."""
    if window.unit != "time":
        return f"window {window.name} counts events"
    for name, aggregate in window.aggregates:
        column = window.column_type(aggregate.column)
        if aggregate.op not in ("count", *_OPS):
            return f"{name}={aggregate} of window {window.name} does not fit into one number"
        is_float = column is not None and column.base == "float"
        if is_float and _OPS.get(aggregate.op) not in _BY_ROW:
            return f"{name}={aggregate} of window {window.name} is of floats"
        if not in_order and aggregate.sensitive(column):
            return f"{name}={aggregate} of window {window.name} depends on the order of events"
    return ""


def results(prepared: Prepared, number: np.ndarray, key: np.ndarray, cell: np.ndarray) -> pa.Table:
    """The closed windows as a table: the `by` columns, `start`, `end` and the aggregates, in order of (end, key)."""
    order = _order(number, key)
    start = number[order] * prepared.window.advance
    cell = cell[order]
    columns: dict[str, Any] = {name: column.take(pa.array(key[order])) for name, column in prepared.keys.items()}
    columns |= {"start": pa.array(start), "end": pa.array(start + prepared.window.size)}
    word = 1
    for field, (_, aggregate) in zip(prepared.window.results, prepared.window.aggregates, strict=True):
        if aggregate.column is None:
            columns[field.name] = pa.array(cell[:, 0])
            continue
        columns[field.name] = _result(prepared, aggregate, cell[:, 0], cell[:, word]).cast(field.type.arrow)
        word += 1
    return pa.table(columns).combine_chunks()


def _order(number: np.ndarray, key: np.ndarray) -> np.ndarray:
    """Rows by number and key."""
    if not len(number):
        return np.empty(0, np.int64)
    first, keys = int(number.min()), int(key.max()) + 1
    if (int(number.max()) - first + 1) * keys > INT64_MAX:
        return np.lexsort((key, number))
    return sort_order((number - first) * keys + key)[1]


def _result(prepared: Prepared, aggregate: Aggregate, count: np.ndarray, value: np.ndarray) -> Any:
    if aggregate.column in prepared.columns and _OPS[aggregate.op] in _BY_ROW:
        return prepared.columns[aggregate.column].take(pa.array(value))
    if aggregate.op == "avg":
        return pa.array(value.astype(np.float64) / count.astype(np.float64))
    return pa.array(value)


def check_inputs(window: Window, inputs: Sequence[pa.Table]) -> None:
    if not inputs:
        raise InputError(f"window {window.name} has no input\n  pass one table or more")
    wanted = ("ts", *window.columns)
    for i, table in enumerate(inputs):
        there = table.column_names
        missing = [name for name in wanted if name not in there]
        if missing:
            raise InputError(
                f"input {i} of window {window.name} has no column {missing[0]!r}\n  its columns are: "
                f"{', '.join(table.column_names)}; derived columns must be there, too"
            )


def _check_sorted(ts: np.ndarray, lo: np.ndarray) -> None:
    """Steps back are allowed where one input ends and the next begins."""
    back = np.setdiff1d(np.flatnonzero(np.diff(ts) < 0) + 1, lo)
    if len(back):
        row = int(back[0])
        i = int(np.searchsorted(lo, row, side="right")) - 1
        raise InputError(
            f"row {row - lo[i]} of input {i} has ts {ts[row]}, after one with ts {ts[row - 1]}\n  sort each input by ts"
        )


def _kept(window: Window, table: pa.Table) -> np.ndarray:
    keep = np.ones(table.num_rows, dtype=bool)
    if "event" in table.column_names:
        keep &= pc.equal(table["event"].cast(pa.string()), window.event.name).to_numpy()
    if window.where is not None:
        keep &= table[window.where].fill_null(False).to_numpy()
    return keep


def _codes(window: Window, table: pa.Table) -> tuple[np.ndarray, dict[str, pa.Array]]:
    """Key codes of all rows, in the order of the keys; and the keys. Rows of other events get any code."""
    pools = Pools()
    keys = RankedKeys(window.by, pools)
    columns = [pools.array(_without_null(table[f.name].cast(f.type.arrow)), f.type.base) for f in window.by]
    number = keys.number(columns, None, table.num_rows)
    keys.update()
    named = zip((f.name for f in window.by), keys.columns(keys.of_rank), strict=True)
    return keys.rank[number] if table.num_rows else number, dict(named)


def _without_null(column: pa.ChunkedArray) -> pa.Array:
    """The rows of other events have no key."""
    array = column.combine_chunks()
    return array.fill_null(pa.scalar(_ANY[str(array.type)], array.type)) if array.null_count else array


def _values(window: Window, table: pa.Table, keep: np.ndarray) -> tuple[np.ndarray, list[int]]:
    """A column per aggregate other than `count`."""
    ops = [_OPS[a.op] for _, a in window.aggregates if a.column is not None]
    value = np.zeros((table.num_rows, len(ops)), np.int64)
    columns = [a.column for _, a in window.aggregates if a.column is not None]
    for place, (column, op) in enumerate(zip(columns, ops, strict=True)):
        if op in _BY_ROW:
            value[:, place] = np.arange(table.num_rows)
            continue
        value[:, place] = table[column].cast(pa.int64()).fill_null(0).to_numpy()
        if op == SUM:
            _check_sums(window, column, value[keep, place])
    return value, ops


def _check_sums(window: Window, column: str, value: np.ndarray) -> None:
    if len(value) and len(value) * max(abs(int(value.min())), abs(int(value.max()))) > INT64_MAX:
        raise InputError(
            f"sums of {column!r} in window {window.name} may need more than 64 bits: {len(value)} values up to "
            f'{max(value, key=abs)}\n  use operator="panes", which checks every window, or a coarser unit'
        )


@kernel
def _crowd(ts: np.ndarray, size: int) -> int:
    """The most events that any window can have; `ts` is sorted."""
    most, first = 1, 0
    for row in range(len(ts)):
        while ts[row] - ts[first] >= size:
            first += 1
        most = max(most, row + 1 - first)
    return most


def wrong_operator(operator: str, why: str) -> ProgramError:
    return ProgramError(f"operator {operator!r} can't be used: {why}", remedy='use operator="panes", or leave it out')
