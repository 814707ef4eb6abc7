"""Bad rows, in both modes: the message names place and remedy, the reject keeps the row and the same reason."""

from __future__ import annotations

import datetime
import decimal
import json
from typing import Any

import pyarrow as pa
import pytest
from gate_support import BOTH, MOVE, PING, Move, Ping, mixed, move, moves, pings, read, rows_of
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError
from mainstem.gate import Rejects, open_events
from mainstem.schema import EventSchema, Field, Type

GOOD = [move(1, 1), move(2, 2), move(3, 3), move(4, 4)]
SET_ASIDE = 'pass on_bad="reject" to set such rows aside'


def changed(**columns: Any) -> pa.Table:
    """Four good rows of Move with some columns replaced."""
    table = moves(GOOD)
    for name, values in columns.items():
        array = values if isinstance(values, pa.Array) else pa.array(values)
        table = table.set_column(table.schema.names.index(name), name, array)
    return table


def error_of(events: Any, schemas: list[EventSchema], **options: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(events, schemas, **options)
    return str(caught.value)


def rejects_of(events: Any, schemas: list[EventSchema], **options: Any) -> tuple[list[int], list[dict[str, Any]]]:
    """The times of good rows, and the rejected rows."""
    batches, rejects = open_events(events, schemas, on_bad="reject", **options)
    good = [ts for _, ts, _ in rows_of(batches, schemas)]
    assert rejects.count == rejects.table.num_rows
    return good, rejects.table.to_pylist()


INT_ARRAY = pa.list_(pa.int64())
CASES: dict[str, tuple[dict[str, Any], int, str, str]] = {
    # name: (columns, first bad row, reason, remedy)
    "null": (
        {"src": [1, None, 3, 4]},
        1,
        "column 'src' is null, but Move.src is int",
        "declare the field as `src: int | None`",
    ),
    "null list": (
        {"keys": pa.array([[1], [], None, [2]], INT_ARRAY)},
        2,
        "column 'keys' is null, but Move.keys is list[int]",
        "give a value",
    ),
    "null in list": (
        {"keys": pa.array([[1], [2, None], [], [3]], INT_ARRAY)},
        1,
        "column 'keys' has a null inside its list, but Move.keys is list[int]",
        "leave nulls out of the list",
    ),
    "null ts": ({"ts": [1, 2, None, 4]}, 2, "column 'ts' is null, but every event has a time", "give a time"),
    "unsorted": ({"ts": [1, 5, 3, 6]}, 2, "column 'ts' goes back: 3 comes after 5", "sort the input by ts"),
    "fraction": ({"src": [1.0, 2.0, 2.5, 3.0]}, 2, "column 'src' holds 2.5, but Move.src is int", "convert the value"),
    "nan": (
        {"src": [1.0, 2.0, float("nan"), 3.0]},
        2,
        "column 'src' holds nan, but Move.src is int",
        "convert the value",
    ),
    "too large": (
        {"src": pa.array([1, 2, 3, 2**63], pa.uint64())},
        3,
        f"column 'src' holds {2**63}, but Move.src is int",
        "convert the value",
    ),
    "not exact as float": (
        {"rate": [1, 2**53 + 1, 3, 4]},
        1,
        f"column 'rate' holds {2**53 + 1}, but Move.rate is float",
        "convert the value",
    ),
    "decimal fraction": (
        {"src": [decimal.Decimal(n) / 2 for n in (2, 4, 5, 6)]},
        2,
        "column 'src' holds Decimal('2.5'), but Move.src is int",
        "convert the value",
    ),
    "fraction in list": (
        {"keys": [[1.0], [], [2.0, 0.5], [3.0]]},
        2,
        "column 'keys' holds [2.0, 0.5], but Move.keys is list[int]",
        "convert the value",
    ),
    "ts too large": (
        {"ts": pa.array([1, 2, 3, 2**60], pa.timestamp("s"))},
        3,
        "column 'ts' holds",
        "give `ts` as an integer or a timestamp",
    ),
    "fraction as ts": (
        {"ts": [1.0, 2.0, 3.0, 3.5]},
        3,
        "column 'ts' holds 3.5",
        "give `ts` as an integer or a timestamp",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_raise_names_input_row_column_value_and_remedy(name: str) -> None:
    columns, row, reason, remedy = CASES[name]
    message = error_of(changed(**columns), [MOVE])
    assert message.startswith(f"input 0 (Arrow table), row {row}: {reason}")
    place, _, advice = message.partition("\n  ")
    assert remedy in advice
    assert SET_ASIDE in advice
    assert "\n" not in place + advice


@pytest.mark.parametrize("name", CASES)
def test_reject_keeps_the_row_with_the_reason(name: str) -> None:
    columns, row, reason, _ = CASES[name]
    good, rejects = rejects_of(changed(**columns), [MOVE])
    assert len(good) == 3
    (reject,) = rejects
    assert (reject["input"], reject["offset"], reject["event"]) == (0, row, "Move")
    assert reject["reason"].startswith(reason)
    assert set(json.loads(reject["data"])) == {"ts", "src", "rate", "note", "keys"}


@pytest.mark.parametrize("batch_size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", CASES)
def test_rejects_do_not_depend_on_batches(name: str, batch_size: int) -> None:
    table = changed(**CASES[name][0])
    assert rejects_of(table, [MOVE], batch_size=batch_size) == rejects_of(table, [MOVE])


WRONG_TYPES: dict[str, tuple[str, pa.Array, str]] = {
    "text for int": ("src", pa.array(["1", "2", "3", "4"]), "string"),
    "bool for int": ("src", pa.array([True, False, True, True]), "bool"),
    "time for int": ("src", pa.array([1, 2, 3, 4], pa.timestamp("us")), "timestamp[us]"),
    "struct for int": ("src", pa.array([{"a": 1}] * 4), "struct<a: int64>"),
    "text for float": ("rate", pa.array(["1"] * 4), "string"),
    "int for text": ("note", pa.array([1, 2, 3, 4]), "int64"),
    "bytes for text": ("note", pa.array([b"a"] * 4), "binary"),
    "int for list": ("keys", pa.array([1, 2, 3, 4]), "int64"),
    "list of text": ("keys", pa.array([["a"]] * 4), "list<item: string>"),
}


@pytest.mark.parametrize("name", WRONG_TYPES)
def test_column_of_a_type_that_never_fits(name: str) -> None:
    column, array, found = WRONG_TYPES[name]
    message = error_of(changed(**{column: array}), [MOVE])
    field = MOVE.field(column)
    assert field is not None
    assert f"row 0: column '{column}' has the Arrow type {found}, but Move.{column} is {field.type}" in message
    assert f"\n  cast the column to {field.type.arrow} before the run, or change the field's type" in message
    good, rejects = rejects_of(changed(**{column: array}), [MOVE])
    assert good == []
    assert [reject["offset"] for reject in rejects] == [0, 1, 2, 3]


@pytest.mark.parametrize("on_bad", ["raise", "reject"])
def test_missing_column_always_raises(on_bad: str) -> None:
    message = error_of(moves(GOOD).drop_columns(["rate"]), [MOVE], on_bad=on_bad)
    assert "input 0 (Arrow table): column 'rate' is missing; the input has ts, src, note, keys" in message
    assert "\n  Move.rate is float and has no default: add the column, or declare `rate: float = …`" in message


@pytest.mark.parametrize("on_bad", ["raise", "reject"])
def test_missing_ts_and_event_always_raise(on_bad: str) -> None:
    message = error_of(moves(GOOD).drop_columns(["ts"]), [MOVE], on_bad=on_bad)
    assert "column 'ts' is missing; the input has src, rate, note, keys\n  every event has a time" in message
    message = error_of(moves(GOOD), BOTH, on_bad=on_bad)
    assert "column 'event' is missing" in message
    assert "several event types (Move, Ping)" in message
    assert "give inputs by type as {EventType: input}" in message


@pytest.mark.parametrize(
    ("type", "default", "value"),
    [
        (Type("int"), 7, 7),
        (Type("str"), "x", "x"),
        (Type("float", nullable=True), None, None),
        (Type("int", is_list=True), (1, 2), [1, 2]),
        (Type("datetime"), 0, datetime.datetime(1970, 1, 1)),
    ],
    ids=str,
)
def test_missing_column_with_a_default(type: Type, default: Any, value: Any) -> None:
    schema = EventSchema("Ping", (Field("src", Type("int")), Field("more", type, default)))
    assert [row["more"] for _, _, row in read(pings([1, 2]), [schema])] == [value, value]


def test_default_does_not_hide_a_null() -> None:
    schema = EventSchema("Ping", (Field("src", Type("int"), 5),))
    assert "row 1: column 'src' is null" in error_of(pings([1, 2], [1, None]), [schema])


def test_unsorted_across_batches() -> None:
    table = pa.concat_tables([pings([1, 5]), pings([4, 6])])
    assert "row 2: column 'ts' goes back: 4 comes after 5" in error_of(table, [PING])
    assert error_of(table, [PING], batch_size=1) == error_of(table, [PING])
    assert rejects_of(table, [PING])[0] == [1, 5, 6]


def test_predecessor_is_the_last_accepted_row() -> None:
    """A row that is bad for another reason does not push the time on; a rejected one does not pull it back."""
    good, rejects = rejects_of(pings([1, 9, 2, 1, 3], [0, None, 2, 3, 4]), [PING])
    assert good == [1, 2, 3]
    assert [(reject["offset"], reject["reason"].split(",")[0]) for reject in rejects] == [
        (1, "column 'src' is null"),
        (3, "column 'ts' goes back: 1 comes after 2"),
    ]


def test_first_bad_row_is_named_whatever_is_wrong() -> None:
    table = pings([1, 2, 1, 4], [0, 1, 2, None])
    assert "row 2: column 'ts' goes back" in error_of(table, [PING])
    table = pings([1, 2, 1, 4], [0, None, 2, 3])
    assert "row 1: column 'src' is null" in error_of(table, [PING])


def test_unknown_event_name() -> None:
    table = mixed(
        [("Ping", {"ts": 1, "src": 1}), ("Pong", {"ts": 2, "src": 2}), (None, {"ts": 3}), ("Ping", {"ts": 4, "src": 4})]
    )
    message = error_of(table, BOTH)
    assert "row 1: column 'event' names 'Pong', which is no event type of this app; it has Move, Ping" in message
    assert "\n  declare the event type" in message
    good, rejects = rejects_of(table, BOTH)
    assert good == [1, 4]
    assert [(reject["offset"], reject["event"]) for reject in rejects] == [(1, None), (2, None)]
    assert "column 'event' is null" in rejects[1]["reason"]


def test_event_column_of_another_type() -> None:
    table = pings([1, 2]).append_column("event", pa.array([0, 1]))
    assert "row 0: column 'event' names 0, which is no event type" in error_of(table, BOTH)


def test_event_column_in_an_app_with_one_type() -> None:
    table = pings([1, 2, 3]).append_column("event", pa.array(["Ping", None, "Pong"]))
    good, rejects = rejects_of(table, [PING])
    assert good == [1, 2]
    assert rejects[0]["offset"] == 2
    assert read({"Ping": table}, [PING])[-1] == ("Ping", 3, {"src": 2})


def test_nulls_count_only_in_rows_of_the_type() -> None:
    rows = [
        ("Ping", {"ts": 1, "src": 1}),
        ("Move", move(2, 2)),
        ("Ping", {"ts": 3, "src": None}),
        ("Move", {**move(4, 4), "rate": None}),
    ]
    good, rejects = rejects_of(mixed(rows), BOTH)
    assert good == [1, 2]
    assert [(reject["event"], reject["reason"].split(",")[0]) for reject in rejects] == [
        ("Ping", "column 'src' is null"),
        ("Move", "column 'rate' is null"),
    ]


def test_types_that_share_a_column_with_different_meanings() -> None:
    whole = EventSchema("Whole", (Field("x", Type("int")),))
    part = EventSchema("Part", (Field("x", Type("float")),))
    table = pa.table({"ts": [1, 2, 3, 4], "event": ["Part", "Whole", "Part", "Whole"], "x": [0.5, 2.0, 2.5, 3.5]})
    good, rejects = rejects_of(table, [whole, part])
    assert good == [1, 2, 3]
    assert rejects[0]["reason"] == "column 'x' holds 3.5, but Whole.x is int"


OBJECTS: dict[str, tuple[Any, str]] = {
    "wrong type": (Ping(ts=2, src="x"), "column 'src' holds 'x', but Ping.src is int"),
    "bool for int": (Ping(ts=2, src=True), "column 'src' holds True, but Ping.src is int"),
    "fraction": (Ping(ts=2, src=1.5), "column 'src' holds 1.5, but Ping.src is int"),
    "too large": (Ping(ts=2, src=2**64), f"column 'src' holds {2**64}, but Ping.src is int"),
    "null": (Ping(ts=2, src=None), "column 'src' is null, but Ping.src is int"),
    "no such attribute": (Ping(ts=2), "column 'src' is null, but Ping.src is int"),
    "null ts": (Ping(ts=None, src=1), "column 'ts' is null"),
    "wrong ts": (Ping(ts="now", src=1), "column 'ts' holds 'now'"),
    "unsorted": (Ping(ts=0, src=1), "column 'ts' goes back: 0 comes after 1"),
    "bytes for text": (Move(**{**move(2, 2), "note": b"x"}), "column 'note' holds b'x', but Move.note is str | None"),
    "surrogate": (
        Move(**{**move(2, 2), "note": "\ud800"}),
        "column 'note' holds '\\ud800', but Move.note is str | None",
    ),
    "list of text": (Move(**{**move(2, 2), "keys": ["a"]}), "column 'keys' holds ['a'], but Move.keys is list[int]"),
    "text for list": (Move(**{**move(2, 2), "keys": "12"}), "column 'keys' holds '12', but Move.keys is list[int]"),
    "null in list": (Move(**{**move(2, 2), "keys": [1, None]}), "column 'keys' has a null inside its list"),
}


@pytest.mark.parametrize("name", OBJECTS)
def test_bad_event_objects(name: str) -> None:
    bad, reason = OBJECTS[name]
    events = [Ping(ts=1, src=1), bad, Move(**move(3, 3))]
    assert error_of(events, BOTH).startswith(f"input 0 (event objects), row 1: {reason}")
    good, (reject,) = rejects_of(events, BOTH)
    assert good == [1, 3]
    assert reject["offset"] == 1
    assert reject["event"] == type(bad).__name__
    assert reject["reason"].startswith(reason)
    assert json.loads(reject["data"])["event"] == type(bad).__name__


def test_event_object_of_another_app_and_of_another_input() -> None:
    stranger = type("Stranger", (), {"__mainstem_event__": "Stranger", "ts": 2})()
    assert "names 'Stranger', which is no event type of this app; it has Ping" in error_of([stranger], [PING])
    assert "names 'Ping', which is no event type" in error_of({"Move": [Ping(ts=1, src=1)]}, BOTH)


def test_bad_rows_of_any_input_are_told_apart() -> None:
    bad = pings([1, 2, 3], [1, None, 3])
    good, rejects = rejects_of({"Ping": [bad, pings([1, 2]), bad]}, [PING])
    assert good == [1, 1, 1, 2, 3, 3]
    assert [(reject["input"], reject["offset"]) for reject in rejects] == [(0, 1), (2, 1)]


def test_json_of_a_rejected_row_is_json() -> None:
    table = pa.table(
        {
            "ts": [None],
            "rate": [float("inf")],
            "raw": [b"\x00\xff"],
            "day": [datetime.date(2024, 2, 29)],
            "cost": [decimal.Decimal("1.50")],
            "list": [[float("nan"), 1.0]],
        }
    )
    schema = EventSchema("E", (Field("rate", Type("float")),))
    _, (reject,) = rejects_of(table, [schema])
    assert json.loads(reject["data"]) == {
        "ts": None, "rate": "inf", "raw": "AP8=", "day": "2024-02-29", "cost": "1.50", "list": ["nan", 1.0],
    }  # fmt: skip


def test_collector() -> None:
    rejects = Rejects()
    assert (rejects.count, rejects.table.num_rows) == (0, 0)
    rejects.add(1, [4], "Ping", "late", ["{}"])
    rejects.add(0, [7, 3], ["Ping", None], ["a", "b"], ["{}", "[]"])
    assert rejects.count == 3
    assert rejects.table.schema == pa.schema(
        [
            ("input", pa.int32()),
            ("offset", pa.int64()),
            ("event", pa.string()),
            ("reason", pa.string()),
            ("data", pa.string()),
        ]
    )
    assert [(row["input"], row["offset"], row["reason"]) for row in rejects.table.to_pylist()] == [
        (0, 3, "b"),
        (0, 7, "a"),
        (1, 4, "late"),
    ]


def test_on_bad_has_two_values() -> None:
    with pytest.raises(InputError, match=r"on_bad is 'ignore'\n  use .raise. to stop .*, .reject. to set"):
        open_events([], [PING], on_bad="ignore")  # type: ignore[arg-type]


ROWS = st.lists(
    st.tuples(st.none() | st.integers(0, 8), st.none() | st.just(1), st.sampled_from(["Ping", "Pong"])), max_size=30
)


@given(ROWS, st.integers(1, 12), st.booleans())
def test_accepted_rows_follow_the_plain_rule(rows: list[Any], batch_size: int, as_objects: bool) -> None:
    accepted, last = [], -1
    for ts, src, event in rows:
        if ts is not None and src is not None and event == "Ping" and ts >= last:
            accepted.append(ts)
            last = ts
    events: Any = mixed([(event, {"ts": ts, "src": src}) for ts, src, event in rows])
    if as_objects:
        pong = type("Pong", (), {"__mainstem_event__": "Pong"})
        events = [Ping(ts=ts, src=src) if event == "Ping" else pong() for ts, src, event in rows]
    good, rejects = rejects_of(events, BOTH, batch_size=batch_size)
    assert good == accepted
    assert len(rejects) == len(rows) - len(accepted)
    if rejects:
        assert f"row {rejects[0]['offset']}: {rejects[0]['reason']}" in error_of(events, BOTH, batch_size=batch_size)
    else:
        assert [ts for _, ts, _ in read(events, BOTH, batch_size=batch_size)] == accepted
