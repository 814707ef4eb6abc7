"""What a caller of the store relies on: commits, snapshots, recovery, locks, refusals."""

from __future__ import annotations

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest
import store_driver as driver
from hypothesis import given, settings
from hypothesis import strategies as st
from store_driver import ACCOUNT, SCHEMAS, VISIT, accounts, contents, rebuild, visits

from mainstem.errors import LockedError, StoreError
from mainstem.schema import Field, TableSchema, Type
from mainstem.state import State, digest
from mainstem.store import Store
from mainstem.store.layout import Layout

pytestmark = pytest.mark.usefixtures("no_background")


def test_a_new_store_is_epoch_zero(tmp_path: Path) -> None:
    with Store.open(tmp_path / "a" / "b", SCHEMAS) as store:
        assert (store.epoch, store.meta, store.warnings, store.shard_files) == (0, {}, [], {})
        assert list(store.replay()) == []


def test_commits_survive_reopening(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        assert store.commit({"Account": accounts([(1, 10, "a"), (2, 20, "b")])}, {"batch": 7}) == 1
        deltas = {"Account": accounts([(1, 11, "a"), (2, 0, "")], [False, True]), "Visit": visits([("x", 1, 1)])}
        assert store.commit(deltas, {"batch": 8}) == 2
        assert store.commit({}, {"batch": 9}) == 3
        before = store.epoch, store.meta, rebuild(store.replay())
    assert before == (3, {"batch": 9}, {"Account": {(1,): (11, "a")}, "Visit": {("x", 1): (1,)}})
    assert contents(tmp_path) == before


def test_meta_is_the_same_before_and_after_reopening(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({}, {"offsets": (1, 2), "per shard": {3: "ä"}})
        before = store.meta
    assert before == {"offsets": [1, 2], "per shard": {"3": "ä"}}
    assert contents(tmp_path)[1] == before


def test_every_type_and_key_makes_the_round_trip(tmp_path: Path) -> None:
    kinds = [Field(base, Type(base)) for base in ("int", "float", "bool", "str", "bytes", "datetime")]
    arrays = [Field(f"{base}s", Type(base, length=2)) for base in ("int", "float", "bool")]
    wide = TableSchema("Wide", (Type("str"), Type("bytes"), Type("datetime")), False, (*kinds, *arrays))
    row = {"key_0": "ä", "key_1": b"\0\xff", "key_2": 5, "int": -(2**63), "float": float("-inf"), "bool": True}
    row |= {"str": "", "bytes": b"\0", "datetime": 2**60, "ints": [1, 2], "floats": [0.5, -0.0], "bools": [True, False]}
    state = State({"Wide": wide})
    state.apply("Wide", pa.Table.from_pylist([row, {**row, "key_0": "b", "int": 3}], schema=wide.arrow))
    with Store.open(tmp_path, {"Wide": wide}) as store:
        store.commit(state.export(), {})
        store.snapshot()
        store.commit({"Wide": state.export()["Wide"].slice(1)}, {})
    with Store.open(tmp_path, {"Wide": wide}) as store:
        again = State({"Wide": wide})
        for name, table in store.replay():
            again.apply(name, table)
    assert digest(again.export()) == digest(state.export())


def test_a_snapshot_shortens_the_log_and_two_are_kept(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    kept = []
    with Store.open(tmp_path, SCHEMAS) as store:
        for number in range(1, 5):
            table = accounts([(1, number, "a")])
            store.commit({"Account": table}, {"batch": number})
            store.snapshot()
            kept.append((layout.snapshot_epochs(), layout.segment_epochs()))
    assert kept == [([1], [1, 2]), ([1, 2], [2, 3]), ([2, 3], [3, 4]), ([3, 4], [4, 5])]
    assert contents(tmp_path) == (4, {"batch": 4}, {"Account": {(1,): (4, "a")}, "Visit": {}})


def test_a_large_snapshot_is_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mainstem.store.tablefile.PART_BYTES", 1000)
    table = accounts((key, key * 2, f"owner {key}") for key in range(1000))
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({"Account": table}, {})
        store.snapshot()
        parts = [part for _, part in store.replay()]
        assert len(parts) > 20
        assert pa.concat_tables(part for part in parts if part.num_rows) == table


def test_a_second_snapshot_of_one_epoch_changes_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 1, "a")])}, {})
        for _ in range(2):
            store.snapshot()
        assert Layout(tmp_path).listing() == ([1, 2], [1])


