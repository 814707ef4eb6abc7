"""Programs that run interpreted: the types of what they return and keep, and what they may not."""

# mypy: ignore-errors
# A table is indexed by key and an event is its own type: type checkers can't see what a class decorator adds.

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import mainstem as ms
from mainstem.errors import InputError, UserCodeError

FAR = 2**61  # microseconds: some 73,000 years, which Python's datetime does not reach


def returning(values: list[Any]) -> tuple[ms.App, list[Any]]:
    """An app whose function returns these, one for each event."""
    app = ms.App("returning")

    @app.event
    class Ask:
        n: int

    @app.table(key=int)
    class Asked:
        times: int = 0

    @app.on(Ask)
    def answer(e):
        kept = {"values": values}
        Asked[e.n].times += 1
        return kept["values"][e.n]

    return app, [Ask(ts=n, n=n) for n in range(len(values))]


WAYS: list[dict[str, Any]] = [{}, {"batch": 1}, {"batch": 2}, {"engine": "oracle"}]


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_a_column_has_the_type_of_all_its_values(way: dict[str, Any]) -> None:
    app, events = returning([{"a": 0}, {"a": 2.5, "b": None}, {"a": None, "b": "x"}, None, {"b": "y", "a": 7}])
    outputs = app.run(events, **way).outputs
    assert outputs["a"].type == pa.float64()
    assert outputs["a"].to_pylist() == [0.0, 2.5, None, None, 7.0]
    assert outputs["b"].to_pylist() == [None, None, "x", None, "y"]


@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize(
    "values",
    [[1, "one"], ["one", 1], [1, True], [2.5, True], [b"x", "x"], [1, [1]], [2**60 + 1, 0.5], [-(2**63), 0.5]],
    ids=str,
)
def test_a_column_of_two_types_is_refused(values: list[Any], way: dict[str, Any]) -> None:
    app, events = returning([{"c": value} for value in values])
    with pytest.raises(UserCodeError, match=r"function answer .*column 'c'"):
        app.run(events, **way)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1, 2], "function answer failed on .*it returns a list: return a dict of columns"),
        ([], "it returns a list"),
        ({1: 2}, "it returns a column 1: names of columns are strings"),
        ({"ts": 2}, "every output has a column 'ts' already"),
        ({"status": "fine"}, "every output has a column 'status' already"),
    ],
)
def test_what_a_function_returns_is_checked(value: Any, message: str) -> None:
    app, events = returning([value])
    for engine in ("auto", "oracle"):
        with pytest.raises(UserCodeError, match=message):
            app.run(events, engine=engine)


def test_changes_needs_its_column_for_itself() -> None:
    app, events = returning([{"changes": 1}])
    assert app.run(events).outputs["changes"].to_pylist() == [1]
    with pytest.raises(UserCodeError, match="changes=True adds a column 'changes'"):
        app.run(events, changes=True)


def test_files_of_outputs_may_differ_in_their_columns(tmp_path: Path) -> None:
    app, events = returning([{"a": 1}, {"b": "x"}, {"a": 2.5}])
    result = app.run(events, out=tmp_path / "out", batch=1)
    assert result.outputs.select(["a", "b"]).to_pydict() == {"a": [1.0, None, 2.5], "b": [None, "x", None]}
    empty = app.run([], out=tmp_path / "empty").outputs
    assert empty.num_rows == 0
    assert empty.schema.names == app.run([]).outputs.schema.names
    pq.write_table(pa.table({"seq": [3], "b": [7]}), tmp_path / "out" / "part-00000000000000000003.parquet")
    again = app.run([events[0]], out=tmp_path / "other")
    again._outputs, again._files = None, result._files
    with pytest.raises(ms.MainstemError, match="one type in some files of"):
        _ = again.outputs


def times_app() -> tuple[ms.App, type]:
    app = ms.App("times")

    @app.event
    class Set:
        key: int
        at: int

    @app.table(key=int)
    class Seen:
        at: datetime.datetime = 0
        both: ms.Array[datetime.datetime, 2]
        times: int = 0

    @app.on(Set)
    def put(e):
        Seen[e.key].both[0] = Seen[e.key].at
        Seen[e.key].at = e.at
        Seen[e.key].times += 1

    return app, Set


