"""Preprocessing without Spark: runs of unsorted rows, late rows, splits of files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark_support import bank, bank_log, write_files

from mainstem.errors import InputError
from mainstem.gate import batches
from mainstem.gate.rejects import Rejects
from mainstem.replay.footers import first_disorder, read_footers
from mainstem.spark import blobs, preprocess
from mainstem.spark.execute import Feed, blob_feed
from mainstem.spark.job import Job
from mainstem.spark.preprocess import Packer, pack_run, preprocess_splits, runs
from mainstem.spark.sources import Source, splits_of


def arranged(rows: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """What Spark does between the two stages."""
    table = pa.Table.from_batches(rows).sort_by([(name, "ascending") for name in blobs.ORDER])
    yield from table.to_batches()


def amounts(feed: Feed | None) -> list[tuple[int, int]]:
    """(ts, amount) of all events in the order in which they would run."""
    assert feed is not None
    found = []
    for ordered in feed.ordered:
        columns = ordered.batch.columns[0]
        assert columns is not None
        values = columns.arrays["amount"].take(pa.array(columns.pos)).to_pylist()
        found += list(zip(ordered.batch.ts.tolist(), values, strict=True))
    return found


def test_runs_of_an_unsorted_partition_are_merged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition larger than a run: its sorted runs overlap in time, and rows with equal ts keep their order."""
    monkeypatch.setattr(preprocess, "RUN_ROWS", 100)
    monkeypatch.setattr(preprocess, "CHUNK_ROWS", 30)
    random = np.random.default_rng(5)
    table = pa.table(
        {
            "ts": random.integers(0, 50, 950),
            "source": np.zeros(950, int),
            "target": np.zeros(950, int),
            "amount": range(950),
        }
    )
    job = Job(bank.program, batch_rows=64)
    packer, rows, first = Packer(job, 0, 0), [], 0
    for run in runs(iter(table.to_batches(max_chunksize=40))):
        assert run.num_rows <= 120
        rows += list(pack_run(packer, run, first, None))
        first += run.num_rows
    ts = table["ts"].to_pylist()
    assert amounts(blob_feed(job, arranged(rows))) == sorted(zip(ts, range(950), strict=True))


def test_late_rows_are_rejected_with_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"ts": [7, 4, 9, 3, 7], "source": [0] * 5, "target": [0] * 5, "amount": range(5)})
    job = Job(bank.program, batch_rows=64, on_bad="reject", after_ts=7)
    feed = blob_feed(job, arranged(list(pack_run(Packer(job, 2, 0), table, 100, None))))
    assert feed is not None
    assert amounts(feed) == [(7, 0), (7, 4), (9, 2)]
    rejected = feed.all_rejects().to_pylist()
    assert [(row["input"], row["offset"]) for row in rejected] == [(2, 101), (2, 103)]
    assert "has reached ts 7" in rejected[0]["reason"]
    with pytest.raises(InputError, match=r"input 2 .*row 103: the event is older"):
        list(pack_run(Packer(Job(bank.program, 64, after_ts=7), 2, 0), table, 100, None))


def splits_for(path: str, count: int) -> list[list[int]]:
    """The amounts that each split reads."""
    source = Source(0, None, path=path)
    found = []
    for split in splits_of(source, read_footers(path), count):
        stream = batches([split.open()], bank.program.events, batch_size=64, on_bad="raise", rejects=Rejects())
        found.append([v for b in stream if b.columns[0] for v in b.columns[0].arrays["amount"].to_pylist()])
    return found


@pytest.mark.parametrize("count", [1, 2, 3, 5, 50])
def test_splits_read_every_row_once_and_in_order(tmp_path: Path, count: int) -> None:
    table = bank_log(1000)
    path = write_files(tmp_path / "log", table, files=3, row_group=60)
    pieces = splits_for(path, count)
    assert len(pieces) == min(count, 18)
    assert [value for piece in pieces for value in piece] == table["amount"].to_pylist()


def test_files_that_are_not_in_order_are_not_split(tmp_path: Path) -> None:
    """One task then reads them all, and finds the row that is out of order."""
    table = bank_log(300)
    path = write_files(
        tmp_path / "log", pa.concat_tables([table.slice(200), table.slice(0, 200)]), files=3, row_group=50
    )
    groups = read_footers(path)
    assert groups is not None
    assert first_disorder(groups) is not None
    assert len(splits_of(Source(0, None, path=path), groups, 4)) == 1


def test_files_without_statistics_are_not_split(tmp_path: Path) -> None:
    pq.write_table(bank_log(300), tmp_path / "log.parquet", row_group_size=50, write_statistics=False)
    assert read_footers(str(tmp_path / "log.parquet")) is None
    assert splits_for(str(tmp_path / "log.parquet"), 4) == [bank_log(300)["amount"].to_pylist()]


def test_an_error_travels_to_the_state_task_with_its_place(tmp_path: Path) -> None:
    table = bank_log(300)
    broken = table.set_column(3, "amount", pa.array([None if i == 222 else i for i in range(300)]))
    path = write_files(tmp_path / "log", broken, files=2, row_group=50)
    job = Job(bank.program, batch_rows=64)
    task = preprocess_splits(job, splits_of(Source(0, None, path=path), read_footers(path), 3))
    rows = list(task(iter([pa.record_batch({"id": [0, 1, 2]})])))
    with pytest.raises(InputError, match=r"row 72 of .*001.parquet"):
        amounts(blob_feed(job, arranged(rows)))
