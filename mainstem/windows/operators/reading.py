"""Inputs of `panes` as arrays: the columns that a window needs, of the events that count."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import InputError
from mainstem.schema import Type
from mainstem.team import team
from mainstem.windows.operators.kernels.chosen import UNSORTED, choose_rows, in_order
from mainstem.windows.values import Pools
from mainstem.windows.window import Window

PIECE_ROWS = 2**16  # threads share the rows of all inputs by so many

T = TypeVar("T")
Bounds = dict[str, tuple[int, int]]
"""The least and the largest value of some columns."""


@dataclass(frozen=True)
class Input:
    """All events of one input."""

    number: int
    ts: np.ndarray
    columns: dict[str, np.ndarray]
    bits: tuple[np.ndarray, int] | None  # of the condition, as words, and which bit is the first
    counting: int  # events that fulfil it


@dataclass
class Run:
    """Events of one input that count, as sorted arrays: all or some; `key` counts from some base that all share."""

    ts: np.ndarray
    columns: dict[str, np.ndarray]
    bounds: Bounds  # of the columns that were measured; of none when there are no events
    key: np.ndarray = field(default_factory=lambda: np.empty(0, np.int64))


def read_inputs(window: Window, tables: Sequence[pa.Table], pools: Pools, threads: int) -> list[Input]:
    """The columns as they are; whether they are sorted is not looked at."""
    columns = {n: t for n in window.columns if (t := window.column_type(n)) is not None and _is_read(window, n)}
    mixed = ["event" in table.column_names for table in tables]
    # Texts are numbered by one thread; and if there is nothing to filter, the work is Python's, which only one can do.
    readers = threads if any(mixed) and not any(t.pooled for t in columns.values()) else 1

    def read(number: int) -> Input:
        table = own_rows(window, tables[number]) if mixed[number] else tables[number]
        return _input(window, columns, table, number, pools)

    return _shared(readers, len(tables), read)


def own_rows(window: Window, table: pa.Table) -> pa.Table:
    """What the window needs of its events. Other events only let time pass, and at the end it has."""
    if "event" not in table.column_names:
        return table.select(["ts", *window.columns])
    own = pc.equal(table["event"].cast(pa.string()), window.event.name)
    return table.select(["ts", *window.columns]).filter(own)


def sorted_runs(window: Window, inputs: Sequence[Input], threads: int) -> list[Run]:
    """The events that count, if inputs are sorted; of equal times those of the first input come first.

    Threads share the rows, however long each input is. Without a condition inputs stay where they stand. With one, what
    counts in a piece is a run of its own.
    """
    pieces = [(one, low) for one in inputs for low in range(0, len(one.ts), PIECE_ROWS)]
    measured = _measured(window)
    if window.where is not None:
        return _shared(threads, len(pieces), lambda number: _chosen(*pieces[number], measured))
    bounds: dict[int, list[Bounds]] = {one.number: [] for one in inputs}
    found = _shared(threads, len(pieces), lambda number: _looked_at(*pieces[number], measured))
    for (one, _), some in zip(pieces, found, strict=True):
        bounds[one.number].append(some)
    return [Run(one.ts, one.columns, _joined(bounds[one.number])) for one in inputs]


def _shared(threads: int, tasks: int, task: Callable[[int], T]) -> list[T]:
    """What the tasks give; threads take the next one each."""
    found: dict[int, T] = {}
    numbers = itertools.count()

    def work(_: int) -> None:
        while (number := next(numbers)) < tasks:
            found[number] = task(number)

    team(min(threads, max(1, tasks))).run(work)
    return [found[number] for number in range(tasks)]


def _is_read(window: Window, name: str) -> bool:
    """As values: not only as a condition."""
    return any(f.name == name for f in window.by) or any(a.column == name for _, a in window.aggregates)


def _measured(window: Window) -> list[str]:
    """Columns whose bounds decide how events are added up: a key that is a number, and what is summed."""
    own = [f.name for f in window.by if len(window.by) == 1 and f.type.base != "str"]
    return list(dict.fromkeys([*own, *(str(a.column) for _, a in window.aggregates if a.op in ("sum", "avg"))]))


def _input(window: Window, columns: Mapping[str, Type], table: pa.Table, number: int, pools: Pools) -> Input:
    ts = np.asarray(_array(table["ts"], number, "ts").to_numpy(zero_copy_only=False), np.int64)
    if len(ts):
        window.check_ts(int(ts[0]), int(ts[-1]))
    arrays = {}
    for name, type_ in columns.items():
        array = _array(table[name], number, name)
        array = array if array.type == type_.arrow else array.cast(type_.arrow)
        arrays[name] = pools.array(array, type_.base)
    if window.where is None:
        return Input(number, ts, arrays, None, len(ts))
    condition = _condition(table[window.where])
    return Input(number, ts, arrays, _bits(condition), condition.true_count)


def _array(column: pa.ChunkedArray, number: int, name: str) -> pa.Array:
    if column.null_count:
        row = pc.index(column.is_null(), True).as_py()
        raise InputError(
            f"row {row} of input {number} has no {name!r}\n  give it a value, or leave the row out"
        )  # fmt: skip
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _condition(column: pa.ChunkedArray) -> pa.BooleanArray:
    """Null is false."""
    column = column.fill_null(False) if column.null_count else column
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _bits(array: pa.BooleanArray) -> tuple[np.ndarray, int]:
    buffer = array.buffers()[1]
    found = np.frombuffer(buffer, np.uint8) if buffer is not None else np.empty(0, np.uint8)
    if len(found) % 8:
        found = np.concatenate([found, np.zeros(-len(found) % 8, np.uint8)])
    return found.view(np.int64), array.offset


def _chosen(one: Input, low: int, measured: Sequence[str]) -> Run:
    assert one.bits is not None
    high = min(low + PIECE_ROWS, len(one.ts))
    numbers, ts = np.empty((2, min(high - low, one.counting)), np.int64)
    count = choose_rows(one.ts, low, high, *one.bits, numbers, ts)
    if count == UNSORTED:
        raise _unsorted(one, low, high)
    columns = {name: column.take(numbers[:count]) for name, column in one.columns.items()}
    return Run(ts[:count], columns, _bounds(columns, measured))


def _looked_at(one: Input, low: int, measured: Sequence[str]) -> Bounds:
    high = min(low + PIECE_ROWS, len(one.ts))
    if not in_order(one.ts, low, high):
        raise _unsorted(one, low, high)
    return _bounds({name: one.columns[name][low:high] for name in measured}, measured)


def _unsorted(one: Input, low: int, high: int) -> InputError:
    """One of these rows is before the one before it."""
    row = max(low, 1) + int((one.ts[max(low, 1) : high] < one.ts[max(low, 1) - 1 : high - 1]).argmax())
    return InputError(
        f"row {row} of input {one.number} has ts {one.ts[row]}, after one with ts {one.ts[row - 1]}\n"
        "  sort each input by ts"
    )


def _bounds(columns: Mapping[str, np.ndarray], measured: Sequence[str]) -> Bounds:
    found = ((name, columns[name]) for name in measured)
    return {name: (int(values.min()), int(values.max())) for name, values in found if len(values)}


def _joined(bounds: Sequence[Bounds]) -> Bounds:
    names = dict.fromkeys(name for found in bounds for name in found)
    return {n: (min(found[n][0] for found in bounds), max(found[n][1] for found in bounds)) for n in names}
