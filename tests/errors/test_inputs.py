"""Inputs and directories that can't be used: each message names the place (input, row, column, file) and the remedy."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.errors import CorruptError, InputError, LockedError, MainstemError, StoreError
from mainstem.store import Store

app = ms.App("inputs")


@app.event
class Pay:
    src: int
    note: str
    rate: float
    keys: list[int]
    limit: int | None = None


@app.event
class Ping:
    src: int


@app.table(key=int)
class Account:
    paid: int = 0


@app.on(Pay)
def pay(e: Any) -> Any:
    # Reads every field: a column that no function reads is not looked at.
    Account[e.src].paid += len(e.keys)
    return {"note": e.note, "rate": e.rate, "limit": e.limit}


@app.on(Ping)
def ping(e: Any) -> None:
    Account[e.src].paid += 1


def pays(**columns: list[Any]) -> pa.Table:
    """Three good rows of Pay, with some columns replaced; a column given as None is left out."""
    good = {
        "ts": pa.array([1, 2, 3]),
        "src": pa.array([1, 2, 1]),
        "note": pa.array(["a", "b", "c"]),
        "rate": pa.array([1.0, 2.0, 3.0]),
        "keys": pa.array([[1], [], [2, 3]], pa.list_(pa.int64())),
        "limit": pa.array([None, 1, 2], pa.int64()),
    }
    replaced = {**good, **columns}
    return pa.table({name: values for name, values in replaced.items() if values is not None})


def refused(events: Any, *fragments: str, error: type[MainstemError] = InputError, **options: Any) -> str:
    """Runs, and checks that the message has the fragments and a second line with the remedy."""
    with pytest.raises(error) as caught:
        app.run(events, **options)
    message = str(caught.value)
    assert not [f for f in fragments if f not in message], message
    assert re.search(r"\n  \S", message), f"no remedy: {message}"
    return message


ROWS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "unsorted": ({"ts": [1, 5, 3]}, ("input 0", "row 2", "'ts'", "3 comes after 5", "sort")),
    "null time": ({"ts": [1, None, 3]}, ("input 0", "row 1", "'ts'", "null")),
    "null key": ({"src": [1, None, 1]}, ("input 0", "row 1", "'src'", "Pay.src", "null")),
    "null text": ({"note": ["a", "b", None]}, ("input 0", "row 2", "'note'", "null")),
    "text for an int": ({"src": ["1", "x", "2"]}, ("input 0", "'src'", "string", "Pay.src is int")),
    "fraction for an int": ({"src": [1.0, 2.5, 1.0]}, ("input 0", "'src'", "Pay.src is int")),
    "int beyond 64 bits": (
        {"src": pa.array([1, 2**63, 1], pa.uint64())},
        ("input 0", "'src'", str(2**63), "Pay.src is int"),
    ),
    "list for a text": ({"note": [["a"], [], []]}, ("input 0", "'note'", "Pay.note is str")),
    "null inside a list": ({"keys": [[1], [None], []]}, ("input 0", "row 1", "'keys'", "null inside its list")),
    "missing column": ({"rate": None}, ("input 0", "'rate'", "Pay")),
    "missing time": ({"ts": None}, ("input 0", "'ts'")),
}


@pytest.mark.parametrize("case", ROWS)
def test_bad_rows_of_a_table(case: str) -> None:
    columns, fragments = ROWS[case]
    refused({"Pay": pays(**columns)}, *fragments)


@pytest.mark.parametrize(
    "case", [c for c in ROWS if c not in ("text for an int", "list for a text", "missing column", "missing time")]
)
def test_bad_rows_are_set_aside_with_the_same_reason(case: str) -> None:
    columns, fragments = ROWS[case]
    result = app.run({"Pay": pays(**columns)}, on_bad="reject")
    (reject,) = result.rejects.to_pylist()
    assert reject["input"] == 0
    assert reject["event"] == "Pay"
    assert all(f in reject["reason"] for f in fragments if f.startswith("'"))
    assert result.outputs.num_rows == 2


def test_second_input_is_named() -> None:
    good, bad = pays(), pays(src=[1, 2, None])
    refused({"Pay": [good, bad]}, "input 1", "row 2", "'src'")


def test_row_number_counts_over_batches() -> None:
    table = pa.table({"ts": list(range(100)), "src": [*range(99), None]})
    refused({"Ping": table}, "input 0", "row 99", "'src'", batch=10)


def test_unknown_event_name() -> None:
    table = pa.table({"event": ["Ping", "Pong"], "ts": [1, 2], "src": [1, 2]})
    refused(table, "input 0", "row 1", "'Pong'", "Pay, Ping")


def test_event_column_is_missing() -> None:
    refused(pa.table({"ts": [1, 2], "src": [1, 2]}), "input 0", "'event'")


def test_unknown_key_of_the_dict_of_inputs() -> None:
    refused({"Pong": pays()}, "'Pong'", "Pay, Ping")


@pytest.mark.parametrize("value", [7, b"abc", {"ts": 1}, None], ids=repr)
def test_things_that_are_no_events(value: Any) -> None:
    refused(value, "Arrow table" if not isinstance(value, dict) else "Pay, Ping")


def test_single_event_object() -> None:
    refused(Ping(ts=1, src=2), "single event object", "[Ping(")


def test_object_of_another_class_among_events() -> None:
    refused([Ping(ts=1, src=2), ("Ping", 2)], "input 0", "('Ping', 2)", "event object")


def test_wrong_value_in_an_event_object() -> None:
    refused([Ping(ts=1, src=2), Ping(ts=2, src="two")], "input 0", "row 1", "'src'", "'two'", "Ping.src is int")


def test_int_beyond_64_bits_in_an_event_object() -> None:
    refused([Ping(ts=1, src=2**63)], "input 0", "row 0", "'src'", str(2**63))


def test_event_object_without_a_value() -> None:
    with pytest.raises(TypeError, match="src"):
        Ping(ts=1)


def test_event_object_with_an_unknown_value() -> None:
    with pytest.raises(TypeError, match="dst"):
        Ping(ts=1, src=1, dst=2)


# Files.


def torn(path: Path) -> None:
    pq.write_table(pays(), path)
    path.write_bytes(path.read_bytes()[:-10])


FILES: dict[str, tuple[str, Callable[[Path], Any], tuple[str, ...]]] = {
    "torn parquet": ("pays.parquet", torn, ("pays.parquet",)),
    "text named parquet": ("pays.parquet", lambda p: p.write_text("hello"), ("pays.parquet",)),
    "empty parquet file": ("pays.parquet", lambda p: p.write_bytes(b""), ("pays.parquet",)),
    "unknown ending": ("pays.xml", lambda p: p.write_text("<a/>"), ("pays.xml", "parquet")),
    "broken json": ("pings.jsonl", lambda p: p.write_text('{"ts": 1, "src": 1, "event": "Ping"}\n{"ts": 2,\n'),
                    ("pings.jsonl", "row 1")),
    "wrong json value": ("pings.jsonl", lambda p: p.write_text('{"ts": 1, "src": "x", "event": "Ping"}\n'),
                         ("pings.jsonl", "row 0", "'src'", "'x'")),
    "wrong csv value": ("pings.csv", lambda p: p.write_text("event,ts,src\nPing,1,1\nPing,2,x\n"),
                        ("pings.csv", "row 1", "'src'", "x")),
    "short csv row": ("pings.csv", lambda p: p.write_text("event,ts,src\nPing,1,1\nPing,2\n"), ("pings.csv", "row 1")),
    "missing": ("nothing.parquet", lambda p: None, ("nothing.parquet",)),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_bad_files(case: str, tmp_path: Path) -> None:
    name, write, fragments = FILES[case]
    write(tmp_path / name)
    refused(str(tmp_path / name), *fragments)


def test_torn_file_among_good_ones(tmp_path: Path) -> None:
    pq.write_table(pays(), tmp_path / "a.parquet")
    torn(tmp_path / "b.parquet")
    refused({"Pay": str(tmp_path)}, "b.parquet")


def test_empty_directory(tmp_path: Path) -> None:
    refused(str(tmp_path), str(tmp_path))


def test_pattern_without_files(tmp_path: Path) -> None:
    refused(str(tmp_path / "*.parquet"), "*.parquet")


# Options.


@pytest.mark.parametrize(
    ("options", "fragments"),
    [
        ({"on_bad": "skip"}, ("on_bad", "'skip'", "reject")),
        ({"batch": 0}, ("batch", "0")),
        ({"engine": "warp"}, ("engine", "'warp'", "serial", "oracle")),
    ],
)
def test_bad_options(options: dict[str, Any], fragments: tuple[str, ...]) -> None:
    refused({"Pay": pays()}, *fragments, error=MainstemError, **options)


# Durable state.


def stored(folder: Path) -> Path:
    """A directory with some committed batches."""
    table = pa.table({"ts": list(range(40)), "src": [i % 7 for i in range(40)]})
    app.run({"Ping": table}, state=str(folder), batch=10)
    return folder


def test_second_writer(tmp_path: Path) -> None:
    folder = stored(tmp_path / "state")
    store = Store.open(folder, [Account.schema])
    try:
        refused({"Pay": pays()}, str(folder), error=LockedError, state=str(folder))
    finally:
        store.close()


def test_flipped_bit_in_the_log(tmp_path: Path) -> None:
    folder = stored(tmp_path / "state")
    log = max((p for p in folder.rglob("*") if p.is_file()), key=lambda p: p.stat().st_size)
    data = bytearray(log.read_bytes())
    data[len(data) // 3] ^= 0x10
    log.write_bytes(bytes(data))
    message = refused({"Pay": pays()}, log.name, error=CorruptError, state=str(folder))
    assert re.search(r"byte \d+", message), message


def test_state_of_another_program(tmp_path: Path) -> None:
    folder = stored(tmp_path / "state")
    other = ms.App("other")

    @other.event
    class Tick:
        at: int

    @other.table(key=str)
    class Account:
        paid: int = 0

    @other.on(Tick)
    def tick(e: Any) -> None:
        Account["a"].paid += 1

    with pytest.raises(StoreError) as caught:
        other.run([Tick(ts=1, at=1)], state=str(folder))
    assert "Account" in str(caught.value)
    assert re.search(r"\n  \S", str(caught.value)), str(caught.value)


def test_state_path_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("hello")
    refused({"Pay": pays()}, str(tmp_path / "state"), error=StoreError, state=str(tmp_path / "state"))


def test_open_of_a_directory_without_state(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=re.escape(str(tmp_path))):
        ms.open(str(tmp_path))


def test_queries_on_unknown_names(tmp_path: Path) -> None:
    database = ms.open(str(stored(tmp_path / "state")))
    with pytest.raises(MainstemError, match="Acount") as caught:
        database.get("Acount", 1)
    assert "Account" in str(caught.value)
    with pytest.raises(MainstemError, match="Acount"):
        database.table("Acount")
    with pytest.raises(MainstemError, match="Acount"):
        database.sql("select * from Acount")


def test_key_of_the_wrong_type_in_a_query(tmp_path: Path) -> None:
    database = ms.open(str(stored(tmp_path / "state")))
    with pytest.raises(MainstemError, match="Account"):
        database.get("Account", "one")
