"""A new directory of durable state from an export, or from an earlier version of another directory.

Never in place: what is there stays as it is. A program goes on from the restored directory as it would have gone on
from the other one at that moment: rows, number of events, last timestamp and the batches of live queries are the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import CorruptError, InputError, MainstemError
from mainstem.schema import TableSchema
from mainstem.state import State, digest
from mainstem.store.carried import carried_contents, carried_files
from mainstem.store.layout import Layout
from mainstem.store.outputs import EMITTED_KEY, META_KEY, REJECTS_KEY
from mainstem.store.partitions import SHARDS
from mainstem.store.schemas import schema_from_json
from mainstem.store.store import Store
from mainstem.tools.exporting import MANIFEST, MANIFEST_VERSION, new_folder, version_of, write_carried
from mainstem.tools.text import read_csv

_OF_THE_OTHER = (META_KEY, REJECTS_KEY, EMITTED_KEY, SHARDS)
"""What a commit says about files that are not taken along: outputs on their way, and where the rows were."""


_DAMAGES = (ValueError, KeyError, TypeError, AttributeError, IndexError)
"""What reading JSON of another form than ours may raise."""


@dataclass(frozen=True)
class Restored:
    """What a new directory was made from."""

    path: Path
    source: Path
    epoch: int  # of the source
    seq: int
    ts: int | None
    digest: str  # of all tables, as `Result.digest` counts
    rows: dict[str, int]


@dataclass(frozen=True)
class _Version:
    epoch: int
    meta: Mapping[str, Any]
    schemas: tuple[TableSchema, ...]
    tables: Mapping[str, pa.Table]
    carried: Mapping[str, pa.Buffer]  # files with events that wait


def restore(
    source: str | Path, target: str | Path, *, as_of_batch: int | None = None, as_of_ts: int | None = None
) -> Restored:
    """Make `target`, which must not exist or be empty, from an export or from a directory of durable state.

    `as_of_batch`, `as_of_ts`: which version of a directory; an export is one version.
    """
    folder = Path(source)
    if (folder / MANIFEST).is_file():
        if as_of_batch is not None or as_of_ts is not None:
            raise InputError(f"{folder} is an export of one version\n  leave out the batch and the ts")
        version = _from_export(folder)
    else:
        version = _from_directory(folder, as_of_batch, as_of_ts)
    meta = {key: value for key, value in version.meta.items() if key not in _OF_THE_OTHER}
    with new_folder(target) as made:
        write_carried(made, version.carried)
        with Store.open(made, version.schemas) as store:
            if version.epoch:
                store.commit(version.tables, {"seq": 0, "ts": None, **meta})
        Layout(made).lock.unlink()
    rows = {name: table.num_rows for name, table in version.tables.items()}
    found = digest(dict(version.tables))
    return Restored(Path(target), folder, version.epoch, int(meta.get("seq", 0)), meta.get("ts"), found, rows)


def _from_directory(folder: Path, batch: int | None, ts: int | None) -> _Version:
    if not Layout(folder).format.exists() and folder.is_dir() and any(folder.glob("*.parquet")):
        raise InputError(
            f"{folder} has files of tables but no {MANIFEST}\n"
            "  restore takes what `mainstem export` wrote; tables of your own go into a new run with --initial"
        )
    view, carried = version_of(folder, batch, ts)
    return _Version(view.epoch, view.meta, view.stored.schemas, view.state.export(), carried)


def _from_export(folder: Path) -> _Version:
    told = _manifest(folder)
    try:
        schemas = {name: _schema(name, facts) for name, facts in told["tables"].items()}
        _check_types(told)
        carried = carried_contents(Layout(folder).carried, told["meta"])
    except _DAMAGES as error:
        raise _unreadable(folder / MANIFEST, error) from error
    tables = {}
    for name, facts in told["tables"].items():
        tables[name] = _rows(folder / facts["file"], schemas[name])
        found = digest({name: tables[name]})
        if found != facts["digest"]:
            raise CorruptError(
                f"{folder / facts['file']} does not hold the rows that were exported: its digest is {found}, "
                f"the manifest says {facts['digest']}\n"
                "  take an unchanged copy; changed tables go into a new run with --initial"
            )
    if digest(tables) != told["digest"]:
        raise CorruptError(f"{folder / MANIFEST} does not fit to its files\n  take an unchanged copy")
    return _Version(told["epoch"], told["meta"], tuple(schemas.values()), tables, carried)


def _manifest(folder: Path) -> dict[str, Any]:
    path = folder / MANIFEST
    try:
        told = json.loads(path.read_text())
        version = told["manifest"]
        _check(int, version, "manifest")
    except (*_DAMAGES, OSError) as error:
        raise _unreadable(path, error) from error
    if version > MANIFEST_VERSION:
        raise InputError(
            f"{path} is of version {version}, this Mainstem reads {MANIFEST_VERSION}\n  install a newer mainstem"
        )
    return told


def _schema(name: str, facts: Mapping[str, Any]) -> TableSchema:
    schema = schema_from_json(facts["schema"])
    if schema.name != name or not schema.arrow.names:
        raise ValueError(f"the schema of table {name} is that of {schema.name}")
    _check_name(facts["file"], f"the file of table {name}")
    _check(str, facts["digest"], "digest")
    return schema


def _check_types(told: Mapping[str, Any]) -> None:
    _check(int, told["epoch"], "epoch")
    _check(str, told["digest"], "digest")
    meta = told["meta"]
    _check(dict, meta, "meta")
    _check(int, meta.get("seq", 0), "seq")
    _check((int, type(None)), meta.get("ts"), "ts")
    for file in carried_files(meta):
        _check_name(file["name"], "a file of events that wait")


def _check_name(name: Any, what: str) -> None:
    """A name only: what a manifest tells is read and written inside of the folders that were given."""
    _check(str, name, "file")
    if Path(name).name != name:
        raise ValueError(f"{what} is {name!r}, not a name in the export")


def _check(kind: type | tuple[type, ...], value: Any, what: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise TypeError(f"{what} is {value!r}")


def _unreadable(path: Path, error: Exception) -> CorruptError:
    lines = str(error).splitlines() or [type(error).__name__]
    what = f"{lines[0]} is missing" if isinstance(error, KeyError) else lines[0]
    return CorruptError(f"{path} can't be read: {what}\n  take an unchanged copy of the export")


def _rows(path: Path, schema: TableSchema) -> pa.Table:
    """The rows of one file, sorted by key as any table is."""
    state = State({schema.name: schema})
    try:
        rows = read_csv(path, schema.arrow) if path.suffix == ".csv" else pq.read_table(path)
        state.apply(schema.name, rows)
    except (pa.ArrowException, OSError, MainstemError, *_DAMAGES) as error:
        raise _unreadable(path, error) from error
    return state.tables[schema.name].export()
