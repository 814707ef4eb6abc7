"""`durability="batch"`: one sync for all that waits, nothing visible before it, and what a failure means."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from store_driver import SCHEMAS, accounts, contents, write_file

from mainstem.errors import StoreError
from mainstem.query import open_db
from mainstem.store import Output, Store, background, pending


class Gate:
    """A sync that waits until it is let through, counts, and fails when it is told to."""

    def __init__(self) -> None:
        self.open, self.arrived, self.count = threading.Event(), threading.Event(), 0
        self.error: int | None = None

    def __call__(self, fd: int) -> None:
        if "/log/" not in os.readlink(f"/proc/self/fd/{fd}"):
            return
        self.count += 1
        self.arrived.set()
        assert self.open.wait(30)
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    made = Gate()
    monkeypatch.setattr(os, "fdatasync", made)
    return made


def opened(path: Path, gate: Gate, **options: Any) -> Store:
    gate.open.set()
    store = Store.open(path, SCHEMAS, durability="batch", **options)
    gate.open.clear()
    gate.arrived.clear()
    gate.count = 0
    return store


def commit(store: Store, number: int, out: Path | None = None) -> None:
    outputs = [] if out is None else [Output.named(out, f"part-{number}", lambda path: write_file(path, f"{number}"))]
    meta = {"batch": number, **(pending(out, [output.staged for output in outputs]) if out else {})}
    store.commit({"Account": accounts([(number, number, "a")])}, meta, outputs=outputs)


def visible(out: Path) -> list[str]:
    return sorted(entry.name for entry in out.iterdir() if not entry.name.startswith("."))


def test_all_that_waits_shares_one_sync(tmp_path: Path, gate: Gate) -> None:
    store, out = opened(tmp_path / "s", gate), tmp_path / "o"
    commit(store, 1, out)
    assert gate.arrived.wait(30)
    for number in range(2, 12):
        commit(store, number, out)
    assert (store.epoch, store.durable, visible(out)) == (11, 0, [])
    gate.open.set()
    store.flush()
    assert (store.durable, len(visible(out)), gate.count) == (11, 11, 2)
    store.close()
    assert contents(tmp_path / "s")[:1] == (11,)


def test_a_writer_waits_when_too_much_is_on_its_way(
    tmp_path: Path, gate: Gate, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background, "GROUP_COMMITS_MAX", 3)
    store = opened(tmp_path, gate)
    done = [0]

    def write() -> None:
        for number in range(1, 9):
            commit(store, number)
            done[0] = number

    writer = threading.Thread(target=write)
    writer.start()
    assert gate.arrived.wait(30)
    writer.join(0.2)
    assert done[0] == 3, "the fourth waits"
    gate.open.set()
    writer.join(30)
    store.close()
    assert (done[0], contents(tmp_path)[0]) == (8, 8)


def test_a_commit_larger_than_the_bound_goes_through_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "GROUP_BYTES_MAX", 1)
    with Store.open(tmp_path, SCHEMAS, durability="batch") as store:
        for number in range(1, 4):
            commit(store, number)
    assert contents(tmp_path)[0] == 3


@pytest.mark.parametrize("action", ["commit", "flush", "close"])
def test_a_failed_sync_stops_the_writer_and_undoes_the_group(action: str, tmp_path: Path, gate: Gate) -> None:
    store, out = opened(tmp_path / "s", gate), tmp_path / "o"
    gate.open.set()
    commit(store, 1, out)
    store.flush()
    gate.open.clear()
    gate.arrived.clear()
    commit(store, 2, out)
    assert gate.arrived.wait(30)
    commit(store, 3, out)
    gate.error, syncs = errno.EIO, gate.count
    gate.open.set()
    store._writer._group.flush()  # type: ignore[union-attr]
    calls: dict[str, Callable[[], None]] = {"commit": lambda: commit(store, 4), "flush": store.flush}
    with pytest.raises(StoreError) as caught:
        calls.get(action, store.close)()
    assert str(caught.value).splitlines()[1:] == [
        "  the disk fails: check it, and copy the directory to another one before going on",
        "  commits 2 to 3 are not durable, and not published: opening again gives the state after commit 1",
    ]
    assert "can't sync" in str(caught.value)
    assert gate.count == syncs, "a failed sync is not tried again"
    if action != "close":
        with pytest.raises(StoreError, match=r"the store stopped after an error: .*Input/output error"):
            commit(store, 4)
        store.close()
    assert visible(out) == ["part-1"]
    gate.error = None
    assert contents(tmp_path / "s")[:1] == (1,)


def test_a_failed_output_stops_the_writer_before_its_commit(tmp_path: Path) -> None:
    def write(path: Path) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    out = tmp_path / "o"
    store = Store.open(tmp_path / "s", SCHEMAS, durability="batch")
    commit(store, 1, out)
    store.flush()
    output = Output.named(out, "part-2", write)
    store.commit({}, {"batch": 2, **pending(out, [output.staged])}, outputs=[output])
    with pytest.raises(StoreError, match=r"can't write .*part-2: No space left .*\n.*\n  commit 2 is not durable"):
        store.flush()
    store.close()
    assert contents(tmp_path / "s")[0] == 1
    assert sorted(entry.name for entry in out.iterdir()) == ["part-1"]


def test_a_commit_whose_outputs_can_not_be_published_is_durable(tmp_path: Path) -> None:
    out = tmp_path / "o"
    (out / "part-1" / "in the way").mkdir(parents=True)
    store = Store.open(tmp_path / "s", SCHEMAS, durability="batch")
    commit(store, 1, out)
    with pytest.raises(StoreError, match=r"can't publish .*part-1(.*\n)+  commit 1 is durable, but not published"):
        store.flush()
    store.close()
    assert contents(tmp_path / "s")[0] == 1


def test_readers_see_durable_commits_and_rarely_sync(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the writer has synced, and told so, a reader does not sync again."""
    with Store.open(tmp_path, SCHEMAS, durability="batch") as store, open_db(tmp_path) as db:
        synced: list[int] = []
        monkeypatch.setattr("mainstem.store.log.sync_readonly", synced.append)
        for number in range(1, 6):
            commit(store, number)
            store.flush()
            assert db.epoch == number
        assert synced == []


def test_close_waits_for_all(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, durability="batch") as store:
        for number in range(1, 200):
            commit(store, number)
    assert contents(tmp_path)[0] == 199
