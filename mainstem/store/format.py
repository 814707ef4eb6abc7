"""The format file: which Mainstem format, which store, which tables. Written once, then only read."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mainstem.errors import CorruptError, StoreError
from mainstem.schema import Field, TableSchema, Type
from mainstem.store import crash, frame, payload
from mainstem.store.disk import make_directory, store_error, sync, sync_directory, write_all
from mainstem.store.layout import Layout


@dataclass(frozen=True)
class Format:
    store: int  # random; every record of the directory carries it
    schemas: tuple[TableSchema, ...]

    def schema(self, name: str) -> TableSchema | None:
        return next((s for s in self.schemas if s.name == name), None)


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
    return Format(record.store, tuple(_schema_from_json(table) for table in head["schemas"]))


def create_format(layout: Layout, schemas: Iterable[TableSchema]) -> Format:
    """Make a directory a store. The format file comes last: without it the directory is not one.

    The caller syncs the directory before anything is committed.
    """
    if _has_data(layout):
        raise CorruptError(f"{layout.format} is missing, but the directory holds data\n  {frame.REMEDY}")
    for folder in (layout.log, layout.snapshots, layout.shards):
        make_directory(folder)
    layout.segment(1).touch()
    sync_directory(layout.log)
    crash.reach("create.layout")
    made = Format(int.from_bytes(os.urandom(8), "little"), tuple(schemas))
    head = {"format": frame.FORMAT_VERSION, "schemas": [_schema_to_json(schema) for schema in made.schemas]}
    temporary = layout.path / ".FORMAT.tmp"
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
    try:
        write_all(fd, frame.encode(frame.Kind.FORMAT, made.store, 0, payload.encode(head)))
        sync(fd)
    finally:
        os.close(fd)
    crash.reach("create.format")
    temporary.rename(layout.format)
    crash.reach("create.renamed")
    return made


def check_schemas(path: Path, stored: Format, given: Iterable[TableSchema]) -> None:
    """Refuse a directory that was written by a program with other tables."""
    differences = list(_differences({s.name: s for s in stored.schemas}, {s.name: s for s in given}))
    if differences:
        raise StoreError(
            f"{path} holds the state of a program with other tables:\n    "
            + "\n    ".join(differences)
            + "\n  open it with the program that wrote it, or choose a new directory and replay the input into it"
        )


def _not_a_store(layout: Layout) -> StoreError:
    if layout.path.is_dir() and _has_data(layout):
        return CorruptError(f"{layout.format} is missing, but the directory holds data\n  {frame.REMEDY}")
    what = "has no file FORMAT" if layout.path.is_dir() else "is not a directory"
    return StoreError(
        f"{layout.path} is not a Mainstem directory: it {what}\n"
        "  give the directory that was passed as `state=` to app.run or app.stream"
    )


def _has_data(layout: Layout) -> bool:
    """Whether a directory without a format file was a store once. Creation leaves at most an empty segment behind."""
    return bool(layout.snapshot_epochs()) or any(layout.segment(n).stat().st_size for n in layout.segment_epochs())


def _schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """What the stored rows depend on; defaults and checks belong to the program and may change."""
    return {
        "name": schema.name,
        "key": [t.base for t in schema.key],
        "scalar_key": schema.scalar_key,
        "fields": [[f.name, f.type.base, f.type.length] for f in schema.fields],
    }


def _schema_from_json(value: dict[str, Any]) -> TableSchema:
    fields = tuple(Field(name, Type(base, length=length)) for name, base, length in value["fields"])
    return TableSchema(value["name"], tuple(Type(base) for base in value["key"]), value["scalar_key"], fields)


def _differences(stored: dict[str, TableSchema], given: dict[str, TableSchema]) -> Iterator[str]:
    for name in sorted(stored.keys() - given.keys()):
        yield f"table {name} is in the directory, not in the program"
    for name in sorted(given.keys() - stored.keys()):
        yield f"table {name} is in the program, not in the directory"
    for name in sorted(stored.keys() & given.keys()):
        old, new = stored[name], given[name]
        if (old.key, old.scalar_key) != (new.key, new.scalar_key):
            yield f"table {name}: its key is {_key_text(old)} in the directory, {_key_text(new)} in the program"
        yield from _field_differences(name, old, new)


def _field_differences(table: str, old: TableSchema, new: TableSchema) -> Iterator[str]:
    before, after = {f.name: str(f.type) for f in old.fields}, {f.name: str(f.type) for f in new.fields}
    for name in {**before, **after}:
        if before.get(name) != after.get(name):
            was, now = before.get(name, "missing"), after.get(name, "missing")
            yield f"table {table}: field {name} is {was} in the directory, {now} in the program"


def _key_text(schema: TableSchema) -> str:
    names = ", ".join(str(t) for t in schema.key)
    return names if schema.scalar_key else f"({names})"
