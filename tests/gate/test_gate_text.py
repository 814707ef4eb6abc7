"""CSV and JSON lines: types from text, and bad lines in their places."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

import pytest
from gate_support import PING, batch_rows, read
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError
from mainstem.gate import formats, open_events
from mainstem.schema import EventSchema, Field, Type

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


@pytest.mark.parametrize("slow", [False, True], ids=["by Arrow", "line by line"])
def test_json_fields_named_like_methods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: bool) -> None:
    if slow:
        monkeypatch.setattr(formats, "_json_schema", lambda block, request: None)
    schema = EventSchema(
        "E", (Field("keys", Type("int", is_list=True)), Field("items", Type("str")), Field("text", Type("int")))
    )
    text = '{"ts": 1, "keys": [1, 2], "items": "a", "text": 3}\n{"ts": \n'
    (tmp_path / "a.jsonl").write_text(text)
    batches, rejects = open_events(tmp_path / "a.jsonl", [schema], on_bad="reject")
    assert [row for batch in batches for row in batch_rows(batch, [schema])] == [
        ("E", 1, {"keys": [1, 2], "items": "a", "text": 3})
    ]
    assert rejects.count == 1
