"""Small stores with a bit of everything, and how they are compared."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import crash_plan
import pytest
from crash_plan import EPOCHS, plan_of
from crash_plug import KNOWN_SEEDS, Plug, Reached, armed
from power import Disk
from store_driver import SCHEMAS, accounts, visits

from mainstem.store import Store, crash, write_shard_file
from mainstem.store.background import Snapshotter


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests end, and kill, processes; only a power cut loses what was not synced. That is test_store_power.py."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


@pytest.fixture
def no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    """Snapshots on demand only, for tests that count files; test_background.py is about the others."""
    monkeypatch.setattr(Snapshotter, "wake", lambda snapshotter: None)


@pytest.fixture
def small(in_memory: Callable[[], Path]) -> Path:
    """A closed store whose directory holds every kind of file: two snapshots, three segments, three shard files.

    Epochs 1 to 5; snapshots of 2 and 3; so epoch 3 is in a spare segment, 4 and 5 are needed from the log.
    """
    path = in_memory()
    with Store.open(path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 10, "a")])}, {"batch": 1})
        file = write_shard_file(path, 7, "one", {"Visit": visits([("x", 1, 1), ("y", 1, 1)])}, base=True)
        store.commit({"Account": accounts([(2, 20, "b")])}, {"batch": 2}, [file])
        store.snapshot()
        file = write_shard_file(path, 7, "two", {"Visit": visits([("x", 1, 2)])}, base=False)
        store.commit({"Account": accounts([(1, 11, "a")], [True])}, {"batch": 3}, [file])
        store.snapshot()
        file = write_shard_file(path, 8, "three", {"Visit": visits([("z", 1, 3)])}, base=False)
        store.commit({"Account": accounts([(3, 30, "c")])}, {"batch": 4}, [file])
        store.commit({"Account": accounts([(3, 31, "c"), (4, 40, "d")])}, {"batch": 5})
    return path


@pytest.fixture(scope="session")
def in_memory() -> Iterator[Callable[[], Path]]:
    """New folders without a disk behind them, where the system has such: for tests that write thousands of files."""
    shared = "/dev/shm"
    with tempfile.TemporaryDirectory(dir=shared if os.path.isdir(shared) else None, prefix="mainstem-") as root:
        yield lambda: Path(tempfile.mkdtemp(dir=root))


@pytest.fixture(scope="session")
def reached(in_memory: Callable[[], Path]) -> Reached:
    """Per step: seeds that reach it in an undisturbed run, and how often."""
    found: Reached = {step: [] for step in crash.STEPS}
    with pytest.MonkeyPatch.context() as patch:
        for seed in range(KNOWN_SEEDS):
            folder = in_memory()
            Disk(folder, patch)
            with armed(Plug()) as plug:
                crash_plan.run(plan_of(seed), folder)
            assert crash_plan.check(plan_of(seed), folder, EPOCHS) == EPOCHS
            for step, times in plug.seen.items():
                found[step].append((seed, times))
            shutil.rmtree(folder)
    return found
