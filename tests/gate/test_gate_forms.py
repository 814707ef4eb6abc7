"""Every form in which a user may hand over events in memory."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from gate_support import BOTH, MOVE, PING, Move, Ping, Row, mixed, move, moves, pings, read

from mainstem.errors import InputError
from mainstem.gate import open_events
from mainstem.schema import EventSchema, Field, Type

OBJECTS = [Ping(ts=1, src=10), Ping(ts=2, src=20), Ping(ts=2, src=30)]
ROWS: list[Row] = [("Ping", 1, {"src": 10}), ("Ping", 2, {"src": 20}), ("Ping", 2, {"src": 30})]
TABLE = pings([1, 2, 2], [10, 20, 30])


def generated() -> Iterator[Ping]:
    yield from OBJECTS


@pytest.mark.parametrize(
    "events",
    [
        TABLE,
        pa.concat_tables([TABLE.slice(0, 1), TABLE.slice(1, 0), TABLE.slice(1)]),
        TABLE.to_batches()[0],
        TABLE.to_reader(max_chunksize=2),
        OBJECTS,
        tuple(OBJECTS),
        generated(),
        dict.fromkeys(OBJECTS).keys(),
        [TABLE],
        (TABLE.to_batches()[0],),
        [OBJECTS],
        [generated()],
        TABLE.to_pandas(),
        {"Ping": TABLE},
        {Ping: TABLE},
        {Ping: OBJECTS},
        {Ping: [TABLE]},
        {Ping: generated()},
    ],
    ids=lambda value: type(value).__name__,
)
def test_forms_of_one_input(events: Any) -> None:
    assert read(events, [PING], batch_size=2) == ROWS


def test_list_of_forms_is_several_inputs() -> None:
    sources = [TABLE, OBJECTS, TABLE.to_reader(), generated(), TABLE.to_pandas()]
    batches, _ = open_events(sources, [PING])
    (batch,) = batches
    assert batch.position == (3, 3, 3, 3, 3)
    assert batch.columns[0] is not None
    src = np.asarray(batch.columns[0].arrays["src"])[batch.columns[0].pos]
    assert src.tolist() == [10] * 5 + [20, 30] * 5


def test_dict_gives_the_type_of_each_input() -> None:
    events = {Move: moves([move(1, 1), move(4, 4)]), "Ping": [pings([1, 2]), [Ping(ts=3, src=7)]]}
    batches, _ = open_events(events, BOTH)
    (batch,) = batches
    assert batch.position == (2, 2, 1)
    assert batch.kind.tolist() == [0, 1, 1, 1, 0]


def test_objects_of_several_types_in_one_input() -> None:
    events = [Ping(ts=1, src=1), Move(**move(1, 2)), Ping(ts=3, src=3), Move(**move(4, 4))]
    found = read(events, batch_size=3)
    assert [(event, ts, row["src"]) for event, ts, row in found] == [
        ("Ping", 1, 1),
        ("Move", 1, 2),
        ("Ping", 3, 3),
        ("Move", 4, 4),
    ]


def test_mixed_table_and_objects_agree() -> None:
    rows = [("Move", move(n // 3, n)) if n % 2 else ("Ping", {"ts": n // 3, "src": n}) for n in range(30)]
    objects = [(Move if event == "Move" else Ping)(**row) for event, row in rows]
    assert read(mixed(rows), batch_size=7) == read(objects, batch_size=7)


ALL = EventSchema(
    "All",
    (
        Field("i", Type("int")),
        Field("f", Type("float")),
        Field("b", Type("bool")),
        Field("s", Type("str")),
        Field("y", Type("bytes")),
        Field("d", Type("datetime")),
        Field("n", Type("datetime", nullable=True)),
        Field("l", Type("str", is_list=True)),
        Field("m", Type("float", is_list=True, nullable=True)),
    ),
)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 5)
EXACT = {"i": 1, "f": 2.5, "b": True, "s": "é", "y": b"\xff", "d": NOON, "n": None, "l": ["a", ""], "m": None}
LOOSE = {
    "i": np.int32(1),
    "f": np.float32(2.5),
    "b": np.bool_(True),
    "s": np.str_("é"),
    "y": bytearray(b"\xff"),
    "d": NOON.replace(tzinfo=datetime.UTC).astimezone(datetime.timezone(datetime.timedelta(hours=5))),
    "n": None,
    "l": ("a", ""),
    "m": None,
}
OTHER = {
    "i": 3.0,
    "f": 1,
    "b": False,
    "s": "",
    "y": b"",
    "d": datetime.date(1970, 1, 2),
    "n": 7,
    "l": [],
    "m": np.array([1, 2]),
}


def test_values_of_objects_become_the_exact_types() -> None:
    event = type(
        "All", (), {"__mainstem_event__": "All", "__init__": lambda self, **fields: self.__dict__.update(fields)}
    )
    exact, loose, other = (event(ts=1, **values) for values in (EXACT, LOOSE, OTHER))
    assert read([exact], [ALL]) == [("All", 1, EXACT)]
    assert read([loose], [ALL]) == [("All", 1, EXACT)]
    assert read([exact, loose], [ALL]) == [("All", 1, EXACT)] * 2
    assert read([other], [ALL]) == [
        (
            "All",
            1,
            {
                **OTHER,
                "i": 3,
                "f": 1.0,
                "d": datetime.datetime(1970, 1, 2),
                "n": datetime.datetime(1970, 1, 1, 0, 0, 0, 7),
                "m": [1.0, 2.0],
            },
        )
    ]


@pytest.mark.parametrize(
    ("ts", "micros"),
    [(NOON, 1_709_208_000_000_005), (np.int16(7), 7), (np.datetime64("1970-01-01T00:00:01"), 1_000_000), (8.0, 8)],
)
def test_ts_of_an_object(ts: Any, micros: int) -> None:
    assert read([Ping(ts=ts, src=1)], [PING])[0][1] == micros


@pytest.mark.parametrize(
    ("events", "message"),
    [
        (5, "events can't be read from 5 (int)\n  give an Arrow table"),
        (None, "events can't be read from None (NoneType)\n  give an Arrow table"),
        (b"ab", "events can't be read from b'ab' (bytes)\n  give an Arrow table"),
        ([{"ts": 1, "src": 2}], "events can't be read from {'ts': 1, 'src': 2} (dict)\n  give an Arrow table"),
        ([TABLE, 5], "events can't be read from 5 (int)\n  give an Arrow table"),
        (OBJECTS[0], "a single event object was given: Ping(ts=1, src=10)\n  put it in a list: [Ping(…)]"),
        (
            {"Pong": TABLE},
            "has the key 'Pong', which is no event type of this app\n  use an event class or its name: Move, Ping",
        ),
        ({int: TABLE}, "has the key <class 'int'>, which is no event type of this app\n  use an event class"),
    ],
    ids=repr,
)
def test_other_things_are_refused_at_once(events: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        open_events(events, BOTH)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "events", [[OBJECTS[0], 5], iter([OBJECTS[0], 5]), iter([5])], ids=["list", "iterator", "first"]
)
def test_other_things_among_event_objects(events: Any) -> None:
    with pytest.raises(
        InputError, match=r"input 0 \(event objects\): 5 is no event object\n  give instances of the app's"
    ):
        read(events)


def test_long_values_are_cut_in_messages() -> None:
    with pytest.raises(InputError) as caught:
        read([Ping(ts=1, src="x" * 10_000)], [PING])
    assert len(str(caught.value)) < 400


def test_field_named_event_in_an_app_with_one_type() -> None:
    schema = EventSchema("Log", (Field("event", Type("str")),))
    assert read(pa.table({"ts": [1], "event": ["click"]}), [schema]) == [("Log", 1, {"event": "click"})]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([1, 2], pa.int8()),
        pa.array([1, 2], pa.uint64()),
        pa.array([1.0, 2.0], pa.float32()),
        pa.array([1, 2], pa.decimal128(10, 2)),
        pa.array([1, 2]).dictionary_encode(),
        pa.compute.run_end_encode(pa.array([1, 2])),
    ],
    ids=lambda array: str(array.type),
)
def test_casts_to_int(array: pa.Array) -> None:
    assert [row["src"] for _, _, row in read(pa.table({"ts": [1, 2], "src": array}), [PING])] == [1, 2]


CASTS: list[tuple[Type, pa.Array, list[Any]]] = [
    (Type("float"), pa.array([1, 2], pa.int16()), [1.0, 2.0]),
    (Type("float"), pa.array([0.5, None], pa.float32()).fill_null(2), [0.5, 2.0]),
    (Type("float"), pa.array([1, 2], pa.decimal128(5, 1)), [1.0, 2.0]),
    (Type("str"), pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
    (Type("str"), pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
    (Type("str"), pa.array(["a", "b"]).dictionary_encode(), ["a", "b"]),
    (Type("str", nullable=True), pa.nulls(2), [None, None]),
    (Type("bytes"), pa.array([b"a", b"b"], pa.large_binary()), [b"a", b"b"]),
    (Type("bytes"), pa.array([b"a", b"b"], pa.binary(1)), [b"a", b"b"]),
    (Type("datetime"), pa.array([NOON, NOON], pa.timestamp("ns")), [NOON, NOON]),
    (Type("datetime"), pa.array([NOON, NOON], pa.timestamp("us", "Asia/Tokyo")), [NOON, NOON]),
    (Type("datetime"), pa.array([1, 2], pa.timestamp("s")), [datetime.datetime(1970, 1, 1, 0, 0, s) for s in (1, 2)]),
    (Type("datetime"), pa.array([1, 2], pa.date32()), [datetime.datetime(1970, 1, d) for d in (2, 3)]),
    (Type("datetime"), pa.array([1, 2]), [datetime.datetime(1970, 1, 1, 0, 0, 0, m) for m in (1, 2)]),
    (Type("int", is_list=True), pa.array([[1, 2], []], pa.list_(pa.int32())), [[1, 2], []]),
    (Type("int", is_list=True), pa.array([[1, 2], []], pa.large_list(pa.int64())), [[1, 2], []]),
    (Type("int", is_list=True), pa.array([[1, 2], [3, 4]], pa.list_(pa.float64(), 2)), [[1, 2], [3, 4]]),
    (Type("int", is_list=True), pa.array([[1], []], pa.list_(pa.field("x", pa.int64(), nullable=False))), [[1], []]),
    (Type("int", is_list=True, nullable=True), pa.array([[1], None], pa.list_(pa.int8())), [[1], None]),
    (Type("int", is_list=True), pa.array([[], []], pa.list_(pa.null())), [[], []]),
    (Type("str", is_list=True), pa.array([["a"], ["b", "a"]], pa.list_(pa.large_string())), [["a"], ["b", "a"]]),
]


@pytest.mark.parametrize(("type", "array", "values"), CASTS, ids=lambda value: str(getattr(value, "type", value)))
def test_safe_casts(type: Type, array: pa.Array, values: list[Any]) -> None:
    schema = EventSchema("E", (Field("x", type),))
    table = pa.table({"ts": [1, 2], "x": array})
    assert [row["x"] for _, _, row in read(table, [schema])] == values
    assert [row["x"] for _, _, row in read(table.slice(1), [schema])] == values[1:]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "Europe/Berlin"])
def test_ts_as_timestamp(unit: str, zone: str | None) -> None:
    ts = pa.array([1, 2], pa.timestamp("s")).cast(pa.timestamp(unit, zone))
    assert [t for _, t, _ in read(pa.table({"ts": ts, "src": [1, 2]}), [PING])] == [1_000_000, 2_000_000]


def test_ts_below_a_microsecond_keeps_the_order() -> None:
    ts = pa.array([999, 1001, 1999], pa.timestamp("ns"))
    assert [t for _, t, _ in read(pa.table({"ts": ts, "src": [1, 2, 3]}), [PING])] == [0, 1, 1]


def test_columns_in_any_order_and_more_than_needed() -> None:
    table = pa.table({"z": ["?"] * 2, "src": [5, 6], "ts": [1, 2]})
    assert read(table, [PING]) == [("Ping", 1, {"src": 5}), ("Ping", 2, {"src": 6})]


def test_pandas_frame_with_times() -> None:
    frame = pd.DataFrame({"ts": pd.to_datetime([1, 2], unit="s"), "src": [1, 2]})
    assert [ts for _, ts, _ in read(frame, [PING])] == [1_000_000, 2_000_000]


def test_default_batch_size() -> None:
    batches, _ = open_events(pings(list(range(65_537))), [PING])
    assert [len(batch) for batch in batches] == [65_536, 1]


def test_list_schema_is_exact_after_parquet_names() -> None:
    """Writers name the items of a list differently; batches of them must still be one type."""
    named = pa.array([[1]], pa.list_(pa.field("element", pa.int64())))
    schema = EventSchema("E", (Field("x", Type("int", is_list=True)),))
    tables = [pa.table({"ts": [1], "x": named}), pa.table({"ts": [1], "x": pa.array([[2]], pa.list_(pa.int64()))})]
    assert [row["x"] for _, _, row in read(tables, [schema])] == [[1], [2]]
    assert MOVE.field("keys") is not None
