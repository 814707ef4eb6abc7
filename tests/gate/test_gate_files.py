"""Files of every format: streamed, in order of their names, with places in messages."""

from __future__ import annotations

import datetime
import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from gate_support import BOTH, MOVE, PING, mixed, move, moves, pings, read
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError
from mainstem.gate import formats, open_events
from mainstem.gate.formats import reader_of
from mainstem.gate.prefetch import DEPTH, prefetched
from mainstem.gate.raw import Request
from mainstem.schema import EventSchema, Field, Type


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


# CSV

WIDE = EventSchema(
    "Wide",
    (
        Field("i", Type("int")),
        Field("f", Type("float", nullable=True)),
        Field("b", Type("bool")),
        Field("s", Type("str")),
        Field("t", Type("str", nullable=True)),
        Field("y", Type("bytes")),
        Field("d", Type("datetime")),
        Field("k", Type("int"), 9),
    ),
)


def wide(tmp_path: Path, text: str, **options: Any) -> list[dict[str, Any]]:
    (tmp_path / "w.csv").write_text("ts,i,f,b,s,t,y,d,k\n" + text)
    return [row for _, _, row in read(tmp_path / "w.csv", [WIDE], **options)]


def test_csv_values(tmp_path: Path) -> None:
    rows = wide(
        tmp_path,
        '1,-5,1.5,true,"a, ""b""\nc",x,raw,2024-02-29T12:00:00.5,1\n'
        "2, 7 ,,0,,,,2024-02-29,\n"
        '3,1,1,False,"","",x,2024-02-29 01:02:03,2\n',
    )
    noon = datetime.datetime(2024, 2, 29, 12, 0, 0, 500_000)
    early = datetime.datetime(2024, 2, 29, 1, 2, 3)
    assert rows == [
        {"i": -5, "f": 1.5, "b": True, "s": 'a, "b"\nc', "t": "x", "y": b"raw", "d": noon, "k": 1},
        {"i": 7, "f": None, "b": False, "s": "", "t": None, "y": b"", "d": datetime.datetime(2024, 2, 29), "k": 9},
        {"i": 1, "f": 1.0, "b": False, "s": "", "t": "", "y": b"x", "d": early, "k": 2},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "ts", ["1000000", " 1000000 ", "1970-01-01T00:00:01", "1970-01-01T02:00:01+02:00", "1970-01-01 00:00:01Z"]
)
def test_csv_ts(tmp_path: Path, ts: str) -> None:
    (tmp_path / "a.csv").write_text(f"ts,src\n{ts},1\n")
    assert read(tmp_path / "a.csv", [PING]) == [("Ping", 1_000_000, {"src": 1})]


def test_csv_zone_and_integer_for_a_datetime(tmp_path: Path) -> None:
    assert wide(tmp_path, "1,1,1,1,,,,2024-02-29T12:00:00+02:00,\n")[0]["d"] == datetime.datetime(2024, 2, 29, 10)
    assert wide(tmp_path, "1,1,1,1,,,,7,\n")[0]["d"] == datetime.datetime(1970, 1, 1, 0, 0, 0, 7)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("2,x,1,1,,,,2024-01-01,1", "column 'i' holds 'x', but Wide.i is int"),
        ("2,1.5,1,1,,,,2024-01-01,1", "column 'i' holds '1.5', but Wide.i is int"),
        ("2,,1,1,,,,2024-01-01,1", "column 'i' is null, but Wide.i is int"),
        ("2,1,one,1,,,,2024-01-01,1", "column 'f' holds 'one', but Wide.f is float | None"),
        ("2,1,1,maybe,,,,2024-01-01,1", "column 'b' holds 'maybe', but Wide.b is bool"),
        ("2,1,1,1,,,,noon,1", "column 'd' holds 'noon', but Wide.d is datetime"),
        ("never,1,1,1,,,,2024-01-01,1", "column 'ts' holds 'never'"),
        (",1,1,1,,,,2024-01-01,1", "column 'ts' is null"),
        ("2,1", "the line has 2 values, but the header has 9"),
        ("2,1,1,1,,,,2024-01-01,1,1", "the line has 10 values, but the header has 9"),
    ],
)
def test_csv_bad_rows(tmp_path: Path, line: str, reason: str) -> None:
    good = "1,1,1,1,,,,2024-01-01,1\n"
    with pytest.raises(InputError, match="row 1: ") as caught:
        wide(tmp_path, good + line + "\n" + good)
    assert f"row 1: {reason}" in str(caught.value)
    batches, rejects = open_events(tmp_path / "w.csv", [WIDE], on_bad="reject")
    assert sum(len(batch) for batch in batches) == 2
    (reject,) = rejects.table.to_pylist()
    assert reject["offset"] == 1
    assert reject["reason"].startswith(reason)


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 7))
def test_csv_malformed_lines_keep_their_places(
    tmp_path_factory: pytest.TempPathFactory, good: list[bool], batch_size: int
) -> None:
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    path.write_text("ts,src\n" + "".join(f"{n},{n}\n" if ok else f"{n}\n\n" for n, ok in enumerate(good)))
    batches, rejects = open_events(path, [PING], on_bad="reject", batch_size=batch_size)
    assert [ts for batch in batches for ts in batch.ts.tolist()] == [n for n, ok in enumerate(good) if ok]
    assert rejects.table["offset"].to_pylist() == [n for n, ok in enumerate(good) if not ok]
    assert rejects.table["data"].to_pylist() == [str(n) for n, ok in enumerate(good) if not ok]