def test_times_beyond_python_are_kept(tmp_path: Path) -> None:
    app, put = times_app()
    events = [put(ts=n, key=1, at=at) for n, at in enumerate([FAR, FAR + 1, 5])]
    for options in ({"engine": "oracle"}, {"engine": "serial"}, {"engine": "interpreted", "batch": 1}):
        app.run(events, jit=False, **options)
        (row,) = app.state["Seen"].cast(seen_as_ints(app.state["Seen"])).to_pylist()
        assert row == {"key": 1, "at": 5, "both": [FAR + 1, 0], "times": 3}, options
        again = app.run([put(ts=9, key=1, at=7)], initial=dict(app.state), jit=False, **options)
        assert again.stats.committed == 1
    app.run(events, state=tmp_path / "state", engine="interpreted")
    with ms.open(tmp_path / "state") as db, pytest.raises(InputError, match=rf"Seen.both is {FAR + 1} microseconds"):
        db.get("Seen", 1)


def seen_as_ints(table: pa.Table) -> pa.Schema:
    types = {"at": pa.int64(), "both": pa.list_(pa.int64(), 2)}
    return pa.schema([pa.field(f.name, types.get(f.name, f.type), f.nullable) for f in table.schema])


def test_a_row_that_can_not_be_loaded_is_no_reason_to_abort(monkeypatch: pytest.MonkeyPatch) -> None:
    from mainstem.state import TableState

    def broken(self: TableState, key: Any) -> Any:
        raise OverflowError("the disk is gone")

    app, put = times_app()
    monkeypatch.setattr(TableState, "seen", broken)
    with pytest.raises(OverflowError, match="the disk is gone"):
        app.run([put(ts=1, key=1, at=1)], engine="interpreted")


def cells_app(body: Any) -> tuple[ms.App, list[Any]]:
    """`body(row, n)` is the work of the function; its source is looked up like that of any helper."""
    app = ms.App("cells")

    @app.event
    class Go:
        n: int

    @app.table(key=int)
    class Row:
        whole: int = 0
        real: float = 0.0
        flag: bool = False
        name: str = ""
        blob: bytes = b""
        cells: ms.Array[int, 3] = (4, 5, 6)

    @app.on(Go)
    def go(e):
        kept = {"row": Row}
        return body(kept["row"], e.n)

    return app, [Go(ts=1, n=2)]


def test_array_fields_can_be_iterated() -> None:
    def body(rows, n):
        found = [cell + 1 for cell in rows[n].cells]
        total = 0
        for cell in rows[n].cells:
            total += cell
        return {"found": found, "total": total, "sum": sum(rows[n].cells), "in": 5 in rows[n].cells}

    app, events = cells_app(body)
    for engine in ("auto", "oracle"):
        (row,) = app.run(events, engine=engine).outputs.to_pylist()
        assert (row["found"], row["total"], row["sum"], row["in"]) == ([5, 6, 7], 15, 15, True)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("flag", "yes", r"Row.flag is bool, but this one is 'yes' \(str\)"),
        ("flag", 1, r"Row.flag is bool, but this one is 1 \(int\)"),
        ("whole", 2.5, r"Row.whole is int, but this one is 2.5 \(float\)"),
        ("real", "1.5", r"Row.real is float, but this one is '1.5' \(str\)"),
        ("name", b"x", r"Row.name is str, but this one is b'x' \(bytes\)"),
        ("blob", "x", r"Row.blob is bytes, but this one is 'x' \(str\)"),
        ("cells", (1, 2, 3), "array field Row.cells is assigned cell by cell"),
    ],
)
def test_fields_take_values_of_their_type(name: str, value: Any, message: str) -> None:
    def body(rows, n):
        setattr(rows[n], name, value)

    app, events = cells_app(body)
    for engine in ("auto", "oracle"):
        with pytest.raises(UserCodeError, match=f"function go failed on .*{message}"):
            app.run(events, engine=engine)


def test_keys_are_of_their_type() -> None:
    def body(rows, n):
        rows[{2: "two"}[n]].whole = 1

    app, events = cells_app(body)
    for engine in ("auto", "oracle"):
        with pytest.raises(UserCodeError, match=r"a key of Row is int, but this one is 'two' \(str\)"):
            app.run(events, engine=engine)


def test_why_is_answered_when_a_weaker_level_ran_in_event_order() -> None:
    app, events = returning([{"a": 1}, {"a": 2}])
    result = app.run(events, isolation="PL2")
    assert result.stats.engines == ("interpreted",)
    assert result.why(1).seq == 1
    with pytest.raises(ms.ProgramError, match="drop protocol="):
        app.run(events, protocol="lock")
