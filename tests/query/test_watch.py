"""Following commits: every one, once, in order, whole; from files alone."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import store_driver as driver
from store_driver import SCHEMAS, VISIT, accounts, visits

from mainstem.errors import QueryError, StoreError
from mainstem.query import Change, open_db
from mainstem.schema import Field, TableSchema
from mainstem.store import ShardFile, Store, write_shard_file
from mainstem.store.layout import Layout

EPOCHS = 60


def keyed(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


def test_the_changes_of_a_small_store(small: Path) -> None:
    with open_db(small) as db:
        changes = list(db.watch(since=0, timeout=0))
        assert [(change.epoch, change.ts, sorted(change.tables)) for change in changes] == [
            (1, 100, ["Account"]),
            (2, 200, ["Account", "Visit"]),
            (3, 300, ["Account", "Visit"]),
            (4, 400, ["Account", "Visit"]),
            (5, 500, ["Account"]),
        ]
        assert changes[0]["Account"].to_pylist() == [{"key": 1, "balance": 10, "owner": "a", "_deleted": False}]
        assert changes[2]["Account"]["_deleted"].to_pylist() == [True]
        assert keyed(changes[1]["Visit"]) == [("x", 1, 1, False), ("y", 1, 1, False)]
        assert keyed(changes[2]["Visit"]) == [("x", 1, 2, False)]
        assert [change.epoch for change in db.watch("visit", since=1, timeout=0)] == [2, 3, 4]
        assert list(db.watch(timeout=0)) == [], "from now on"


def test_changes_add_up_to_the_state(tmp_path: Path) -> None:
    """Across rotations, snapshots and deletions, with a writer in another thread."""
    start = threading.Event()

    def write() -> None:
        with Store.open(tmp_path, SCHEMAS, durability="none", keep=100, segment_commits=7) as store:
            state = driver.empty()
            start.set()
            for epoch in range(1, EPOCHS + 1):
                changes = driver.account_changes(state, epoch)
                driver.apply(state, "Account", changes)
                store.commit({"Account": changes}, {"ts": epoch})
                if epoch % 20 == 0:
                    store.snapshot()

    writer = threading.Thread(target=write)
    writer.start()
    assert start.wait(60)
    state = driver.empty()
    with open_db(tmp_path) as db:
        watching = db.watch(since=0, timeout=60)
        for expected in range(1, EPOCHS + 1):
            change = next(watching)
            assert (change.epoch, change.ts) == (expected, expected)
            driver.apply(state, "Account", change["Account"])
        writer.join()
        watching.close()  # type: ignore[attr-defined]
        assert driver.rebuild([("Account", db.table("Account"))]) == state


def test_rows_that_move_between_shards_are_not_deleted(tmp_path: Path) -> None:
    """A base tells all rows of a shard: what it changed is found out."""

    def put(shard: int, rows: list[tuple[str, int, int]], *, base: bool) -> ShardFile:
        return write_shard_file(tmp_path, shard, "t", {"Visit": visits(rows)}, base)

    with Store.open(tmp_path, SCHEMAS, durability="none") as store, open_db(tmp_path) as db:
        store.commit({"Visit": visits([("a", 1, 1), ("b", 1, 1)])}, {})
        watching = db.watch("Visit", since=0, timeout=10)
        assert keyed(next(watching)["Visit"]) == [("a", 1, 1, False), ("b", 1, 1, False)]
        gone = visits([("a", 1, 1), ("b", 1, 1)]).append_column("_deleted", pa.array([True, True]))
        store.commit({"Visit": gone}, {}, [put(0, [("a", 1, 1)], base=True), put(1, [("b", 1, 5)], base=True)])
        assert keyed(next(watching)["Visit"]) == [("a", 1, 1, False), ("b", 1, 5, False)]
        store.commit({}, {}, [put(0, [("a", 1, 2), ("c", 1, 1)], base=False)])
        assert keyed(next(watching)["Visit"]) == [("a", 1, 2, False), ("c", 1, 1, False)]
        store.commit({}, {}, [put(0, [("a", 1, 2), ("c", 1, 7)], base=True)])
        assert keyed(next(watching)["Visit"]) == [("c", 1, 7, False)], "the base only repeats the others"
        store.commit({}, {}, [put(0, [("c", 1, 7)], base=True)])
        assert keyed(next(watching)["Visit"]) == [("a", 1, 0, True)]
        store.commit({}, {}, [put(0, [("b", 1, 5)], base=True), put(1, [("c", 1, 7)], base=True)])
        assert keyed(next(watching)["Visit"]) == [("b", 1, 5, False), ("c", 1, 7, False)], "they changed places"
        store.commit({"Visit": visits([("b", 1, 5)])}, {}, [ShardFile.dropped(0), ShardFile.dropped(1)])
        assert keyed(next(watching)["Visit"]) == [("b", 1, 5, False), ("c", 1, 0, True)]
        assert db.table("Visit") == visits([("b", 1, 5)])


def test_new_fields_are_followed(tmp_path: Path) -> None:
    more = TableSchema(
        "Account", driver.ACCOUNT.key, True, (*driver.ACCOUNT.fields, Field("limit", driver.ACCOUNT.fields[0].type, 7))
    )
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 1, "a")])}, {})
    with open_db(tmp_path) as db:
        watching = db.watch(since=0, timeout=10)
        assert next(watching)["Account"].column_names == ["key", "balance", "owner", "_deleted"]
        with Store.open(tmp_path, [more, VISIT]) as store:
            columns = [pa.array([2]), pa.array([2]), pa.array(["b"]), pa.array([9])]
            store.commit({"Account": pa.table(columns, schema=more.arrow)}, {})
        assert next(watching)["Account"].to_pylist()[0]["limit"] == 9
        assert db.table("Account")["limit"].to_pylist() == [7, 9]


def test_what_is_not_kept_is_named(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, durability="none", keep=1) as store, open_db(tmp_path) as db:
        behind = db.watch(timeout=10)
        for number in range(1, 13):
            store.commit({"Account": accounts([(1, number, "a")])}, {})
            if number % 3 == 0:
                store.snapshot()
        first = Layout(tmp_path).segment_epochs()[0]
        assert first > 2
        for since in (0, first - 2):
            with pytest.raises(QueryError, match=f"keeps changes since epoch {first - 1}, not since {since}\n"):
                db.watch(since=since)
        with pytest.raises(QueryError, match="to 12, not 13"):
            db.watch(since=13)
        with pytest.raises(QueryError, match="keeps changes since epoch"):
            db.watch(since="now")  # type: ignore[arg-type]
        with pytest.raises(QueryError, match=f"since epoch {first - 1}, this watch has seen them up to 0"):
            next(behind)
        assert [change.epoch for change in db.watch(since=first - 1, timeout=0)] == list(range(first, 13))


def test_a_directory_that_is_made_anew_ends_a_watch(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with Store.open(path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 1, "a")])}, {})
    with open_db(path) as db:
        watching = db.watch(since=0, timeout=10)
        assert next(watching).epoch == 1
        shutil.rmtree(path)
        with Store.open(path, SCHEMAS) as store:
            store.commit({"Account": accounts([(1, 1, "b")])}, {})
        with pytest.raises(QueryError, match=r"was made anew\n  watch it again"):
            next(watching)
        watching = db.watch(since=0, timeout=10)
        assert next(watching)["Account"]["owner"].to_pylist() == ["b"]
        shutil.rmtree(path)
        with pytest.raises(StoreError, match="is not a Mainstem directory"):
            next(watching)


def test_a_watch_waits(tmp_path: Path) -> None:
    found: list[Change] = []
    with Store.open(tmp_path, SCHEMAS, durability="none") as store, open_db(tmp_path) as db:
        watching = db.watch("Account", timeout=60)
        waiter = threading.Thread(target=lambda: found.extend(itertools.islice(watching, 2)))
        waiter.start()
        for number in range(2):
            time.sleep(0.1)
            store.commit({"Account": accounts([(1, number, "a")])}, {})
            store.commit({"Visit": visits([("a", 1, number)])}, {})
        waiter.join(60)
        assert [change.epoch for change in found] == [1, 3]


def test_the_command_prints_lines_and_ends_with_ctrl_c(small: Path) -> None:
    command = [sys.executable, "-m", "mainstem", "watch", str(small), "Account", "--since", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watch:
        assert watch.stdout is not None
        lines = [watch.stdout.readline() for _ in range(4)]
        watch.send_signal(signal.SIGINT)
        assert watch.wait(60) == 130
    assert lines[1] == ('{"epoch":4,"ts":400,"table":"Account","key":3,"balance":30,"owner":"c","_deleted":false}\n')
    assert [line.split(",")[0] for line in lines] == ['{"epoch":3', '{"epoch":4', '{"epoch":5', '{"epoch":5']