def test_csv_of_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_TEXT_BLOCK_BYTES", 256)
    lines = [f"{n},{n}" if n % 50 else f"{n}" for n in range(1000)]
    (tmp_path / "a.csv").write_text("\n".join(["ts,src", *lines]))
    batches, rejects = open_events(tmp_path / "a.csv", [PING], on_bad="reject", batch_size=64)
    assert [ts for batch in batches for ts in batch.ts.tolist()] == [n for n in range(1000) if n % 50]
    assert rejects.table["offset"].to_pylist() == list(range(0, 1000, 50))


def test_csv_without_a_header_or_column(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("")
    with pytest.raises(InputError, match=r"a\.csv can't be read, after 0 rows: .*[Ee]mpty"):
        read(tmp_path / "a.csv", [PING])
    (tmp_path / "a.csv").write_text("ts,other\n1,2\n")
    with pytest.raises(InputError, match="column 'src' is missing; the input has ts, other\n"):
        read(tmp_path / "a.csv", [PING])


def test_csv_header_only(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("ts,src\n")
    assert read(tmp_path / "a.csv", [PING]) == []


def test_csv_of_several_types(tmp_path: Path) -> None:
    number = EventSchema("Number", (Field("x", Type("int")),))
    word = EventSchema("Word", (Field("x", Type("str")), Field("y", Type("float", nullable=True))))
    (tmp_path / "a.csv").write_text("event,ts,x,y\nNumber,1,5,\nWord,2,hi,1.5\nNumber,3,oops,\n")
    batches, rejects = open_events(tmp_path / "a.csv", [number, word], on_bad="reject")
    (batch,) = batches
    assert batch.kind.tolist() == [0, 1]
    assert rejects.table["reason"].to_pylist() == ["column 'x' holds 'oops', but Number.x is int"]


# JSON lines


def json_rows(tmp_path: Path, text: str, schemas: list[EventSchema], **options: Any) -> Any:
    (tmp_path / "a.jsonl").write_text(text)
    return read(tmp_path / "a.jsonl", schemas, **options)


@pytest.mark.parametrize("slow", [False, True], ids=["by Arrow", "line by line"])
def test_json_values(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    if slow:
        monkeypatch.setattr(formats, "_json_schema", lambda block, request: None)
    line = (
        '{"ts": 1, "i": 2, "f": 3, "b": true, "s": "é", "t": null, "y": "ab", "d": "2024-02-29T12:00:00", "z": 1}\n\n'
    )
    values = {
        "i": 2,
        "f": 3.0,
        "b": True,
        "s": "é",
        "t": None,
        "y": b"ab",
        "d": datetime.datetime(2024, 2, 29, 12),
        "k": 9,
    }
    assert json_rows(tmp_path, line, [WIDE]) == [("Wide", 1, values)]


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ('{"ts": 1.0, "src": 2.0}', ("Ping", 1, {"src": 2})),
        ('{"ts": "1", "src": "2"}', ("Ping", 1, {"src": 2})),
        ('{"ts": "1970-01-01T00:00:01", "src": 2}', ("Ping", 1_000_000, {"src": 2})),
        ('{"ts": "1970-01-01T00:00:01Z", "src": 2}', ("Ping", 1_000_000, {"src": 2})),
        ('{"ts": 1, "src": 2, "event": "Ping"}', ("Ping", 1, {"src": 2})),
        ('{"ts": 1, "src": 9007199254740993}', ("Ping", 1, {"src": 2**53 + 1})),
        ('  {"ts":1,"src":2}  ', ("Ping", 1, {"src": 2})),
    ],
)
def test_json_forms_of_values(tmp_path: Path, line: str, row: Any) -> None:
    assert json_rows(tmp_path, line, [PING]) == [row]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"ts": 2, "src": "x"}', "column 'src' holds 'x', but Ping.src is int"),
        ('{"ts": 2, "src": 1.5}', "column 'src' holds 1.5, but Ping.src is int"),
        ('{"ts": 2, "src": true}', "column 'src' holds True, but Ping.src is int"),
        ('{"ts": 2, "src": [1]}', "column 'src' holds [1], but Ping.src is int"),
        ('{"ts": 2, "src": 9223372036854775808}', "column 'src' holds 9223372036854775808, but Ping.src is int"),
        ('{"ts": 2}', "column 'src' is null, but Ping.src is int"),
        ('{"src": 2}', "column 'ts' is null"),
        ('{"ts": "later", "src": 1}', "column 'ts' holds 'later'"),
        ('{"ts": 2, "src": 1, "event": "Pong"}', "column 'event' names 'Pong'"),
        ('{"ts": 2, "src', "the line is not JSON: "),
        ("[1, 2]", "the line is no JSON object"),
    ],
)
def test_json_bad_rows(tmp_path: Path, line: str, reason: str) -> None:
    good = '{"ts": 1, "src": 1}\n'
    with pytest.raises(InputError) as caught:
        json_rows(tmp_path, good + line + "\n" + good, [PING])
    assert f"a.jsonl), row 1: {reason}" in str(caught.value)
    batches, rejects = open_events(tmp_path / "a.jsonl", [PING], on_bad="reject")
    assert sum(len(batch) for batch in batches) == 2
    (reject,) = rejects.table.to_pylist()
    assert reject["offset"] == 1
    assert reject["reason"].startswith(reason)


