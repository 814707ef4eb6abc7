"""Snapshots and increments made from files while the writer goes on: what they hold, and what may go then."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
import store_driver as driver
from crash_plan import settle
from store_driver import ACCOUNT, SCHEMAS, accounts, contents, rebuild, visits

from mainstem.query import open_db
from mainstem.schema import Field, TableSchema, Type
from mainstem.state import State, digest
from mainstem.store import Store, StoreWarning, write_shard_file
from mainstem.store.fold import fold
from mainstem.store.format import Format
from mainstem.store.layout import Layout

LARGE = accounts((key, key, "x" * 100) for key in range(500))


def small_changes(path: Path, commits: int, **options: int) -> Store:
    """A large first commit and many small ones, one segment each; everything folded."""
    store = Store.open(path, SCHEMAS, segment_commits=1, **options)  # type: ignore[arg-type]
    store.commit({"Account": LARGE}, {"batch": 1})
    for number in range(2, commits + 1):
        key = number % 7
        store.commit({"Account": accounts([(key, number, "y")], [number % 5 == 0])}, {"batch": number})
        settle(store)
    return store


def test_increments_instead_of_many_copies_of_a_large_state(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with small_changes(tmp_path, 12) as store:
        expected = store.epoch, store.meta, rebuild(store.replay())
        assert layout.snapshot_epochs() == [1], "the large state was written once"
        chain = layout.increment_epochs()
        assert [since for since, _ in chain] == [1, *(epoch for _, epoch in chain[:-1])], "they follow each other"
        assert chain[-1][1] == 11
        assert len(chain) <= 4, "small ones are folded together"
        sizes = [layout.increment(*ends).stat().st_size for ends in chain]
        assert sum(sizes) < layout.snapshot(1).stat().st_size
    assert contents(tmp_path) == expected
    with open_db(tmp_path) as db:
        assert digest({"Account": db.table("Account")}) == digest({"Account": _table(expected[2])})


def test_recovery_reads_the_increments_and_not_the_log_that_they_cover(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small_changes(tmp_path, 8).close()
    expected = contents(tmp_path)
    log = Layout(tmp_path)
    for first in log.segment_epochs():
        if first not in (1, 8):
            data = bytearray(log.segment(first).read_bytes())
            data[60] ^= 1
            log.segment(first).write_bytes(data)
    with pytest.warns(StoreWarning, match="not needed: the state comes from snapshot 1, . increments up to 7"):
        assert contents(tmp_path) == expected


def test_a_damaged_increment_is_replaced_by_the_log(tmp_path: Path) -> None:
    small_changes(tmp_path, 8).close()
    expected = contents(tmp_path)
    victim = Layout(tmp_path).increment(*Layout(tmp_path).increment_epochs()[-1])
    data = bytearray(victim.read_bytes())
    data[70] ^= 1
    victim.write_bytes(data)
    with pytest.warns(StoreWarning, match=rf"{victim.name}.*not needed: the state comes from snapshot 1"):
        assert contents(tmp_path) == expected


def test_a_long_log_over_few_rows_ends_in_a_snapshot(tmp_path: Path) -> None:
    """Increments stay small when the same rows change again and again; the log does not."""
    layout = Layout(tmp_path)
    with Store.open(tmp_path, SCHEMAS, segment_commits=1) as store:
        store.commit({"Account": accounts([(key, key, "x") for key in range(100)])}, {})
        for number in range(60):
            store.commit({"Account": accounts([(1, number, "y")])}, {})
            settle(store)
        assert layout.snapshot_epochs()[0] > 1
        assert layout.segment_epochs()[0] > 2, "the log before the older snapshot is gone"
    assert contents(tmp_path)[2]["Account"][1,] == (59, "y")


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_so_many_snapshots_are_kept_with_the_log_since_the_oldest(keep: int, tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    with Store.open(tmp_path, SCHEMAS, keep=keep) as store:
        for number in range(1, 6):
            store.commit({"Account": accounts([(1, number, "a")])}, {})
            store.snapshot()
    assert layout.listing() == ([6 - keep + 1, *range(6 - keep + 2, 7)], list(range(6 - keep, 6)))
    assert contents(tmp_path)[0] == 5


@pytest.mark.parametrize("keep", [0, -1, True, "2"])
def test_keep_is_a_number_of_snapshots(keep: object, tmp_path: Path) -> None:
    with pytest.raises(Exception, match=rf"keep={keep!r} snapshots\n  keep at least one"):
        Store.open(tmp_path, SCHEMAS, keep=keep)  # type: ignore[arg-type]


def test_what_was_not_folded_is_folded_by_the_next_writer(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        for number in range(1, 6):
            store.commit({"Account": accounts([(number, 1, "a")])}, {})
    with Store.open(tmp_path, SCHEMAS, segment_commits=2) as store:
        store.commit({}, {})
        settle(store)
        assert Layout(tmp_path).snapshot_epochs() == [5]


def test_shard_files_of_snapshots_in_the_background(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, segment_commits=1) as store:
        for number in range(6):
            file = write_shard_file(tmp_path, 0, "t", {"Visit": visits([("a", 1, number)])}, base=number % 2 == 0)
            store.commit({"Account": accounts([(number, 1, "a")])}, {}, [file])
            settle(store)
        store._upkeep.close()  # waits for it to remove what was replaced
        named = {file.name for file in store._upkeep._compactor.named_files()} | {
            file.name for file in store.shard_files[0]
        }
        assert {entry.name for entry in (tmp_path / "shards" / "0").iterdir()} == named
    assert contents(tmp_path)[2]["Visit"] == {("a", 1): (5,)}


def test_folding_is_what_applying_in_order_is() -> None:
    """Against the tables in memory: every type of key and field, rows removed and written again."""
    kinds = [Field(base, Type(base)) for base in ("int", "float", "bool", "str", "bytes", "datetime")]
    arrays = [Field(f"{base}s", Type(base, length=2)) for base in ("int", "float", "bool")]
    wide = TableSchema("Wide", (Type("str"), Type("int")), False, (*kinds, *arrays))
    chance = random.Random(3)
    parts = [("Wide", _wide_rows(wide, chance)) for _ in range(30)]
    stored = Format(1, (wide, ACCOUNT), 2)
    applied, folded, increment = State({"Wide": wide}), State({"Wide": wide}), State({"Wide": wide})
    for name, rows in parts:
        applied.apply(name, rows)
    folded.load(fold(stored, parts, deletes=False))
    for half in (parts[:11], parts[11:]):
        increment.load(fold(stored, half, deletes=True))
    assert digest(folded.export()) == digest(applied.export()) == digest(increment.export())
    assert applied.export()["Wide"].num_rows > 5


def _wide_rows(wide: TableSchema, chance: random.Random) -> pa.Table:
    rows = []
    for _ in range(chance.randint(0, 9)):
        row = {"key_0": chance.choice("abä"), "key_1": chance.randrange(4), "int": chance.randrange(-9, 9)}
        row |= {"float": chance.choice([0.5, -0.0, float("inf")]), "bool": chance.random() < 0.5, "str": "é" * 3}
        row |= {"bytes": b"\0", "datetime": chance.randrange(2**50), "ints": [1, chance.randrange(5)]}
        rows.append(row | {"floats": [0.5, 1.5], "bools": [True, False]})
    table = pa.Table.from_pylist(rows, schema=wide.arrow)
    if chance.random() < 0.3:
        return table
    removed = pa.array([chance.random() < 0.3 for _ in rows], pa.bool_())
    return table.append_column(pa.field("_deleted", pa.bool_(), nullable=False), removed)


def test_fields_taken_in_later_are_filled_in_when_old_rows_are_folded(tmp_path: Path) -> None:
    more = TableSchema("Account", ACCOUNT.key, True, (*ACCOUNT.fields, Field("level", Type("int"), 7)))
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 1, "a"), (2, 2, "b")])}, {})
    with Store.open(tmp_path, [more, SCHEMAS[1]]) as store:
        row = pa.Table.from_pylist([{"key": 2, "balance": 3, "owner": "c", "level": 1}], schema=more.arrow)
        store.commit({"Account": row}, {})
        store.snapshot()
    shutil.rmtree(tmp_path / "log")  # the snapshot alone
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / f"{3:020d}.wal").touch()
    with open_db(tmp_path) as db:
        assert db.table("Account").to_pylist() == [
            {"key": 1, "balance": 1, "owner": "a", "level": 7},
            {"key": 2, "balance": 3, "owner": "c", "level": 1},
        ]


def test_a_directory_of_the_first_format_is_taken_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mainstem.store.frame.FORMAT_VERSION", 1)
        with Store.open(tmp_path, SCHEMAS) as store:
            store.commit({"Account": accounts([(1, 1, "a")])}, {})
            store.snapshot()
            store.commit({"Account": accounts([(2, 2, "b")])}, {})
    with open_db(tmp_path) as db:
        assert db.epoch == 2, "readers take it as it is"
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({"Account": accounts([(3, 3, "c")])}, {})
    assert len(contents(tmp_path)[2]["Account"]) == 3
    monkeypatch.setattr("mainstem.store.frame.FORMAT_VERSION", 1)
    with pytest.raises(Exception, match=r"FORMAT, byte 0: written in format 2, this Mainstem reads up to 1"):
        Store.open(tmp_path, SCHEMAS)


def _table(rows: driver.Rows) -> pa.Table:
    return accounts((*key, *row) for key, row in sorted(rows["Account"].items()))
