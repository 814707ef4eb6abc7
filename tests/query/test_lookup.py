"""Rows by key: of every type, one or many, also for keys that can't be there."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mainstem.errors import InputError, QueryError
from mainstem.query import open_db
from mainstem.query.export import Export
from mainstem.schema import Field, TableSchema, Type
from mainstem.state import State, TableState
from mainstem.store import Store

FIELDS = (
    Field("number", Type("int")),
    Field("share", Type("float")),
    Field("flag", Type("bool")),
    Field("text", Type("str")),
    Field("data", Type("bytes")),
    Field("seen", Type("datetime")),
    Field("last", Type("int", length=2)),
    Field("words", Type("str", length=2)),
)
MOMENT = datetime.datetime(2024, 2, 29, 1, 2, 3, 4)
KEYS: dict[str, tuple[tuple[Type, ...], list[Any], list[Any]]] = {  # key type, keys that are there, keys that are not
    "int": ((Type("int"),), [*range(40), -5, 2**62, -(2**63)], [99, -1, 2**63 - 1, 2**80, -(2**80)]),
    "sparse int": ((Type("int"),), [10**12 * k for k in range(1, 40)], [0, 7, 10**12 + 1]),
    "str": ((Type("str"),), [f"k{k}" for k in range(40)] + ["", "é", "日本"], ["x", "\ud800", "k" * 5000]),
    "bytes": ((Type("bytes"),), [bytes([k, 0]) for k in range(40)], [b"", b"\0"]),
    "datetime": (
        (Type("datetime"),), [MOMENT + datetime.timedelta(seconds=k) for k in range(40)], [datetime.datetime(1, 1, 1)]
    ),
    "pair": (
        (Type("str"), Type("int")), [(f"k{k % 5}", k) for k in range(40)], [("k0", 1), ("x", 0), ("\ud800", 0)]
    ),
    "four": (
        (Type("int"), Type("bytes"), Type("int"), Type("str")),
        [(k, b"b", -k, "s") for k in range(40)],
        [(0, b"", 0, "s")],
    ),
}  # fmt: skip


def fields_of(number: int) -> dict[str, Any]:
    return {
        "number": number * 10**15,
        "share": number / 3,
        "flag": number % 2 == 0,
        "text": f"text {number % 7}",
        "data": bytes([number % 7]),
        "seen": MOMENT + datetime.timedelta(microseconds=number),
        "last": [number, -number],
        "words": [f"w{number}", ""],
    }


def rows_of(schema: TableSchema, rows: dict[Any, dict[str, Any]]) -> pa.Table:
    keys = [key if isinstance(key, tuple) else (key,) for key in rows]
    columns = list(zip(*keys, strict=True)) + [[row[field.name] for row in rows.values()] for field in schema.fields]
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, schema.arrow, strict=True)], schema=schema.arrow)


@pytest.mark.parametrize("kind", KEYS)
def test_every_type_of_key_and_field(tmp_path: Path, kind: str) -> None:
    types, keys, missing = KEYS[kind]
    schema = TableSchema("T", types, len(types) == 1, FIELDS)
    rows = {key: fields_of(number) for number, key in enumerate(keys)}
    with Store.open(tmp_path, [schema], durability="none") as store, open_db(tmp_path) as db:
        store.commit({"T": rows_of(schema, rows)}, {})
        assert db.count("T") == len(rows)
        for count in (1, 3, 50):  # one by one, and as columns
            asked = (keys + missing)[-count:]
            assert db.get_many("T", asked) == [rows.get(key) for key in asked]
            assert [db.get("T", key) for key in asked] == [rows.get(key) for key in asked]
        gone = rows_of(schema, {keys[0]: rows[keys[0]]}).append_column("_deleted", pa.array([True]))
        store.commit({"T": gone}, {})
        assert db.get("T", keys[0]) is None
        assert db.get_many("T", [*keys]) == [None, *(rows[key] for key in keys[1:])]
        assert db.get_many("T", []) == []


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ("Account", "1", "column Account.key is '1'"),
        ("Account", True, "column Account.key is True"),
        ("Account", None, "column Account.key is None"),
        ("Account", (1,), "column Account.key is"),
        ("Visit", "x", "'x' is no key of Visit"),
        ("Visit", ("x",), "is no key of Visit"),
        ("Visit", ("x", "1"), "column Visit.key_1 is '1'"),
        ("Visit", (b"x", 1), "column Visit.key_0 is b'x'"),
    ],
)
def test_what_is_no_key_is_refused(small: Path, table: str, key: Any, message: str) -> None:
    good: list[Any] = [7] * 10 if table == "Account" else [("x", 1)] * 10
    with open_db(small) as db:
        for ask in (lambda: db.get(table, key), lambda: db.get_many(table, [*good, key])):
            with pytest.raises(InputError, match=message):
                ask()
        with pytest.raises(QueryError, match="unknown table Nobody"):
            db.get_many("Nobody", [1])


def test_numpy_keys_work(small: Path) -> None:
    with open_db(small) as db:
        assert db.get("Account", np.int64(2)) == db.get("Account", 2)
        assert db.get_many("Account", list(np.arange(20))) == db.get_many("Account", list(range(20)))


@pytest.mark.parametrize("merged_share", [0, 1])
@pytest.mark.parametrize("kind", KEYS)
def test_exports_that_are_brought_up_to_date_equal_new_ones(
    kind: str, merged_share: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random updates, insertions and deletions, few and many; what was handed out before never changes."""
    monkeypatch.setattr("mainstem.query.export._MERGED_SHARE", merged_share)
    types, keys, _ = KEYS[kind]
    schema = TableSchema("T", types, len(types) == 1, FIELDS)
    rng = np.random.default_rng(1)
    table = State({"T": schema}).tables["T"]
    export, given = Export(table), []
    for step in range(30):
        count = int(rng.choice([1, 2, len(keys)]))
        chosen = [keys[i] for i in rng.choice(len(keys), count, replace=False)]
        rows = rows_of(schema, {key: fields_of(int(rng.integers(50))) for key in chosen})
        table.apply(rows.append_column("_deleted", pa.array(rng.random(count) < 0.3 * (step % 3))))
        export.outdated = True
        given.append((export.arrow(), fresh(table)))
        assert export.arrow() is export.arrow(), "nothing to do"
    for handed_out, expected in given:
        assert handed_out == expected


def test_an_export_tells_zero_from_minus_zero() -> None:
    schema = TableSchema("T", (Type("int"),), True, (Field("v", Type("float")),))
    table = State({"T": schema}).tables["T"]
    export = Export(table)
    for value in (0.0, -0.0, 0.0):
        table.apply(pa.table({"key": [1], "v": [value]}, schema=schema.arrow))
        export.outdated = True
        assert str(export.arrow()["v"][0]) == str(value)


def fresh(table: TableState) -> pa.Table:
    """A copy that shares nothing."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema.arrow) as writer:
        writer.write_table(table.export())
    return pa.ipc.open_stream(sink.getvalue()).read_all()