def test_json_blocks_are_cut_at_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_TEXT_BLOCK_BYTES", 50)
    text = "\n".join(json.dumps({"ts": n, "src": n, "pad": "x" * (n % 130)}) + "\n" * (n % 3) for n in range(300))
    assert [ts for _, ts, _ in json_rows(tmp_path, text, [PING])] == list(range(300))


def test_json_types_that_disagree_about_a_column(tmp_path: Path) -> None:
    whole = EventSchema("Whole", (Field("x", Type("int")),))
    part = EventSchema("Part", (Field("x", Type("float")),))
    text = '{"event": "Whole", "ts": 1, "x": 9007199254740993}\n{"event": "Part", "ts": 2, "x": 0.5}\n'
    assert json_rows(tmp_path, text, [whole, part]) == [("Whole", 1, {"x": 2**53 + 1}), ("Part", 2, {"x": 0.5})]


# Reading ahead


def reading() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "mainstem-read-ahead"]


@pytest.fixture
def large(tmp_path: Path) -> Path:
    pq.write_table(pings(list(range(10_000))), tmp_path / "large.parquet")
    return tmp_path / "large.parquet"


def test_early_stop_leaves_no_thread(large: Path) -> None:
    batches: Any = open_events([large, large, large], [PING], batch_size=10)[0]
    assert reading() == []
    next(batches)
    assert len(reading()) == 3
    batches.close()
    assert reading() == []


def test_dropping_the_iterator_leaves_no_thread(large: Path) -> None:
    batches = open_events(large, [PING], batch_size=10)[0]
    next(batches)
    del batches
    assert reading() == []


def test_error_or_end_leaves_no_thread(large: Path) -> None:
    assert len(read([large, large], [PING])) == 20_000
    assert reading() == []
    unsorted = pings([2, 1])
    with pytest.raises(InputError, match="goes back"):
        read([large, unsorted], [PING], batch_size=10)
    assert reading() == []


def test_unclosed_iterator_does_not_keep_the_interpreter(large: Path) -> None:
    script = (
        "import sys; from mainstem.gate import open_events; from mainstem.schema import *\n"
        "ping = EventSchema('Ping', (Field('src', Type('int')),))\n"
        "sys.keep = open_events(sys.argv[1], [ping], batch_size=10)[0]; print(len(next(sys.keep)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(large)], capture_output=True, text=True, timeout=60, check=True
    )
    assert (done.stdout, done.stderr) == ("10\n", "")


def test_reading_ahead_is_bounded_and_ordered() -> None:
    produced = 0
    moved = threading.Event()

    def numbers() -> Iterator[int]:
        nonlocal produced
        for number in range(100):
            produced += 1
            if produced == DEPTH + 2:
                moved.set()
            yield number

    items = prefetched(numbers())
    assert next(items) == 0
    assert moved.wait(10)  # one taken, DEPTH waiting, one at the door
    assert produced <= DEPTH + 2
    assert list(items) == list(range(1, 100))
    assert reading() == []


def test_errors_of_the_reader_reach_the_consumer_after_its_items() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise ZeroDivisionError("reader")

    items = prefetched(failing())
    assert next(items) == 1
    with pytest.raises(ZeroDivisionError, match="reader"):
        next(items)
    assert reading() == []


def test_stopping_closes_the_reader_on_its_thread() -> None:
    closed_on: list[str] = []

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed_on.append(threading.current_thread().name)

    items: Any = prefetched(endless())
    next(items)
    items.close()
    assert closed_on == ["mainstem-read-ahead"]
