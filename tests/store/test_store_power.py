"""A power cut at every step: only what was synced is left, and that is enough.

A model of a disk keeps, for every file, its content at its last sync, and for every directory its names at its last
sync. At each crash step it builds the directory as it would be after the power comes back, and recovers from it.
"""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import store_driver as driver

from mainstem.store import Store, crash, discard_staged, open_db, publish_pending, stage


class Disk:
    """What has reached the platter below one directory."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        self.contents: dict[int, bytes] = {}  # inode -> bytes at the last sync
        self.names: dict[Path, dict[str, int]] = {}  # directory -> name -> inode, at the last sync
        self._open = os.open
        monkeypatch.setattr(os, "open", self.open)
        monkeypatch.setattr(os, "fsync", self.sync)
        monkeypatch.setattr(os, "fdatasync", self.sync)

    def open(self, path: Any, flags: int, *rest: Any, **options: Any) -> int:
        fd = self._open(path, flags, *rest, **options)
        if flags & os.O_CREAT and os.fstat(fd).st_size == 0:
            self.contents.pop(os.fstat(fd).st_ino, None)  # the inode of a file that was removed
        return fd

    def sync(self, fd: int) -> None:
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        status = os.fstat(fd)
        if stat.S_ISDIR(status.st_mode):
            self.names[path] = {entry.name: entry.stat().st_ino for entry in path.iterdir()}
        else:
            self.contents[status.st_ino] = path.read_bytes()

    def after_power_cut(self, target: Path, survivors: Collection[Path]) -> None:
        """The directory as it comes back. `survivors`: folders whose names reached the disk without being asked to."""
        shutil.rmtree(target, ignore_errors=True)
        self._restore(self.root, target, survivors)

    def _restore(self, source: Path, target: Path, survivors: Collection[Path]) -> None:
        target.mkdir()
        live = {entry.name: entry.stat().st_ino for entry in source.iterdir()}
        folders = {entry.name for entry in source.iterdir() if entry.is_dir()}
        for name, inode in (live if source in survivors else self.names.get(source, {})).items():
            if name in folders:
                self._restore(source / name, target / name, survivors)
            else:
                (target / name).write_bytes(self.contents.get(inode, b""))


class Outage:
    """Cuts the power at every crash step of a running writer and looks at what recovery makes of the rest."""

    def __init__(self, disk: Disk, root: Path, spare: Path) -> None:
        self.disk, self.root, self.spare = disk, root, spare
        self.acknowledged = 0
        self.history: list[driver.Rows] = []  # state after each epoch, from undisturbed runs
        self.cuts = 0

    def __call__(self, step: str) -> None:
        self.cuts += 1
        folders = [self.root, *sorted(entry for entry in self.root.rglob("*") if entry.is_dir())]
        # All folders in turn while there are few, then one at a time: there are hundreds of cuts.
        chosen = folders if step.startswith("create") else [folders[self.cuts % len(folders)]]
        for survivors in ([], folders, *([self.root, folder] for folder in chosen)):
            self.disk.after_power_cut(self.spare, survivors)
            self.check(f"{step}, names also survive in {survivors}")

    def check(self, where: str) -> None:
        reach, crash.reach = crash.reach, lambda step: None
        try:
            with Store.open(self.spare / "store", driver.SCHEMAS) as store:
                assert store.epoch >= self.acknowledged, where
                assert driver.rebuild(store.replay()) == self.history[store.epoch], where
                assert store.warnings == []
                self.check_outputs(store, where)
        finally:
            crash.reach = reach

    def check_outputs(self, store: Store, where: str) -> None:
        meta = dict(store.meta)
        if "outputs" in meta:
            meta["outputs"] = {**meta["outputs"], "directory": str(self.spare / "outputs")}
        publish_pending(meta)
        if (self.spare / "outputs").is_dir():
            discard_staged(self.spare / "outputs")
        expected = {f"part-{n:04d}.json": driver.output_text(self.history[n]) for n in range(1, store.epoch + 1)}
        found = driver.read_outputs(self.spare / "outputs") if (self.spare / "outputs").is_dir() else {}
        assert found == expected, where


def test_a_power_cut_at_every_step_loses_nothing_acknowledged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    epochs = 10
    root = tmp_path / "disk"
    root.mkdir()
    outage = Outage(Disk(root, monkeypatch), root, tmp_path / "after")
    outage.history = [driver.state_after(tmp_path / f"plain-{n}", n) for n in range(epochs + 1)]
    monkeypatch.setattr(crash, "reach", outage)
    real = Store.commit

    def commit(store: Store, *arguments: Any) -> int:
        outage.acknowledged = real(store, *arguments)
        return outage.acknowledged

    monkeypatch.setattr(Store, "commit", commit)
    driver.run(root / "store", root / "outputs", epochs)
    assert outage.acknowledged == epochs
    assert outage.cuts > 100


def test_the_model_notices_a_missing_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without syncs the same check fails: it is able to."""
    root = tmp_path / "disk"
    root.mkdir()
    disk = Disk(root, monkeypatch)
    with Store.open(root / "store", driver.SCHEMAS, durability="none") as store:
        store.commit({"Account": driver.accounts([(1, 1, "a")])}, {})
        disk.after_power_cut(tmp_path / "after", [root, *root.rglob("*")])
    with open_db(tmp_path / "after" / "store") as db:
        assert db.epoch == 0
    staged = stage(root / "outputs", "part", lambda target: driver.write_file(target, "text"))
    (root / "outputs" / staged).write_text("not synced")
    disk.after_power_cut(tmp_path / "after", [])
    assert (tmp_path / "after" / "outputs" / staged).read_text() == "text"
