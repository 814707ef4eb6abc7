"""The files and the cache that tasks leave: hidden until published, complete when named, fenced by name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_support import meters

from mainstem.spark import parts
from mainstem.spark.engines import keep_engine, take_engine
from mainstem.spark.job import Job
from mainstem.spark.parts import PartWriter
from mainstem.spark.pipes import WriteBehind
from mainstem.spark.target import begin
from mainstem.store import Store, publish, write_shard_file

SCHEMA = pa.schema([("ts", pa.int64()), ("status", pa.dictionary(pa.int8(), pa.string()))])


def rows(first: int, count: int) -> pa.RecordBatch:
    status = pa.DictionaryArray.from_arrays(pa.array([i % 2 for i in range(count)], pa.int8()), ["yes", "no"])
    return pa.record_batch([pa.array(range(first, first + count)), status], schema=SCHEMA)


def test_files_are_hidden_until_they_are_published(tmp_path: Path) -> None:
    attempts = [PartWriter(tmp_path, "part", SCHEMA) for _ in range(2)]
    for writer in attempts:
        writer.write(rows(0, 10))
    staged = [writer.close() for writer in attempts]
    assert staged[0] != staged[1]
    assert not list(tmp_path.glob("[!.]*"))
    (final,) = (publish(tmp_path, name) for name in staged[1])
    assert final.name == "part-000.parquet"
    assert pq.read_table(final).to_pylist() == pa.Table.from_batches([rows(0, 10)]).to_pylist()


def test_long_outputs_become_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "ROW_GROUP_ROWS", 8)
    monkeypatch.setattr(parts, "FILE_ROWS_MAX", 20)
    writer = PartWriter(tmp_path, "part", SCHEMA)
    for first in range(0, 70, 5):
        writer.write(rows(first, 5))
    files = [publish(tmp_path, name) for name in writer.close()]
    assert [file.name for file in files] == [f"part-{n:03d}.parquet" for n in range(len(files))]
    assert len(files) == 4
    assert [ts for file in files for ts in pq.read_table(file)["ts"].to_pylist()] == list(range(70))


def test_nothing_written_means_no_file(tmp_path: Path) -> None:
    assert PartWriter(tmp_path / "out", "part", SCHEMA).close() == []
    assert not (tmp_path / "out").exists()


def test_writing_behind_keeps_order_and_reports_errors() -> None:
    done: list[int] = []
    with WriteBehind(done.append) as behind:
        for i in range(100):
            behind.put(i)
    assert done == list(range(100))

    def fail(item: int) -> None:
        raise OSError(f"disk full at {item}")

    def put_many() -> None:
        with WriteBehind(fail) as behind:
            for i in range(100):
                behind.put(i)

    with pytest.raises(OSError, match="disk full at 0"):
        put_many()


def test_a_kept_engine_counts_only_for_the_committed_file(tmp_path: Path) -> None:
    """Another attempt's file was committed: the memory of this one is worth nothing."""
    program = meters.program
    with Store.open(tmp_path, program.tables) as store:
        begin(program, store, {"Meter": pa.table({"key": ["a"], "total": [1], "count": [1]})}, 1)

        def job() -> Job:
            return Job(program, 10, jit=False, shards=1, state=str(tmp_path), shard_files=store.shard_files)

        engine = take_engine(job(), 0)
        assert engine.state.tables["Meter"].get("a") == {"total": 1, "count": 1}
        keep_engine(job(), 0, engine)
        assert take_engine(job(), 0) is engine
        assert take_engine(job(), 0) is not engine, "an engine in use is not in the cache"
        keep_engine(job(), 0, engine)
        delta = pa.table({"key": ["a"], "total": [2], "count": [2], "_deleted": [False]})
        store.commit({}, {}, [write_shard_file(tmp_path, 0, "other", {"Meter": delta}, base=False)])
        assert take_engine(job(), 0).state.tables["Meter"].get("a") == {"total": 2, "count": 2}
