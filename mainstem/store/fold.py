"""Folding: from many versions of a row to its last one, column by column and mostly without the interpreter lock."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.schema import TableSchema
from mainstem.state import DELETED
from mainstem.store.format import Format
from mainstem.store.layout import Layout
from mainstem.store.log import LogCursor
from mainstem.store.shards import ShardMap, files_from_json
from mainstem.store.snapshot import Base

Parts = Iterable[tuple[str, pa.Table]]


@dataclass(frozen=True)
class Changes:
    """Some commits in a row, as the log holds them."""

    epoch: int  # the last of them
    meta: dict[str, Any]
    shards: ShardMap  # live after it
    parts: list[tuple[str, pa.Table]]
    size: int


def read_changes(
    layout: Layout, stored: Format, base: Base | None, upto: int, bytes_max: int, pause: Callable[[], None]
) -> Changes | None:
    """The commits behind `base` up to an epoch, of about `bytes_max` at most; None without any."""
    shards = ShardMap(base.shards.files if base else None)
    parts: list[tuple[str, pa.Table]] = []
    size, meta = 0, {}
    cursor = LogCursor(layout, stored.store, base.epoch if base else 0)
    first = cursor.epoch
    try:
        while cursor.epoch < upto and size < bytes_max and (commit := next(cursor.read(), None)) is not None:
            parts += commit.content.tables()
            shards.add(files_from_json(commit.content.head["files"]))
            size, meta = size + commit.size, commit.content.head["meta"]
            pause()
        return Changes(cursor.epoch, meta, shards, parts, size) if cursor.epoch > first else None
    finally:
        cursor.close()


def fold(stored: Format, parts: Parts, *, deletes: bool) -> dict[str, pa.Table]:
    """Per table the last version of every row. `deletes`: keep the note that a row was removed, else leave it out."""
    found: dict[str, list[pa.Table]] = {}
    for name, rows in stored.tables(parts):
        found.setdefault(name, []).append(rows)
    folded = {}
    for name, tables in found.items():
        schema = stored.schema(name)
        assert schema is not None
        folded[name] = _last_rows(schema, tables, deletes)
    return folded


def _last_rows(schema: TableSchema, tables: list[pa.Table], deletes: bool) -> pa.Table:
    rows = pa.concat_tables(_with_deleted(schema, table) for table in tables).combine_chunks()
    keys = [str(n) for n in range(len(schema.key_columns))]
    columns = [*(rows[name] for name in schema.key_columns), pa.array(np.arange(rows.num_rows))]
    # One thread: the others belong to whoever runs transactions meanwhile.
    last = pa.table(columns, names=[*keys, "row"]).group_by(keys, use_threads=False).aggregate([("row", "max")])
    rows = rows.take(pa.array(np.sort(last["row_max"].to_numpy())))
    return rows if deletes else rows.filter(pc.invert(rows[DELETED])).drop_columns(DELETED).cast(schema.arrow)


def _with_deleted(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Columns in the table's order; they may hold nulls, as the fields of a removed row do not count."""
    flags = rows[DELETED] if DELETED in rows.column_names else pa.array(np.zeros(rows.num_rows, bool))
    return pa.table([*(rows[name] for name in schema.arrow.names), flags], names=[*schema.arrow.names, DELETED])
