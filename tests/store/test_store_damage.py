"""Damage anywhere in a directory: reported, or provably harmless; never silently used."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from store_driver import SCHEMAS, accounts, contents, rebuild

from mainstem.errors import CorruptError, StoreError
from mainstem.query import open_db
from mainstem.store import Store, StoreWarning, read_shard_files
from mainstem.store.layout import Layout

pytestmark = pytest.mark.usefixtures("no_background")

SNAPSHOTS = [2, 3]  # of the directory `small`
SEGMENTS = [3, 4]


def every_file(path: Path) -> list[Path]:
    return sorted(entry for entry in path.rglob("*") if entry.is_file())


@contextmanager
def changed(path: Path, data: bytes) -> Iterator[None]:
    """A file with other content for a while."""
    before = path.read_bytes()
    _overwrite(path, data)
    try:
        yield
    finally:
        _overwrite(path, before)


def _overwrite(path: Path, data: bytes) -> None:
    """In place: some file systems flush a file that is emptied and filled again, which costs milliseconds."""
    with open(path, "r+b") as file:
        file.write(data)
        file.truncate()


@contextmanager
def flipped(path: Path, position: int, bit: int) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR)
    byte = os.pread(fd, 1, position)
    os.pwrite(fd, bytes([byte[0] ^ 1 << bit]), position)
    try:
        yield
    finally:
        os.pwrite(fd, byte, position)
        os.close(fd)


def second_record(segment: Path) -> int:
    """Where the second record of a segment begins."""
    return segment.read_bytes().index(b"MSTM-END") + 8


def report_of(path: Path) -> tuple[str, object]:
    """What opening and reading a store gives: ("error", text), ("warning", contents) or ("silent", contents)."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            with Store.open(path, SCHEMAS) as store:
                state = rebuild(store.replay())
                assert [str(w.message) for w in caught] == store.warnings
                return "warning" if caught else "silent", (store.epoch, store.meta, state)
        except CorruptError as error:
            return "error", str(error)


def test_the_directory_holds_every_kind_of_file(small: Path) -> None:
    layout = Layout(small)
    assert (layout.snapshot_epochs(), layout.segment_epochs()) == (SNAPSHOTS, SEGMENTS)
    assert [entry.name.split(".")[0] for entry in every_file(layout.shards)] == ["one", "two", "three"]
    assert [entry.name for entry in every_file(small) if entry.parent == small] == ["FORMAT", "LOCK"]


