"""A disk that is full, failing or forbidden: nothing half-written counts, and the message says what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import store_driver as driver
from store_driver import SCHEMAS, accounts, contents

from mainstem.errors import StoreError
from mainstem.store import Store, StoreWarning, stage, write_shard_file
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


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.001)


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
    for action in (lambda: store.commit(ROW, {}), store.snapshot):
        with pytest.raises(StoreError, match=r"stopped after an error: .*No space left.*\n.*\n  close it and open"):
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


@pytest.mark.parametrize("limit", [0, 50, 500])
def test_a_full_disk_in_a_snapshot_leaves_the_store_usable(
    limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Given up with a warning, in the background; the log goes on, and the next attempt works."""
    real, limited = os.write, short_writes(limit)

    def write(fd: int, data: Any) -> int:
        return (limited if "/snapshots/" in os.readlink(f"/proc/self/fd/{fd}") else real)(fd, data)

    with Store.open(tmp_path, SCHEMAS, segment_commits=1) as store:
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write)
            for batch in (1, 2):
                store.commit(ROW, {"batch": batch})
            wait_for(lambda: bool(store._upkeep._problems))
        assert list(Layout(tmp_path).snapshots.iterdir()) == []
        with pytest.warns(StoreWarning, match=r"failed, the log goes on: can't write .*\.snap: No space left"):
            store.commit(ROW, {"batch": 3})
        assert "No space left" in store.warnings[0]
        store.snapshot()
        assert Layout(tmp_path).snapshot_epochs()[-1] == 3
    assert contents(tmp_path)[:2] == (3, {"batch": 3})


def test_a_full_disk_in_a_snapshot_on_demand_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit(ROW, {"batch": 1})
        with monkeypatch.context() as patch:
            patch.setattr("mainstem.store.tablefile.sync", failing_after(0, errno.ENOSPC, os.fdatasync))
            with pytest.raises(StoreError, match=r"can't write .*1\.snap: No space left on device\n  free space"):
                store.snapshot()
        assert store.commit(ROW, {"batch": 2}) == 2
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


SMALL_DISK = """
import sys
sys.path.insert(0, sys.argv[1])
import store_driver as driver
from pathlib import Path
from mainstem.errors import StoreError
from mainstem.query import open_db
from mainstem.store import Output, Store, pending
disk, durability = Path(sys.argv[2]), sys.argv[3]
out, text = disk / "out", "x" * 2000
def put(store):
    number = store.epoch + 1
    output = Output.named(out, f"part-{number}", lambda path: driver.write_file(path, text))
    rows = driver.accounts([(number, number, "a")])
    store.commit({"Account": rows}, pending(out, [output.staged]), outputs=[output])
store = Store.open(disk / "store", driver.SCHEMAS, durability=durability)
db = open_db(disk / "store")
try:
    while True:
        put(store)
        if store.epoch % 7 == 0:
            store.flush()
except StoreError as error:
    print(error)
durable = store.durable
store.close()
for attempt in range(2):
    assert db.sql("select count(*) n from Account").to_pylist() == [{"n": durable}], "readers go on"
    parts = [entry.name for entry in out.iterdir() if not entry.name.startswith(".")]
    assert len(parts) == durable and all((out / name).read_text() == text for name in parts)
for entry in list(out.iterdir())[:20]:
    entry.unlink()  # room again
with Store.open(disk / "store", driver.SCHEMAS, durability=durability) as store:
    assert store.epoch == durable
    store.publish_pending()
    put(store)
assert db.epoch == durable + 1
print("went on after", durable)
"""


def _can_mount() -> bool:
    """Linux with namespaces for users; elsewhere a limit on the size of files (above) has to do."""
    with contextlib.suppress(OSError):
        return subprocess.run(["unshare", "-rm", "true"], capture_output=True).returncode == 0
    return False


@pytest.mark.skipif(not _can_mount(), reason="this system lets nobody mount a small disk")
@pytest.mark.parametrize("durability", ["sync", "batch"])
def test_a_disk_that_is_really_full(durability: str, tmp_path: Path) -> None:
    """A small file system in a namespace of its own, so that nothing stays mounted whatever happens."""
    disk = tmp_path / "disk"
    disk.mkdir()
    python = [sys.executable, "-c", SMALL_DISK, str(Path(driver.__file__).parent), str(disk), durability]
    mount = ["unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=400k tmpfs {disk} && exec "$@"', "sh", *python]
    done = subprocess.run(mount, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "No space left on device\n  free space on the disk" in done.stdout
    assert "went on after" in done.stdout


NOBODY = 65534

LOST_RIGHTS = """
import os, sys
sys.path.insert(0, sys.argv[1])
import store_driver as driver
from pathlib import Path
from mainstem.errors import StoreError
from mainstem.store import Store
path = Path(sys.argv[2])
if os.getuid() == 0:
    os.setegid(int(sys.argv[3])); os.seteuid(int(sys.argv[3]))  # root may do everything
store = Store.open(path, driver.SCHEMAS, segment_commits=2)
rows = {"Account": driver.accounts([(1, 1, "a")])}
for batch in (1, 2):
    store.commit(rows, {"batch": batch})
os.chmod(path / "log", 0o555)
try:
    store.commit(rows, {"batch": 3})
except StoreError as error:
    print(error)
store.close()
os.chmod(path / "log", 0o755)
print(driver.contents(path)[:2])
"""


def test_a_right_that_is_lost_while_writing(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.mkdir()
    for folder in (path, *path.parents):  # pytest's own are closed to other users, also to the one that root becomes
        if "pytest-of-" in str(folder):
            folder.chmod(folder.stat().st_mode | 0o005)
    path.chmod(0o777)
    command = [sys.executable, "-c", LOST_RIGHTS, str(Path(driver.__file__).parent), str(path), str(NOBODY)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    error, remedy, found = done.stdout.splitlines()
    assert error.startswith("can't write to ")
    assert error.endswith(": Permission denied")
    assert remedy == "  give this user the right to read and write it, or choose another directory"
    assert found == "(2, {'batch': 2})"


def test_a_directory_that_is_removed_while_writing(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "s", SCHEMAS)
    store.commit(ROW, {"batch": 1})
    shutil.rmtree(tmp_path / "s")
    with pytest.raises(StoreError, match=r"0001\.wal was removed while it was being written\n  restore the directory"):
        store.commit(ROW, {"batch": 2})
    with pytest.raises(StoreError, match="the store stopped after an error"):
        store.commit(ROW, {"batch": 2})
    store.close()
