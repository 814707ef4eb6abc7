"""`spark.read.format("mainstem")`: tables of a store as DataFrames.

The plan pins one commit, and every task reads that one, whatever is committed meanwhile. A task reads the files itself
and keeps the rows whose keys fall to it, so building the table, most of the work, is spread over the cores.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, MutableMapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

from mainstem.errors import QueryError
from mainstem.query.asof import Version, find_version, rows_of
from mainstem.query.load import beside_a_writer
from mainstem.replay.sharding import shards_of
from mainstem.schema import TableSchema
from mainstem.spark.sources import local_path
from mainstem.state import State
from mainstem.store.format import read_format
from mainstem.store.layout import Layout

NAME = "mainstem"
OPTIONS = ("path", "table", "as_of_batch", "as_of_ts", "partitions")
PARTITION_BYTES = 8 << 20  # of files: below, a second task costs more than it saves
ROWS_PER_BATCH = 65_536


class MainstemSource(DataSource):
    """Options: `path`, `table`, and if wanted `as_of_batch` or `as_of_ts`, and `partitions`."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Called by `load()`: the version is that of this moment, for every action on the DataFrame."""
        super().__init__(options)
        self._layout, self._table = self._find_table()
        batch, ts = self._number("as_of_batch"), self._number("as_of_ts")
        self._epoch = beside_a_writer(self._layout, lambda: _find(self._layout, batch, ts)).epoch
        shares = self._number("partitions")
        if shares is not None and shares < 1:
            raise QueryError(f"option 'partitions' is {shares}\n  pass a positive number")
        self._shares = shares or _usual_shares(self._layout)

    def schema(self) -> StructType:
        return _spark_schema(self._table)

    def reader(self, schema: StructType) -> DataSourceReader:
        columns = self._table.arrow.names
        if schema.fieldNames() != columns:
            raise QueryError(
                f"table {self._table.name} has the columns {', '.join(columns)}, not {', '.join(schema.fieldNames())}\n"
                "  leave .schema(…) out and select columns of the DataFrame"
            )
        return TableReader(self._layout, self._table, self._epoch, self._shares)

    def _find_table(self) -> tuple[Layout, TableSchema]:
        for name in self.options:
            if name.lower() not in OPTIONS:
                raise QueryError(f"unknown option {name!r}\n  format mainstem has: {', '.join(OPTIONS)}")
        layout = Layout(Path(local_path(self._needed("path", "the folder of a store"), "option 'path': ")))
        stored, wanted = read_format(layout), self._needed("table", "the name of a table")
        for schema in sorted(stored.schemas, key=lambda schema: schema.name != wanted):
            if schema.name.lower() == wanted.lower():
                return layout, schema
        known = ", ".join(sorted(schema.name for schema in stored.schemas))
        raise QueryError(f"unknown table {wanted}\n  tables of {layout.path}: {known or 'none'}")

    def _needed(self, option: str, what: str) -> str:
        value = self.options.get(option)
        if not value:
            raise QueryError(f'format mainstem needs the option {option!r}\n  add .option("{option}", …): {what}')
        return value

    def _number(self, option: str) -> int | None:
        value = self.options.get(option)
        try:
            return None if value is None else int(value)
        except ValueError:
            raise QueryError(f"option {option!r} is {value!r}\n  pass a whole number") from None


@dataclass
class Share(InputPartition):
    """The rows whose keys fall to one of `shares` tasks."""

    share: int
    shares: int


@dataclass
class TableReader(DataSourceReader):
    layout: Layout
    table: TableSchema
    epoch: int
    shares: int

    def partitions(self) -> Sequence[InputPartition]:
        return [Share(share, self.shares) for share in range(self.shares)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Share)
        rows = beside_a_writer(self.layout, lambda: self._rows_of(partition))
        target = to_arrow_schema(_spark_schema(self.table), timezone="UTC")
        yield from rows.select(self.table.arrow.names).cast(target).to_batches(ROWS_PER_BATCH)

    def _rows_of(self, part: Share) -> pa.Table:
        """All rows of a share, from what the files hold of them; maybe with fields that are newer than the plan."""
        stored, name = read_format(self.layout), self.table.name
        schema = stored.schema(name)
        assert schema is not None  # tables are never taken away
        table = State({name: schema}).tables[name]
        for found, rows in rows_of(self.layout, stored, find_version(self.layout, stored, batch=self.epoch)):
            if found == name:
                mine = shards_of([rows[column] for column in schema.key_columns], part.shares) == part.share
                table.apply(rows.filter(pa.array(mine)))
        return table.export()


def _find(layout: Layout, batch: int | None, ts: int | None) -> Version:
    if batch is not None and ts is not None:
        raise QueryError("options 'as_of_batch' and 'as_of_ts' exclude each other\n  give one of them")
    return find_version(layout, read_format(layout), batch=batch, ts=ts)


def _spark_schema(table: TableSchema) -> StructType:
    fields = [
        pa.field(f.name, pa.list_(f.type.value_type) if pa.types.is_fixed_size_list(f.type) else f.type, f.nullable)
        for f in table.arrow
    ]
    return from_arrow_schema(pa.schema(fields), prefer_timestamp_ntz=True)


def _usual_shares(layout: Layout) -> int:
    """A task per core of this machine, fewer when there is little to do."""
    size = 0
    for folder in (layout.log, layout.snapshots, layout.shards):
        for file in folder.rglob("*"):
            with suppress(FileNotFoundError):  # dropped by the writer meanwhile
                size += file.stat().st_size
    return max(1, min(os.cpu_count() or 1, size // PARTITION_BYTES))
