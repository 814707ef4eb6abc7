"""Earlier versions: right to the row, whatever was folded into snapshots since; what is gone is named."""

from __future__ import annotations

from pathlib import Path

import pytest
import store_driver as driver
from store_driver import SCHEMAS, accounts, visits

from mainstem.errors import QueryError, StoreError
from mainstem.query import Database, open_db
from mainstem.store import Store, write_shard_file
from mainstem.store.layout import Layout

EPOCHS = 40


def rows(db: Database) -> list[dict[str, object]]:
    return db.table("Account").to_pylist()


def commit(store: Store, state: driver.Rows, epoch: int) -> None:
    changes = driver.account_changes(state, epoch)
    driver.apply(state, "Account", changes)
    store.commit({"Account": changes}, {"ts": 10 * epoch})


@pytest.mark.parametrize("snapshots", [(), (5,), (3, 4, 11, 20, 21, 33)])
def test_every_version_is_the_state_of_that_moment(tmp_path: Path, snapshots: tuple[int, ...]) -> None:
    seen = []
    with Store.open(tmp_path, SCHEMAS, keep=100, durability="none") as store, open_db(tmp_path) as db:
        state = driver.empty()
        seen.append(rows(db))
        for epoch in range(1, EPOCHS + 1):
            commit(store, state, epoch)
            seen.append(rows(db))
            if epoch in snapshots:
                store.snapshot()
        for epoch, expected in enumerate(seen):
            with db.as_of(batch=epoch) as then:
                assert (then.epoch, rows(then)) == (epoch, expected)
                assert then.refresh() == epoch, "it stays there"
        assert [db.as_of(ts=ts).epoch for ts in (-5, 0, 9, 10, 19, 395, 400, 10_000)] == [0, 0, 0, 1, 1, 39, 40, 40]
        assert db.as_of(ts=57).as_of(batch=7).meta == {"ts": 70}


def test_a_version_answers_all_queries(small: Path) -> None:
    with open_db(small) as db, db.as_of(batch=2) as then:
        assert then.get("Account", 1) == {"balance": 10, "owner": "a"}
        assert then.get_many("Account", [2, 3]) == [{"balance": 20, "owner": "b"}, None]
        assert then.table("Visit") == visits([("x", 1, 1), ("y", 1, 1)])
        assert then.sql("select sum(balance)::int s from Account").to_pylist() == [{"s": 30}]
        assert then.scan("Account", "key = 2", columns=["owner"]).to_pylist() == [{"owner": "b"}]
        assert [change.epoch for change in then.watch(timeout=0)] == [3, 4, 5]
    with pytest.raises(StoreError, match="is closed"):
        then.get("Account", 1)


def test_it_stays_while_the_writer_goes_on_and_drops_its_files(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, durability="none", keep=1) as store, open_db(tmp_path) as db:
        state = driver.empty()
        commit(store, state, 1)
        then, expected = db.as_of(batch=1), rows(db)
        for epoch in range(2, 30):
            commit(store, state, epoch)
            if epoch % 3 == 0:
                store.snapshot()
        assert Layout(tmp_path).segment_epochs()[0] > 1, "epoch 1 is gone"
        assert (rows(then), then.epoch) == (expected, 1)
        oldest = Layout(tmp_path).snapshot_epochs()[0]
        with pytest.raises(QueryError, match=f"keeps the versions after epoch {oldest} to 29, not 1\n"):
            db.as_of(batch=1)
        with pytest.raises(QueryError, match=f"as old as ts 10: the oldest is epoch {oldest}, of ts {oldest}0"):
            db.as_of(ts=10)
        assert db.as_of(batch=oldest).epoch == oldest
        assert db.as_of(batch=29).table("Account") == db.table("Account")


def test_what_is_not_there_is_named(small: Path) -> None:
    with open_db(small) as db:
        for batch in (6, -1):
            with pytest.raises(QueryError, match=rf"{small} keeps the versions after epoch 0 to 5, not {batch}\n"):
                db.as_of(batch=batch)
        for wrong in ({}, {"batch": 1, "ts": 1}, {"batch": "1"}, {"ts": 1.5}, {"batch": True}):
            with pytest.raises(QueryError, match="as_of"):
                db.as_of(**wrong)  # type: ignore[arg-type]


def test_shard_files_of_earlier_versions(tmp_path: Path) -> None:
    """They stay until a newer base replaces them; then the version can't be shown any more, and says so."""

    def put(store: Store, name: str, count: int, *, base: bool) -> None:
        file = write_shard_file(tmp_path, 0, "t", {"Visit": visits([(name, 1, count)])}, base)
        store.commit({"Account": accounts([(1, count, "a")])}, {}, [file])

    with Store.open(tmp_path, SCHEMAS, durability="none") as store, open_db(tmp_path) as db:
        put(store, "a", 1, base=True)
        put(store, "b", 2, base=False)
        put(store, "a", 3, base=False)
        assert db.as_of(batch=2).table("Visit") == visits([("a", 1, 1), ("b", 1, 2)])
        assert db.as_of(batch=3).table("Visit") == visits([("a", 1, 3), ("b", 1, 2)])
        put(store, "a", 4, base=True)
        live = {Layout(tmp_path).shard_file(0, file.name) for file in store.shard_files[0]}
        for old in set(tmp_path.glob("shards/0/*")) - live:
            old.unlink()  # as the writer does when it comes to it
        with pytest.raises(QueryError, match="can't show epoch 2 any more"):
            db.as_of(batch=2)
        assert db.as_of(batch=4).table("Visit") == visits([("a", 1, 4)])
