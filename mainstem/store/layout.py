"""Where things are in a store's directory.

    FORMAT                        format version, store id, table schemas
    LOCK                          held by the writer (flock); its pid, and the last epoch that it has synced
    log/<first epoch>.wal         commits, 20 digits in the name
    snapshots/<epoch>.snap        the whole state after a commit
    snapshots/<since>-<epoch>.inc   what changed after one commit up to another
    shards/<shard>/<name>.shard   parts of the state, written by parallel tasks
    carried/.<name>.staged        events of several live inputs that wait for each other

Anything else in the directory is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_NUMBERED = re.compile(r"(\d{20})\.(wal|snap)")
_INCREMENT = re.compile(r"(\d{20})-(\d{20})\.inc")


@dataclass(frozen=True)
class Layout:
    path: Path

    @property
    def format(self) -> Path:
        return self.path / "FORMAT"

    @property
    def lock(self) -> Path:
        return self.path / "LOCK"

    @property
    def log(self) -> Path:
        return self.path / "log"

    @property
    def snapshots(self) -> Path:
        return self.path / "snapshots"

    @property
    def shards(self) -> Path:
        return self.path / "shards"

    @property
    def carried(self) -> Path:
        return self.path / "carried"

    def segment(self, first: int) -> Path:
        return self.log / f"{first:020d}.wal"

    def snapshot(self, epoch: int) -> Path:
        return self.snapshots / f"{epoch:020d}.snap"

    def increment(self, since: int, epoch: int) -> Path:
        return self.snapshots / f"{since:020d}-{epoch:020d}.inc"

    def shard_file(self, shard: int, name: str) -> Path:
        return self.shards / str(shard) / name

    def segment_epochs(self) -> list[int]:
        """First epochs of the log's segments, ascending."""
        return sorted(_numbers(self.log, "wal"))

    def snapshot_epochs(self) -> list[int]:
        """Epochs of the snapshots, ascending."""
        return sorted(_numbers(self.snapshots, "snap"))

    def increment_epochs(self) -> list[tuple[int, int]]:
        """(since, epoch) of the increments, ascending."""
        if not self.snapshots.is_dir():
            return []
        matches = (_INCREMENT.fullmatch(entry.name) for entry in self.snapshots.iterdir())
        return sorted((int(match[1]), int(match[2])) for match in matches if match)

    def listing(self) -> tuple[list[int], list[int]]:
        """Changes whenever the writer rotates, snapshots or drops something."""
        return self.segment_epochs(), self.snapshot_epochs()


def _numbers(folder: Path, suffix: str) -> Iterator[int]:
    if not folder.is_dir():
        return
    for entry in folder.iterdir():
        match = _NUMBERED.fullmatch(entry.name)
        if match and match[2] == suffix:
            yield int(match[1])
