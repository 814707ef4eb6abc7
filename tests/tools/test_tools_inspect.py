"""`inspect`: what is in a directory, and what one commit changed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tools_support import EPOCHS, SCHEMAS, bank, transfers

import mainstem as ms
from mainstem import tools
from mainstem.errors import QueryError, StoreError
from mainstem.store import QUERIES, Store, write_shard_file
from mainstem.store.frame import FORMAT_VERSION


def test_tables_versions_and_files(directory: Path) -> None:
    found = tools.inspect(directory)
    assert (found.epoch, found.oldest, found.seq, found.ts) == (EPOCHS, 9, 10 * EPOCHS, 100 + EPOCHS)
    assert found.format == FORMAT_VERSION
    with ms.open(directory) as db:
        assert {name: table.rows for name, table in found.tables.items()} == {t: db.count(t) for t in db.tables}
    assert found.tables["Account"].fields == {"balance": "int", "owner": "str"}
    assert (found.tables["Account"].key, found.tables["Account"].keep) == ("int", 0)
    assert found.tables["Visit"].key == "(str, int)"
    kinds = [(file.kind, file.first, file.last) for file in found.files]
    assert kinds[:3] == [("snapshot", 0, 9), ("snapshot", 0, 12), ("increment", 13, 21)]
    assert kinds[3:] == [("log", 10, 12), ("log", 13, 15), ("log", 16, 18), ("log", 19, 21), ("log", 22, None)]
    assert found.log_bytes == sum(file.stat().st_size for file in (directory / "log").iterdir())
    with Store.open(directory, SCHEMAS) as store:
        live = store.shard_files
    assert (found.shards, found.shard_files) == (2, sum(map(len, live.values())))


def test_the_writer_and_live_queries(tmp_path: Path) -> None:
    before = int(time.time())
    with Store.open(tmp_path, SCHEMAS) as store:
        store.commit({}, {"seq": 0, "ts": None, QUERIES: {"a-query": 7}})
        found = tools.inspect(tmp_path)
    assert found.writer is not None
    assert found.writer.pid == os.getpid()
    assert before <= found.writer.since <= time.time()
    assert found.queries == {"a-query": 7}
    assert tools.inspect(tmp_path).writer is None


def test_a_history_tells_what_it_keeps(tmp_path: Path) -> None:
    app = ms.App("clicks")

    @app.event
    class Click:
        user: int

    @app.history(key=int, keep=4)
    class Clicks:
        user: int

    @app.on(Click)
    def note(e):
        Clicks[e.user].append(user=e.user)

    app.run([Click(ts=1, user=3)], state=tmp_path, jit=False)
    assert tools.inspect(tmp_path).tables["Clicks"].keep == 4


def test_as_plain_values(directory: Path) -> None:
    told = json.loads(json.dumps(tools.inspect(directory).as_dict()))
    assert told["path"] == str(directory)
    assert told["tables"]["Visit"]["fields"] == {"count": "int"}
    assert told["files"][0] == {"kind": "snapshot", "first": 0, "last": 9, "bytes": told["files"][0]["bytes"]}


def test_one_commit(directory: Path) -> None:
    found = tools.inspect_commit(directory, 20)
    assert found.meta == {"seq": 200, "ts": 120}
    assert (found.changed, found.deleted) == ({"Account": 2, "Visit": 2}, {"Account": 1, "Visit": 0})
    assert found.shard_files == 1
    assert json.loads(json.dumps(found.as_dict()))["epoch"] == 20


def test_a_commit_whose_shard_files_are_gone(tmp_path: Path) -> None:
    rows = pa.table({"key_0": ["a"], "key_1": [1], "count": [1]})
    with Store.open(tmp_path, SCHEMAS) as store:
        for name in ("one", "two"):
            store.commit({}, {}, [write_shard_file(tmp_path, 0, name, {"Visit": rows}, base=True)])
    assert tools.inspect_commit(tmp_path, 1).changed == {}
    assert tools.inspect_commit(tmp_path, 2).changed == {"Visit": 1}


@pytest.mark.parametrize(("epoch", "kept"), [(9, "commits from 10 on"), (24, "commits 10 to 23"), (99, "10 to 23")])
def test_a_commit_that_is_not_there(directory: Path, epoch: int, kept: str) -> None:
    with pytest.raises(QueryError, match=f"the log has no commit {epoch}") as caught:
        tools.inspect_commit(directory, epoch)
    assert kept in str(caught.value)


def test_an_empty_directory_of_state(tmp_path: Path) -> None:
    Store.open(tmp_path, SCHEMAS).close()
    found = tools.inspect(tmp_path)
    assert (found.epoch, found.seq, found.ts, found.oldest) == (0, 0, None, 0)
    with pytest.raises(StoreError, match="is not a Mainstem directory"):
        tools.inspect(tmp_path / "log")


def test_a_run_and_what_it_left(tmp_path: Path) -> None:
    result = bank().run(transfers(0, 100), state=tmp_path, batch=30, jit=False)
    found = tools.inspect(tmp_path)
    assert (found.epoch, found.seq, found.ts, found.tables["Account"].rows) == (4, 100, 99, result_rows(tmp_path))
    assert result.digest == tools.verify(tmp_path).digest


def result_rows(path: Path) -> int:
    with ms.open(path) as db:
        return db.count("Account")
