"""Shard files: written by tasks, named by commits, replaced by bases."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest
from store_driver import SCHEMAS, accounts, contents, rebuild, visits

from mainstem.errors import CorruptError, StoreError
from mainstem.query import open_db
from mainstem.store import ShardFile, Store, read_shard_files, write_shard_file
from mainstem.store.layout import Layout


def put(path: Path, shard: int, rows: list[tuple[str, int, int]], base: bool = False) -> ShardFile:
    return write_shard_file(path, shard, "token", {"Visit": visits(rows)}, base)


def on_disk(path: Path) -> set[str]:
    return {entry.name for entry in Layout(path).shards.rglob("*.shard")}


def task(path: Path, shard: int) -> ShardFile:
    return put(path, shard, [("x", shard, shard)], base=True)


def test_tasks_in_other_processes_write_while_the_store_is_open(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            files = list(pool.map(task, [tmp_path] * 4, range(4)))
        store.commit({}, {}, files)
        assert store.shard_files == {file.shard: [file] for file in files}
        assert rebuild(store.replay())["Visit"] == {("x", shard): (shard,) for shard in range(4)}


def test_attempts_have_different_names(tmp_path: Path) -> None:
    Store.open(tmp_path, SCHEMAS).close()
    assert put(tmp_path, 0, []).name != put(tmp_path, 0, []).name


def test_state_of_a_shard_is_its_newest_base_and_what_follows(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        first = [put(tmp_path, 0, [("a", 1, 1), ("b", 1, 1)], base=True), put(tmp_path, 1, [("c", 1, 1)])]
        store.commit({}, {}, first)
        change = put(tmp_path, 0, [("a", 1, 2)])
        store.commit({"Account": accounts([(1, 1, "x")])}, {}, [change])
        assert store.shard_files == {0: [first[0], change], 1: [first[1]]}
        base = put(tmp_path, 0, [("a", 1, 3)], base=True)
        store.commit({}, {}, [base])
        assert store.shard_files == {0: [base], 1: [first[1]]}
        assert list(read_shard_files(tmp_path, store.shard_files[0])) == [("Visit", visits([("a", 1, 3)]))]
        assert on_disk(tmp_path) == {base.name, first[1].name}, "replaced files are gone"
    expected = {"Account": {(1,): (1, "x")}, "Visit": {("a", 1): (3,), ("c", 1): (1,)}}
    assert contents(tmp_path)[2] == expected


def test_files_of_kept_snapshots_stay(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        bases = []
        kept = []
        for number in range(5):
            bases.append(put(tmp_path, 0, [("a", 1, number)], base=True))
            store.commit({}, {}, [bases[-1]])
            store.snapshot()
            kept.append([base.name in on_disk(tmp_path) for base in bases])
        assert kept[-2:] == [[False, False, True, True], [False, False, False, True, True]]
        store.commit({}, {}, [put(tmp_path, 0, [("a", 1, 9)], base=True)])
        assert {bases[-1].name, bases[-2].name} <= on_disk(tmp_path), "snapshots 4 and 5 name them"
    assert contents(tmp_path)[2]["Visit"] == {("a", 1): (9,)}
    assert {bases[-1].name, bases[-2].name} <= on_disk(tmp_path), "also after reopening"


def test_unnamed_files_are_removed_when_the_writer_opens(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        named = put(tmp_path, 0, [("a", 1, 1)])
        store.commit({}, {}, [named])
        lost = put(tmp_path, 0, [("a", 1, 2)])
        store.commit({}, {}, [])
        assert lost.name in on_disk(tmp_path), "a task may still be about to have it committed"
    with open_db(tmp_path):
        assert lost.name in on_disk(tmp_path), "readers remove nothing"
    Store.open(tmp_path, SCHEMAS).close()
    assert on_disk(tmp_path) == {named.name}


def test_a_file_that_is_not_there_cannot_be_committed(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        with pytest.raises(StoreError, match=r"can't commit shard files that are not there: .*shards/3/nothing\.shard"):
            store.commit({}, {}, [ShardFile(3, "nothing.shard", False)])
        assert store.commit({}, {}) == 1


def test_a_file_of_another_shard_is_refused(tmp_path: Path) -> None:
    Store.open(tmp_path, SCHEMAS).close()
    file = put(tmp_path, 0, [("a", 1, 1)])
    layout = Layout(tmp_path)
    layout.shard_file(1, "x").parent.mkdir()
    layout.shard_file(0, file.name).rename(layout.shard_file(1, file.name))
    with pytest.raises(CorruptError, match="is of shard 0, not 1"):
        list(read_shard_files(tmp_path, [ShardFile(1, file.name, False)]))
    with pytest.raises(CorruptError, match="is missing; it holds committed rows of shard 0"):
        list(read_shard_files(tmp_path, [file]))


@pytest.mark.parametrize("token", ["", "../x", ".hidden", "a b", "a/b"])
def test_tokens_are_file_names(token: str, tmp_path: Path) -> None:
    Store.open(tmp_path, SCHEMAS).close()
    with pytest.raises(StoreError, match="use a number from 0 and letters"):
        write_shard_file(tmp_path, 0, token, {}, base=False)


def test_a_base_holds_no_deletions_and_only_known_tables(tmp_path: Path) -> None:
    Store.open(tmp_path, SCHEMAS).close()
    gone = {"Account": accounts([(1, 1, "a")], [True])}
    assert write_shard_file(tmp_path, 0, "t", gone, base=False).base is False
    with pytest.raises(StoreError, match="_deleted"):
        write_shard_file(tmp_path, 0, "t", gone, base=True)
    with pytest.raises(StoreError, match="unknown table Nobody"):
        write_shard_file(tmp_path, 0, "t", {"Nobody": gone["Account"]}, base=False)
