"""Exchange files: what was written is read in place; what was not finished is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from mainstem.errors import CorruptError, StoreError
from mainstem.replay.exchange import ExchangeFile, ExchangeWriter

COLUMNS = pa.record_batch({
    "number": pa.array([3, 1, 2, 0, 4], pa.int32()),
    "text": pa.array(["a", None, "süd", "", "longer than the others"]),
    "flag": pa.array([True, None, False, True, False]),
    "list": pa.array([[1, 2], [], None, [3], [4, 5, 6]], pa.list_(pa.int64())),
    "value": pa.array([1.5, -0.0, float("inf"), 2.0, None]),
})  # fmt: skip
STARTS = [0, 2, 2, 5]


def written(path: Path) -> Path:
    writer = ExchangeWriter(path)
    writer.add("first", COLUMNS, STARTS)
    writer.add("second", COLUMNS.slice(1, 3), [0, 3])
    writer.add("first", COLUMNS.slice(4), [0, 1, 1, 1])
    writer.add("empty", COLUMNS.slice(0, 0), [0, 0, 0, 0])
    assert writer.close() == path.stat().st_size
    return path


def test_rows_of_a_shard_come_back(tmp_path: Path) -> None:
    file = ExchangeFile(written(tmp_path / "file"))
    assert [part.to_pylist() for part in file.rows("first", 0)] == [
        COLUMNS.slice(0, 2).to_pylist(), COLUMNS.slice(4).to_pylist()
    ]  # fmt: skip
    assert file.rows("first", 1) == [] and file.rows("empty", 2) == [] and file.rows("unknown", 0) == []
    assert [part.to_pylist() for part in file.rows("first", 2)] == [COLUMNS.slice(2).to_pylist()]
    assert [part.to_pylist() for part in file.rows("second", 0)] == [COLUMNS.slice(1, 3).to_pylist()]
    assert [file.count("first", shard) for shard in range(3)] == [3, 0, 3]


def test_a_block_that_is_not_spread_is_that_of_shard_0(tmp_path: Path) -> None:
    file = ExchangeFile(written(tmp_path / "file"))
    assert file.rows("second", 1) == [] and file.count("second", 7) == 0


def test_columns_are_aligned_views_of_the_map(tmp_path: Path) -> None:
    path = written(tmp_path / "file")
    before = pa.total_allocated_bytes()
    file = ExchangeFile(path)
    parts = file.rows("first", 2)
    assert pa.total_allocated_bytes() == before
    numbers = parts[0].column("number")
    assert numbers.buffers()[1].address % 8 == 0
    path.unlink()  # the map outlives the name
    assert numbers.to_pylist() == [2, 0, 4]


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = written(tmp_path / "file").read_bytes()
    torn = tmp_path / "torn"
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        torn.write_bytes(whole[:length])
        with pytest.raises(CorruptError, match="run the task that wrote it again"):
            ExchangeFile(torn)


@pytest.mark.parametrize("back", [1, 9, 17, 30, 60])
def test_a_flipped_byte_at_the_end_is_refused(tmp_path: Path, back: int) -> None:
    path = written(tmp_path / "file")
    content = np.frombuffer(path.read_bytes(), np.uint8).copy()
    content[-back] ^= 0x10
    path.write_bytes(content.tobytes())
    with pytest.raises(CorruptError, match="not a finished exchange file"):
        ExchangeFile(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CorruptError, match=r"nowhere is missing"):
        ExchangeFile(tmp_path / "nowhere")


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"can't write .*nowhere/file"):
        ExchangeWriter(tmp_path / "nowhere" / "file")


def test_a_writer_that_gives_up_leaves_nothing(tmp_path: Path) -> None:
    writer = ExchangeWriter(tmp_path / "file")
    writer.add("first", COLUMNS, STARTS)
    writer.discard()
    assert list(tmp_path.iterdir()) == []
