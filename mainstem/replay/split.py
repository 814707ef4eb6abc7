"""Keys split by time: what tasks are told about them, and their rows at the borders of parts.

`docs/design/replay.md` (hot keys) tells how it works and why the result is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.lang import folding
from mainstem.replay.columns import flags, numbers
from mainstem.replay.sharding import shards_of
from mainstem.schema import TableSchema
from mainstem.state import State
from mainstem.state.table import TableState

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow, Stage

Key = tuple[Any, ...]
Rows = Mapping[str, pa.Table]
"""Per table, as `TableState.delta` gives them: one row per key, in the order of the keys."""


Cells = dict[str, dict[str, np.ndarray]]
"""By table and field: one integer per key, whatever its bits mean."""


@dataclass(frozen=True)
class SplitStage:
    """The keys of a stage whose items are run by parts."""

    stage: int
    keys: tuple[Key, ...]
    start: Rows  # before the epoch


@dataclass(frozen=True)
class SplitPart:
    """Consecutive ranges of the epoch; the wave task of `shard` runs their items of hot keys."""

    shard: int
    first: int
    end: int


@dataclass(frozen=True)
class Split:
    """One wave of one epoch. Parts follow each other and hold all ranges."""

    stages: tuple[SplitStage, ...]
    parts: tuple[SplitPart, ...]


@dataclass(frozen=True)
class TableTotal:
    """What a part does to the rows of one table: per field and key the total; whether the row is written at all."""

    fields: dict[str, np.ndarray]  # integers, whatever their bits mean
    written: dict[str, np.ndarray]  # of fields that are overwritten: whether they are
    alive: np.ndarray


Total = dict[int, dict[str, TableTotal]]
"""By stage and table."""


def key_arrays(keys: Sequence[Key], schema: TableSchema) -> list[pa.Array]:
    """Parts of keys come as events have them: a bool may be the key of a table of ints."""
    return [pa.array([key[n] for key in keys]).cast(type_.arrow) for n, type_ in enumerate(schema.key)]


def owners(flow: Dataflow, stage: int, keys: Sequence[Key], shards: int) -> list[int]:
    """The shards that keys belong to."""
    schema = flow.program.tables[flow.stages[stage].tables[0]]
    return shards_of(key_arrays(keys, schema), shards).tolist() if keys else []


def held(columns: Sequence[pa.Array], keys: Iterable[Key]) -> np.ndarray:
    """Per item whether it has one of the keys."""
    found: np.ndarray | None = None
    for key in keys:
        same = _equal(columns[0], key[0])
        for column, part in zip(columns[1:], key[1:], strict=True):
            same &= _equal(column, part)
        found = same if found is None else found | same
    return np.zeros(len(columns[0]), bool) if found is None else found


def _equal(column: pa.Array, part: Any) -> np.ndarray:
    if column.type == pa.int64() and not column.null_count:
        return numbers(column) == part
    return flags(pc.fill_null(pc.equal(column, pa.scalar(part, column.type)), False)).view(bool)


class HotRows:
    """The rows of some keys of a stage, in a state of their own."""

    def __init__(self, stage: Stage, flow: Dataflow, keys: Sequence[Key]) -> None:
        self.state = State({table.name: table for table in stage.program.tables})
        self._folds: dict[str, dict[str, str]] = {flow.program.tables[table].name: {} for table in stage.tables}
        for fold in stage.folding.folds:
            self._folds[flow.program.tables[fold.table].name][fold.field] = fold.way
        self._at = {name: self._resolved(name, keys) for name in self._folds}

    def _resolved(self, name: str, keys: Sequence[Key]) -> np.ndarray:
        table = self.state.tables[name]
        return table.resolve(key_arrays(keys, table.schema))

    def _tables(self) -> Iterable[tuple[str, TableState, np.ndarray, dict[str, str]]]:
        for name, folds in self._folds.items():
            yield name, self.state.tables[name], self._at[name], folds

    def start(self, rows: Rows, totals: Iterable[Mapping[str, TableTotal]]) -> None:
        """Rows as they are after some parts."""
        for name, given in rows.items():
            self.state.tables[name].apply(given)
        for total in totals:
            for name, table, at, folds in self._tables():
                for field, way in folds.items():
                    cells = table.rows[field]
                    cells[at] = _combined(way, cells[at], total[name], field)
                table.rows["_alive"][at] |= total[name].alive

    def cells(self) -> Cells:
        """What rows hold now, in fields that are updated; all as integers."""
        return {
            name: {field: _bits(table.rows[field][at]) for field in folds} for name, table, at, folds in self._tables()
        }

    def mark(self, start: Cells, marks: bool) -> None:
        """For a run that finds totals: no row counts as written, and overwritten fields hold marks, or the start."""
        for name, table, at, folds in self._tables():
            table.rows["_alive"][at] = 0
            for field in folds:
                mark = marks and folds[field] == folding.SET
                cells = start[name][field] ^ 1 if mark else start[name][field]
                table.rows[field][at] = cells.view(table.rows.dtype[field])

    def total(self, start: Cells) -> dict[str, TableTotal]:
        """After a run from marked rows."""
        end, found = self.cells(), {}
        for name, table, at, folds in self._tables():
            written = {f: end[name][f] != start[name][f] ^ 1 for f, way in folds.items() if way == folding.SET}
            fields = {field: _taken_off(folds[field], end[name][field], start[name][field]) for field in folds}
            found[name] = TableTotal(fields, written, table.rows["_alive"][at])
        return found

    def rows(self, chosen: Sequence[int] | None = None) -> dict[str, pa.Table]:
        """Of all keys, or of those with these numbers."""
        picked = slice(None) if chosen is None else np.array(chosen, np.int64)
        return {name: table.delta(at[picked]) for name, table, at, _ in self._tables()}

    def content(self) -> bytes:
        """Equal for equal rows, to the bit. Field by field: what stands between fields means nothing."""
        tables = [(table.rows, at) for _, table, at, _ in self._tables()]
        return b"".join(rows[name][at].tobytes() for rows, at in tables for name in rows.dtype.names or ())


def _taken_off(way: str, end: np.ndarray, start: np.ndarray) -> np.ndarray:
    """The total of a run that began at `start`. For the other updates it does no harm that the start is in it."""
    if way == folding.SUM:
        return end - start
    return end ^ start if way == folding.XOR else end


def _combined(way: str, before: np.ndarray, total: TableTotal, field: str) -> np.ndarray:
    """A sum may wrap around here: then the run of the part before ends elsewhere, which is noticed."""
    after = total.fields[field].view(before.dtype)
    match way:
        case folding.SUM:
            return before + after
        case folding.MAX:
            return np.maximum(before, after)
        case folding.MIN:
            return np.minimum(before, after)
        case folding.OR:
            return before | after
        case folding.AND:
            return before & after
        case folding.XOR:
            return before ^ after
    return np.where(total.written[field], after, before)


def _bits(cells: np.ndarray) -> np.ndarray:
    return cells if cells.dtype == np.uint8 else cells.view(np.int64)