def test_a_flipped_bit_at_every_byte_is_reported(small: Path) -> None:
    """At least one bit per byte of every file; which one rotates with the position."""
    expected = contents(small)
    layout = Layout(small)
    spares = {layout.snapshot(2), layout.segment(3)}
    redundant = {layout.snapshot(3)}
    for file in every_file(small):
        for position in range(file.stat().st_size):
            with flipped(file, position, bit=(position * 3 + position // 8) % 8):
                report, result = report_of(small)
            if file == layout.lock:
                assert (report, result) == ("silent", expected)
            elif file in spares | redundant:
                assert (report, result) == ("warning", expected), (file, position)
            else:
                assert report == "error", (file, position)
                assert str(file) in str(result)
        assert report_of(small) == ("silent", expected), file


def test_a_flipped_bit_is_reported_to_readers_too(small: Path) -> None:
    """Readers verify what they use."""
    layout = Layout(small)
    with open_db(small) as db:
        expected = db.epoch, db.meta, db.table("Account"), db.table("Visit")
    for file in every_file(small):
        for position in (1, 44, file.stat().st_size - 1):
            with flipped(file, position % file.stat().st_size, bit=position % 8):
                if file in (layout.lock, layout.snapshot(2), layout.segment(3)):
                    with open_db(small) as db:
                        assert (db.epoch, db.meta, db.table("Account"), db.table("Visit")) == expected
                elif file == layout.snapshot(3):
                    with pytest.warns(StoreWarning, match=str(file)):
                        db = open_db(small)
                    assert (db.epoch, db.meta, db.table("Account"), db.table("Visit")) == expected
                    assert str(file) in db.warnings[0]
                    db.close()
                else:
                    with pytest.raises(CorruptError, match=str(file)):
                        open_db(small)


def test_a_flipped_bit_in_a_shard_file_is_reported_to_its_task(small: Path) -> None:
    with Store.open(small, SCHEMAS) as store:
        files = [file for shard in store.shard_files.values() for file in shard]
    for file in files:
        path = Layout(small).shard_file(file.shard, file.name)
        for position in range(path.stat().st_size):
            with flipped(path, position, bit=position % 8), pytest.raises(CorruptError, match=path.name):
                list(read_shard_files(small, [file]))


def test_a_log_cut_at_every_byte_of_its_last_record_recovers(small: Path) -> None:
    segment = Layout(small).segment(4)
    whole = segment.read_bytes()
    fourth = second_record(segment)  # where the record of epoch 5 begins
    with changed(segment, whole[:fourth]):
        before = contents(small)
    assert (before[0], before[1]) == (4, {"batch": 4})
    for size in range(fourth, len(whole)):
        for tail in (b"", bytes(len(whole) - size)):  # cut, or never written
            with changed(segment, whole[:size] + tail):
                assert report_of(small) == ("silent", before), size
                assert segment.stat().st_size == fourth, "the writer cuts the torn tail"


def test_a_reader_ignores_a_torn_tail_and_leaves_it_alone(small: Path) -> None:
    segment = Layout(small).segment(4)
    data = segment.read_bytes()[:-5]
    with changed(segment, data), open_db(small) as db:
        assert (db.epoch, db.meta) == (4, {"batch": 4})
        assert segment.read_bytes() == data


def test_after_a_cut_the_epoch_is_written_again(small: Path) -> None:
    segment = Layout(small).segment(4)
    segment.write_bytes(segment.read_bytes()[:-5])
    with Store.open(small, SCHEMAS) as store:
        assert store.commit({"Account": accounts([(9, 9, "again")])}, {"batch": "5 again"}) == 5
    epoch, meta, state = contents(small)
    assert (epoch, meta, state["Account"][(9,)]) == (5, {"batch": "5 again"}, (9, "again"))
    assert (4,) not in state["Account"]


def test_the_error_says_file_byte_and_lost_epochs(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, segment_bytes=1) as store:  # one segment per commit
        for number in range(1, 7):
            store.commit({"Account": accounts([(number, 1, "x")])}, {})
    segment = Layout(tmp_path).segment(3)
    with flipped(segment, 100, 0):
        with pytest.raises(CorruptError) as caught:
            Store.open(tmp_path, SCHEMAS)
        assert f"{segment}, byte 40: the checksum of a record does not hold" in str(caught.value)
        assert "restore the file from a copy" in str(caught.value)
        assert str(caught.value).endswith("lost: epochs 3 to 6")


def test_lost_epochs_behind_a_damaged_header_in_one_segment(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        for number in range(1, 7):
            store.commit({"Account": accounts([(number, 1, "x")])}, {})
    segment = Layout(tmp_path).segment(1)
    damage = flipped(segment, second_record(segment) + 20, 0)
    with damage, pytest.raises(CorruptError, match="lost: epochs 2 to 6") as caught:
        Store.open(tmp_path, SCHEMAS)
    assert "truncate" not in str(caught.value)


def test_damage_in_the_last_record_names_the_way_out(small: Path) -> None:
    segment = Layout(small).segment(4)
    damage = flipped(segment, segment.stat().st_size - 100, 0)
    with damage, pytest.raises(CorruptError, match=r"lost: epoch 5\n") as caught:
        Store.open(small, SCHEMAS)
    command = str(caught.value).split("`")[1].split()
    assert command[:2] == ["truncate", "-s"]
    assert command[3] == str(segment)
    os.truncate(segment, int(command[2]))
    assert contents(small)[0] == 4


def test_a_hole_in_the_last_group_names_the_way_out(tmp_path: Path) -> None:
    """Records that no sync had reached when the power failed may have got to the disk in any order."""
    with Store.open(tmp_path, SCHEMAS, durability="batch") as store:
        for number in range(1, 5):
            store.commit({"Account": accounts([(number, 1, "x")])}, {})
        store.flush()
        store._lock.note_synced(store._stored.store, 1)  # as if the others were one group
        store._lock.note_synced = lambda *note: None  # type: ignore[method-assign]
    segment = Layout(tmp_path).segment(1)
    with flipped(segment, second_record(segment) + 60, 0), pytest.raises(CorruptError) as caught:
        Store.open(tmp_path, SCHEMAS)
    assert "lost: epochs 2 to 4" in str(caught.value)
    assert "epochs 2 to 4 are the last records: if the power failed" in str(caught.value)
    os.truncate(segment, int(str(caught.value).split("`")[1].split()[2]))
    assert contents(tmp_path)[0] == 1


@pytest.mark.parametrize("lost", [1, 2, 3, 4, 5])
def test_a_missing_segment_is_an_error_that_names_the_epochs(lost: int, tmp_path: Path) -> None:
    """The last one too: the one before it is sealed."""
    with Store.open(tmp_path, SCHEMAS, segment_bytes=1) as store:
        for number in range(1, 6):
            store.commit({"Account": accounts([(number, 1, "x")])}, {})
    Layout(tmp_path).segment(lost).unlink()
    text = f"lost: epochs {lost} to {lost}" if lost < 5 else "lost: all commits from epoch 5 on"
    for action in (lambda: Store.open(tmp_path, SCHEMAS), lambda: open_db(tmp_path)):
        with pytest.raises(CorruptError, match=text):
            action()


def test_a_segment_cut_in_the_middle_of_the_log_is_an_error(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, segment_bytes=1) as store:
        for number in range(1, 4):
            store.commit({"Account": accounts([(number, 1, "x")])}, {})
    segment = Layout(tmp_path).segment(2)
    whole = segment.read_bytes()
    for size in range(len(whole)):
        with changed(segment, whole[:size]), pytest.raises(CorruptError, match=r"without a seal, but .*3\.wal follows"):
            Store.open(tmp_path, SCHEMAS)


def test_a_segment_of_another_store_is_an_error(small: Path, tmp_path: Path) -> None:
    with Store.open(tmp_path / "other", SCHEMAS) as store:
        for number in range(1, 6):
            store.commit({"Account": accounts([(number, 1, "x")])}, {})
            if number in SNAPSHOTS:
                store.snapshot()
    shutil.copy(Layout(tmp_path / "other").segment(4), Layout(small).segment(4))
    with pytest.raises(CorruptError, match="the file was copied from another directory"):
        Store.open(small, SCHEMAS)


def test_a_segment_under_a_wrong_name_is_an_error(small: Path) -> None:
    layout = Layout(small)
    layout.segment(4).write_bytes(layout.segment(3).read_bytes())
    with pytest.raises(CorruptError, match="epoch 4 belongs here, found commit 3"):
        Store.open(small, SCHEMAS)


def test_both_snapshots_damaged_and_a_log_that_does_not_reach_back(small: Path) -> None:
    layout = Layout(small)
    with flipped(layout.snapshot(2), 50, 0), flipped(layout.snapshot(3), 50, 0):
        with pytest.raises(CorruptError, match="lost: epochs 1 to 2") as caught:
            Store.open(small, SCHEMAS)
        assert str(layout.snapshot(2)) in str(caught.value)
        assert str(layout.snapshot(3)) in str(caught.value)


def test_the_first_snapshot_damaged_falls_back_to_the_whole_log(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 1, "x")])}, {"batch": 1})
        store.snapshot()
        store.commit({"Account": accounts([(1, 2, "x")])}, {"batch": 2})
    expected = contents(tmp_path)
    with flipped(Layout(tmp_path).snapshot(1), 50, 0):
        assert report_of(tmp_path) == ("warning", expected)


