"""A model of a disk: what would be left of a directory if the power failed now.

It keeps, for every file, its content at its last sync, and for every directory its names at its last sync. Names may
also survive without being asked to; contents do not.
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest


class Disk:
    """What has reached the platter below one directory. Syncs cost nothing here."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.contents: dict[int, bytes] = {}  # file -> bytes at the last sync
        self.names: dict[Path, dict[str, int]] = {}  # directory -> name -> file, at the last sync
        self._files: dict[int, int] = {}  # inode -> file: the system gives the inode of a removed file to a new one
        self._numbers = count()
        self._guard = threading.RLock()
        self._open = os.open
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "fsync", self.sync)
        monkeypatch.setattr(os, "fdatasync", self.sync)

    def open(self, path: Any, flags: int, *rest: Any, **options: Any) -> int:
        fd = self._open(path, flags, *rest, **options)
        status = os.fstat(fd)
        if flags & os.O_CREAT and status.st_size == 0:
            with self._guard:
                self._files[status.st_ino] = next(self._numbers)
        return fd

    def sync(self, fd: int) -> None:
        status = os.fstat(fd)
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        with self._guard:
            if stat.S_ISDIR(status.st_mode):
                self.names[path] = self._names(path)
            else:
                self.contents[self._file(status.st_ino)] = self._bytes(f"/proc/self/fd/{fd}")

    def _bytes(self, path: str) -> bytes:
        fd = self._open(path, os.O_RDONLY)  # the one that is synced may be open for writing only
        try:
            return os.pread(fd, os.fstat(fd).st_size, 0)
        finally:
            os.close(fd)

    def cut(self, target: Path, survives: Callable[[Path], bool]) -> None:
        """Build the directory as it comes back. `survives`: whether a folder's names reached the disk by themselves."""
        with self._guard:
            shutil.rmtree(target, ignore_errors=True)
            self._restore(self.root, target, survives)

    def restart(self) -> None:
        """The power is back: what is there now has been on the platter all the time."""
        with self._guard:
            for known in (self.contents, self.names, self._files):
                known.clear()
            for folder, _, files in os.walk(self.root):
                self.names[Path(folder)] = self._names(Path(folder))
                for name in files:
                    path = os.path.join(folder, name)
                    self.contents[self._file(os.stat(path).st_ino)] = self._bytes(path)

    def _restore(self, source: Path, target: Path, survives: Callable[[Path], bool]) -> None:
        target.mkdir()
        names = self._names(source) if survives(source) else self.names.get(source, {})
        for name, file in names.items():
            if (source / name).is_dir():
                self._restore(source / name, target / name, survives)
            else:
                (target / name).write_bytes(self.contents.get(file, b""))

    def _names(self, path: Path) -> dict[str, int]:
        with os.scandir(path) as entries:
            return {entry.name: self._file(entry.inode()) for entry in entries}

    def _file(self, inode: int) -> int:
        if inode not in self._files:
            self._files[inode] = next(self._numbers)
        return self._files[inode]
