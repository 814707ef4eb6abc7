"""The log as ranges of the total order: what the tasks of a replay read.

A range is `[ts_from, ts_to)` of all inputs, so events of one `ts` are in one range, ranges follow each other, and the
order inside a range is that of the contract. Bounds fall on the edges of row groups where they can: a row group that is
cut has to be decoded by every task that reads a piece of it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate import Columns, Derive, EventBatch, Rejects, batches
from mainstem.gate.batch import identity
from mainstem.gate.merge import used_fields
from mainstem.gate.validate import OnBad
from mainstem.lang import Program
from mainstem.replay.cut import PartInput
from mainstem.replay.footers import RowGroup, first_disorder
from mainstem.replay.keys import KeyColumns
from mainstem.schema import INT64_MAX, INT64_MIN, Field

RANGE_ROWS = 1 << 18
"""Events per range, about: the fixed cost of a task and of its blocks vanishes, and a range fits in memory often."""

WHOLE_MAX = 4
"""A row group may make a range this many times larger than asked for, before it is cut."""

Between = tuple[int | None, int | None]
"""`(from, to)`: events with `from <= ts < to`; None: no bound."""


@dataclass(frozen=True)
class LogInput:
    """One input of a log: row groups of Parquet files, in order of time. `what` is what the user calls it."""

    what: str
    event: str | None
    groups: tuple[RowGroup, ...]

    @property
    def rows(self) -> int:
        return sum(group.rows for group in self.groups)


@dataclass(frozen=True)
class Part:
    """What a range has of one input: row groups that overlap it, the first of which begins at row `first_row`."""

    what: str
    event: str | None
    first_row: int
    groups: tuple[RowGroup, ...]


@dataclass(frozen=True)
class Range:
    """One part per input, also where an input has nothing here; `ts_to` None: to the end of the log."""

    number: int
    ts_from: int
    ts_to: int | None
    parts: tuple[Part, ...]
    rows: int  # about; a row group that is cut counts by the part of its time


def read_range(
    range: Range, program: Program, *, on_bad: OnBad = "raise", batch_size: int = 65_536
) -> tuple[Iterator[EventBatch], Rejects]:
    """The events of a range with derived columns and computed keys, in total order, and the rows set aside so far."""
    rejects = Rejects()
    inputs = [PartInput(part.what, part.event, part.groups, part.first_row, range) for part in range.parts]
    stream = batches(
        inputs, program.events, batch_size=batch_size, on_bad=on_bad, rejects=rejects, derives=user_derives(program),
        columns=program.used_columns,
    )  # fmt: skip
    keys = [derive for derive in program.derives if isinstance(derive.function, KeyColumns)]
    return (_with_keys(stream, keys) if keys else stream), rejects


def fields_read(program: Program) -> tuple[tuple[Field, ...], ...]:
    """What `read_range` asks of inputs, per event type."""
    return used_fields(program.events, program.used_columns, {derive.event for derive in user_derives(program)})


def user_derives(program: Program) -> list[Derive]:
    return [derive for derive in program.derives if not isinstance(derive.function, KeyColumns)]


def _with_keys(stream: Iterator[EventBatch], keys: Sequence[Derive]) -> Iterator[EventBatch]:
    """Adds computed keys. They need the columns that functions use, among them derived ones, and no others: so a column
    that nobody uses may be missing or hold nulls, as in a run that is not staged."""
    for batch in stream:
        columns = list(batch.columns)
        for derive in keys:
            kind = derive.function.kind  # type: ignore[attr-defined]
            found = columns[kind]
            if found is not None:
                at = pa.array(found.pos)
                arrays = {name: array if found.dense else array.take(at) for name, array in found.arrays.items()}
                ts = batch.ts if len(found.pos) == len(batch) else batch.ts[batch.kind == kind]
                rows = pa.RecordBatch.from_arrays([pa.array(ts), *arrays.values()], names=["ts", *arrays])
                columns[kind] = Columns(identity(len(found.pos)), {**arrays, **derive.function(rows)})
        yield EventBatch(batch.kind, batch.ts, columns, batch.position)


def check_between(between: Between | None) -> Between:
    """The bounds in order, or an error that says what to pass."""
    if between is None:
        return None, None
    fits = isinstance(between, (tuple, list)) and len(between) == 2
    if not fits or not all(ts is None or (isinstance(ts, int) and not isinstance(ts, bool)) for ts in between):
        raise InputError(f"between={between!r}\n  pass (ts_from, ts_to), two integers; None for no bound")
    first, end = between
    if first is not None and end is not None and first >= end:
        raise InputError(f"between={between!r} is empty\n  ts_from is the first ts to replay, ts_to the first not to")
    return first, end


def check_order(number: int, input: LogInput) -> None:
    """An error when the footers prove that some row is before its predecessor."""
    found = first_disorder(input.groups)
    if found is not None:
        before, after = found
        raise InputError(
            f"input {number} ({input.what}): row group {after.number} of {after.file} begins at ts {after.low}, but "
            f"row group {before.number} of {before.file}, before it, reaches ts {before.high}\n"
            '  sort the input by ts, or pass on_bad="reject" to set such rows aside'
        )


def cut_log(inputs: Sequence[LogInput], *, range_rows: int = RANGE_ROWS, between: Between | None = None) -> list[Range]:
    """The ranges that hold rows, in order."""
    first, end = check_between(between)
    for number, input in enumerate(inputs):
        check_order(number, input)
    start = INT64_MIN if first is None else first
    present = [group for input in inputs for group in input.groups if _overlaps(group, start, end)]
    inner = [bound for bound in choose_bounds(present, range_rows) if bound > start and (end is None or bound < end)]
    ranges: list[Range] = []
    for low, high in pairwise([start, *inner, end]):
        assert low is not None
        parts = tuple(_part(input, low, high) for input in inputs)
        groups = [group for part in parts for group in part.groups]
        if groups:
            rows = round(sum(group.rows * _share(group, low, high) for group in groups))
            ranges.append(Range(len(ranges), low, high, parts, rows))
    return ranges


def _overlaps(group: RowGroup, ts_from: int, ts_to: int | None) -> bool:
    return group.high >= ts_from and (ts_to is None or group.low < ts_to)


def _part(input: LogInput, ts_from: int, ts_to: int | None) -> Part:
    groups = input.groups
    first = bisect_left(groups, ts_from, key=lambda group: group.high)
    end = len(groups) if ts_to is None else bisect_left(groups, ts_to, key=lambda group: group.low)
    rows = sum(group.rows for group in groups[:first])
    return Part(input.what, input.event, rows, groups[first:end])


def _share(group: RowGroup, ts_from: int, ts_to: int | None) -> float:
    """Which part of a row group's time is in a range."""
    low, high = max(group.low, ts_from), group.high if ts_to is None else min(group.high, ts_to - 1)
    return (high - low + 1) / (group.high - group.low + 1)


