"""Tables in memory against dicts: upserts, deletes, export and back."""

from __future__ import annotations

import datetime
import gc
import weakref
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mainstem.errors import InputError
from mainstem.schema import Field, TableSchema, Type
from mainstem.state import DELETED, State, TableState, digest

ALL_FIELDS = (
    Field("count", Type("int"), 7),
    Field("rate", Type("float"), 1.5),
    Field("open", Type("bool"), True),
    Field("name", Type("str"), "nobody"),
    Field("blob", Type("bytes")),
    Field("seen", Type("datetime"), datetime.datetime(2020, 1, 1)),
    Field("last", Type("float", length=3), (1.0, 2.0, 3.0)),
    Field("bits", Type("bool", length=2)),
)
int64s = st.integers(-(2**63), 2**63 - 1)
KEYS: dict[str, tuple[tuple[Type, ...], st.SearchStrategy[Any]]] = {
    "int": ((Type("int"),), st.one_of(st.integers(-5, 5), int64s)),
    "str": ((Type("str"),), st.text(alphabet="aé\0z", max_size=4)),
    "bytes": ((Type("bytes"),), st.binary(max_size=3)),
    "pair": ((Type("str"), Type("int")), st.tuples(st.text(alphabet="ab", max_size=2), st.integers(-3, 3))),
}
values = st.fixed_dictionaries(
    {
        "count": int64s,
        "rate": st.floats(allow_nan=False),
        "open": st.booleans(),
        "name": st.text(max_size=5),
        "blob": st.binary(max_size=5),
        "seen": st.datetimes(),
        "last": st.lists(st.floats(allow_nan=False), min_size=3, max_size=3),
        "bits": st.lists(st.booleans(), min_size=2, max_size=2),
    }
)


def schema(kind: str, fields: tuple[Field, ...] = ALL_FIELDS) -> TableSchema:
    types = KEYS[kind][0]
    return TableSchema("Thing", types, len(types) == 1, fields)


def new_table(table_schema: TableSchema) -> TableState:
    return State({table_schema.name: table_schema}).tables[table_schema.name]


def key_row(table_schema: TableSchema, key: Any) -> dict[str, Any]:
    parts = (key,) if table_schema.scalar_key else key
    return dict(zip(table_schema.key_columns, parts, strict=True))


def changes(table_schema: TableSchema, entries: list[tuple[Any, dict[str, Any] | None]]) -> pa.Table:
    """Rows to write; None stands for a deletion."""
    with_flag = table_schema.arrow.append(pa.field(DELETED, pa.bool_()))
    nullable = pa.schema([column.with_nullable(True) for column in with_flag])
    rows = [{**key_row(table_schema, key), **(row or {}), DELETED: row is None} for key, row in entries]
    return pa.Table.from_pylist(rows, nullable)


@pytest.mark.parametrize("kind", KEYS)
@given(data=st.data())
@settings(max_examples=25)
def test_apply_get_and_export_equal_a_dict(kind: str, data: st.DataObject) -> None:
    table_schema, known = schema(kind), {}
    table = new_table(table_schema)
    entry = st.tuples(KEYS[kind][1], st.none() | values)
    for batch in data.draw(st.lists(st.lists(entry, max_size=8), max_size=4)):
        table.apply(changes(table_schema, batch))
        for key, row in batch:
            known.pop(key, None) if row is None else known.update({key: row})
        for key, _ in batch:
            assert table.get(key) == known.get(key)
    exported = table.export()
    assert exported.schema.equals(table_schema.arrow)
    assert exported.to_pylist() == [{**key_row(table_schema, key), **known[key]} for key in sorted(known)]
    assert len(table) == len(known)
    check_defaults_of_missing_rows(table)
    again = new_table(table_schema)
    again.apply(exported)
    assert again.export().equals(exported)


def check_defaults_of_missing_rows(table: TableState) -> None:
    missing = table.rows[table.rows["_alive"] == 0]
    assert all(row == table.default_row[0] or row.tobytes() == table.default_row.tobytes() for row in missing)


