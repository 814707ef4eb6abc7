"""Queries beside a writer: whole commits only, from any process, whatever the writer drops meanwhile."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest
import store_driver as driver
from store_driver import SCHEMAS, accounts, visits

from mainstem.errors import CorruptError, InputError, StoreError
from mainstem.query import Database, open_db
from mainstem.query.view import View
from mainstem.store import Store, write_shard_file
from mainstem.store.layout import Layout
from mainstem.store.log import Commit

TOTAL = 1000

WRITER = """
import os, sys
sys.path.insert(0, sys.argv[1])
import store_driver as driver
from mainstem.store import Store, write_shard_file
balances = {key: 100 for key in range(10)}
def rows(keys): return driver.accounts((key, balances[key], "x") for key in keys)
with Store.open(sys.argv[2], driver.SCHEMAS, segment_bytes=5000) as store:
    store.commit({"Account": rows(balances)}, {"turn": 0})
    print("ready", flush=True)
    for turn in range(1, 1_000_000):
        if os.path.exists(sys.argv[3]):
            break
        source, target, amount = turn % 10, turn * 7 % 10, turn % 13
        balances[source] -= amount
        balances[target] += amount
        visits = driver.visits([("x", day, turn if day == turn % 3 else 0) for day in range(3)])
        base = turn % 4 == 0
        files = [write_shard_file(sys.argv[2], 0, "t", {"Visit": visits}, base)]
        store.commit({"Account": rows({source, target})}, {"turn": turn}, files)
        if turn % 5 == 0:
            store.snapshot()
