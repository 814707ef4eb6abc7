"""The model of a power cut, which test_store_crash.py uses: it notices a sync that is missing."""

from __future__ import annotations

from pathlib import Path

import pytest
import store_driver as driver
from power import Disk

from mainstem.query import open_db
from mainstem.store import Store, stage


def test_the_model_notices_a_missing_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "disk"
    root.mkdir()
    disk = Disk(root, monkeypatch)
    with Store.open(root / "store", driver.SCHEMAS, durability="none") as store:
        store.commit({"Account": driver.accounts([(1, 1, "a")])}, {})
        disk.cut(tmp_path / "after", lambda folder: True)
    with open_db(tmp_path / "after" / "store") as db:
        assert db.epoch == 0
    staged = stage(root / "outputs", "part", lambda target: driver.write_file(target, "text"))
    (root / "outputs" / staged).write_text("not synced")
    disk.cut(tmp_path / "after", lambda folder: False)
    assert (tmp_path / "after" / "outputs" / staged).read_text() == "text"


def test_a_removed_file_whose_removal_is_not_synced_comes_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its own content, although the system has given its inode to another file."""
    root = tmp_path / "disk"
    root.mkdir()
    (root / "other").mkdir()
    disk = Disk(root, monkeypatch)
    old = root / stage(root, "old", lambda target: driver.write_file(target, "old text"))
    old.unlink()
    for number in range(3):
        stage(root / "other", f"new-{number}", lambda target: driver.write_file(target, "new text"))
    disk.cut(tmp_path / "after", lambda folder: False)
    assert (tmp_path / "after" / old.name).read_text() == "old text"


def test_a_group_is_lost_as_a_whole_or_in_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing that `durable` or an output has told is gone, whenever the power fails."""
    root, after = tmp_path / "disk", tmp_path / "after"
    root.mkdir()
    disk = Disk(root, monkeypatch)
    with Store.open(root / "store", driver.SCHEMAS, durability="batch") as store:
        for epoch in range(1, 30):
            store.commit({"Account": driver.accounts([(epoch, epoch, "a")])}, {"batch": epoch})
            least = store.durable
            disk.cut(after, lambda folder: False)
            with Store.open(after / "store", driver.SCHEMAS) as found:
                assert least <= found.epoch <= epoch
                assert len(driver.rebuild(found.replay())["Account"]) == found.epoch
        store.flush()
        assert store.durable == 29
