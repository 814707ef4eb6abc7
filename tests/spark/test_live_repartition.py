"""Another number of shards, or another plan, on the state of an earlier run: rows move, and the result is the same."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live_support import Live
from pyspark.sql import SparkSession
from spark_support import assert_run, expected, meter_log, meters, stored, write_files

import mainstem as ms
from mainstem.app import App
from mainstem.replay.sharding import shards_of
from mainstem.spark.engines import keep_engine, take_engine
from mainstem.spark.job import Job
from mainstem.spark.target import arrange, begin
from mainstem.store import Store, crash, read_shard_files
from mainstem.store.partitions import SHARDS, shard_count
from mainstem.testing import Outcome, assert_same

FILES = 4


@pytest.fixture(autouse=True)
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    monkeypatch.setattr(os, "fdatasync", lambda fd: None)


def rows(count: int) -> pa.Table:
    keys = [f"m{k:03d}" for k in range(count)]
    return pa.table({"key": keys, "total": list(range(count)), "count": [1] * count})


def assert_placed(store: Store, shards: int) -> None:
    """Every row is in the shard that owns its key, or all are in the log."""
    assert shard_count(store) == shards == store.meta.get(SHARDS, 0)
    for shard, files in store.shard_files.items():
        for _, found in read_shard_files(store.path, files):
            assert set(shards_of([found["key"].combine_chunks()], shards)) <= {shard}


@pytest.mark.parametrize("path", [(2, 3), (4, 2), (1, 4, 1), (2, 0), (2, 0, 3, 0), (3, 5, 0, 2, 2)])
def test_rows_move_between_any_numbers_of_shards(tmp_path: Path, path: tuple[int, ...]) -> None:
    wanted = rows(60)
    with Store.open(tmp_path, meters.program.tables) as store:
        begin(meters.program, store, {"Meter": wanted}, path[0])
        meta = {"seq": 60, "ts": 7, "queries": {"a": 3}, SHARDS: path[0], "emitted": ["x"]}
        store.commit({}, meta)
    for shards in path[1:]:
        with Store.open(tmp_path, meters.program.tables) as store:
            arrange(meters.program, store, shards)
            assert_placed(store, shards)
            assert {**store.meta, SHARDS: 0} == {**meta, SHARDS: 0}
            epoch = store.epoch
            arrange(meters.program, store, shards)
            assert store.epoch == epoch, "nothing to move"
        with ms.open(tmp_path) as db:
            assert db.table("Meter").equals(wanted.cast(db.table("Meter").schema))
        assert len(list(tmp_path.rglob("*.shard"))) >= shards


def test_a_reader_follows_every_move(tmp_path: Path) -> None:
    with Store.open(tmp_path, meters.program.tables) as store:
        begin(meters.program, store, {"Meter": rows(20)}, 2)
        with ms.open(tmp_path) as db:
            for shards in (3, 0, 2, 0):
                arrange(meters.program, store, shards)
                assert (db.epoch, db.table("Meter").num_rows) == (store.epoch, 20)


def test_a_row_that_was_deleted_elsewhere_does_not_come_back(tmp_path: Path) -> None:
    """Rows of the log that moved to shards are out of the log: deleted in a shard, they are gone."""
    with Store.open(tmp_path, meters.program.tables) as store:
        store.commit({"Meter": rows(10)}, {"seq": 0, "ts": None})
        arrange(meters.program, store, 2)
        arrange(meters.program, store, 0)
        gone = rows(10).slice(0, 4).append_column("_deleted", pa.array([True] * 4))
        store.commit({"Meter": gone}, {"seq": 1, "ts": 1})
        arrange(meters.program, store, 3)
    with ms.open(tmp_path) as db:
        assert db.table("Meter")["key"].to_pylist() == rows(10)["key"].to_pylist()[4:]


@pytest.mark.parametrize(
    "step", ["shard.half", "shard.synced", "log.append.half", "log.append.synced", "shard.dropping"]
)
@pytest.mark.parametrize(("before", "after"), [(3, 2), (2, 0), (0, 2)])
def test_a_move_that_is_killed_has_happened_or_not(tmp_path: Path, step: str, before: int, after: int) -> None:
    with Store.open(tmp_path, meters.program.tables) as store:
        begin(meters.program, store, {"Meter": rows(30)}, before)
    child = os.fork()
    if child == 0:
        crash._target, crash._reached = (step, 1), 0
        with Store.open(tmp_path, meters.program.tables) as store:
            arrange(meters.program, store, after)
        os._exit(0)
    os.waitpid(child, 0)
    with Store.open(tmp_path, meters.program.tables) as store:
        assert_placed(store, shard_count(store))
        assert shard_count(store) in (before, after)
        arrange(meters.program, store, after)
        assert_placed(store, after)
        assert len(list(tmp_path.rglob("*.shard"))) == after
    with ms.open(tmp_path) as db:
        assert db.table("Meter").equals(rows(30).cast(db.table("Meter").schema))


def test_live_runs_with_changing_shards_and_plans(spark: SparkSession, tmp_path: Path) -> None:
    """One micro-batch each: keyed on 2, keyed on 3, one state stage. Then Spark repeats one; the rest runs embedded."""
    table = meter_log(1000)
    live = Live(spark, tmp_path, meters, table, files=FILES)
    files = sorted((tmp_path / "log").iterdir())
    aside = tmp_path / "aside"
    aside.mkdir()
    for file in files:
        file.rename(aside / file.name)
    ways = [{"plan": "keyed", "partitions": 2}, {"plan": "keyed", "partitions": 3}, {"plan": "one_stage"}]
    for file, way in zip(files, ways, strict=False):
        (aside / file.name).rename(file)
        live.go(**way)
    before = live.epoch()
    live.forget_last_commit()
    live.go(plan="keyed", partitions=4)
    assert live.epoch() == before + 1, "rows moved, and the batch was not run again"
    seq = sum(pq.read_metadata(file).num_rows for file in files[:-1])
    meters.run(table.slice(seq), state=live.state, out=live.state / "outputs", jit=False)
    assert_run(expected(meters, table), meters, live.outputs(), live.state)


def test_a_replay_goes_on_in_another_number_of_shards(spark: SparkSession, tmp_path: Path) -> None:
    table = meter_log(1200)
    cut = int(table["ts"].to_numpy().searchsorted(table["ts"][600].as_py()))
    first = write_files(tmp_path / "first", table.slice(0, cut), 2)
    second = write_files(tmp_path / "second", table.slice(cut), 2)
    options = {"state": tmp_path / "state", "jit": False}
    meters.replay(spark, first, plan="keyed", partitions=2, **options)
    meters.replay(spark, second, plan="keyed", partitions=3, **options)
    with Store.open(tmp_path / "state", meters.program.tables) as store:
        assert_placed(store, 3)
    wanted = expected(meters, table)
    assert_same(Outcome(pa.table({}), wanted.state), Outcome(pa.table({}), stored(meters, tmp_path / "state")))


def test_a_worker_forgets_the_program_of_an_earlier_run(tmp_path: Path) -> None:
    """Its memory is of the last committed file, but the rules are others now."""
    with Store.open(tmp_path, shop(1).program.tables) as store:
        begin(shop(1).program, store, {}, 1)

        def job(app: App) -> Job:
            return Job(app.program, 10, jit=False, shards=1, state=str(tmp_path), shard_files=store.shard_files)

        engine = take_engine(job(shop(1)), 0)
        keep_engine(job(shop(1)), 0, engine)
        assert take_engine(job(shop(1)), 0) is engine
        keep_engine(job(shop(1)), 0, engine)
        assert take_engine(job(shop(1, bonus=1)), 0) is not engine


def shop(version: int, bonus: int = 0) -> App:
    app = ms.App("shop")

    @app.event
    class Sale:
        item: str
        pieces: int

    if version == 1:

        @app.table(key=str)
        class Item:
            sold: int = 0

        @app.on(Sale)
        def sell(e):
            Item[e.item].sold += e.pieces + bonus
            return {"sold": Item[e.item].sold}

    else:

        @app.table(key=str)
        class Item:
            sold: int = 0
            stock: int = 20

        @app.on(Sale)
        def sell(e):
            ms.require(Item[e.item].stock >= e.pieces, "out of stock")
            Item[e.item].stock -= e.pieces
            Item[e.item].sold += e.pieces
            return {"sold": Item[e.item].sold}

    return app


@pytest.mark.parametrize("plan", ["one_stage", "keyed"])
def test_a_live_run_takes_in_a_new_field(spark: SparkSession, tmp_path: Path, plan: str) -> None:
    sales = range(300)
    table = pa.table({"ts": list(sales), "item": [f"i{k % 7}" for k in sales], "pieces": [k % 4 for k in sales]})
    live = Live(spark, tmp_path, shop(1), table.slice(0, 150), files=1)
    live.go(plan=plan, partitions=2)
    old = stored(shop(1), live.state)["Item"]
    start = {"Item": old.append_column("stock", pa.array([20] * old.num_rows))}
    write_files(tmp_path / "more", table.slice(150), 1)
    (tmp_path / "more" / "000.parquet").rename(tmp_path / "log" / "001.parquet")
    live.app = shop(2)
    live.go(plan=plan, partitions=2)
    wanted = expected(shop(2), table.slice(150), initial=start)
    assert "out of stock" in wanted.outputs["reason"].to_pylist()
    assert_same(Outcome(pa.table({}), wanted.state), Outcome(pa.table({}), stored(shop(2), live.state)))
