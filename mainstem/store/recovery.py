"""From the files of a directory to the last committed state: the newest valid snapshot, increments, then the log.

The same rules serve the writer, which then cuts an unfinished record off, and readers, which leave it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError
from mainstem.store.format import Format
from mainstem.store.frame import REMEDY
from mainstem.store.layout import Layout
from mainstem.store.log import Commit, LogCursor
from mainstem.store.outputs import META_KEY, REJECTS_KEY
from mainstem.store.shards import ShardMap, files_from_json, missing_files, read_shard_files
from mainstem.store.snapshot import KEEP, Base, Snapshot, find_increments, find_snapshots

Told = Callable[[int, int], None]
"""Is told how many bytes of files were read, and of how many."""

TAIL_BYTES_MAX = 128 << 20
"""A log that is longer than this behind the last snapshot is read twice, and not kept in memory."""

_APPLY_ROWS = 1 << 16
"""Rows of small commits that are applied together: that takes a fraction of the time."""

SPARE_BYTES_MAX = 32 << 20
"""What is kept for the case of damage is read when a writer opens, up to this size; `mainstem verify` reads all."""


class StoreWarning(UserWarning):
    """Damage that cost nothing, because a second copy was good. The next damage may cost something."""


@dataclass
class Recovered:
    """What the files say. `cursor` stands at the end of the log."""

    snapshots: list[Snapshot]  # valid, newest first
    increments: list[Snapshot]  # on the newest of them
    cursor: LogCursor
    epoch: int
    meta: dict[str, Any]
    shards: ShardMap
    pending: list[dict[str, Any]]  # metas of commits whose outputs may still have their hidden names
    tail: list[Commit] | None  # those behind the base, unless they are too many to keep
    tail_bytes: int = 0
    unsealed: int | None = None  # first epoch of an empty last segment, when the one before it lacks its seal
    warnings: list[str] = field(default_factory=list)

    @property
    def base(self) -> Base | None:
        return Base([self.snapshots[0], *self.increments]) if self.snapshots else None

    def take(self, commit: Commit) -> None:
        head = commit.content.head
        self.epoch, self.meta = commit.epoch, head["meta"]
        self.shards.add(files_from_json(head["files"]))
        if META_KEY in self.meta or REJECTS_KEY in self.meta:
            self.pending.append(self.meta)
        self.tail_bytes += commit.size
        if self.tail is not None:
            self.tail.append(commit)
        if self.tail_bytes > TAIL_BYTES_MAX:
            self.tail = None


def recover(layout: Layout, store: int, *, spares: bool, keep: int = KEEP, told: Told | None = None) -> Recovered:
    """Find the last committed state. `spares`: also read older snapshots and their log, and warn of damage there."""
    newest = _newest(layout)  # before the log is read, as a writer may go on meanwhile
    snapshots, problems = find_snapshots(layout, store, limit=keep if spares else 1)
    increments, more = find_increments(layout, store, snapshots[0].epoch) if snapshots else ([], [])
    problems += more
    try:
        found = _read_log(layout, store, snapshots, increments, newest, told)
    except CorruptError as error:
        raise CorruptError("\n".join([*problems, str(error)])) from None
    missing = missing_files(layout, found.shards)
    if missing:
        paths = ", ".join(str(layout.shard_file(file.shard, file.name)) for file in missing)
        found.cursor.close()
        raise CorruptError(f"committed shard files are missing: {paths}\n  {REMEDY}")
    source = f"{found.base} and the log" if found.base else "the whole log"
    found.warnings += [f"{problem}; not needed: the state comes from {source}" for problem in problems]
    if spares and found.base is not None:
        found.warnings += _check_spare_log(layout, store, found)
    return found


def replay(
    layout: Layout, stored: Format, base: Base | None, shards: ShardMap, upto: int, tail: list[Commit] | None = None
) -> Iterator[tuple[str, pa.Table]]:
    """(table name, rows) that make up the state after epoch `upto`, to be applied in order; whole rows of today.

    `tail`: the commits behind `base` up to there, when somebody has read them already. Shard files come last: when a
    table moves into them, the commit that names them also takes its rows out of the log.
    """
    if base is not None:
        yield from stored.tables(base.read())
    commits = _read_commits(layout, stored.store, base.epoch if base else 0, upto) if tail is None else tail
    yield from _together(stored.tables(chain.from_iterable(commit.content.tables() for commit in commits)))
    yield from read_shard_files(layout.path, shards)


def _read_commits(layout: Layout, store: int, after: int, upto: int) -> Iterator[Commit]:
    cursor = LogCursor(layout, store, after)
    try:
        while cursor.epoch < upto and (commit := next(cursor.read(), None)) is not None:
            yield commit
    finally:
        cursor.close()


def _together(parts: Iterable[tuple[str, pa.Table]]) -> Iterator[tuple[str, pa.Table]]:
    """The same rows in fewer, larger tables. Rows of one table keep their order, and others do not matter to them."""
    waiting: dict[str, list[pa.Table]] = {}
    counts: dict[str, int] = {}
    for name, rows in parts:
        held = waiting.setdefault(name, [])
        if held and (held[0].schema != rows.schema or counts[name] >= _APPLY_ROWS):
            yield name, pa.concat_tables(held)
            held.clear()
        counts[name] = rows.num_rows + (counts[name] if held else 0)
        held.append(rows)
    for name, held in waiting.items():
        yield name, pa.concat_tables(held)


def _newest(layout: Layout) -> int:
    """The last epoch that a snapshot or increment is named by, valid or not."""
    return max([0, *layout.snapshot_epochs(), *(epoch for _, epoch in layout.increment_epochs())])


def _read_log(
    layout: Layout, store: int, snapshots: list[Snapshot], increments: list[Snapshot], newest: int, told: Told | None
) -> Recovered:
    base = Base([snapshots[0], *increments]) if snapshots else None
    cursor = LogCursor(layout, store, base.epoch if base else 0)
    try:
        meta = base.meta if base else {}
        shards = ShardMap(base.shards.files if base else None)
        found = Recovered(snapshots, increments, cursor, cursor.epoch, meta, shards, [meta] if meta else [], [])
        read = base.size if base else 0
        total = read + _log_bytes(layout, cursor)
        while True:
            following, place = _following(layout, cursor), (cursor.first, cursor.offset)
            segment = cursor.first
            for commit in cursor.read():
                if cursor.first != segment:  # the one before was sealed after its outputs were published
                    segment, found.pending = cursor.first, []
                found.take(commit)
                if told is not None:
                    told(read := read + commit.size, total)
            if place == (cursor.first, cursor.offset):
                break  # what was listed before a read that found nothing new, can't have come from a rotation meanwhile
        _check_reach(cursor, newest)
        found.unsealed = _unfinished_rotation(layout, cursor, following)
        return found
    except BaseException:
        cursor.close()
        raise


def _log_bytes(layout: Layout, cursor: LogCursor) -> int:
    """Of the cursor's segment and those after it: about what it will read."""
    return sum(layout.segment(first).stat().st_size for first in (cursor.first, *cursor.following()))


