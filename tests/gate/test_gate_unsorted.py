"""Events out of order inside a batch: against the definition, row by row in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gate_support import BOTH, PING, Move, Ping, Row, batch_rows, mixed, move, pings, read, rows_of
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError
from mainstem.gate import Cuts, EventBatch, open_events
from mainstem.gate.kernels import _group_in_order, _sort_by_digit, grouped_in_order, sort_order
from mainstem.schema import INT64_MAX, INT64_MIN

TIMES = st.one_of(st.integers(0, 6), st.integers(0, 60), st.sampled_from([INT64_MIN, -1, INT64_MAX]))
FORMS = ("table", "objects", "reader")
NamedRow = tuple[str, dict[str, Any]]


@dataclass
class Expected:
    """What the definition says, row by row."""

    batches: list[list[Row]] = field(default_factory=list)
    positions: list[tuple[int, ...]] = field(default_factory=list)
    rejects: list[tuple[int, int, str]] = field(default_factory=list)  # as they arrive
    batches_before_late: int | None = None

    @property
    def rows(self) -> list[Row]:
        return [row for batch in self.batches for row in batch]


def is_bad(row: dict[str, Any]) -> bool:
    return row["ts"] is None or row["src"] is None


def arrivals(inputs: list[list[NamedRow]]) -> list[tuple[int, int, int, NamedRow]]:
    """Good rows as (clock, input, offset, row), in the order in which they arrive."""
    found = []
    for number, rows in enumerate(inputs):
        clock = INT64_MIN
        for offset, (event, row) in enumerate(rows):
            if not is_bad(row):
                clock = max(clock, row["ts"])
                found.append((clock, number, offset, (event, row)))
    return sorted(found, key=lambda item: item[:3])


def by_definition(inputs: list[list[NamedRow]], sizes: Iterable[int]) -> Expected:
    """Batches of these sizes, one after the other."""
    expected, size_of = Expected(), iter(sizes)
    size, released = next(size_of), INT64_MIN
    batch: list[tuple[int, int, int, NamedRow]] = []
    consumed = [0] * len(inputs)

    def close() -> None:
        batch.sort(key=lambda item: item[:3])
        expected.batches.append([(e, ts, {k: v for k, v in row.items() if k != "ts"}) for ts, _, _, (e, row) in batch])
        expected.positions.append(tuple(consumed))
        batch.clear()

    for _, number, offset, (event, row) in arrivals(inputs):
        consumed[number] = offset + 1
        if row["ts"] < released:
            reason = (
                f"column 'ts' is {row['ts']}, which is late: an earlier batch has released events up to ts {released}"
            )
            expected.rejects.append((number, offset, reason))
            if expected.batches_before_late is None:
                expected.batches_before_late = len(expected.batches)
            continue
        batch.append((row["ts"], number, offset, (event, row)))
        if len(batch) == size:
            released = max(ts for ts, *_ in batch)
            close()
            size = next(size_of)
    if batch:
        close()
    return expected


def forever(size: int) -> Iterator[int]:
    while True:
        yield size


def as_form(form: str, rows: list[NamedRow], chunk: int) -> Any:
    if form == "objects":
        return iter([(Move if event == "Move" else Ping)(**row) for event, row in rows])
    table = mixed(rows).combine_chunks()
    batches = [table.slice(start, chunk).to_batches()[0] for start in range(0, len(table), chunk)]
    if form == "reader":
        return pa.RecordBatchReader.from_batches(table.schema, batches)
    return pa.Table.from_batches(batches, schema=table.schema)


Drawn = list[tuple[str, list[NamedRow], int]]


@st.composite
def inputs(draw: st.DrawFn, bad: bool = False) -> Drawn:
    """1 to 4 inputs in any order of time: form, rows of both types (some bad), rows per chunk."""
    drawn, number = [], 0
    for _ in range(draw(st.integers(1, 4))):
        rows: list[NamedRow] = []
        for ts in draw(st.lists(TIMES, max_size=25)):
            number += 1
            flaw = draw(st.sampled_from(["", "", "", "ts", "src"])) if bad else ""
            event = draw(st.sampled_from(["Move", "Ping"]))
            row = move(ts, number) if event == "Move" else {"ts": ts, "src": number}
            rows.append((event, {**row, flaw: None} if flaw else row))
        drawn.append((draw(st.sampled_from(FORMS)), rows, draw(st.integers(1, 12))))
    return drawn


def opened(drawn: Drawn, **options: Any) -> Any:
    return open_events([as_form(*one) for one in drawn], BOTH, unsorted="batch", **options)


def plain(drawn: Drawn) -> list[list[NamedRow]]:
    return [rows for _, rows, _ in drawn]


def split(batches: Iterator[EventBatch]) -> tuple[list[list[Row]], list[tuple[int, ...]]]:
    found = list(batches)
    return [batch_rows(batch, BOTH) for batch in found], [batch.position for batch in found]


def late_rows(rejects: Any) -> list[tuple[int, int, str]]:
    rows = rejects.table.to_pylist()
    return [(row["input"], row["offset"], row["reason"]) for row in rows if "late" in row["reason"]]


@given(inputs(bad=True), st.integers(1, 20))
def test_equals_the_definition(drawn: Drawn, size: int) -> None:
    expected = by_definition(plain(drawn), forever(size))
    batches, rejects = opened(drawn, batch_size=size, on_bad="reject")
    assert split(batches) == (expected.batches, expected.positions)
    assert late_rows(rejects) == sorted(expected.rejects)
    assert rejects.count == len(expected.rejects) + sum(is_bad(row) for rows in plain(drawn) for _, row in rows)


@given(inputs(), st.integers(1, 20))
def test_the_first_late_row_stops_the_run_where_it_arrives(drawn: Drawn, size: int) -> None:
    expected = by_definition(plain(drawn), forever(size))
    batches, _ = opened(drawn, batch_size=size)
    if expected.batches_before_late is None:
        assert split(batches)[0] == expected.batches
        return
    done = [batch_rows(next(batches), BOTH) for _ in range(expected.batches_before_late)]
    assert done == expected.batches[: len(done)]
    with pytest.raises(InputError) as caught:
        next(batches)
    number, offset, reason = expected.rejects[0]
    assert str(caught.value).startswith(f"input {number} (")
    assert f", row {offset}: {reason}\n" in str(caught.value)


@given(inputs(), st.integers(1, 15), st.data())
def test_rows_shuffled_inside_batches_are_put_back(drawn: Drawn, size: int, data: st.DataObject) -> None:
    """Rows of each input that are in one batch of the sorted inputs may come in any order."""
    inside = [(form, sorted(rows, key=lambda row: row[1]["ts"]), chunk) for form, rows, chunk in drawn]
    positions = [tuple(0 for _ in inside), *by_definition(plain(inside), forever(size)).positions]
    shuffled: Drawn = []
    for number, (form, rows, chunk) in enumerate(inside):
        parts = [rows[positions[at][number] : positions[at + 1][number]] for at in range(len(positions) - 1)]
        shuffled.append((form, [row for part in parts for row in data.draw(st.permutations(part))], chunk))
    sorted_again = [(form, sorted(rows, key=lambda row: row[1]["ts"]), chunk) for form, rows, chunk in shuffled]
    batches, _ = opened(shuffled, batch_size=size)
    assert split(batches) == split(open_events([as_form(*one) for one in sorted_again], BOTH, batch_size=size)[0])


@given(inputs(bad=True), st.integers(1, 20))
def test_sorted_inputs_give_the_same_batches_as_without_the_option(drawn: Drawn, size: int) -> None:
    by_ts = lambda row: -1 if row[1]["ts"] is None else row[1]["ts"]
    ascending = [(form, sorted(rows, key=by_ts), chunk) for form, rows, chunk in drawn]
    batches, rejects = opened(ascending, batch_size=size, on_bad="reject")
    without = open_events([as_form(*one) for one in ascending], BOTH, batch_size=size, on_bad="reject")
    assert split(batches) == split(without[0])
    assert rejects.table.equals(without[1].table)


@given(inputs())
def test_batches_of_one_event_are_the_sorted_case(drawn: Drawn) -> None:
    batches, rejects = opened(drawn, batch_size=1, on_bad="reject")
    without = open_events([as_form(*one) for one in drawn], BOTH, batch_size=1, on_bad="reject")
    assert split(batches)[0] == split(without[0])[0]
    columns = ["input", "offset", "event", "data"]
    assert rejects.table.select(columns).equals(without[1].table.select(columns))


SPANS = st.lists(st.tuples(st.sampled_from([1, 2, 3, 7]), st.integers(1, 12)), max_size=4)


def sizes_of(cuts: Cuts) -> Iterator[int]:
    done = 0
    for size, end in cuts.spans:
        while done < end:
            yield min(size, end - done)
            done += min(size, end - done)


@given(inputs(bad=True), SPANS, st.integers(1, 12))
def test_leaving_out_what_was_cut_like_this(drawn: Drawn, spans: list[tuple[int, int]], size: int) -> None:
    """Earlier runs with batches of other sizes, each stopped anywhere between two batches: nothing is lost or twice."""
    cuts = Cuts()
    for of_span, events in spans:
        for start in range(0, events, of_span):
            cuts = cuts.followed_by(of_span, min(of_span, events - start))

    def sizes() -> Iterator[int]:
        yield from sizes_of(cuts)
        yield from forever(size)

    expected = by_definition(plain(drawn), sizes())
    batches, rejects = opened(drawn, batch_size=size, on_bad="reject", skip=cuts)
    if len(expected.rows) < cuts.events:
        message = rf"hold {len(expected.rows)} good events, but {cuts.events} were"
        with pytest.raises(InputError, match=message):
            next(batches)
        return
    assert rows_of(batches, BOTH) == expected.rows[cuts.events :]
    assert late_rows(rejects) == sorted(expected.rejects)


@given(inputs(), st.integers(1, 15), st.data())
def test_resuming_between_two_batches(drawn: Drawn, size: int, data: st.DataObject) -> None:
    expected = by_definition(plain(drawn), forever(size))
    done = data.draw(st.integers(0, len(expected.batches)))
    events = sum(map(len, expected.batches[:done]))
    batches, rejects = opened(drawn, batch_size=size, on_bad="reject", skip=events)
    assert split(batches)[0] == expected.batches[done:]
    # Not their reasons: late rows at the very end come after a batch that ended early, and so was closed before them.
    assert [row[:2] for row in late_rows(rejects)] == [row[:2] for row in sorted(expected.rejects)]
    if done:
        batches, _ = opened(drawn, batch_size=size, on_bad="reject", skip=expected.positions[done - 1])
        assert split(batches)[0] == expected.batches[done:]


def test_a_late_row_names_everything() -> None:
    table = pings([1, 3, 2, 6, 5, 4, 9])
    with pytest.raises(InputError) as caught:
        read(table, [PING], batch_size=4, unsorted="batch")
    assert str(caught.value) == (
        "input 0 (Arrow table), row 4: column 'ts' is 5, which is late: an earlier batch has released events "
        "up to ts 6\n  pass a larger batch= so that both fall into one batch, sort the input by ts, or pass "
        'on_bad="reject" to set such rows aside'
    )


def test_a_late_row_behind_a_full_batch_is_in_the_next_one() -> None:
    """The batch 8, 9, 9 is full before the 0 arrives, though all four rows are at hand."""
    tables = {"Ping": [pings([1, 2, 3, 9, 9, 0, 30]), pings([8, 20, 21])]}
    batches, _ = open_events(tables, [PING], batch_size=3, unsorted="batch")
    assert [next(batches).ts.tolist() for _ in range(2)] == [[1, 2, 3], [8, 9, 9]]
    with pytest.raises(InputError, match=r"input 0 .*, row 5: column 'ts' is 0, which is late: .* up to ts 9\n"):
        next(batches)


def test_the_late_row_that_arrives_first_is_named() -> None:
    """Both zeros are at hand: that of the second input has the smaller clock, 8."""
    tables = {"Ping": [pings([1, 2, 3, 9, 0, 10]), pings([8, 0, 20])]}
    with pytest.raises(InputError, match=r"input 1 .*, row 1: column 'ts' is 0"):
        read(tables, [PING], batch_size=3, unsorted="batch")


def test_a_late_row_of_a_file_names_the_file(tmp_path: Path) -> None:
    pq.write_table(pings([1, 3, 2, 6]), tmp_path / "a.parquet")
    pq.write_table(pings([7, 4, 9]), tmp_path / "b.parquet")
    with pytest.raises(InputError) as caught:
        read(tmp_path, [PING], batch_size=2, unsorted="batch", columns={"Ping": ()})
    assert f"row 2 (row 2 of {tmp_path / 'a.parquet'}): column 'ts' is 2" in str(caught.value)
    found = read(tmp_path, [PING], batch_size=4, unsorted="batch", on_bad="reject")
    assert [ts for _, ts, _ in found] == [1, 2, 3, 6, 7, 9]


def test_late_rows_are_counted_and_kept_with_their_data() -> None:
    rows = [Ping(ts=5, src=1), Ping(ts=4, src=2), Ping(ts=3, src=3), Ping(ts=6, src=4)]
    batches, rejects = open_events(rows, [PING], batch_size=2, unsorted="batch", on_bad="reject")
    assert [row["src"] for _, _, row in rows_of(batches, [PING])] == [2, 1, 4]
    assert rejects.table.select(["offset", "event", "data"]).to_pylist() == [
        {"offset": 2, "event": "Ping", "data": '{"event": "Ping", "ts": 3, "src": 3}'}
    ]


def test_a_position_that_is_no_end_of_a_batch() -> None:
    """Rows that only another input has passed are read, as they are from sorted inputs."""
    tables = {"Ping": [pings([50, 40, 60, 55]), pings([1, 2])]}
    found = read(tables, [PING], batch_size=4, unsorted="batch", on_bad="reject", skip=(1, 0))
    assert [ts for _, ts, _ in found] == [1, 2, 55, 60]


def test_the_largest_batch_sorts_everything() -> None:
    rng = np.random.default_rng(3)
    tables = [pa.table({"ts": ts, "src": ts * 7}) for ts in rng.integers(-(10**6), 10**6, (3, 40_000))]
    (batch,) = open_events({"Ping": tables}, [PING], batch_size=120_000, unsorted="batch")[0]
    (columns,) = batch.columns
    assert columns is not None
    assert (columns.arrays["src"].to_numpy()[columns.pos] == batch.ts * 7).all()
    assert (batch.ts == np.sort(np.concatenate([t["ts"].to_numpy() for t in tables]))).all()


def test_rows_in_order_are_not_copied() -> None:
    """The option costs sorted data nothing; a batch in disorder keeps its columns and has other positions."""
    table = pings([*range(20), 21, 20, *range(22, 40)]).combine_chunks()
    address = table["src"].chunk(0).buffers()[1].address
    dense = []
    for batch in open_events(table, [PING], batch_size=10, unsorted="batch")[0]:
        (columns,) = batch.columns
        assert columns is not None
        assert columns.arrays["src"].buffers()[1].address == address
        dense.append(columns.dense)
    assert dense == [True, True, False, True]


def test_an_input_is_read_only_as_far_as_needed() -> None:
    """An input whose first event is far ahead waits with one chunk, though its next rows are small."""
    pulled = 0

    def ahead() -> Iterator[Ping]:
        nonlocal pulled
        for ts in (10_000, *range(1000)):
            pulled += 1
            yield Ping(ts=ts, src=0)

    others = [Ping(ts=ts ^ 1, src=1) for ts in range(900)]
    batches, rejects = open_events([ahead(), others], [PING], batch_size=10, unsorted="batch", on_bad="reject")
    for number in range(90):
        assert sorted(next(batches).ts.tolist()) == list(range(10 * number, 10 * number + 10))
    assert pulled == 10
    # Below 899 all is late; the early event and nine more make a batch, and then all the rest is late.
    assert [ts for _, ts, _ in rows_of(batches, [PING])] == [*range(899, 908), 10_000]
    assert rejects.count == 991


def test_the_option_has_two_values() -> None:
    with pytest.raises(InputError, match=r"unsorted is 'sort'\n  use \"error\" .*, \"batch\""):
        open_events([], [PING], unsorted="sort")  # type: ignore[arg-type]


def test_cuts_say_where_every_batch_ended() -> None:
    cuts = Cuts()
    for size, events in [(10, 10), (10, 10), (10, 5), (10, 10), (7, 7), (7, 3)]:
        cuts = cuts.followed_by(size, events)
    assert cuts.spans == ((10, 25), (10, 35), (7, 45))
    assert list(sizes_of(cuts)) == [10, 10, 5, 10, 7, 3]
    assert Cuts.of(cuts.as_lists()) == cuts
    assert (Cuts.regular(4, 0).events, Cuts.regular(4, 9).events) == (0, 9)


@given(st.lists(st.integers(-5, 5) | st.integers(INT64_MIN, INT64_MAX), min_size=1, max_size=40), st.data())
def test_kernels_with_and_without_the_jit(times: list[int], data: st.DataObject) -> None:
    ts = np.array(times, dtype=np.int64)
    ascending, order = sort_order(ts)
    assert order.tolist() == np.argsort(ts, kind="stable").tolist()
    assert ascending.tolist() == sorted(times)

    keys, whole, places = ts.view(np.uint64), np.arange(len(ts)), np.empty(16, dtype=np.int64)
    outputs = [np.empty(len(ts), dtype=np.int64) for _ in range(2)]
    for kernel, out in zip((_sort_by_digit, getattr(_sort_by_digit, "py_func", _sort_by_digit)), outputs, strict=True):
        kernel(keys, np.uint64(4), whole, places, out)
    assert outputs[0].tolist() == outputs[1].tolist() == sorted(whole, key=lambda row: int(keys[row]) >> 4 & 15)

    kind = np.array(data.draw(st.lists(st.integers(0, 3), min_size=len(ts), max_size=len(ts))), dtype=np.uint8)
    starts = np.searchsorted(np.sort(kind), np.arange(4))
    pos = np.argsort(kind, kind="stable") * 10  # what belongs to a row is ten times its number
    new_kind, new_pos = grouped_in_order(kind, order, pos, starts)
    assert new_kind.tolist() == kind[order].tolist()
    assert new_pos.tolist() == [10 * row for number in range(4) for row in order.tolist() if kind[row] == number]
    without_jit = getattr(_group_in_order, "py_func", _group_in_order)
    scratch, plain_kind, plain_pos = np.empty_like(pos), np.empty_like(kind), np.empty_like(pos)
    without_jit(kind, order, pos, starts.copy(), starts.copy(), scratch, plain_kind, plain_pos)
    assert (plain_kind.tolist(), plain_pos.tolist()) == (new_kind.tolist(), new_pos.tolist())
