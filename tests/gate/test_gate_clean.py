"""The short way for record batches that need no conversion gives what the long way gives, and leaves alone what needs
a closer look."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from gate_support import BOTH, MOVE, PING, mixed, move, moves, pings, read
from pyarrow import feather

from mainstem.errors import InputError
from mainstem.gate import open_events
from mainstem.gate.clean import CleanReader, CleanRows
from mainstem.gate.raw import RawBatch

ROWS: list[tuple[str | None, dict[str, Any]]] = [
    ("Move", move(n, n)) if n % 3 else ("Ping", {"ts": n, "src": n}) for n in range(60)
]


def encoded(rows: list[tuple[str | None, dict[str, Any]]]) -> pa.Table:
    table = mixed(rows)
    return table.set_column(0, "event", table["event"].dictionary_encode())


def without_first(table: pa.Table, rows: int) -> pa.RecordBatch:
    """A record batch whose columns do not start where their buffers do."""
    return table.combine_chunks().to_batches()[0].slice(rows)


@pytest.fixture
def short_ways(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each piece that was read went the short way."""
    taken: list[bool] = []
    original = CleanReader.read

    def spy(reader: CleanReader, raw: RawBatch, clock: int) -> CleanRows | None:
        found = original(reader, raw, clock)
        taken.append(found is not None)
        return found

    monkeypatch.setattr(CleanReader, "read", spy)
    return taken


@pytest.fixture
def long_way(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    def run(*arguments: Any, **options: Any) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(CleanReader, "read", lambda reader, raw, clock: None)
            return read(*arguments, **options)

    return run


@pytest.mark.parametrize("batch_size", [1, 7, 20, 1000])
@pytest.mark.parametrize("first", [0, 3, 8])
@pytest.mark.parametrize("schemas", [BOTH, [PING, MOVE]], ids=["declared", "reversed"])
def test_several_types(
    short_ways: list[bool], long_way: Callable[..., Any], batch_size: int, first: int, schemas: list[Any]
) -> None:
    events = without_first(encoded(ROWS), first)
    found = read(events, schemas, batch_size=batch_size)
    assert short_ways and all(short_ways)
    assert found == long_way(events, schemas, batch_size=batch_size)
    assert [row[1] for row in found] == list(range(first, 60))


@pytest.mark.parametrize("batch_size", [1, 7, 1000])
@pytest.mark.parametrize("first", [0, 3, 8])
def test_one_type(short_ways: list[bool], long_way: Callable[..., Any], batch_size: int, first: int) -> None:
    events = without_first(moves(move(n, n) for n in range(40)), first)
    found = read(events, [MOVE], batch_size=batch_size)
    assert short_ways and all(short_ways)
    assert found == long_way(events, [MOVE], batch_size=batch_size)


def test_chunks_share_batches_and_columns(short_ways: list[bool], long_way: Callable[..., Any]) -> None:
    """Rows of several record batches in one batch: their columns are joined, those that types share once."""
    table = pa.concat_tables([encoded(ROWS[:13]), encoded(ROWS[13:30]), encoded(ROWS[30:])])
    assert read(table, batch_size=25) == long_way(table, batch_size=25)
    assert all(short_ways)
    batch = next(iter(open_events(table, BOTH, batch_size=25)[0]))
    first, second = batch.columns
    assert first is not None and second is not None
    assert first.arrays["src"] is second.arrays["src"]


def test_several_inputs(short_ways: list[bool], long_way: Callable[..., Any]) -> None:
    inputs = [pings([0, 2, 2, 9]), pings([1, 2, 3, 9]), pings([5])]
    assert read(inputs, [PING], batch_size=2) == long_way(inputs, [PING], batch_size=2)
    assert all(short_ways)


def spoiled(column: str, value: Any) -> pa.Table:
    """One row of the second batch of ten is bad."""
    rows = [(event, dict(row)) for event, row in ROWS]
    rows[14][1][column] = value
    return encoded(rows)


@pytest.mark.parametrize(
    ("column", "value"), [("src", None), ("ts", None), ("ts", 5), ("rate", None), ("keys", None), ("keys", [1, None])]
)
def test_a_bad_row_is_named_as_on_the_long_way(long_way: Callable[..., Any], column: str, value: Any) -> None:
    table = spoiled(column, value)
    with pytest.raises(InputError) as short:
        read(table, batch_size=10)
    with pytest.raises(InputError) as long:
        long_way(table, batch_size=10)
    assert str(short.value) == str(long.value)
    assert "row 14" in str(short.value)


def test_only_the_batch_with_a_bad_row_goes_the_long_way(short_ways: list[bool]) -> None:
    found = read(spoiled("src", None), batch_size=10, on_bad="reject")
    assert [row[1] for row in found] == [n for n in range(60) if n != 14]
    assert short_ways.count(False) < len(short_ways) // 2
    assert False in short_ways


def test_an_unknown_type_is_named() -> None:
    rows = [("Pong" if n == 14 else event, row) for n, (event, row) in enumerate(ROWS)]
    with pytest.raises(InputError, match=r"row 14.*'Pong'"):
        read(encoded(rows), batch_size=10)


def test_record_batches_of_other_schemas_follow_each_other(short_ways: list[bool], tmp_path: Path) -> None:
    """What is known about one schema is not used for the next: files of one input differ in types and order."""
    narrow = pa.table({"ts": pa.array([4, 5], pa.int64()), "src": pa.array([7, 8], pa.int32())})
    swapped = pa.table({"src": pa.array([1, 2], pa.int64()), "ts": pa.array([6, 7], pa.int64())})
    for number, table in enumerate((pings([1, 2]), narrow, swapped)):
        feather.write_feather(table, tmp_path / f"{number}.arrow")
    found = read(tmp_path, [PING], batch_size=2)
    assert [(row[1], row[2]["src"]) for row in found] == [(1, 0), (2, 1), (4, 7), (5, 8), (6, 1), (7, 2)]
    assert short_ways == [True, False, True]


def test_columns_that_are_cut_out_equal_those_that_were_read() -> None:
    table = encoded(ROWS).combine_chunks()
    batches = list(open_events(table, BOTH, batch_size=16)[0])
    second = batches[1].columns[0]
    assert second is not None
    assert list(second.arrays) == ["src", "rate", "note", "keys"]
    assert second.arrays["keys"].equals(table["keys"].combine_chunks().slice(16, 16))
    with pytest.raises(KeyError):
        second.arrays["event"]
    assert np.array_equal(second.pos, np.flatnonzero(batches[1].kind == 0))
