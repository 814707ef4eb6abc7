"""One order from many inputs: against sorting everything in plain Python."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import cycle, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from gate_support import BOTH, MOVE, PING, Move, Ping, Row, batch_rows, mixed, move, moves, pings, read, rows_of
from hypothesis import given
from hypothesis import strategies as st

from mainstem.errors import InputError, ProgramError
from mainstem.gate import EventBatch, open_events
from mainstem.gate.kernels import _dense, _merge_pairs, _place_rows, first_rows, merge_order
from mainstem.schema import INT64_MAX, INT64_MIN, EventSchema

# Few distinct times make ties across inputs common; the extremes must not overflow anything.
TIMES = st.one_of(st.integers(0, 6), st.integers(0, 1000), st.sampled_from([INT64_MIN, -1, INT64_MAX]))
FORMS = ("mixed", "dictionary", "objects", "reader")


def chunked(table: pa.Table, sizes: list[int]) -> list[pa.RecordBatch]:
    """The table in record batches of these sizes, again and again; a size of zero gives an empty batch."""
    whole = pa.RecordBatch.from_arrays([c.combine_chunks() for c in table.columns], schema=table.schema)
    batches, start = [], 0
    for size in cycle([*sizes, 1]):
        if start >= whole.num_rows:
            return batches
        batches.append(whole.slice(start, size))
        start += size
    raise AssertionError("cycle never ends")


@st.composite
def inputs(draw: st.DrawFn) -> list[tuple[str, list[tuple[str, dict[str, Any]]], list[int]]]:
    """1 to 6 inputs: form, sorted rows of both types, sizes of its chunks."""
    drawn, number = [], 0
    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for ts in sorted(draw(st.lists(TIMES, max_size=25))):
            number += 1
            is_move = draw(st.booleans())
            rows.append(("Move", move(ts, number)) if is_move else ("Ping", {"ts": ts, "src": number}))
        drawn.append((draw(st.sampled_from(FORMS)), rows, draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))))
    return drawn


def as_form(form: str, rows: list[tuple[str, dict[str, Any]]], sizes: list[int]) -> Any:
    if form == "objects":
        return iter([(Move if event == "Move" else Ping)(**row) for event, row in rows])
    table = mixed(rows)
    if form == "dictionary":
        table = table.set_column(0, "event", table["event"].dictionary_encode())
    batches = chunked(table, sizes)
    if form == "reader":
        return pa.RecordBatchReader.from_batches(table.schema, batches)
    return pa.Table.from_batches(batches, schema=table.schema)


def expected(rows_of_inputs: list[list[tuple[str, dict[str, Any]]]]) -> list[Row]:
    """Everything sorted by (ts, input, offset)."""
    together = [
        (row["ts"], number, offset, event, row)
        for number, rows in enumerate(rows_of_inputs)
        for offset, (event, row) in enumerate(rows)
    ]
    together.sort(key=lambda item: item[:3])
    return [(event, ts, {k: v for k, v in row.items() if k != "ts"}) for ts, _, _, event, row in together]


def split(batches: Iterator[EventBatch]) -> list[tuple[EventBatch, list[Row]]]:
    return [(batch, batch_rows(batch, BOTH)) for batch in batches]


@given(inputs(), st.integers(1, 40))
def test_equals_sorting_everything(drawn: list[Any], batch_size: int) -> None:
    batches, rejects = open_events([as_form(*one) for one in drawn], BOTH, batch_size=batch_size)
    found = split(batches)
    assert [row for _, rows in found for row in rows] == expected([rows for _, rows, _ in drawn])
    assert all(len(batch) == batch_size for batch, _ in found[:-1])
    assert rejects.count == 0


@given(inputs(), st.integers(1, 15), st.data())
def test_skipping_is_as_reading_on(drawn: list[Any], batch_size: int, data: st.DataObject) -> None:
    whole = expected([rows for _, rows, _ in drawn])
    skip = data.draw(st.integers(0, len(whole)))
    assert read([as_form(*one) for one in drawn], batch_size=batch_size, skip=skip) == whole[skip:]


@given(inputs(), st.integers(1, 15), st.data())
def test_a_position_is_a_place_to_resume(drawn: list[Any], batch_size: int, data: st.DataObject) -> None:
    found = split(open_events([as_form(*one) for one in drawn], BOTH, batch_size=batch_size)[0])
    if not found:
        return
    at = data.draw(st.integers(0, len(found) - 1))
    assert sum(found[at][0].position) == sum(len(batch) for batch, _ in found[: at + 1])
    rest = read([as_form(*one) for one in drawn], batch_size=batch_size, skip=found[at][0].position)
    assert rest == [row for _, rows in found[at + 1 :] for row in rows]


@given(st.lists(st.lists(st.integers(-5, 5) | st.integers(INT64_MIN, INT64_MAX)), min_size=1, max_size=7), st.data())
def test_kernels_with_and_without_the_jit(drawn: list[list[int]], data: st.DataObject) -> None:
    runs = [np.array(sorted(run), dtype=np.int64) for run in drawn]
    together = np.concatenate(runs)
    order = np.argsort(together, kind="stable")
    ts, places = merge_order(runs)
    assert ts.tolist() == together[order].tolist()
    assert places.tolist() == order.tolist()

    bounds = np.cumsum([0, *(len(run) for run in runs)])
    plain = getattr(_merge_pairs, "py_func", _merge_pairs)  # the kernel itself when the JIT is off
    outputs = [np.empty((2, len(together)), dtype=np.int64) for _ in range(2)]
    for kernel, (merged, merged_order) in zip((_merge_pairs, plain), outputs, strict=True):
        kernel(together, np.arange(len(together)), bounds, merged, merged_order)
    assert outputs[0].tolist() == outputs[1].tolist()

    if len(together):
        limit = data.draw(st.integers(1, len(together)))
        source = np.repeat(np.arange(len(runs)), [len(run) for run in runs])
        assert first_rows(runs, limit) == np.bincount(source[order[:limit]], minlength=len(runs)).tolist()


@given(st.lists(st.lists(st.integers(0, 9)), min_size=3, max_size=7), st.integers(INT64_MIN, INT64_MAX - 36))
def test_times_close_together_with_and_without_the_jit(drawn: list[list[int]], base: int) -> None:
    together = [[base, base + 9, base + 9], [base], *([base + ts for ts in sorted(run)] for run in drawn), [base + 36]]
    runs = [np.array(run, dtype=np.int64) for run in together]
    rows = np.concatenate(runs)
    assert _dense(runs) == (4 * len(rows) > 36)
    order = np.argsort(rows, kind="stable")
    ts, places = merge_order(runs)
    assert ts.tolist() == rows[order].tolist()
    assert places.tolist() == order.tolist()

    plain = getattr(_place_rows, "py_func", _place_rows)
    merged = np.empty((2, len(rows)), dtype=np.int64)
    plain(rows, base, np.zeros(37, np.int32), *merged)
    assert merged.tolist() == [ts.tolist(), places.tolist()]


@pytest.mark.parametrize(
    ("runs", "dense"),
    [
        ([range(9), range(9)], False),  # too few runs have rows
        ([range(9), range(9), []], False),
        ([range(9), range(9), range(9)], True),
        ([range(9), range(9), [0, 75]], True),
        ([range(9), range(9), [0, 80]], False),  # too few rows for so many times
        ([[INT64_MIN], [0], [INT64_MAX]], False),
        ([range(2**18 - 2), [0], [0]], True),
        ([range(2**18 - 1), [0], [0]], False),  # too many rows
    ],
)
def test_what_is_close_together(runs: list[Any], dense: bool) -> None:
    found = [np.array(run, dtype=np.int64) for run in runs]
    assert _dense(found) == dense
    order = np.argsort(np.concatenate(found), kind="stable")
    assert np.array_equal(merge_order(found)[1], order)


def test_ties_go_to_the_earlier_input() -> None:
    tables = [pings([5, 5], [1, 2]), pings([5, 5], [3, 4]), pings([4, 5], [5, 6])]
    found = read({"Ping": tables}, batch_size=4)
    assert [row["src"] for _, _, row in found] == [5, 1, 2, 3, 4, 6]


def test_ties_across_chunks_and_batches() -> None:
    one = pa.Table.from_batches(chunked(pings([7] * 9, list(range(9))), [2]))
    two = pa.Table.from_batches(chunked(pings([7] * 9, list(range(10, 19))), [4]))
    found = read({"Ping": [one, two]}, batch_size=5)
    assert [row["src"] for _, _, row in found] == [*range(9), *range(10, 19)]


def test_skew_one_input_is_far_ahead() -> None:
    late = pings(list(range(1_000_000, 1_000_500)))
    early = pings(list(range(500)))
    found = read({"Ping": [late, early]}, batch_size=64)
    assert [ts for _, ts, _ in found] == [*range(500), *range(1_000_000, 1_000_500)]


def test_silent_inputs_do_not_hold_back_the_others() -> None:
    empty = pings([])
    found = read({"Ping": [empty, pings([1, 2]), empty, []]})
    assert [ts for _, ts, _ in found] == [1, 2]


@pytest.mark.parametrize("nothing", [[], {}, {"Ping": []}, (), iter(())], ids=["list", "dict", "typed", "tuple", "it"])
def test_no_events_no_batches(nothing: Any) -> None:
    assert read(nothing) == []


def test_an_input_is_read_only_as_far_as_needed() -> None:
    """An input far ahead waits in its first chunk while the other is read to its end: memory stays bounded."""
    pulled = 0

    def ahead() -> Iterator[Ping]:
        nonlocal pulled
        for ts in range(1000, 2000):
            pulled += 1
            yield Ping(ts=ts, src=0)

    batches, _ = open_events([ahead(), [Ping(ts=ts, src=1) for ts in range(900)]], [PING], batch_size=10)
    for _ in range(80):
        next(batches)
    assert pulled == 10
    assert len(rows_of(batches, [PING])) == 1100


def test_one_sorted_input_is_not_copied() -> None:
    table = pings(list(range(100))).combine_chunks()
    start = table["src"].chunk(0).buffers()[1].address
    times = table["ts"].chunk(0).buffers()[1].address
    batches, _ = open_events(table, [PING], batch_size=32)
    for number, batch in enumerate(batches):
        (columns,) = batch.columns
        assert columns is not None
        column = columns.arrays["src"]
        assert column.buffers()[1].address == start
        assert column.offset == 32 * number
        assert batch.ts.ctypes.data == times + 8 * 32 * number


def test_a_mixed_input_is_not_copied() -> None:
    rows = [("Move", move(n, n)) if n % 3 else ("Ping", {"ts": n, "src": n}) for n in range(50)]
    table = mixed(rows).combine_chunks()
    address = table["src"].chunk(0).buffers()[1].address
    batches, _ = open_events(table, BOTH, batch_size=20)
    for batch in batches:
        for columns in batch.columns:
            assert columns is not None
            assert columns.arrays["src"].buffers()[1].address == address


def test_only_batches_across_chunks_are_copied() -> None:
    """After a chunk of odd size, batches are views again."""
    parts = [pings(list(range(5))), pings(list(range(5, 45)))]
    table = pa.concat_tables(parts)
    address = table["src"].chunk(1).buffers()[1].address
    batches, _ = open_events(table, [PING], batch_size=10)
    copied = [batch.columns[0].arrays["src"].buffers()[1].address != address for batch in batches]  # type: ignore[union-attr]
    assert copied == [True, False, False, False, False]


def test_positions_count_rows_of_each_input() -> None:
    batches, _ = open_events({"Ping": [pings([1, 4, 5]), pings([2, 3, 9])]}, [PING], batch_size=4)
    assert [batch.position for batch in batches] == [(2, 2), (3, 3)]


def test_positions_count_rejected_rows_before_them() -> None:
    table = pings([1, 2, 3, 4], [1, None, 3, 4])
    batches, rejects = open_events(table, [PING], batch_size=2, on_bad="reject")
    assert [(batch.ts.tolist(), batch.position) for batch in batches] == [([1, 3], (3,)), ([4], (4,))]
    assert rejects.count == 1
    assert read(table, [PING], on_bad="reject", skip=(3,)) == [("Ping", 4, {"src": 4})]


def test_skipping_more_than_there_is_names_both_counts() -> None:
    with pytest.raises(InputError, match=r"3 good events, but 4 were already processed\n  give the same inputs"):
        read(pings([1, 2, 3]), [PING], skip=4)
    with pytest.raises(InputError, match=r"input 0 \(Arrow table\) has 3 rows, but 4 .*\n  give the same inputs"):
        read(pings([1, 2, 3]), [PING], skip=(4,))
    with pytest.raises(InputError, match="skip names 2 inputs, but there are 1"):
        read(pings([1]), [PING], skip=(0, 0))
    with pytest.raises(InputError, match="skip is -1"):
        read(pings([1]), [PING], skip=-1)


def test_batch_size_must_be_positive() -> None:
    with pytest.raises(InputError, match="batch_size is 0\n  give at least 1"):
        open_events(pings([1]), [PING], batch_size=0)


def test_too_many_event_types() -> None:
    with pytest.raises(ProgramError, match="declare at most 254"):
        open_events([], [EventSchema(f"E{n}", ()) for n in range(255)])


def test_used_columns_restrict_what_is_read_and_checked() -> None:
    table = moves([move(1, 1), move(2, 2)]).drop_columns(["rate"])
    (batch,) = open_events(table, [MOVE], columns={"Move": {"src", "note"}})[0]
    assert batch_rows(batch, [MOVE]) == [("Move", 1, {"src": 1, "note": "n1"}), ("Move", 2, {"src": 2, "note": "n2"})]


def test_an_event_type_without_used_columns() -> None:
    (batch,) = open_events(pings([1, 2]), [PING], columns={"Ping": ()})[0]
    assert batch_rows(batch, [PING]) == [("Ping", 1, {}), ("Ping", 2, {})]
    assert batch.columns[0] is not None
    assert batch.columns[0].dense


def test_large_merge_keeps_rows_together() -> None:
    rng = np.random.default_rng(1)
    tables = []
    for _ in range(3):
        ts = np.sort(rng.integers(0, 10**6, 50_000))
        tables.append(pa.table({"ts": ts, "src": ts * 7}))
    seen = 0
    for batch in open_events({"Ping": tables}, [PING], batch_size=4096)[0]:
        (columns,) = batch.columns
        assert columns is not None
        assert (columns.arrays["src"].to_numpy()[columns.pos] == batch.ts * 7).all()
        seen += len(batch)
    assert seen == 150_000


def test_batches_are_in_order_over_batches() -> None:
    batches = list(open_events({"Ping": [pings([1, 3, 5]), pings([2, 4, 6])]}, [PING], batch_size=2)[0])
    assert all(one.ts[-1] <= two.ts[0] for one, two in pairwise(batches))