def choose_bounds(groups: Sequence[RowGroup], range_rows: int) -> list[int]:
    """Times at which to cut: edges of row groups, and times inside of them only where one is very large."""
    if not groups:
        return []
    rows_before = _RowsBefore(groups)
    edges = sorted({group.low for group in groups})[1:]
    bounds: list[int] = []
    done = 0.0
    for edge in [*edges, None]:
        reached = rows_before.total if edge is None else rows_before.at(edge)
        if edge is not None and reached - done < range_rows * 3 / 4:
            continue
        if reached - done > range_rows * WHOLE_MAX:
            pieces = -int(-(reached - done) // (range_rows * WHOLE_MAX))
            steps = [done + (reached - done) * i / pieces for i in np.arange(1, pieces)]
            inside = (rows_before.when(rows) for rows in steps)
            bounds += [ts for ts in inside if edge is None or ts < edge]
        if edge is not None:
            bounds.append(edge)
        done = reached
    return sorted(set(bounds))


class _RowsBefore:
    """About how many rows come before a time: the times of a row group are taken as evenly spread.

    Times are counted from the first one as floats: exact enough for an estimate, and nothing can overflow.
    """

    def __init__(self, groups: Sequence[RowGroup]) -> None:
        self._first = min(group.low for group in groups)
        turns: dict[int, float] = {}  # where the number of rows per time changes, and by how much
        for group in groups:
            per_time = group.rows / (group.high - group.low + 1)
            turns[group.low] = turns.get(group.low, 0.0) + per_time
            turns[group.high + 1] = turns.get(group.high + 1, 0.0) - per_time
        times = sorted(turns)
        slopes = list(accumulate(turns[time] for time in times))[:-1]
        self._times = np.array([float(time - self._first) for time in times])
        spans = (after - before for before, after in pairwise(times))
        steps = [max(slope, 0.0) * span for slope, span in zip(slopes, spans, strict=True)]
        self._rows = np.array([0.0, *accumulate(steps)])
        self.total = float(self._rows[-1])

    def at(self, ts: int) -> float:
        return float(np.interp(float(ts - self._first), self._times, self._rows))

    def when(self, rows: float) -> int:
        return min(self._first + int(np.interp(rows, self._rows, self._times)), INT64_MAX)
