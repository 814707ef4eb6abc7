"""A disk that is full, failing or forbidden: nothing half-written counts, and the message says what to do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import store_driver as driver
from store_driver import SCHEMAS, accounts, contents

from mainstem.errors import StoreError
from mainstem.store import Store, stage, write_shard_file
from mainstem.store.layout import Layout

ROW = {"Account": accounts([(1, 1, "a")])}


def failing_after(calls: int, code: int, real: Callable[..., Any]) -> Callable[..., Any]:
    """A system call that works some times and then fails for good."""
    left = iter([True] * calls)

    def call(*arguments: Any) -> Any:
        if next(left, False):
            return real(*arguments)
        raise OSError(code, os.strerror(code))

    return call


def short_writes(limit: int) -> Callable[[int, Any], int]:
    """`os.write` on a disk with room for some bytes: the last write is short, the next one fails."""
    room = limit
    real = os.write

    def write(fd: int, data: Any) -> int:
        nonlocal room
        if room == 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        done = real(fd, memoryview(data)[:room])
        room -= done
        return done

    return write


@pytest.mark.parametrize("limit", [0, 1, 39, 40, 41, 300, 600])
def test_a_full_disk_in_a_commit(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path, SCHEMAS)
    store.commit(ROW, {"batch": 1})
    segment = Layout(tmp_path).segment(1)
    size = segment.stat().st_size
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short_writes(limit))
        with pytest.raises(StoreError) as caught:
            store.commit(ROW, {"batch": 2})
    assert str(caught.value) == (
        f"can't write to {segment}: No space left on device\n  free space on the disk, then open the directory again"
    )
    assert segment.stat().st_size == size, "taken back"
    for action in (lambda: store.commit(ROW, {}), lambda: store.snapshot(ROW)):
        with pytest.raises(StoreError, match=r"stopped after an error: .*No space left.*\n  close it and open"):
            action()
    assert (store.epoch, store.meta) == (1, {"batch": 1})
    store.close()
    assert contents(tmp_path)[:2] == (1, {"batch": 1})


def test_a_failed_sync_takes_the_commit_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store.open(tmp_path, SCHEMAS)
    store.commit(ROW, {"batch": 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", failing_after(0, errno.EIO, os.fdatasync))
        with pytest.raises(StoreError, match=r"Input/output error\n  the disk fails"):
            store.commit(ROW, {"batch": 2})
    store.close()
    assert contents(tmp_path)[:2] == (1, {"batch": 1})


def test_when_even_taking_back_fails_nothing_half_written_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(tmp_path, SCHEMAS)
    store.commit(ROW, {"batch": 1})
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short_writes(100))
        patch.setattr(os, "ftruncate", failing_after(0, errno.EIO, os.ftruncate))
        with pytest.raises(StoreError, match="No space left"):
            store.commit(ROW, {"batch": 2})
        with pytest.raises(StoreError, match=r"then cutting the log back to byte \d+ failed"):
            store.commit(ROW, {"batch": 2})
    store.close()
    assert contents(tmp_path)[:2] == (1, {"batch": 1})


def test_an_interrupted_commit_is_decided_by_recovery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C inside an append: the store stops; whatever was written in full counts, as after a crash."""

    def interrupt(fd: int) -> None:
        raise KeyboardInterrupt

    store = Store.open(tmp_path, SCHEMAS)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.commit(ROW, {"batch": 1})
    with pytest.raises(StoreError, match="stopped after an error: KeyboardInterrupt"):
        store.commit(ROW, {"batch": 1})
    store.close()
    assert contents(tmp_path)[:2] == (1, {"batch": 1})


def test_a_full_disk_in_a_snapshot_leaves_the_store_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit(ROW, {"batch": 1})
        for limit in (0, 50, 500):
            with monkeypatch.context() as patch:
                patch.setattr(os, "write", short_writes(limit))
                with pytest.raises(StoreError, match=r"can't write .*1\.snap: No space left on device\n  free space"):
                    store.snapshot(ROW)
        assert list(Layout(tmp_path).snapshots.iterdir()) == []
        assert store.commit(ROW, {"batch": 2}) == 2
        store.snapshot(ROW)
    assert contents(tmp_path)[:2] == (2, {"batch": 2})


@pytest.mark.parametrize("calls", range(4))
def test_a_failed_rotation_loses_nothing(calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The n-th sync of a rotation (log, directory, seal) fails."""
    store = Store.open(tmp_path, SCHEMAS, segment_bytes=1)
    store.commit(ROW, {"batch": 1})
    with monkeypatch.context() as patch:
        broken = failing_after(calls, errno.EIO, lambda fd: None)
        patch.setattr(os, "fdatasync", broken)
        patch.setattr(os, "fsync", broken)
        with pytest.raises(StoreError, match="Input/output error"):
            store.commit(ROW, {"batch": 2})
    store.close()
    assert contents(tmp_path)[:2] == (1, {"batch": 1})
    with Store.open(tmp_path, SCHEMAS, segment_bytes=1) as again:
        assert again.commit(ROW, {"batch": 2}) == 2
    assert contents(tmp_path)[:2] == (2, {"batch": 2})


def test_a_full_disk_for_shard_files_and_outputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Store.open(tmp_path / "s", SCHEMAS).close()
    with monkeypatch.context() as patch:
        patch.setattr(os, "write", short_writes(100))
        with pytest.raises(StoreError, match=r"can't write .*\.shard: No space left on device"):
            write_shard_file(tmp_path / "s", 0, "t", ROW, base=True)
    assert list((tmp_path / "s" / "shards").rglob("*.shard")) == []

    def write(target: Path) -> None:
        target.write_text("half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StoreError, match=r"can't write .*part: No space left on device"):
        stage(tmp_path / "o", "part", write)
    assert list((tmp_path / "o").iterdir()) == []


def test_a_limit_on_file_sizes_is_met_for_real(tmp_path: Path) -> None:
    """The system itself takes half of a record and refuses the rest."""
    code = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import store_driver as driver
from mainstem.errors import StoreError
from mainstem.store import Store
store = Store.open(sys.argv[2], driver.SCHEMAS)
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, resource.RLIM_INFINITY))
try:
    while True:
        store.commit({"Account": driver.accounts([(store.epoch, 1, "a")])}, {})
except StoreError as error:
    print(store.epoch, error)
"""
    command = [sys.executable, "-c", code, str(Path(driver.__file__).parent), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    epoch, message = done.stdout.split(" ", 1)
    assert "File too large\n  raise the limit on file sizes" in message
    assert contents(tmp_path)[0] == int(epoch) > 1


def test_no_right_to_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(os, "open", failing_after(0, errno.EACCES, os.open))
        with pytest.raises(StoreError, match=r"can't open .*: Permission denied\n  give this user the right"):
            Store.open(tmp_path, SCHEMAS)
    Store.open(tmp_path, SCHEMAS).close()