def test_segments_rotate_by_size(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS, segment_bytes=2000) as store:
        for number in range(1, 10):
            store.commit({"Account": accounts([(number, number, "a")])}, {})
    assert len(Layout(tmp_path).segment_epochs()) > 2
    assert len(contents(tmp_path)[2]["Account"]) == 9


def test_durability_none_is_complete_after_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    real = os.fdatasync
    monkeypatch.setattr(os, "fdatasync", lambda fd: (synced.append(fd), real(fd))[1])
    with Store.open(tmp_path, SCHEMAS, durability="none") as store:
        synced.clear()
        store.commit({"Account": accounts([(1, 1, "a")])}, {})
        assert synced == []
    assert len(synced) == 1
    assert contents(tmp_path)[0] == 1
    with pytest.raises(StoreError, match="unknown durability 'maybe'\n  use one of: sync, batch, none"):
        Store.open(tmp_path, SCHEMAS, durability="maybe")  # type: ignore[arg-type]


operations = st.lists(st.sampled_from(["commit", "commit", "commit", "snapshot", "reopen", "torn"]), max_size=25)


@settings(max_examples=25)
@given(operations=operations, segment_bytes=st.sampled_from([1, 1500, 10**6]))
def test_any_sequence_of_operations_keeps_the_state(
    tmp_path_factory: pytest.TempPathFactory, operations: list[str], segment_bytes: int
) -> None:
    """Against a dict: commits, snapshots, reopening, and appends that a crash left half-written."""
    path = tmp_path_factory.mktemp("random")
    expected, epoch = driver.empty(), 0
    store = Store.open(path, SCHEMAS, segment_bytes=segment_bytes)
    for operation in operations:
        if operation == "commit":
            epoch += 1
            changes = driver.account_changes(expected, epoch)
            driver.apply(expected, "Account", changes)
            assert store.commit({"Account": changes}, {"batch": epoch}) == epoch
        elif operation == "snapshot":
            store.snapshot()
        else:
            store.close()
            if operation == "torn":
                with open(Layout(path).segment(Layout(path).segment_epochs()[-1]), "ab") as log:
                    log.write(b"MSTM half a header")
            store = Store.open(path, SCHEMAS, segment_bytes=segment_bytes)
        assert (store.epoch, rebuild(store.replay())) == (epoch, expected)
    store.close()
    shutil.rmtree(path)


