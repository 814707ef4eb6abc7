"""Small stores to ask; the writer of the store's own tests makes them."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "store"))  # where store_driver.py is

from store_driver import SCHEMAS, accounts, visits

from mainstem.store import Store, write_shard_file


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing here loses power."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A closed store after five commits; Account in the log, Visit in shard files."""
    path = tmp_path / "small"
    with Store.open(path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 10, "a")])}, {"batch": 1, "ts": 100})
        file = write_shard_file(path, 7, "one", {"Visit": visits([("x", 1, 1), ("y", 1, 1)])}, base=True)
        store.commit({"Account": accounts([(2, 20, "b")])}, {"batch": 2, "ts": 200}, [file])
        file = write_shard_file(path, 7, "two", {"Visit": visits([("x", 1, 2)])}, base=False)
        store.commit({"Account": accounts([(1, 11, "a")], [True])}, {"batch": 3, "ts": 300}, [file])
        file = write_shard_file(path, 8, "three", {"Visit": visits([("z", 1, 3)])}, base=False)
        store.commit({"Account": accounts([(3, 30, "c")])}, {"batch": 4, "ts": 400}, [file])
        store.commit({"Account": accounts([(3, 31, "c"), (4, 40, "d")])}, {"batch": 5, "ts": 500})
    return path