def test_delta_carries_changes_and_deletions() -> None:
    table_schema = schema("pair")
    left, right = new_table(table_schema), new_table(table_schema)
    row = {f.name: left.delta(left.resolve([pa.array(["a"]), pa.array([1])]))[f.name][0].as_py() for f in ALL_FIELDS}
    left.apply(changes(table_schema, [(("a", 1), row), (("b", 2), row)]))
    right.apply(left.delta(np.array([0, 1])))
    left.apply(changes(table_schema, [(("a", 1), None), (("c", 3), row)]))
    delta = left.delta(np.array([0, 2]))
    assert delta.schema.equals(table_schema.arrow.append(pa.field(DELETED, pa.bool_(), nullable=False)))
    assert delta[DELETED].to_pylist() == [True, False]
    right.apply(delta)
    assert right.export().equals(left.export())
    assert right.export()["key_0"].to_pylist() == ["b", "c"]


def test_a_key_written_twice_in_one_table_keeps_the_last() -> None:
    table_schema = TableSchema("Thing", (Type("int"),), True, (Field("n", Type("int"), 3),))
    table = new_table(table_schema)
    table.apply(
        changes(table_schema, [(1, {"n": 1}), (1, {"n": 2}), (2, {"n": 5}), (2, None), (3, None), (3, {"n": 9})])
    )
    assert table.export().to_pylist() == [{"key": 1, "n": 2}, {"key": 3, "n": 9}]
    assert table.rows["n"][1] == 3


def test_rows_grow_with_the_index_and_keep_numbers_and_defaults() -> None:
    table = new_table(schema("int"))
    first = table.resolve([pa.array(np.arange(1000))])
    table.rows["_alive"][first], table.rows["count"][first] = 1, first
    rows = table.resolve([pa.array(np.arange(999, 5000))])
    assert rows.tolist() == list(range(999, 5000))
    assert len(table.rows) >= 5000
    assert table.rows["count"][:1000].tolist() == list(range(1000))
    assert set(table.rows["count"][1000:].tolist()) == {7}
    assert table.rows["last"][4999].tolist() == [1.0, 2.0, 3.0]
    assert len(table) == 1000


def test_rows_with_zero_defaults_grow() -> None:
    table = new_table(TableSchema("Thing", (Type("int"),), True, (Field("n", Type("int")), Field("s", Type("str")))))
    table.resolve([pa.array(np.arange(3000))])
    assert table.default_row.tobytes().strip(b"\0") == b""
    assert not table.rows["n"].any()
    assert len(table) == 0


def test_resolve_of_null_parts_and_of_dictionary_keys() -> None:
    table = new_table(schema("pair"))
    names = pa.array(["a", None, "b", "a"]).dictionary_encode()
    assert table.resolve([names, pa.array([1, 1, None, 1])]).tolist() == [0, -1, -1, 0]
    assert table.index.count == 1


def test_datetime_keys() -> None:
    table = new_table(TableSchema("Day", (Type("datetime"),), True, (Field("n", Type("int")),)))
    day = datetime.datetime(1969, 12, 31, 23, 59, 59, 999999)
    table.apply(pa.table({"key": pa.array([day], pa.timestamp("us")), "n": pa.array([4])}))
    assert table.get(day) == table.get(-1) == {"n": 4}
    assert table.get(datetime.datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=datetime.UTC)) == {"n": 4}
    assert table.export()["key"].to_pylist() == [day]


def test_a_table_without_fields_is_a_set() -> None:
    table = new_table(TableSchema("Seen", (Type("str"),), True, ()))
    table.apply(pa.table({"key": ["b", "a"]}))
    assert table.export().to_pylist() == [{"key": "a"}, {"key": "b"}]
    assert (table.get("a"), table.get("c")) == ({}, None)


def test_get_adds_neither_keys_nor_strings() -> None:
    table_schema = schema("str")
    state = State({"Thing": table_schema})
    strings = state.strings.count
    assert state.tables["Thing"].get("unheard of") is None
    assert (state.strings.count, state.tables["Thing"].index.count) == (strings, 0)
    assert new_table(schema("int")).get(2**70) is None


