"""Earlier versions: the state after any commit that snapshots and log still reach."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError, QueryError
from mainstem.query.load import beside_a_writer
from mainstem.query.view import View
from mainstem.store.format import Format, read_format
from mainstem.store.layout import Layout
from mainstem.store.log import LogCursor
from mainstem.store.recovery import replay
from mainstem.store.shards import MissingShardFile, ShardMap, files_from_json
from mainstem.store.snapshot import Base, find_increments, load_snapshot


@dataclass(frozen=True)
class Version:
    """What one commit left. `base` and the log up to `epoch` give its rows."""

    base: Base | None
    epoch: int
    meta: dict[str, Any]
    shards: ShardMap  # of this version until the next one is asked for

    @property
    def ts(self) -> int | None:
        return self.meta.get("ts")


def load_at(layout: Layout, *, batch: int | None = None, ts: int | None = None) -> View:
    """The state after commit `batch`, or after the last one whose events are all at or before `ts`."""
    for name, value in (("batch", batch), ("ts", ts)):
        if value is not None and (not isinstance(value, int) or isinstance(value, bool)):
            raise QueryError(f"as_of({name}={value!r})\n  pass a whole number")
    if (batch is None) == (ts is None):
        raise QueryError("as_of takes a batch or a ts\n  write as_of(batch=5) or as_of(ts=1_700_000_000)")
    return beside_a_writer(layout, lambda: _load_once(layout, batch, ts))


def find_version(layout: Layout, stored: Format, *, batch: int | None = None, ts: int | None = None) -> Version:
    """The version that is asked for, else the newest; it is durable. An error names those that are kept."""
    if batch is None:
        batch = _newest(layout, stored) if ts is None else _epoch_at(layout, stored, ts)
    version = _after(layout, stored, batch)
    with closing(LogCursor(layout, stored.store, batch)) as cursor:
        cursor.sync()
    return version


def rows_of(layout: Layout, stored: Format, version: Version) -> Iterator[tuple[str, pa.Table]]:
    """(table name, rows) that make up a version, to be applied in order."""
    try:
        yield from replay(layout, stored, version.base, version.shards, version.epoch)
    except MissingShardFile as error:
        raise QueryError(
            f"{layout.path} can't show epoch {version.epoch} any more: {str(error).splitlines()[0]}\n"
            "  files of a keyed plan are kept until newer ones replace them; ask for a later epoch"
        ) from error


def oldest_epoch(layout: Layout) -> int:
    """The oldest version that can be asked for: where the log begins, or the first snapshot that it goes on from."""
    first = min(layout.segment_epochs(), default=1)
    return 0 if first == 1 else min((epoch for epoch in layout.snapshot_epochs() if epoch + 1 >= first), default=first)


def _load_once(layout: Layout, batch: int | None, ts: int | None) -> View:
    stored = read_format(layout)
    version = find_version(layout, stored, batch=batch, ts=ts)
    view = View(layout, stored)
    for name, rows in rows_of(layout, stored, version):
        view.apply(name, rows)
    view.epoch, view.meta, view.shards = version.epoch, version.meta, version.shards
    return view


def _after(layout: Layout, stored: Format, epoch: int) -> Version:
    oldest = oldest_epoch(layout)
    version = None
    if epoch >= oldest:
        for version in _versions(layout, stored, _base(layout, stored, epoch)):
            if version.epoch == epoch:
                return version
    newest = version.epoch if version is not None else _newest(layout, stored)
    raise QueryError(
        f"{layout.path} keeps the versions after epoch {oldest} to {newest}, not {epoch}\n"
        "  ask for one of these; a run with a larger keep= keeps more"
    )


def _epoch_at(layout: Layout, stored: Format, ts: int) -> int:
    """The last epoch whose events are all at or before a time. Times never go back from one commit to the next."""
    versions = _versions(layout, stored, _base(layout, stored, oldest_epoch(layout)))
    first = next(versions)
    if first.ts is not None and first.ts > ts:
        raise QueryError(
            f"{layout.path} keeps no version as old as ts {ts}: the oldest is epoch {first.epoch}, of ts {first.ts}\n"
            "  ask for a later time; a run with a larger keep= keeps more"
        )
    last = first.epoch
    for version in takewhile(lambda version: version.ts is None or version.ts <= ts, versions):
        last = version.epoch
    return last


def _newest(layout: Layout, stored: Format) -> int:
    epoch = 0
    for version in _versions(layout, stored, _base(layout, stored, max(layout.snapshot_epochs(), default=0))):
        epoch = version.epoch
    return epoch


def _base(layout: Layout, stored: Format, epoch: int) -> Base | None:
    """The newest valid snapshot at or before an epoch, with the increments up to there; None: read the whole log."""
    for known in reversed(layout.snapshot_epochs()):
        if known <= epoch:
            try:
                full = load_snapshot(layout, stored.store, known)
            except CorruptError:
                continue  # an older one will do, or the log lacks a segment and says so
            increments, _ = find_increments(layout, stored.store, known)
            return Base([full, *(one for one in increments if one.epoch <= epoch)])
    return None


def _versions(layout: Layout, stored: Format, base: Base | None) -> Iterator[Version]:
    """The version of a base, then that of every commit after it."""
    shards = ShardMap(base.shards.files if base else None)
    yield Version(base, base.epoch if base else 0, base.meta if base else {}, shards)
    with closing(LogCursor(layout, stored.store, base.epoch if base else 0)) as cursor:
        for commit in cursor.read():
            shards.add(files_from_json(commit.content.head["files"]))
            yield Version(base, commit.epoch, commit.content.head["meta"], shards)
