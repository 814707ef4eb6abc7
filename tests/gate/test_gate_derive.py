"""Derived columns: vectorised, per event type, checked."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from gate_support import MOVE, PING, batch_rows, mixed, move, moves, pings
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError, ProgramError
from mainstem.gate import Derive, open_events
from mainstem.schema import EventSchema, Field, Type

TWICE = Field("twice", Type("int"))
SCHEMA = EventSchema("Ping", PING.fields, derived=(TWICE,))


def derived(function: Any, fields: tuple[Field, ...] = (TWICE,), table: pa.Table | None = None) -> list[Any]:
    schema = EventSchema("Ping", PING.fields, derived=fields)
    table = pings([1, 2, 3]) if table is None else table
    batches, _ = open_events(table, [schema], derives=[Derive("Ping", fields, function)])
    return [row for batch in batches for row in batch_rows(batch, [schema])]


@pytest.mark.parametrize(
    "function",
    [
        lambda batch: {"twice": pc.multiply(batch["src"], 2)},
        lambda batch: {"twice": batch["src"].to_numpy() * 2},
        lambda batch: {"twice": [2 * value.as_py() for value in batch["src"]]},
        lambda batch: pa.RecordBatch.from_pydict({"twice": pc.multiply(batch["src"], 2)}),
        lambda batch: pa.table({"twice": pc.multiply(batch["src"], 2)}),
        lambda batch: {"twice": pc.multiply(batch["src"], 2).cast(pa.int16())},
    ],
    ids=["array", "numpy", "list", "record batch", "table", "other int"],
)
def test_results_of_every_form(function: Any) -> None:
    assert [row for _, _, row in derived(function)] == [{"src": n, "twice": 2 * n} for n in range(3)]


def test_function_sees_ts_and_declared_columns() -> None:
    seen = []

    def note(batch: pa.RecordBatch) -> dict[str, Any]:
        seen.append(batch.to_pydict())
        return {"twice": batch["ts"]}

    derived(note)
    assert seen == [{"ts": [1, 2, 3], "src": [0, 1, 2]}]


def test_several_functions_of_one_type() -> None:
    plus = Field("plus", Type("str", nullable=True))
    schema = EventSchema("Ping", PING.fields, derived=(TWICE, plus))
    derives = [
        Derive("Ping", (TWICE,), lambda batch: {"twice": pc.add(batch["src"], batch["src"])}),
        Derive("Ping", (plus,), lambda batch: {"plus": ["a", None]}),
    ]
    (batch,) = open_events(pings([1, 2]), [schema], derives=derives, columns={"Ping": ("twice",)})[0]
    assert [row for _, _, row in batch_rows(batch, [schema])] == [
        {"src": 0, "twice": 0, "plus": "a"},
        {"src": 1, "twice": 2, "plus": None},
    ]


@given(st.lists(st.booleans(), max_size=40), st.integers(1, 9), st.integers(1, 3))
def test_mixed_and_merged_inputs(kinds: list[bool], batch_size: int, count: int) -> None:
    """Whatever the batches and inputs are, each event gets the columns of its own row."""
    size = Field("size", Type("int"))
    schemas = [EventSchema("Move", MOVE.fields, derived=(size,)), SCHEMA]
    derives = [
        Derive("Move", (size,), lambda batch: {"size": pc.list_value_length(batch["keys"])}),
        Derive("Ping", (TWICE,), lambda batch: {"twice": pc.add(batch["src"], batch["ts"])}),
    ]
    rows = [("Move", move(n, n)) if is_move else ("Ping", {"ts": n, "src": n}) for n, is_move in enumerate(kinds)]
    tables = [mixed(rows[start::count]) for start in range(count)]
    found = [
        row
        for batch in open_events(tables, schemas, batch_size=batch_size, derives=derives)[0]
        for row in batch_rows(batch, schemas)
    ]
    assert [ts for _, ts, _ in found] == list(range(len(kinds)))
    for event, ts, row in found:
        assert row["size" if event == "Move" else "twice"] == (ts % 4 if event == "Move" else 2 * ts)


def test_rejected_rows_are_not_derived() -> None:
    seen = []

    def note(batch: pa.RecordBatch) -> dict[str, Any]:
        seen.extend(batch["src"].to_pylist())
        return {"twice": batch["src"]}

    batches, rejects = open_events(
        pings([1, 2, 3], [1, None, 3]), [SCHEMA], on_bad="reject", derives=[Derive("Ping", (TWICE,), note)]
    )
    assert [row for batch in batches for row in batch_rows(batch, [SCHEMA])] == [
        ("Ping", 1, {"src": 1, "twice": 1}),
        ("Ping", 3, {"src": 3, "twice": 3}),
    ]
    assert seen == [1, 3]
    assert rejects.count == 1


def broken(batch: pa.RecordBatch) -> Any:
    raise KeyError("amount")


BAD: dict[str, tuple[Any, tuple[Field, ...], type[Exception], tuple[str, ...]]] = {
    "raises": (
        broken,
        (TWICE,),
        InputError,
        ("derive function broken of Ping raised KeyError: 'amount'", "3 rows", "ts, src"),
    ),
    "other columns": (
        lambda batch: {"thrice": batch["src"]},
        (TWICE,),
        ProgramError,
        ("returned the columns thrice; declared are twice",),
    ),
    "no columns": (lambda batch: {}, (TWICE,), ProgramError, ("returned the columns (none); declared are twice",)),
    "length": (
        lambda batch: {"twice": [1]},
        (TWICE,),
        ProgramError,
        ("1 values in column 'twice' for 3 events", "one value per row"),
    ),
    "type": (
        lambda batch: {"twice": pa.array(["a", "b", "c"])},
        (TWICE,),
        ProgramError,
        ("column 'twice' as string, with 'a'; declared is int", "return the column as int64"),
    ),
    "no array": (
        lambda batch: {"twice": ["a", 1, 2]},
        (TWICE,),
        ProgramError,
        ("column 'twice' as list, which is no array of int",),
    ),
    "null": (
        lambda batch: {"twice": [1, None, 2]},
        (TWICE,),
        ProgramError,
        ("a null in column 'twice', declared as int", "declare the column as int | None"),
    ),
    "null in list": (
        lambda batch: {"l": [[1], [None], []]},
        (Field("l", Type("int", is_list=True)),),
        ProgramError,
        ("a null in column 'l'",),
    ),
    "no columns at all": (
        lambda batch: 5,
        (TWICE,),
        ProgramError,
        ("returned int", "return a dict of column name to array"),
    ),
    "fraction": (
        lambda batch: {"twice": np.array([1.0, 2.5, 3.0])},
        (TWICE,),
        ProgramError,
        ("with 2.5; declared is int",),
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_results_name_the_function(name: str) -> None:
    function, fields, error, fragments = BAD[name]
    with pytest.raises(error) as caught:
        derived(function, fields)
    message = str(caught.value)
    assert "derive function" in message
    assert "of Ping" in message
    assert not [fragment for fragment in fragments if fragment not in message], message


def test_all_declared_columns_are_there_whatever_is_used() -> None:
    size = Field("size", Type("int"))
    schema = EventSchema("Move", MOVE.fields, derived=(size,))
    derive = Derive("Move", (size,), lambda batch: {"size": pc.list_value_length(batch["keys"])})
    (batch,) = open_events(moves([move(1, 3)]), [schema], derives=[derive], columns={"Move": {"src", "size"}})[0]
    assert batch_rows(batch, [schema])[0][2]["size"] == 3
