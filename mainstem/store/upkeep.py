"""What goes on beside commits: snapshots in the background, and removing files that nothing needs any more."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from mainstem.store.background import Snapshotter
from mainstem.store.compact import Compactor
from mainstem.store.format import Format
from mainstem.store.layout import Layout
from mainstem.store.recovery import Recovered
from mainstem.store.shards import ShardFile, ShardMap, drop_files, drop_strangers
from mainstem.store.snapshot import Base


class Upkeep:
    """Owns every file of the directory but the log's last segment. May be used from several threads."""

    def __init__(self, layout: Layout, stored: Format, found: Recovered, keep: int) -> None:
        self._layout = layout
        self._snapshotter = Snapshotter(self._fold_sealed)
        pause = self._snapshotter.pause
        self._compactor = Compactor(layout, stored, found.snapshots, found.increments, keep, pause)
        self._folding = threading.Lock()  # held while snapshots and increments change
        self._sealed = 0
        self._problems: deque[str] = deque()  # which threads may fill and empty at once
        self._dropping = threading.Lock()  # guards what follows
        self._shards = ShardMap(found.shards.files)  # named by commits that are durable
        self._obsolete: list[ShardFile] = []  # replaced, but a kept snapshot still names them

    @contextmanager
    def reading(self) -> Iterator[Base | None]:
        """Where reading begins; the files stay while the block runs."""
        with self._folding:
            yield self._compactor.base

    def clean(self) -> None:
        """When a store opens, before anybody writes: remove what a killed process has left."""
        self._compactor.trim()
        drop_strangers(self._layout, {*self._shards, *self._compactor.named_files()})

    def fold(self, upto: int) -> None:
        """Make a snapshot of all commits up to an epoch now; they are in sealed segments."""
        with self._folding:
            while self._compactor.fold(upto, whole=True):
                pass
        self._drop_obsolete()

    def sealed(self, upto: int) -> None:
        """Have the background take in the commits up to an epoch, unless that is done; they are in sealed segments."""
        base = self._compactor.base
        if upto > (base.epoch if base else 0):
            self._sealed = upto
            self._snapshotter.wake()

    def committed(self, files: Sequence[ShardFile]) -> None:
        """A commit that names these shard files is durable: what they replace may go."""
        if files:
            with self._dropping:
                self._obsolete += self._shards.add(files)
            self._drop_obsolete()

    def problems(self) -> list[str]:
        """Why snapshots in the background have failed since the last call."""
        found = []
        with suppress(IndexError):
            while True:
                found.append(self._problems.popleft())
        return found

    def close(self) -> None:
        self._snapshotter.close()

    def _fold_sealed(self) -> None:
        """In the background. The writer goes on whatever happens here; the next full segment is the next attempt."""
        try:
            while not self._snapshotter.closing:
                with self._folding:
                    if not self._compactor.fold(self._sealed):
                        break
            self._drop_obsolete()
        except Exception as error:
            self._problems.append(f"a snapshot in the background failed, the log goes on: {error}")

    def _drop_obsolete(self) -> None:
        with self._dropping, suppress(OSError):  # what can't be removed now goes when the store opens next
            named = {*self._shards, *self._compactor.named_files()}
            drop_files(self._layout, [file for file in self._obsolete if file not in named])
            self._obsolete = [file for file in self._obsolete if file in named]
