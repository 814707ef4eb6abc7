"""One version of the tables as files that other programs read: Parquet or CSV, and a manifest that tells what they are.

The folder gets its name when all of it is written and synced, so a folder with that name is complete.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import InputError
from mainstem.query.asof import load_at
from mainstem.query.load import load
from mainstem.query.view import View
from mainstem.state import Digest, digest
from mainstem.store.carried import carried_contents
from mainstem.store.disk import disk, make_directory, sync_directory
from mainstem.store.layout import Layout
from mainstem.store.schemas import schema_to_json
from mainstem.tools.pinned import pinned
from mainstem.tools.text import as_in_csv, write_csv

Form = Literal["parquet", "csv"]
MANIFEST = "manifest.json"
MANIFEST_VERSION = 1
ROWS_AT_ONCE = 1 << 18
"""Rows of a table that are written at a time: large enough for Parquet, small beside the table."""

Rows = Callable[[int], None]
"""Is told how many rows were written since it was last told."""


@dataclass(frozen=True)
class Exported:
    """What an export holds; the manifest says the same."""

    path: Path
    epoch: int
    seq: int
    ts: int | None
    digest: str  # of the tables that were exported; of all of them it is the state digest that a run prints
    rows: dict[str, int]
    format: Form


def export(
    path: str | Path, out: str | Path, *, tables: Sequence[str] | None = None, as_of_batch: int | None = None,
    as_of_ts: int | None = None, format: Form = "parquet", progress: Rows | None = None,
) -> Exported:  # fmt: skip
    """Write tables of a directory of durable state to a new folder, all of them as one commit left them.

    `tables`: some of them; all when left out. `as_of_batch`, `as_of_ts`: an earlier version, as in `Database.as_of`.
    The files are called `<Table>.parquet`, so the folder can be given as `--initial` of a new run, too. Events of live
    inputs that wait for each other go along, in `carried/`.
    """
    if format not in get_args(Form):
        raise InputError(f"format={format!r}\n  use one of: {', '.join(get_args(Form))}")
    view, carried = version_of(path, as_of_batch, as_of_ts)
    names = sorted({view.resolve(name) for name in (view.state.tables if tables is None else tables)})
    with new_folder(out) as folder:
        told, whole = {}, Digest()
        for name in names:
            rows = view.state.tables[name].export()  # one table at a time
            rows = as_in_csv(rows) if format == "csv" else rows
            file = f"{name}.{format}"
            with disk("write", folder / file):
                _write(folder / file, rows, format, progress)
            told[name] = {"file": file, "rows": rows.num_rows, "digest": digest({name: rows})}
            whole.add(name, rows)
        write_carried(folder, carried)
        made = _exported(Path(out), view, str(whole), told, format)
        _write_manifest(folder, view, made, told)
    return made


def version_of(path: str | Path, batch: int | None, ts: int | None) -> tuple[View, dict[str, pa.Buffer]]:
    """The last committed version of a directory, or an earlier one, and its files of events that wait."""
    layout = Layout(Path(path))
    with pinned(layout) as held:
        if batch is not None or ts is not None:
            view = load_at(held, batch=batch, ts=ts)
        else:
            follower, _ = load(held)
            follower.close()
            view = follower.view
        carried = carried_contents(held.carried, view.meta)
    view.layout = layout  # the version is in memory now; this names it in errors
    return view, carried


def write_carried(folder: Path, carried: Mapping[str, pa.Buffer]) -> None:
    """Into a new folder, under the names that its meta tells."""
    target = Layout(folder).carried
    for name, content in carried.items():
        with disk("write", target / name):
            make_directory(target)
            (target / name).write_bytes(content)


@contextmanager
def new_folder(out: str | Path) -> Iterator[Path]:
    """A folder to fill, which gets its name, and becomes durable, when the block ends without an error."""
    final = Path(out)
    if final.is_file() or (final.is_dir() and any(final.iterdir())):
        raise InputError(f"{final} exists and is not empty\n  choose another folder, or remove it first")
    with disk("write", final):
        make_directory(final.absolute().parent)
        hidden = final.absolute().parent / f".{final.name}.{secrets.token_hex(8)}.unfinished"
        hidden.mkdir()
    try:
        yield hidden
        with disk("write", final):
            _sync_tree(hidden)
            hidden.rename(final)
            sync_directory(final.absolute().parent)
    except BaseException:
        shutil.rmtree(hidden, ignore_errors=True)
        raise


def _sync_tree(folder: Path) -> None:
    for entry in sorted(folder.rglob("*"), reverse=True):
        fd = os.open(entry, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
    sync_directory(folder)


def _write(path: Path, rows: pa.Table, form: Form, progress: Rows | None) -> None:
    pieces = (rows.slice(start, ROWS_AT_ONCE) for start in range(0, max(rows.num_rows, 1), ROWS_AT_ONCE))
    if form == "csv":
        write_csv(path, rows.schema, _telling(pieces, progress))
        return
    with pq.ParquetWriter(path, rows.schema, compression="zstd") as writer:
        for piece in _telling(pieces, progress):
            writer.write_table(piece)


def _telling(pieces: Iterator[pa.Table], progress: Rows | None) -> Iterator[pa.Table]:
    for piece in pieces:
        yield piece
        if progress is not None:
            progress(piece.num_rows)


def _exported(out: Path, view: View, whole: str, told: dict[str, Any], form: Form) -> Exported:
    rows = {name: told[name]["rows"] for name in told}
    return Exported(out, view.epoch, int(view.meta.get("seq", 0)), view.meta.get("ts"), whole, rows, form)


def _write_manifest(folder: Path, view: View, made: Exported, told: dict[str, Any]) -> None:
    tables = {name: {**told[name], "schema": schema_to_json(view.state.tables[name].schema)} for name in told}
    facts = {key: value for key, value in asdict(made).items() if key not in ("path", "rows")}
    content = {"manifest": MANIFEST_VERSION, **facts, "meta": view.meta, "tables": tables}
    with disk("write", folder / MANIFEST):
        (folder / MANIFEST).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")