def _check_reach(cursor: LogCursor, newest: int) -> None:
    """A snapshot or increment is of a state that the log has reached. A log that ends before was cut afterwards."""
    if cursor.last < newest:
        raise CorruptError(
            f"{cursor.path} ends at epoch {cursor.last}, but there is a snapshot of epoch {newest}\n  {REMEDY}\n"
            f"  lost: commits after epoch {cursor.last} that are not in a valid snapshot"
        )


def _following(layout: Layout, cursor: LogCursor) -> list[tuple[int, int]]:
    """First epoch and size of the segments after the cursor's."""
    return [(first, layout.segment(first).stat().st_size) for first in cursor.following()]


def _unfinished_rotation(layout: Layout, cursor: LogCursor, following: list[tuple[int, int]]) -> int | None:
    """The log may end before its last segment in one way only: that one is new and empty, the seal is not written."""
    if not following:
        return None
    first = following[0][0]
    if following == [(cursor.last + 1, 0)]:
        return first
    lost = f"epochs {cursor.last + 1} to {first - 1}" if first > cursor.last + 1 else "the seal, no commit"
    raise CorruptError(
        f"{cursor.path} ends at byte {cursor.offset} without a seal, but {layout.segment(first)} follows\n  {REMEDY}\n"
        f"  lost: {lost}"
    )


def _check_spare_log(layout: Layout, store: int, found: Recovered) -> list[str]:
    """Read the log that only a damaged snapshot or increment would make necessary, when it is not long."""
    base = found.base
    assert base is not None
    # It reaches back to the oldest snapshot at least; how much further, depends on what was kept before.
    start = min(found.snapshots[-1].epoch, *(first - 1 for first in layout.segment_epochs()))
    cursor = None
    try:
        cursor = LogCursor(layout, store, start)
        if _log_bytes(layout, cursor) > SPARE_BYTES_MAX:
            return []
        for commit in cursor.read():
            if commit.epoch > base.epoch:  # and not before: the seal of the last spare segment is read too
                break
    except CorruptError as error:
        return [f"{str(error).splitlines()[0]}; not needed: the state comes from {base}"]
    finally:
        if cursor is not None:
            cursor.close()
    return []