"""


def check_version(db: Database) -> None:
    """Rows, shard files and meta belong to one commit."""
    turn = db.epoch - 1
    assert db.meta == {"turn": turn}
    assert sum(db.table("Account")["balance"].to_pylist()) == TOTAL
    # Every commit after the first writes its turn to one of three rows, and zeros to the others.
    assert sorted(db.table("Visit")["count"].to_pylist()) == ([0, 0, turn] if turn else [])
    assert db.get("Visit", ("x", turn % 3)) == ({"count": turn} if turn else None)


def test_a_reader_beside_a_writer_sees_whole_commits_only(tmp_path: Path) -> None:
    stop = tmp_path / "stop"
    command = [sys.executable, "-c", WRITER, str(Path(driver.__file__).parent), str(tmp_path / "s"), str(stop)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "ready\n"
            seen = [0]
            with open_db(tmp_path / "s", follow=False) as db:
                while len(seen) < 40:
                    assert writer.poll() is None
                    if db.refresh() > seen[-1]:
                        check_version(db)
                        seen.append(db.epoch)
                    with open_db(tmp_path / "s", follow=False) as fresh:
                        check_version(fresh)
                        assert fresh.epoch >= db.epoch
            stop.touch()
            assert writer.wait(30) == 0
        finally:
            writer.kill()
        with open_db(tmp_path / "s") as db:
            assert db.epoch > seen[-1] - 1
            check_version(db)


def test_queries(small: Path) -> None:
    with open_db(small) as db:
        assert (db.epoch, db.meta, db.tables, db.warnings) == (5, {"batch": 5, "ts": 500}, ["Account", "Visit"], [])
        assert db.get("Account", 2) == {"balance": 20, "owner": "b"}
        assert db.get("account", 1) is None, "deleted"
        assert db.get("VISIT", ("x", 1)) == {"count": 2}
        assert db.table("account") == accounts([(2, 20, "b"), (3, 31, "c"), (4, 40, "d")])
        assert db.table("Visit") == visits([("x", 1, 2), ("y", 1, 1), ("z", 1, 3)])
        answer = db.sql("select owner, balance from ACCOUNT where balance > 20 order by key")
        assert answer.to_pylist() == [{"owner": "c", "balance": 31}, {"owner": "d", "balance": 40}]
        joined = db.sql('with a as (select * from Account) select count(*) n from a, "Visit" v where v.count < 3')
        assert joined.to_pylist() == [{"n": 6}]
        assert db.sql("show tables")["name"].to_pylist() == ["Account", "Visit"]


def test_unknown_names_list_the_tables(small: Path) -> None:
    with open_db(small) as db:
        listed = rf"tables of {small}: Account, Visit"
        for action in (lambda: db.get("Nobody", 1), lambda: db.table("Nobody")):
            with pytest.raises(StoreError, match=f"unknown table Nobody\n  {listed}"):
                action()
        for query in ("select * from Nobody", "select nothing from Account", "selec 1"):
            with pytest.raises(StoreError, match=f"(?s)the query failed: .*\n  {listed}"):
                db.sql(query)
        with pytest.raises(InputError):
            db.get("Visit", "not a tuple")
        table = db.table("Account")  # must not be found by name from SQL
        with pytest.raises(StoreError, match="the query failed"):
            db.sql("select * from table")
        assert table.num_rows == 3


def test_every_query_takes_in_new_commits(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store, open_db(tmp_path) as db, open_db(tmp_path, follow=False) as still:
        assert db.table("Account").num_rows == 0
        store.commit({"Account": accounts([(1, 1, "a")])}, {"batch": 1})
        assert (db.get("Account", 1), still.get("Account", 1)) == ({"balance": 1, "owner": "a"}, None)
        store.commit({"Account": accounts([(2, 5, "b")])}, {"batch": 2})
        assert db.sql("select sum(balance) s from Account").to_pylist() == [{"s": 6}]
        store.commit({"Account": accounts([(1, 0, "")], [True])}, {"batch": 3})
        assert db.table("Account") == accounts([(2, 5, "b")])
        assert (still.epoch, still.meta, still.refresh(), still.epoch) == (0, {}, 3, 3)


def test_a_reader_survives_rotation_snapshots_and_trims(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, segment_bytes=1) as store, open_db(tmp_path) as near, open_db(tmp_path) as far:
        for number in range(1, 9):
            table = accounts([(1, number, "a")])
            store.commit({"Account": table}, {})
            if number % 2 == 0:
                store.snapshot()
            assert near.get("Account", 1) == {"balance": number, "owner": "a"}
        assert Layout(tmp_path).segment_epochs()[0] > 2, "what `far` has open is long gone"
        assert far.get("Account", 1) == {"balance": 8, "owner": "a"}
        assert far.epoch == 8


def test_a_base_takes_rows_away(tmp_path: Path) -> None:
    """Rows that a base no longer holds vanish for a reader that had them."""

    def put(rows: list[tuple[str, int, int]], base: bool) -> None:
        store.commit({}, {}, [write_shard_file(tmp_path, 0, "t", {"Visit": visits(rows)}, base)])

    with Store.open(tmp_path, SCHEMAS) as store, open_db(tmp_path) as db:
        put([("a", 1, 1), ("b", 1, 1)], base=True)
        assert db.table("Visit").num_rows == 2
        put([("b", 1, 2)], base=False)
        assert db.table("Visit") == visits([("a", 1, 1), ("b", 1, 2)])
        put([("b", 1, 3)], base=True)
        assert db.table("Visit") == visits([("b", 1, 3)])


def test_a_directory_made_anew_is_read_anew(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s", SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 1, "old")])}, {})
    with open_db(tmp_path / "s") as db:
        assert db.epoch == 1
        shutil.rmtree(tmp_path / "s")
        with pytest.raises(StoreError, match="is not a Mainstem directory"):
            db.refresh()
        Store.open(tmp_path / "s", SCHEMAS).close()
        assert (db.epoch, db.table("Account").num_rows) == (0, 0)


def test_damage_met_while_following_is_reported_every_time(tmp_path: Path) -> None:
    """A reader that failed once must not go on behind the damage."""
    with Store.open(tmp_path, SCHEMAS) as store, open_db(tmp_path) as db:
        store.commit({"Account": accounts([(1, 1, "a")])}, {})
        assert db.epoch == 1
        store.commit({"Account": accounts([(1, 2, "a")])}, {})
        segment = Layout(tmp_path).segment(1)
        data = bytearray(segment.read_bytes())
        data[-100] ^= 1
        segment.write_bytes(data)
        store.commit({"Account": accounts([(2, 2, "a")])}, {})
        for _ in range(2):
            with pytest.raises(CorruptError, match="lost: epochs 2 to 3"):
                db.get("Account", 2)
        data[-100] ^= 1
        segment.write_bytes(bytes(data) + segment.read_bytes()[len(data) :])
        assert (db.get("Account", 1), db.get("Account", 2)) == (
            {"balance": 2, "owner": "a"},
            {"balance": 2, "owner": "a"},
        )


def test_a_lost_shard_file_is_reported_every_time(tmp_path: Path) -> None:
    """The log reads well, what it names is gone: a reader that has read the log must not take that for done."""
    with Store.open(tmp_path, SCHEMAS) as store, open_db(tmp_path) as db:
        file = write_shard_file(tmp_path, 0, "t", {"Visit": visits([("a", 1, 1)])}, base=True)
        store.commit({}, {}, [file])
        path = Layout(tmp_path).shard_file(0, file.name)
        path.rename(tmp_path / "elsewhere")
        for _ in range(2):
            with pytest.raises(CorruptError, match=file.name):
                db.get("Visit", ("a", 1))
        (tmp_path / "elsewhere").rename(path)
        assert db.get("Visit", ("a", 1)) == {"count": 1}


def test_an_interrupt_while_following_loses_no_commit(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(view: View, commit: Commit) -> bool:
        raise KeyboardInterrupt

    with open_db(small) as db, Store.open(small, SCHEMAS) as store:
        store.commit({"Account": accounts([(7, 70, "g")])}, {"batch": 6})
        with monkeypatch.context() as patch:
            patch.setattr(View, "apply_commit", interrupted)
            with pytest.raises(KeyboardInterrupt):
                db.get("Account", 7)
        assert db.get("Account", 7) == {"balance": 70, "owner": "g"}
        assert db.epoch == 6


def test_what_a_reader_shows_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer may not have synced yet: then the reader does, before anybody can act on the commit."""
    with Store.open(tmp_path, SCHEMAS, durability="none") as store, open_db(tmp_path) as db:
        store.commit({"Account": accounts([(1, 1, "a")])}, {})
        synced = []
        monkeypatch.setattr("mainstem.store.disk.sync", lambda fd: synced.append(fd))
        assert db.epoch == 1
        assert len(synced) == 1
        assert db.epoch == 1
        assert len(synced) == 1, "once per news"


def test_many_threads_share_a_reader(small: Path) -> None:
    answers: list[pa.Table] = []
    with open_db(small) as db:
        query = "select sum(balance) total from Account"
        threads = [threading.Thread(target=lambda: answers.append(db.sql(query))) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [answer.to_pylist() for answer in answers] == [[{"total": 91}]] * 8


def test_not_a_store(tmp_path: Path) -> None:
    for path, what in ((tmp_path, "it has no file FORMAT"), (tmp_path / "none", "it does not exist")):
        with pytest.raises(StoreError, match=rf"{path} is not a Mainstem directory: {what}\n  give the directory that"):
            open_db(path)


def test_a_closed_reader_refuses(small: Path) -> None:
    db = open_db(small)
    db.close()
    db.close()
    with pytest.raises(StoreError, match=r"is closed\n  open it again with ms.open"):
        db.get("Account", 1)
