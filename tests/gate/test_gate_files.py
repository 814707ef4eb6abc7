"""Files of every format: streamed, in order of their names, with places in messages."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from gate_support import BOTH, MOVE, PING, mixed, move, moves, pings, read

from mainstem.errors import InputError
from mainstem.gate import open_events
from mainstem.gate.formats import reader_of
from mainstem.gate.raw import Request


def write_parquet(table: pa.Table, path: Path) -> None:
    pq.write_table(table, path, row_group_size=7)


def write_stream(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_stream(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)


def write_feather(table: pa.Table, path: Path) -> None:
    pa.feather.write_feather(table, path, compression="zstd", chunksize=5)


def write_file(table: pa.Table, path: Path) -> None:
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table, max_chunksize=5)


def write_json(table: pa.Table, path: Path) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in table.to_pylist()))


def write_json_gz(table: pa.Table, path: Path) -> None:
    path.write_bytes(gzip.compress("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode()))


WRITERS = {
    "a.parquet": write_parquet,
    "a.snappy.parquet": write_parquet,
    "a.arrow": write_file,
    "stream.arrow": write_stream,
    "a.feather": write_feather,
    "a.jsonl": write_json,
    "a.ndjson": write_json,
    "a.json": write_json,
    "a.JSONL": write_json,
    "a.jsonl.gz": write_json_gz,
}
MIXED = mixed([("Move", move(n, n)) if n % 3 else ("Ping", {"ts": n, "src": n}) for n in range(40)])


@pytest.mark.parametrize("as_path", [str, Path])
@pytest.mark.parametrize("name", WRITERS)
def test_formats_give_what_the_table_gives(tmp_path: Path, name: str, as_path: Any) -> None:
    WRITERS[name](MIXED, tmp_path / name)
    assert read(as_path(tmp_path / name), batch_size=9) == read(MIXED)


@pytest.mark.parametrize("name", WRITERS)
def test_formats_of_one_type(tmp_path: Path, name: str) -> None:
    table = moves(move(n, n) for n in range(20))
    WRITERS[name](table, tmp_path / name)
    assert read(tmp_path / name, [MOVE]) == read(table, [MOVE])
    assert read({"Move": tmp_path / name}, BOTH) == read(table, [MOVE])


@pytest.mark.parametrize("name", WRITERS)
def test_empty_files(tmp_path: Path, name: str) -> None:
    WRITERS[name](MIXED.slice(0, 0), tmp_path / name)
    assert read(tmp_path / name) == []


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "stream.arrow", "a.jsonl"])
def test_only_used_columns_are_read(tmp_path: Path, name: str) -> None:
    WRITERS[name](MIXED, tmp_path / name)
    used = tuple(tuple(field for field in schema.fields if field.name == "src") for schema in BOTH)
    raws = list(reader_of(tmp_path / name)(tmp_path / name, Request(tuple(BOTH), used, 8)))
    assert {frozenset(raw.batch.schema.names) for raw in raws} == {frozenset({"ts", "event", "src"})}  # type: ignore[union-attr]


def test_parquet_is_read_in_batches(tmp_path: Path) -> None:
    pq.write_table(pings(list(range(1000))), tmp_path / "a.parquet")
    request = Request((PING,), (PING.fields,), 100)
    sizes = [len(raw) for raw in reader_of(tmp_path / "a.parquet")(tmp_path / "a.parquet", request)]
    assert sizes == [100] * 10


def test_missing_column_names_all_columns_of_the_file(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ts": [1], "one": [1], "two": [2]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="column 'src' is missing; the input has ts, one, two\n"):
        read(tmp_path / "a.parquet", [PING])


def several(folder: Path) -> None:
    """Three files with times 0 to 29, written in another order, among things that are no events."""
    write_json(pings(list(range(20, 30))), folder / "c.jsonl")
    write_parquet(pings(list(range(10))), folder / "a.parquet")
    pa.csv.write_csv(pings(list(range(10, 20))), folder / "b.csv")
    (folder / "_SUCCESS").touch()
    (folder / "_metadata.parquet").write_text("not for us")
    (folder / ".a.parquet.crc").write_text("not for us")
    (folder / "README.txt").write_text("not for us")
    (folder / "_temporary").mkdir()
    write_parquet(pings([0]), folder / "_temporary" / "z.parquet")


def test_directory_is_one_input_in_order_of_names(tmp_path: Path) -> None:
    several(tmp_path)
    batches, _ = open_events(tmp_path, [PING], batch_size=8)
    found = list(batches)
    assert [ts for batch in found for ts in batch.ts.tolist()] == list(range(30))
    assert found[-1].position == (30,)


def test_glob_is_one_input_in_order_of_names(tmp_path: Path) -> None:
    several(tmp_path)
    assert [ts for _, ts, _ in read(str(tmp_path / "[abc].*"), [PING])] == list(range(30))
    assert [
        ts for _, ts, _ in read([str(tmp_path / "*.parquet").replace("*", "?"), tmp_path / "b.csv"], [PING])
    ] == list(range(20))


def test_glob_of_directories_and_of_nested_files(tmp_path: Path) -> None:
    for number in (1, 0):
        (tmp_path / f"day={number}").mkdir()
        write_parquet(pings([number * 10 + n for n in range(3)]), tmp_path / f"day={number}" / "part-0.parquet")
    expected = [0, 1, 2, 10, 11, 12]
    for path in (tmp_path, str(tmp_path / "day=*"), str(tmp_path / "**" / "*.parquet")):
        assert [ts for _, ts, _ in read(path, [PING])] == expected


def test_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    write_parquet(pings([1]), tmp_path / "a[1].parquet")
    assert len(read(tmp_path / "a[1].parquet", [PING])) == 1


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "none.parquet",
            "none.parquet does not exist and matches no file\n  give a file, a glob pattern or a directory",
        ),
        ("*.parquet", "does not exist and matches no file"),
        ("folder", "folder has no files of events\n  give a file"),
        ("a.xlsx", "a.xlsx has an unknown ending\n  use one of .parquet, .arrow, .feather, .csv, .jsonl"),
        ("a.parquet.gz", "a.parquet.gz has an unknown ending"),
    ],
)
def test_paths_without_events_are_refused_at_once(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a.xlsx").touch()
    (tmp_path / "a.parquet.gz").touch()
    with pytest.raises(InputError) as caught:
        open_events(str(tmp_path / name), [PING])
    assert message in str(caught.value)


@pytest.mark.parametrize("batch_size", [1, 2, 100])
@pytest.mark.parametrize("name", ["b.parquet", "b.jsonl", "b.feather"])
def test_unsorted_across_files_names_both_places(tmp_path: Path, name: str, batch_size: int) -> None:
    write_parquet(pings([1, 5]), tmp_path / "a.parquet")
    WRITERS[name.replace("b", "a", 1)](pings([6, 7, 4]), tmp_path / name)
    with pytest.raises(InputError) as caught:
        read(tmp_path, [PING], batch_size=batch_size)
    assert f"input 0 ({tmp_path}), row 4 (row 2 of {tmp_path / name}): column 'ts' goes back" in str(caught.value)


@pytest.mark.parametrize("name", ["a.parquet", "a.arrow", "a.jsonl.gz"])
def test_damaged_file_names_the_file(tmp_path: Path, name: str) -> None:
    WRITERS[name](MIXED, tmp_path / name)
    content = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(content[: len(content) // 2])
    with pytest.raises(
        InputError, match=rf"{name} can't be read, after \d+ rows: (.|\n)*\n  repair or replace the file"
    ):
        read(tmp_path / name)
