"""The format file: which Mainstem format, which store, which tables. Replaced as a whole when tables are taken in."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import pyarrow as pa

from mainstem.errors import CorruptError, StoreError
from mainstem.schema import TableSchema
from mainstem.store import crash, frame, payload
from mainstem.store.disk import make_directory, store_error, sync, sync_directory, write_all
from mainstem.store.layout import Layout
from mainstem.store.schemas import UnknownColumn, completed, merged, schema_from_json, schema_to_json


@dataclass(frozen=True)
class Format:
    store: int  # random; every record of the directory carries it
    schemas: tuple[TableSchema, ...]  # a field that was taken in later has the default that older rows are filled with
    version: int  # that the directory was written in at first, or since tables were last taken in

    def schema(self, name: str) -> TableSchema | None:
        return self._by_name.get(name)

    def tables(self, parts: Iterable[tuple[str, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
        """(table name, rows) as files hold them, with the columns that the tables have today."""
        for name, rows in parts:
            schema = self.schema(name)
            if schema is None:
                raise UnknownColumn(f"rows of table {name}, which the format file does not name\n  {frame.REMEDY}")
            yield name, completed(schema, rows)

    @cached_property
    def _by_name(self) -> dict[str, TableSchema]:
        return {schema.name: schema for schema in self.schemas}


def read_format(layout: Layout) -> Format:
    """The format file of a directory that must be a store."""
    try:
        fd = os.open(layout.format, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        raise _not_a_store(layout) from None
    except OSError as error:
        raise store_error("open", layout.format, error) from error
    try:
        record = frame.read(fd, layout.format, 0)
        if record is None or record.kind != frame.Kind.FORMAT or record.end != os.fstat(fd).st_size:
            raise CorruptError(f"{layout.format} is not a whole format file\n  {frame.REMEDY}")
    finally:
        os.close(fd)
    head = payload.decode(record.payload, str(layout.format)).head
    return Format(record.store, tuple(schema_from_json(table) for table in head["schemas"]), head["format"])


def create_format(layout: Layout, schemas: Iterable[TableSchema]) -> Format:
    """Make a directory a store. The format file comes last: without it the directory is not one.

    The caller syncs the directory before anything is committed.
    """
    if has_commits(layout):
        raise CorruptError(f"{layout.format} is missing, but the directory holds data\n  {frame.REMEDY}")
    for folder in (layout.log, layout.snapshots, layout.shards):
        make_directory(folder)
    layout.segment(1).touch()
    sync_directory(layout.log)
    crash.reach("create.layout")
    store = int.from_bytes(os.urandom(8), "little")
    made = Format(store, merged(layout.path, (), schemas), frame.FORMAT_VERSION)
    _write(layout, made, "create")
    return made


def evolved(layout: Layout, stored: Format, given: Iterable[TableSchema]) -> Format:
    """What the format file has to say before a program with these tables may write; refuses what can't be taken in."""
    return replace(stored, schemas=merged(layout.path, stored.schemas, given), version=frame.FORMAT_VERSION)


def replace_format(layout: Layout, made: Format) -> None:
    """Take in tables and fields, and the present format version: all at once, durable when this returns."""
    _write(layout, made, "evolve")
    sync_directory(layout.path)


def _write(layout: Layout, made: Format, step: str) -> None:
    """The file under its name; a reader finds the old one or the new one. It lasts once the directory is synced."""
    head = {"format": made.version, "schemas": [schema_to_json(schema) for schema in made.schemas]}
    temporary = layout.path / ".FORMAT.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(fd, frame.encode(frame.Kind.FORMAT, made.store, 0, payload.encode(head)))
        sync(fd)
    finally:
        os.close(fd)
    crash.reach(f"{step}.format")
    temporary.rename(layout.format)
    crash.reach(f"{step}.renamed")


def _not_a_store(layout: Layout) -> StoreError:
    if layout.path.is_dir() and has_commits(layout):
        return CorruptError(f"{layout.format} is missing, but the directory holds data\n  {frame.REMEDY}")
    what = "has no file FORMAT" if layout.path.is_dir() else "is a file" if layout.path.exists() else "does not exist"
    return StoreError(
        f"{layout.path} is not a Mainstem directory: it {what}\n"
        "  give the directory that was passed as `state=` to app.run or app.stream"
    )


def has_commits(layout: Layout) -> bool:
    """Whether a directory is, or without a format file once was, more than a new store, which has an empty segment."""
    return bool(layout.snapshot_epochs()) or any(layout.segment(n).stat().st_size for n in layout.segment_epochs())
