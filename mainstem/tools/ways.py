"""All ways from the files to the last state: they must lead to the same one.

A directory keeps more than it needs: snapshots, increments on the newest, and the log since the oldest. Every snapshot
with the log after it, every chain of increments with the log after it, and the whole log where it is still there, is a
way of its own to the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass

from mainstem.errors import CorruptError
from mainstem.state import State, digest
from mainstem.store.format import Format
from mainstem.store.layout import Layout
from mainstem.store.log import LogCursor
from mainstem.store.recovery import replay
from mainstem.store.shards import ShardMap, files_from_json
from mainstem.store.snapshot import Base
from mainstem.tools.files import Files, Meter


@dataclass(frozen=True)
class Way:
    """One way to the last state. `epoch` is where it ends; `error` says why it ends too early, else it is empty.

    `digest` is that of the state where it ends, and empty when that can't be built.
    """

    start: str
    epoch: int
    digest: str
    rows: int
    seconds: float
    error: str


def bases(files: Files) -> Iterator[Base | None]:
    """Where a way can begin, the oldest first."""
    first = min(files.layout.segment_epochs(), default=1)
    if first == 1:
        yield None
    for snapshot in files.snapshots:
        if snapshot.epoch + 1 >= first:
            yield Base([snapshot])
    if files.snapshots:
        yield from _chains(files, Base([files.snapshots[-1]]))


def _chains(files: Files, below: Base) -> Iterator[Base]:
    """Increments one after the other, the longest that fits each time."""
    fitting = [increment for increment in files.increments if increment.since == below.epoch]
    if fitting:
        longer = Base([*below.files, max(fitting, key=lambda increment: increment.epoch)])
        yield longer
        yield from _chains(files, longer)


def walk(layout: Layout, stored: Format, base: Base | None, upto: int, meter: Meter) -> Way:
    """Build the state after epoch `upto`, or as close to it as the log leads, and take its digest."""
    begun = time.perf_counter()
    start = str(base) if base else "the whole log"
    reached, shards, error = _read_log(layout, stored, base, upto)
    state = State({schema.name: schema for schema in stored.schemas})
    try:
        for name, rows in replay(layout, stored, base, shards, reached):
            state.apply(name, rows)
            meter.add(rows.nbytes)
    except CorruptError as damage:
        return Way(start, reached, "", 0, time.perf_counter() - begun, error or _first_line(damage))
    count = sum(len(table) for table in state.tables.values())
    return Way(start, reached, digest(state.export()), count, time.perf_counter() - begun, error)


def _read_log(layout: Layout, stored: Format, base: Base | None, upto: int) -> tuple[int, ShardMap, str]:
    """How far the log behind `base` leads, the shard files that are live there, and why it leads no further."""
    shards = ShardMap(base.shards.files if base else None)
    reached = base.epoch if base else 0
    cursor = None
    try:
        cursor = LogCursor(layout, stored.store, reached)
        while reached < upto and (commit := next(cursor.read(), None)) is not None:
            reached = commit.epoch
            shards.add(files_from_json(commit.content.head["files"]))
        return reached, shards, "" if reached == upto else f"{cursor.path} ends at epoch {reached}"
    except CorruptError as error:
        return reached, shards, _first_line(error)
    finally:
        if cursor is not None:
            cursor.close()


def _first_line(error: CorruptError) -> str:
    return str(error).splitlines()[0]
