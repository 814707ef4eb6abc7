"""`verify`: sound directories are called sound, every damage is found, and the remedy it names works."""

from __future__ import annotations

import multiprocessing
import os
import random
import re
import resource
import shutil
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tools_support import EPOCHS, SCHEMAS, accounts, bank, make_directory, transfers, write_epochs

import mainstem as ms
from mainstem import tools
from mainstem.errors import StoreError
from mainstem.state import digest
from mainstem.store import Store, frame
from mainstem.store.format import read_format
from mainstem.store.layout import Layout
from mainstem.store.snapshot import load_snapshot, write_snapshot


def state_digest(path: Path) -> str:
    with ms.open(path) as db:
        return digest({name: db.table(name) for name in db.tables})


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1 << (at % 8)
    file.write_bytes(data)


def test_all_ways_of_a_sound_directory_agree(directory: Path) -> None:
    report = tools.verify(directory)
    assert report.ok, str(report)
    assert [way.start for way in report.ways] == ["snapshot 9", "snapshot 12", "snapshot 12, 1 increments up to 21"]
    assert {way.digest for way in report.ways} == {state_digest(directory)} == {report.digest}
    assert (report.oldest, report.epoch, report.events, report.commits) == (9, EPOCHS, 10 * EPOCHS, 14)
    files = [file for file in directory.rglob("*") if file.is_file() and file.name != "LOCK"]
    assert (report.files, report.bytes) == (len(files), sum(file.stat().st_size for file in files) - seals(directory))


def seals(directory: Path) -> int:
    """Bytes of the records that lead from one segment to the next: they are no commits."""
    segments = sorted((directory / "log").iterdir())[:-1]
    return sum(frame.HEADER_BYTES + 24 + len(frame.END) for _ in segments)


def test_the_whole_log_is_a_way_too(tmp_path: Path) -> None:
    write_epochs(tmp_path, 1, 5)
    report = tools.verify(tmp_path)
    assert [way.start for way in report.ways] == ["the whole log"]
    assert report.ok


@pytest.mark.parametrize("flips", [20, pytest.param(2000, marks=pytest.mark.long)])
def test_every_flipped_bit_is_found(directory: Path, flips: int) -> None:
    """In any file but the lock; a sample of all places, with those at the edges of records among them."""
    files = [file for file in sorted(directory.rglob("*")) if file.is_file() and file.name != "LOCK"]
    places = [(file, at) for file in files for at in range(file.stat().st_size)]
    chosen = random.Random(1).sample(places, flips) + [(file, 0) for file in files] + [(files[1], 39), (files[1], 40)]
    for file, at in chosen:
        before = file.read_bytes()
        flip(file, at)
        report = tools.verify(directory)
        assert not report.ok, f"{file.relative_to(directory)}, byte {at}"
        assert str(file) in str(report)
        file.write_bytes(before)
    assert tools.verify(directory).ok