def test_a_snapshot_with_a_part_too_few_or_too_many_is_reported(small: Path) -> None:
    """Each record is whole; together they are not the file that was written."""
    expected = contents(small)
    snapshot = Layout(small).snapshot(3)
    head, part, last = [record + b"MSTM-END" for record in snapshot.read_bytes().split(b"MSTM-END")[:-1]]
    assert head + part + last == snapshot.read_bytes()
    for records in (
        [head, last],
        [head, part, part, last],
        [head, part],
        [part, last],
        [head, part, last, last],
        [last],
    ):
        with changed(snapshot, b"".join(records)):
            assert report_of(small) == ("warning", expected)


def test_a_new_snapshot_makes_up_for_a_damaged_one(small: Path) -> None:
    layout = Layout(small)
    data = bytearray(layout.snapshot(3).read_bytes())
    data[50] ^= 1
    layout.snapshot(3).write_bytes(data)
    with pytest.warns(StoreWarning, match=r"3\.snap.*the state comes from snapshot 2 and the log"):
        store = Store.open(small, SCHEMAS)
    assert layout.snapshot_epochs() == [2, 3], "evidence stays until there is a new snapshot"
    with store:
        store.snapshot()
    assert layout.listing() == ([3, 4, 6], [2, 5]), "the log since the older valid one"
    assert report_of(small)[0] == "silent"


def test_a_log_cut_to_before_a_snapshot_is_an_error(small: Path) -> None:
    layout = Layout(small)
    layout.segment(4).unlink()
    layout.segment(3).write_bytes(b"")
    with pytest.raises(CorruptError, match="ends at epoch 2, but there is a snapshot of epoch 3"):
        Store.open(small, SCHEMAS)


def test_a_missing_shard_file_is_an_error(small: Path) -> None:
    victim = every_file(Layout(small).shards)[0]
    victim.unlink()
    for action in (lambda: Store.open(small, SCHEMAS), lambda: open_db(small)):
        with pytest.raises(CorruptError, match=f"committed shard files are missing: .*{victim.name}"):
            action()


def test_a_missing_format_file_is_an_error_when_there_is_data(small: Path) -> None:
    Layout(small).format.unlink()
    for action in (lambda: Store.open(small, SCHEMAS), lambda: open_db(small)):
        with pytest.raises(CorruptError, match="FORMAT is missing, but the directory holds data"):
            action()


def test_a_failed_open_releases_the_lock(small: Path) -> None:
    with flipped(Layout(small).format, 50, 0), pytest.raises(StoreError):
        Store.open(small, SCHEMAS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with flipped(Layout(small).snapshot(2), 50, 0), pytest.raises(StoreWarning):
            Store.open(small, SCHEMAS)
    Store.open(small, SCHEMAS).close()