@pytest.mark.parametrize(
    ("kind", "key", "message"),
    [
        ("int", "x", r"column Thing.key is 'x' \(str\), but its type is int; pass a int"),
        ("int", True, r"column Thing.key is True \(bool\)"),
        ("str", 1, r"column Thing.key is 1 \(int\), but its type is str"),
        ("pair", "a", r"'a' is no key of Thing; pass a tuple \(str, int\)"),
        ("pair", ("a",), r"\('a',\) is no key of Thing"),
    ],
)
def test_wrong_keys(kind: str, key: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        new_table(schema(kind)).get(key)


SMALL = TableSchema("T", (Type("int"),), True, (Field("n", Type("int")), Field("s", Type("str"))))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": [1], "n": [1]}, "column T.s is missing or there twice; the columns are: key, n, s"),
        ({"key": [1], "n": [1], "s": ["a"], "x": [1]}, r"column T.x is unknown \(int64\); the columns are: key, n, s"),
        ({"key": [1], "n": [1.0], "s": ["a"]}, "column T.n has type double; cast it to int64"),
        ({"key": [1], "n": [1], "s": [1]}, "column T.s has type int64; cast it to string"),
        ({"key": [1, None], "n": [1, 2], "s": ["a", "b"]}, "column T.key is null in row 1; every row needs a key"),
        ({"key": [1], "n": [1], "s": pa.array([None], "string")}, "column T.s is null in row 0; fields of tables are"),
        ({"key": [1], "n": [1], "s": ["a"], DELETED: [1]}, r"column T._deleted is unknown \(int64\)"),
        ({"key": [1], "n": [1], "s": ["a"], DELETED: pa.array([None], "bool")}, "T._deleted is null in row 0"),
    ],
)
def test_tables_that_cannot_be_applied_change_nothing(columns: dict[str, Any], message: str) -> None:
    table = new_table(SMALL)
    with pytest.raises(InputError, match=message):
        table.apply(pa.table(columns))
    assert table.index.count == 0


def test_text_is_accepted_in_any_encoding() -> None:
    for type_ in (pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        table = new_table(SMALL)
        texts = pa.array(["a", "b"]).cast(type_) if not pa.types.is_dictionary(type_) else pa.array(["a", "b"], type_)
        table.apply(pa.table({"s": texts, "n": [1, 2], "key": [2, 1]}))
        assert table.export().to_pylist() == [{"key": 1, "n": 2, "s": "b"}, {"key": 2, "n": 1, "s": "a"}]


def test_wrong_defaults() -> None:
    for field, message in (
        (Field("n", Type("int"), "x"), r"the default of column T.n is 'x' \(str\)"),
        (Field("a", Type("int", length=2), (1, 2, 3)), "the default of column T.a has 3 values"),
    ):
        with pytest.raises(InputError, match=message):
            new_table(TableSchema("T", (Type("int"),), True, (field,)))


def test_state_exports_loads_and_names_its_tables() -> None:
    schemas = {"T": SMALL, "Thing": schema("pair")}
    left, right = State(schemas), State(schemas)
    left.apply("T", pa.table({"key": [3, 1], "n": [5, 6], "s": ["shared", "own"]}))
    row = {f.name: None for f in ALL_FIELDS} | {"name": "shared", "count": 1, "rate": 0.0, "open": False}
    row |= {"blob": b"x", "seen": datetime.datetime(2000, 1, 1), "last": [0.0, -0.0, 1.0], "bits": [True, False]}
    left.apply("Thing", changes(schemas["Thing"], [(("shared", 1), row)]))
    right.load(left.export())
    assert {name: table.to_pylist() for name, table in right.export().items()} == {
        name: table.to_pylist() for name, table in left.export().items()
    }
    assert digest(left.export()) == digest(right.export())
    with pytest.raises(InputError, match="there is no table 'Nope'; the tables are: T, Thing"):
        left.apply("Nope", pa.table({}))


def test_no_row_has_a_time_beyond_64_bits() -> None:
    table = new_table(TableSchema("T", (Type("datetime"),), True, (Field("n", Type("int")),)))
    table.apply(pa.table({"key": pa.array([5], pa.timestamp("us")), "n": [1]}))
    assert table.get(5) == {"n": 1}
    assert table.get(2**70) is None
    assert table.get_many([2**70] * 9 + [5])[-1] == {"n": 1}


def test_a_state_that_nobody_uses_leaves_memory_at_once() -> None:
    """Python's collector counts objects, not bytes: in a circle of references, gigabytes of rows could wait for it."""
    gc.collect()
    gc.disable()
    try:
        state = State({"T": TableSchema("T", (Type("int"),), True, ALL_FIELDS)})
        assert state.tables["T"].get(1) is None
        table = weakref.ref(state.tables["T"])
        del state
        assert table() is None
    finally:
        gc.enable()