@pytest.mark.parametrize("name", ["snapshots/*12.snap", "snapshots/*09.snap", "snapshots/*.inc", "log/*13.wal"])
def test_damage_where_there_is_a_second_copy_costs_nothing(directory: Path, name: str) -> None:
    (file,) = directory.glob(name)
    wanted = state_digest(directory)
    flip(file, file.stat().st_size // 2)
    report = tools.verify(directory)
    (damage,) = report.damages
    assert damage.file == file
    assert re.search(r"byte \d+: ", damage.what)
    assert damage.lost.startswith("nothing: the state is whole from snapshot ")
    assert "next snapshot" in damage.remedy
    assert report.digest == wanted
    assert "damage: " in str(report)


def test_damage_to_the_end_of_the_log_names_a_rescue_that_works(directory: Path, tmp_path: Path) -> None:
    with ms.open(directory) as db, db.as_of(batch=21) as old:
        wanted = {name: old.table(name) for name in old.tables}
    segment = max((directory / "log").iterdir())
    flip(segment, 60)
    report = tools.verify(directory)
    (damage,) = report.damages
    assert (damage.file, damage.lost) == (segment, "epochs 22 to 23")
    rescue = re.search(r"`mainstem restore (\S+) NEW_DIR --as-of-batch (\d+)`", damage.remedy)
    assert rescue is not None
    made = tools.restore(rescue[1], tmp_path / "rescued", as_of_batch=int(rescue[2]))
    assert (made.epoch, made.digest) == (21, digest(wanted))
    assert tools.verify(tmp_path / "rescued").ok


def test_several_damages_are_all_told(directory: Path) -> None:
    damaged = [*(directory / "snapshots").iterdir(), min((directory / "log").iterdir()), directory / "FORMAT"]
    for file in damaged[:-1]:
        flip(file, file.stat().st_size // 2)
    assert {damage.file for damage in tools.verify(directory).damages} == set(damaged[:-1])
    flip(damaged[-1], 50)
    (damage,) = tools.verify(directory).damages
    assert (damage.file, damage.lost) == (directory / "FORMAT", "what the tables are; their rows may be whole")


def test_missing_files_are_told(directory: Path) -> None:
    shard = next((directory / "shards" / "1").glob("e23*"))
    shard.rename(directory / "elsewhere")
    (damage,) = tools.verify(directory).damages
    assert "is missing; it holds committed rows of shard 1" in damage.what
    (directory / "elsewhere").rename(shard)
    (directory / "log" / f"{16:020d}.wal").unlink()
    report = tools.verify(directory)
    assert "has no segment for epoch 16" in str(report)
    assert not report.ok


def test_ways_that_disagree_are_told_although_every_checksum_holds(directory: Path) -> None:
    layout = Layout(directory)
    store = read_format(layout).store
    good = load_snapshot(layout, store, 12)
    rows = accounts(3).drop_columns("_deleted").cast(SCHEMAS[0].arrow)
    tables = dict(good.read()) | {"Account": rows}
    write_snapshot(layout, store, 0, 12, good.meta, good.shards, tables)
    report = tools.verify(directory)
    assert len(report.damages) == 1
    assert "two ways to the state after epoch 23 disagree: from snapshot 9" in report.damages[0].what


def test_an_unfinished_record_is_no_damage(directory: Path) -> None:
    segment = max((directory / "log").iterdir())
    size = segment.stat().st_size
    with segment.open("ab") as file:
        file.write(segment.read_bytes()[:100])
    report = tools.verify(directory)
    assert report.ok
    assert report.notes[0].startswith(f"{segment} ends with 100 bytes of a commit that was never finished")
    assert segment.stat().st_size == size + 100, "it is left alone"


def test_outputs_of_the_last_commit_are_read(tmp_path: Path) -> None:
    bank().run(transfers(0, 50), state=tmp_path / "state", out=tmp_path / "out", batch=20, jit=False)
    assert tools.verify(tmp_path / "state").ok
    last = max((tmp_path / "out").glob("part-*.parquet"))
    last.write_bytes(last.read_bytes()[:-9])
    (damage,) = tools.verify(tmp_path / "state").damages
    assert (damage.file, damage.lost) == (last, "these outputs, no state")
    last.unlink()
    assert tools.verify(tmp_path / "state").ok, "who reads outputs may take them away"


def test_progress_rises_to_its_total(directory: Path) -> None:
    told: list[tuple[int, int]] = []
    tools.verify(directory, progress=lambda done, total: told.append((done, total)))
    assert told == sorted(told)
    assert len(told) > 20
    assert all(done <= total for done, total in told)


def test_what_is_no_directory_of_ours_is_an_error(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match="is not a Mainstem directory"):
        tools.verify(tmp_path / "nowhere")
    monkeypatch.setattr(frame, "FORMAT_VERSION", 1)
    with pytest.raises(StoreError, match=r"written in format \d+, this Mainstem reads up to 1\n  install a newer"):
        tools.verify(directory)


def write_on(path: Path, stop: multiprocessing.synchronize.Event, begun: multiprocessing.synchronize.Event) -> None:
    with Store.open(path, SCHEMAS, segment_commits=4, segment_bytes=4000) as store:
        while not stop.is_set() or store.epoch < 60:
            store.commit({"Account": accounts(store.epoch + 1)}, {"seq": store.epoch + 1, "ts": store.epoch + 1})
            begun.set()
            time.sleep(0.002)  # else most of what there is to read was written since


def test_beside_a_writer(tmp_path: Path) -> None:
    """Snapshots come and go while it reads; nothing is called damaged, and the writer is not disturbed."""
    path = tmp_path / "busy"
    context = multiprocessing.get_context("fork")
    stop, begun = context.Event(), context.Event()
    writer = context.Process(target=write_on, args=(path, stop, begun))
    writer.start()
    try:
        assert begun.wait(30)
        reports = [tools.verify(path) for _ in range(6)]
        seen = tools.inspect(path)
    finally:
        stop.set()
        writer.join(60)
    assert writer.exitcode == 0
    assert all(report.ok for report in reports), "\n".join(map(str, reports))
    assert reports[-1].epoch > reports[0].epoch
    assert seen.writer is not None
    assert seen.writer.pid == writer.pid
    assert tools.inspect(path).writer is None
    assert tools.verify(path).ok


def test_damage_beside_a_writer_is_told_by_the_real_names(directory: Path, tmp_path: Path) -> None:
    with Store.open(directory, SCHEMAS) as store:
        assert tools.verify(directory).ok
        (snapshot,) = directory.glob("snapshots/*12.snap")
        flip(snapshot, 100)
        flip(max((directory / "log").iterdir()), 60)
        report = tools.verify(directory)
        assert {damage.file for damage in report.damages} == {snapshot, max((directory / "log").iterdir())}
        assert "mainstem-pinned" not in str(report)
        assert report.path == directory
        for wrong in ({"as_of_batch": 3}, {"tables": ["Nothing"], "as_of_batch": 20}):
            with pytest.raises(StoreError, match=str(directory)) as caught:
                tools.export(directory, tmp_path / "out", **wrong)
            assert "mainstem-pinned" not in str(caught.value)
        assert store.epoch == EPOCHS


def test_more_files_than_a_process_may_open(directory: Path) -> None:
    """Then they are read as they are."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Store.open(directory, SCHEMAS):
        resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 10, allowed[1]))
        try:
            report = tools.verify(directory)
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, allowed)
    assert report.ok


def test_a_copy_of_a_directory_is_verified_like_the_original(tmp_path: Path) -> None:
    original = make_directory(tmp_path / "original")
    shutil.copytree(original, tmp_path / "copy")
    assert tools.verify(tmp_path / "copy").digest == tools.verify(original).digest


def test_a_table_that_was_taken_in_later(directory: Path) -> None:
    """Old files lack it, and all ways agree nevertheless."""
    wider = (SCHEMAS[0], ms.schema.TableSchema("Extra", SCHEMAS[0].key, True, SCHEMAS[0].fields), SCHEMAS[1])
    with Store.open(directory, wider) as store:
        store.commit({"Extra": pa.table({"key": [1], "balance": [2], "owner": ["x"]})}, store.meta)
    report = tools.verify(directory)
    assert report.ok, str(report)
    assert report.epoch == EPOCHS + 1
