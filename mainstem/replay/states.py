"""State of a task between epochs: one file with the rows of its tables, synced and with checksums."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.errors import CorruptError
from mainstem.replay.jobs import WaveTask
from mainstem.replay.sharding import shards_of
from mainstem.schema import TableSchema
from mainstem.state import State
from mainstem.state.table import TableState
from mainstem.store.disk import disk, sync_directory
from mainstem.store.frame import REMEDY, Kind
from mainstem.store.tablefile import TableFile

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow

_STORE = 0  # these files belong to no store


@dataclass(frozen=True)
class Section:
    """A table of a stage in a state file."""

    name: str  # the table's; of variants, the first one that has the table has its name
    stage: int
    table: TableSchema


def sections_of(flow: Dataflow, task: WaveTask) -> list[Section]:
    """What a task's state file holds."""
    return [_section(flow, stage, table) for stage in task.stages for table in flow.stages[stage].tables]


def _section(flow: Dataflow, stage: int, number: int) -> Section:
    table = flow.program.tables[number]
    first = next(s.number for s in flow.stages if number in s.tables)
    return Section(table.name if stage == first else f"{table.name}@{stage}", stage, table)


def own_rows(flow: Dataflow, task: WaveTask, shards: int, tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """The part of `tables` (names and shapes of the original program's) that a task starts from, for `write_state`."""
    found = {}
    for section in sections_of(flow, task):
        rows = tables.get(section.table.name)
        if rows is not None:
            found[section.name] = _of_shard(rows, section.table, task.shard, shards) if task.keyed else rows
    return found


def _of_shard(rows: pa.Table, schema: TableSchema, shard: int, shards: int) -> pa.Table:
    keys = [rows[name].cast(type_.arrow) for name, type_ in zip(schema.key_columns, schema.key, strict=True)]
    return rows.filter(pa.array(shards_of(keys, shards) == shard))


def write_state(path: Path, tables: Mapping[str, pa.Table]) -> None:
    """Durable when it returns. The file must be new."""
    with disk("write", path):
        TableFile(path, Kind.SHARD, _STORE, 0).write({}, tables, "shard.half")
        sync_directory(path.parent)


def read_state(path: Path) -> Iterator[tuple[str, pa.Table]]:
    """(section, rows), a section perhaps in several parts. Damage is an error where it is met, perhaps not at once."""
    try:
        yield from TableFile(path, Kind.SHARD, _STORE, 0).read()
    except FileNotFoundError:
        raise CorruptError(f"{path} is missing; it holds the state of an epoch\n  {REMEDY}") from None


class TaskState:
    """The tables of a task: those of each of its stages for themselves, because variants share names."""

    def __init__(self, flow: Dataflow, task: WaveTask) -> None:
        self.sections = sections_of(flow, task)
        self.of_stage = {n: State({t.name: t for t in flow.stages[n].program.tables}) for n in task.stages}

    def load(self, path: Path) -> None:
        known = {section.name: section for section in self.sections}
        for name, rows in read_state(path):
            if name not in known:
                raise CorruptError(f"{path} holds table {name}, which is another task's\n  {REMEDY}")
            self._table(known[name]).apply(rows)

    def rows(self) -> dict[str, pa.Table]:
        """All rows, in the order in which keys first came: nobody needs them sorted until the end."""
        found = {}
        for section in self.sections:
            table = self._table(section)
            alive = np.flatnonzero(table.rows["_alive"][: table.index.count])
            found[section.name] = table.delta(alive).select(section.table.arrow.names)
        return found

    def _table(self, section: Section) -> TableState:
        return self.of_stage[section.stage].tables[section.table.name]
