"""Which snapshots and increments a directory has, how new ones are made from files alone, and what may go then.

    log segments  --fold-->  increment  --fold with its like-->  larger increment  --fold with all-->  snapshot

A new increment takes in those before it that are not much larger. So there are few of them, each twice as large as
the next one. When increments together are as large as the snapshot below, or the log several times that, all become a
new snapshot. So a row that has changed is written again a few times at most, and a large state is not written for a
few changed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import pyarrow as pa

from mainstem.store import crash
from mainstem.store.disk import remove
from mainstem.store.fold import Changes, Parts, fold, read_changes
from mainstem.store.format import Format
from mainstem.store.layout import Layout
from mainstem.store.log import drop_segments
from mainstem.store.shards import ShardFile
from mainstem.store.snapshot import Base, Snapshot, write_snapshot

LOG_PER_SNAPSHOT = 4  # the log since the newest snapshot may be so many times as large: it bounds the disk
MERGE_RATIO = 2  # an increment that is larger by this factor than what comes after it stays as it is
FOLD_BYTES_MAX = 256 << 20  # of the log in memory at once


class Compactor:
    """The files beside the log. One thread at a time changes them."""

    def __init__(
        self, layout: Layout, stored: Format, snapshots: Sequence[Snapshot], increments: Sequence[Snapshot], keep: int,
        pause: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        """`snapshots`: valid ones, newest first; `increments`: those that follow the first of them. `pause` is called
        often, to slow the work down."""
        self.layout, self.stored, self.keep, self.pause = layout, stored, keep, pause
        self.snapshots, self.increments = tuple(snapshots), tuple(increments)
        self._made = False  # a snapshot

    @property
    def base(self) -> Base | None:
        return Base([self.snapshots[0], *self.increments]) if self.snapshots else None

    def named_files(self) -> Iterator[ShardFile]:
        """Shard files that a kept snapshot needs."""
        for snapshot in (*self.snapshots, *self.increments):
            yield from snapshot.shards

    def fold(self, upto: int, *, whole: bool = False) -> bool:
        """Take commits up to an epoch into an increment or a snapshot (`whole`: a snapshot); whether there were any.

        The commits are in sealed segments, and their outputs are published: nobody will need the log for that.
        """
        base = self.base
        changes = read_changes(self.layout, self.stored, base, upto, FOLD_BYTES_MAX, self.pause)
        if changes is None and not (whole and self.increments):
            return False
        if base is None or whole or self._snapshot_due(changes):
            self._write_snapshot(base, changes)
        else:
            assert changes is not None
            self._write_increment(changes)
        self.trim()
        return True

    def trim(self) -> None:
        """Remove what interrupted writes have left, and all that the kept snapshots make superfluous.

        Damaged snapshots stay, as evidence and for the next warning, until a new one makes up for them. While there
        are fewer valid ones than should be kept, all of the log stays.
        """
        for temporary in self.layout.snapshots.glob("*.tmp"):
            remove(temporary)
        for since, epoch in self.layout.increment_epochs():
            if self._is_covered(since, epoch) and remove(self.layout.increment(since, epoch)):
                crash.reach("trim.increment")
        if len(self.snapshots) < self.keep:
            return
        valid, oldest = {snapshot.epoch for snapshot in self.snapshots}, self.snapshots[-1].epoch
        for epoch in self.layout.snapshot_epochs():
            if (epoch < oldest or (self._made and epoch not in valid)) and remove(self.layout.snapshot(epoch)):
                crash.reach("trim.snapshot")
        drop_segments(self.layout, oldest)

    def _is_covered(self, since: int, epoch: int) -> bool:
        """Whether a snapshot or a larger increment says all that an increment does."""
        if self.snapshots and epoch <= self.snapshots[0].epoch:
            return True
        return any(
            kept.since <= since and epoch <= kept.epoch and (kept.since, kept.epoch) != (since, epoch)
            for kept in self.increments
        )

    def _snapshot_due(self, changes: Changes | None) -> bool:
        newest = self.snapshots[0]
        added = sum(increment.size for increment in self.increments) + (changes.size if changes else 0)
        if added >= newest.size:
            return True
        segments = [first for first in self.layout.segment_epochs() if first > newest.epoch]
        log = sum(self.layout.segment(first).stat().st_size for first in segments)
        return log >= LOG_PER_SNAPSHOT * newest.size

    def _write_snapshot(self, base: Base | None, changes: Changes | None) -> None:
        top = changes or base
        assert top is not None
        parts = chain(base.read() if base else (), changes.parts if changes else ())
        made = self._write(0, top, fold(self.stored, self._paused(parts), deletes=False))
        self.snapshots, self.increments, self._made = (made, *self.snapshots)[: self.keep], (), True

    def _write_increment(self, changes: Changes) -> None:
        kept = list(self.increments)
        taken: list[Snapshot] = []
        size = changes.size
        while kept and kept[-1].size <= MERGE_RATIO * size:
            taken.insert(0, kept.pop())
            size += taken[0].size
        below = kept[-1].epoch if kept else self.snapshots[0].epoch
        parts = chain(chain.from_iterable(increment.read() for increment in taken), changes.parts)
        made = self._write(below, changes, fold(self.stored, self._paused(parts), deletes=True))
        self.increments = (*kept, made)

    def _write(self, since: int, top: Changes | Base, tables: dict[str, pa.Table]) -> Snapshot:
        self.pause()
        return write_snapshot(self.layout, self.stored.store, since, top.epoch, top.meta, top.shards, tables)

    def _paused(self, parts: Parts) -> Parts:
        for part in parts:
            yield part
            self.pause()
