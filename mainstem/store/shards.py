"""Shard files: parts of the state that parallel tasks write by themselves and a commit then names.

A task writes its file without the lock, under a name that no other attempt has. The file means nothing until a commit
records it. The state of a shard is its newest *base* (all rows) and the files after it (changes). A row is kept either
in shard files or in the commits' own deltas, not in both; `partitions.py` moves rows between the two.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError, StoreError
from mainstem.store import crash
from mainstem.store.disk import disk, make_directory, remove, sync_directory
from mainstem.store.format import Format, read_format
from mainstem.store.frame import REMEDY, Kind
from mainstem.store.layout import Layout
from mainstem.store.tablefile import TableFile
from mainstem.store.tables import check_tables

_TOKEN = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]*")


@dataclass(frozen=True)
class ShardFile:
    """One file of one shard; `base` when it holds all of the shard's rows, else the changes since the file before."""

    shard: int
    name: str
    base: bool

    @staticmethod
    def dropped(shard: int) -> ShardFile:
        """What a commit names when a shard is no more: its rows are elsewhere from then on."""
        return ShardFile(shard, "", True)

    @property
    def is_dropped(self) -> bool:
        return not self.name


def write_shard_file(path: str | Path, shard: int, token: str, deltas: Mapping[str, pa.Table], base: bool) -> ShardFile:
    """Write a shard file durably, from any process. `token` shows in the name (epoch, attempt) for people to read."""
    if not _TOKEN.fullmatch(token) or shard < 0:
        raise StoreError(f"shard {shard}, token {token!r}: use a number from 0 and letters, digits, '.', '_' and '-'")
    layout = Layout(Path(path))
    stored = read_format(layout)
    check_tables(stored.schemas, deltas, deletes=not base)
    made = ShardFile(shard, f"{token}.{secrets.token_hex(8)}.shard", base)
    target = layout.shard_file(shard, made.name)
    with disk("write", target):
        crash.reach("shard.start")
        make_directory(target.parent)
        try:
            _table_file(layout, stored, made).write({"shard": shard, "base": base}, deltas, "shard.half")
        except BaseException:
            remove(target)
            raise
        sync_directory(target.parent)
    crash.reach("shard.synced")
    return made


def read_shard_files(path: str | Path, files: Iterable[ShardFile]) -> Iterator[tuple[str, pa.Table]]:
    """(table name, rows) of shard files, in their order. Every file is verified before its first row is given."""
    layout = Layout(Path(path))
    stored = read_format(layout)
    for file in files:
        if file.is_dropped:
            continue
        source = _table_file(layout, stored, file)
        try:
            head = source.verify()
        except FileNotFoundError:
            raise MissingShardFile(
                f"{source.path} is missing; it holds committed rows of shard {file.shard}\n  {REMEDY}"
            ) from None
        if (head["shard"], head["base"]) != (file.shard, file.base):
            raise CorruptError(f"{source.path} is of shard {head['shard']}, not {file.shard}\n  {REMEDY}")
        yield from stored.tables(source.read())


class MissingShardFile(CorruptError):
    """A shard file is gone: damage, or, for a reader beside a writer, a sign that a newer base replaced it."""


class ShardMap:
    """The live shard files: per shard, the newest base and what came after it."""

    def __init__(self, files: Mapping[int, Sequence[ShardFile]] | None = None) -> None:
        self.files: dict[int, list[ShardFile]] = {shard: list(named) for shard, named in (files or {}).items()}

    def add(self, files: Iterable[ShardFile]) -> list[ShardFile]:
        """Take in the files of a commit; returns those that became obsolete."""
        obsolete: list[ShardFile] = []
        for file in files:
            if file.base:
                obsolete += self.files.pop(file.shard, [])
            if not file.is_dropped:
                self.files.setdefault(file.shard, []).append(file)
        return obsolete

    def __iter__(self) -> Iterator[ShardFile]:
        for shard in sorted(self.files):
            yield from self.files[shard]

    def to_json(self) -> list[list[Any]]:
        return files_to_json(self)

    @staticmethod
    def from_json(value: list[list[Any]]) -> ShardMap:
        made = ShardMap()
        for file in files_from_json(value):
            made.files.setdefault(file.shard, []).append(file)
        return made


def files_to_json(files: Iterable[ShardFile]) -> list[list[Any]]:
    return [[file.shard, file.name, file.base] for file in files]


def files_from_json(value: list[list[Any]]) -> list[ShardFile]:
    return [ShardFile(shard, name, base) for shard, name, base in value]


def missing_files(layout: Layout, files: Iterable[ShardFile]) -> list[ShardFile]:
    return [f for f in files if not f.is_dropped and not layout.shard_file(f.shard, f.name).is_file()]


def drop_files(layout: Layout, files: Iterable[ShardFile]) -> None:
    """Remove files that newer bases have replaced."""
    for file in files:
        if remove(layout.shard_file(file.shard, file.name)):
            crash.reach("shard.dropping")


def drop_strangers(layout: Layout, keep: Iterable[ShardFile]) -> None:
    """Remove files that no commit and no kept snapshot names. Only while no task can be writing: when a store opens."""
    kept = {(str(file.shard), file.name) for file in keep}
    for folder in layout.shards.iterdir():
        for entry in folder.glob("*.shard"):
            if (folder.name, entry.name) not in kept and remove(entry):
                crash.reach("shard.dropping")


def _table_file(layout: Layout, stored: Format, file: ShardFile) -> TableFile:
    return TableFile(layout.shard_file(file.shard, file.name), Kind.SHARD, stored.store, 0)
