"""Inputs of `panes` as arrays: the columns that a window needs, of the events that count."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import InputError
from mainstem.team import team
from mainstem.windows.operators.kernels.chosen import chosen_rows, in_order
from mainstem.windows.values import Pools
from mainstem.windows.window import Window

PIECE_ROWS = 2**16  # threads share the rows of all inputs by so many

Bounds = tuple[int, int]
"""The least and the largest value of a column."""


@dataclass
class Run:
    """The events of one input that count, as arrays; `key` counts from some base that all runs share."""

    ts: np.ndarray
    columns: dict[str, np.ndarray]
    bounds: dict[str, Bounds]  # of the columns that were measured; of none when there are no events
    key: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass(frozen=True)
class _Input:
    number: int
    ts: np.ndarray
    columns: dict[str, np.ndarray]
    bits: tuple[np.ndarray, int] | None  # of the condition, as words, and which bit is the first


def read_runs(window: Window, inputs: Sequence[pa.Table], pools: Pools, threads: int) -> list[Run]:
    """Checks that inputs are sorted, too; threads share the rows, however long each input is."""
    found: list[_Input | None] = [None] * len(inputs)
    pooled = any(t is not None and t.pooled for t in map(window.column_type, window.columns))
    mixed = any("event" in table.column_names for table in inputs)
    # Texts are numbered by one thread; and if there is nothing to filter, the work is Python's, which only one can do.
    readers = min(threads, len(inputs)) if mixed and not pooled else 1

    def read(number: int) -> None:
        for i in range(number, len(inputs), readers):
            found[i] = _input(window, inputs[i], i, pools)

    team(readers).run(read)
    tables = [table for table in found if table is not None]
    pieces = [(t, low) for t in tables for low in range(0, len(t.ts), PIECE_ROWS)]
    parts: list[list[Run]] = [[] for _ in pieces]
    measured, numbers = _measured(window), itertools.count()

    def choose(_: int) -> None:
        while (number := next(numbers)) < len(pieces):
            parts[number].append(_chosen(*pieces[number], measured))

    team(min(threads, max(1, len(pieces)))).run(choose)
    of_table: dict[int, list[Run]] = {table.number: [] for table in tables}
    for (table, _), part in zip(pieces, parts, strict=True):
        window.check_ts(int(table.ts[0]), int(table.ts[-1]))
        of_table[table.number] += part
    return [_joined(table, of_table[table.number]) for table in tables]


def own_rows(window: Window, table: pa.Table) -> pa.Table:
    """What the window needs of its events. Other events only let time pass, and at the end it has."""
    if "event" not in table.column_names:
        return table.select(["ts", *window.columns])
    own = pc.equal(table["event"].cast(pa.string()), window.event.name)
    return table.select(["ts", *window.columns]).filter(own)


def _measured(window: Window) -> list[str]:
    """Columns whose bounds decide how events are added up: a key that is a number, and what is summed."""
    own = [f.name for f in window.by if len(window.by) == 1 and f.type.base != "str"]
    return list(dict.fromkeys([*own, *(str(a.column) for _, a in window.aggregates if a.op in ("sum", "avg"))]))


def _input(window: Window, table: pa.Table, number: int, pools: Pools) -> _Input:
    table = own_rows(window, table)
    ts = np.asarray(_array(table["ts"], number, "ts").to_numpy(zero_copy_only=False), np.int64)
    columns = {}
    for name in dict.fromkeys([*(f.name for f in window.by), *(a.column for _, a in window.aggregates)]):
        type_ = window.column_type(name)
        if name is not None and type_ is not None:
            array = _array(table[name], number, name)
            array = array if array.type == type_.arrow else array.cast(type_.arrow)
            columns[name] = pools.array(array, type_.base)
    return _Input(number, ts, columns, None if window.where is None else _bits(table[window.where]))


def _array(column: pa.ChunkedArray, number: int, name: str) -> pa.Array:
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InputError(
            f"row {row} of input {number} has no {name!r}\n  give it a value, or leave the row out"
        )  # fmt: skip
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _bits(column: pa.ChunkedArray) -> tuple[np.ndarray, int]:
    """Null is false."""
    column = column.fill_null(False) if column.null_count else column
    array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    buffer = array.buffers()[1]
    found = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
    if len(found) % 4:
        found = np.concatenate([found, np.zeros(-len(found) % 4, np.uint8)])
    return found.view(np.uint32), array.offset


def _chosen(table: _Input, low: int, measured: Sequence[str]) -> Run:
    """Some rows of an input, if they count."""
    high = min(low + PIECE_ROWS, len(table.ts))
    _check_sorted(table.ts, max(low, 1), high, table.number)
    rows: slice | np.ndarray = slice(low, high)
    if table.bits is not None:
        room = np.empty(high - low, np.int64)
        rows = room[: chosen_rows(*table.bits, low, high, room)]
    columns = {name: column[rows] for name, column in table.columns.items()}
    ts = table.ts[rows]
    bounds = {name: (int(columns[name].min()), int(columns[name].max())) for name in measured if len(ts)}
    return Run(ts, columns, bounds)


def _check_sorted(ts: np.ndarray, low: int, high: int, number: int) -> None:
    """Each row against the one before it."""
    earlier, later = ts[low - 1 : high - 1], ts[low:high]
    if not in_order(earlier, later):
        row = low + int((later < earlier).argmax())
        raise InputError(
            f"row {row} of input {number} has ts {ts[row]}, after one with ts {ts[row - 1]}\n  sort each input by ts"
        )


def _joined(table: _Input, parts: Sequence[Run]) -> Run:
    """The parts of an input, in their order."""
    if len(parts) == 1:
        return parts[0]
    lows = {name: min(part.bounds[name][0] for part in parts if part.bounds) for p in parts for name in p.bounds}
    highs = {name: max(part.bounds[name][1] for part in parts if part.bounds) for name in lows}
    bounds = {name: (low, highs[name]) for name, low in lows.items()}
    if table.bits is None or not parts:
        return Run(table.ts, table.columns, bounds)
    columns = {name: np.concatenate([part.columns[name] for part in parts]) for name in table.columns}
    return Run(np.concatenate([part.ts for part in parts]), columns, bounds)