def test_a_second_writer_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS):
        with pytest.raises(LockedError, match=rf"open in this process already \(pid {os.getpid()}\)\n  close"):
            Store.open(tmp_path, SCHEMAS)
        code = "import sys; sys.path.insert(0, sys.argv[1]); import store_driver as d; from pathlib import Path\n"
        code += "try: d.Store.open(Path(sys.argv[2]), d.SCHEMAS)\nexcept Exception as error: print(error)"
        command = [sys.executable, "-c", code, str(Path(driver.__file__).parent), str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        first, remedy = done.stdout.splitlines()
        assert first == f"{tmp_path} is open in another process (pid {os.getpid()})"
        assert remedy == "  stop it first; to read beside it use ms.open"
    Store.open(tmp_path, SCHEMAS).close()


def test_a_store_that_nobody_holds_does_not_block(tmp_path: Path) -> None:
    Store.open(tmp_path, SCHEMAS)
    Store.open(tmp_path, SCHEMAS).close()


def test_a_forked_child_neither_keeps_the_lock_nor_writes(tmp_path: Path) -> None:
    store = Store.open(tmp_path, SCHEMAS)
    fork = multiprocessing.get_context("fork")
    ready, done, answers = fork.Event(), fork.Event(), fork.SimpleQueue()

    def child() -> None:
        try:
            store.commit({}, {})
        except StoreError as error:
            answers.put(str(error))
        ready.set()
        done.wait(30)

    process = fork.Process(target=child)
    process.start()
    try:
        assert ready.wait(30)
        assert "was opened by a parent process" in answers.get()
        store.close()
        Store.open(tmp_path, SCHEMAS).close()
    finally:
        done.set()
        process.join(30)


def test_a_closed_store_refuses(tmp_path: Path) -> None:
    store = Store.open(tmp_path, SCHEMAS)
    store.close()
    store.close()
    for action in (lambda: store.commit({}, {}), store.snapshot, store.replay):
        with pytest.raises(StoreError, match="is closed, or was opened by a parent process\n  open it again"):
            action()


def test_new_defaults_checks_and_field_order_are_no_difference(tmp_path: Path) -> None:
    Store.open(tmp_path, SCHEMAS).close()
    fields = (Field("owner", Type("str"), "nobody"), Field("balance", Type("int"), 7))
    Store.open(tmp_path, [VISIT, TableSchema("Account", ACCOUNT.key, True, fields, ("solvent",))]).close()


def test_a_newer_format_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("mainstem.store.frame.FORMAT_VERSION", 3)
        Store.open(tmp_path, SCHEMAS).close()
    with pytest.raises(StoreError, match=r"FORMAT, byte 0: written in format 3, this .* up to 2\n  install"):
        Store.open(tmp_path, SCHEMAS)


def test_nothing_is_created_unless_asked(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="not a Mainstem directory: it does not exist"):
        Store.open(tmp_path / "new", SCHEMAS, create=False)
    with pytest.raises(StoreError, match="not a Mainstem directory: it has no file FORMAT"):
        Store.open(tmp_path, SCHEMAS, create=False)
    assert list(tmp_path.iterdir()) == []


def test_a_copy_without_empty_folders_is_complete(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({"Account": accounts([(1, 10, "a")])}, {})
    (tmp_path / "snapshots").rmdir()
    (tmp_path / "shards").rmdir()
    with Store.open(tmp_path, SCHEMAS) as store:
        assert rebuild(store.replay())["Account"] == {(1,): (10, "a")}
        store.snapshot()
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(StoreError, match=r"log"):
        Store.open(tmp_path, SCHEMAS)


def test_a_replay_that_stops_half_way_blocks_nothing(tmp_path: Path) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        for action in (store.snapshot, lambda: list(store.replay()), store.close):
            if store.epoch < 2:
                store.commit({"Account": accounts([(store.epoch, 10, "a")])}, {})
                store.commit({"Visit": visits([("x", 1, 1)])}, {})
            half = store.replay()
            next(half)
            action()
            with pytest.raises(StoreError, match="before all rows were read"):
                next(half)


def test_a_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match=r"can't open .*file.*\n  choose a path that is a directory"):
        Store.open(tmp_path / "file", SCHEMAS)


def test_foreign_files_in_the_directory_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "0").write_text("v1")
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({}, {})
    assert contents(tmp_path)[0] == 1
    assert (tmp_path / "offsets" / "0").read_text() == "v1"


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"Nobody": accounts([])}, "unknown table Nobody\n  the directory has: Account, Visit"),
        ({"Visit": accounts([])}, "Visit has the columns key: int64, balance: int64, owner: string\n  its schema"),
        ({"Account": accounts([]).drop_columns("owner")}, "columns key: int64, balance: int64\n"),
        ({"Account": accounts([]).set_column(1, "balance", pa.array([], pa.float64()))}, "balance: double"),
    ],
)
def test_wrong_rows_are_refused_before_anything_is_written(
    table: dict[str, pa.Table], message: str, tmp_path: Path
) -> None:
    with Store.open(tmp_path, SCHEMAS) as store:
        with pytest.raises(StoreError, match=message):
            store.commit(table, {})
        assert store.commit({}, {}) == 1
