"""Ranges: read one after the other they are the log, whatever its form and wherever it is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mainstem as ms
from mainstem.errors import InputError
from mainstem.gate import EventBatch, inputs_of, open_events
from mainstem.replay import replay_local, staged
from mainstem.replay.footers import read_footers
from mainstem.replay.ranges import Between, LogInput, Range, cut_log, read_range
from mainstem.replay.spool import log_input, spool, why_not_spooled
from mainstem.schema import INT64_MAX, INT64_MIN

app = ms.App("ranges")


@app.event
class Move:
    src: int
    note: str | None = None
    keys: list[int]


@app.event
class Ping:
    src: int


@app.derive(Move, many=int)
def count_keys(batch):
    return {"many": pc.list_value_length(batch["keys"]).cast(pa.int64())}


@app.table(key=int)
class Seen:
    moves: int = 0


@app.on(Move)
def on_move(e):
    Seen[e.src].moves += e.many
    return {"keys": len(e.keys), "noted": e.note is not None}


@app.on(Ping)
def on_ping(e):
    return {"moves": Seen[e.src].moves}


PROGRAM = app.program


def a_log(rows: int, seed: int, *, step: int = 2, bad: float = 0.0) -> pa.Table:
    """Moves and pings; some rows are bad when asked for: without a ts, before their predecessor, null, of no type."""
    random = np.random.default_rng(seed)
    ts = np.cumsum(random.integers(0, step, rows))
    event = np.where(random.random(rows) < 0.3, "Ping", "Move").astype(object)
    src = pa.array(np.arange(rows), mask=random.random(rows) < bad)
    event[random.random(rows) < bad] = "Nothing"
    early = random.random(rows) < bad
    ts = np.where(early, ts - random.integers(1, 9, rows), ts)
    return pa.table(
        {
            "ts": pa.array(ts, mask=random.random(rows) < bad),
            "event": pa.array(event.tolist()),
            "src": src,
            "note": pa.array([None if k % 3 else f"n{k}" for k in range(rows)], pa.string()),
            "keys": pa.array([list(range(k % 4)) for k in range(rows)], pa.list_(pa.int64())),
        }
    )


def plain(batches: Any) -> list[tuple[Any, ...]]:
    return [row for batch in batches for row in rows_of(batch)]


def rows_of(batch: EventBatch) -> list[tuple[Any, ...]]:
    used = PROGRAM.used_columns
    values = []
    for event, columns in zip(PROGRAM.events, batch.columns, strict=True):
        arrays = {} if columns is None else {name: columns.arrays[name] for name in used[event.name]}
        lists = [array.take(pa.array(columns.pos)).to_pylist() for array in arrays.values()]
        values.append(iter(zip(*lists, strict=True)))
    return [(ts, kind, *next(values[kind])) for ts, kind in zip(batch.ts.tolist(), batch.kind.tolist(), strict=True)]


def whole(paths: list[str], on_bad: str = "reject") -> tuple[list[Any], pa.Table]:
    stream, rejects = open_events(
        paths, PROGRAM.events, on_bad=on_bad, derives=PROGRAM.derives, columns=PROGRAM.used_columns, batch_size=97
    )
    return plain(stream), rejects.table


def in_ranges(ranges: list[Range], on_bad: str = "reject") -> tuple[list[Any], list[pa.Table]]:
    rows, rejected = [], []
    for range_ in ranges:
        stream, rejects = read_range(range_, PROGRAM, on_bad=on_bad, batch_size=13)
        own = plain(stream)
        assert all(range_.ts_from <= row[0] and (range_.ts_to is None or row[0] < range_.ts_to) for row in own)
        rows += own
        rejected.append(rejects.table)
    return rows, rejected


def opened(paths: list[str], folder: Path, between: Between = (None, None)) -> tuple[list[LogInput], list[pa.Table]]:
    """Inputs ready for cutting: those that their footers put in order, and the others spooled."""
    inputs, rejected = [], []
    for number, path in enumerate(paths):
        groups = read_footers(path)
        found = None if groups is None else LogInput(path, None, groups)
        if found is None or any(a.high > b.low for a, b in zip(found.groups, found.groups[1:], strict=False)):
            source = inputs_of(path, PROGRAM.events)[0]
            made = spool(source, number, PROGRAM, folder, on_bad="reject", between=between, row_group=50)
            rejected.append(made.rejects)
            found = log_input(made.path, path, None)
        inputs.append(found)
    return inputs, rejected


def assert_ranges_are_the_log(paths: list[str], folder: Path, range_rows: int) -> list[Range]:
    inputs, spooled = opened(paths, folder)
    ranges = cut_log(inputs, range_rows=range_rows)
    rows, rejected = in_ranges(ranges)
    wanted, wanted_rejects = whole(paths)
    assert rows == wanted
    kept = pa.concat_tables([wanted_rejects.schema.empty_table(), *rejected, *spooled])
    kept = kept.sort_by([("input", "ascending"), ("offset", "ascending")])
    assert kept.drop_columns(["data"]).to_pylist() == wanted_rejects.drop_columns(["data"]).to_pylist()
    return ranges


@settings(max_examples=60)
@given(st.data())
def test_ranges_in_order_are_the_log(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("log")
    paths = []
    for number in range(data.draw(st.integers(1, 3), label="inputs")):
        sizes = data.draw(st.lists(st.sampled_from([0, 1, 7, 60, 150]), min_size=1, max_size=3), label="files")
        bad = data.draw(st.sampled_from([0.0, 0.0, 0.05]), label="bad")
        step = data.draw(st.sampled_from([1, 2, 2, 30]), label="step")
        table = a_log(sum(sizes), data.draw(st.integers(0, 99), label="seed"), step=step, bad=bad)
        paths.append(str(folder / f"in{number}"))
        Path(paths[-1]).mkdir()
        first = 0
        for file, size in enumerate(sizes):
            group = data.draw(st.sampled_from([5, 40, 1000]), label="row group")
            pq.write_table(table.slice(first, size), Path(paths[-1]) / f"{file}.parquet", row_group_size=group)
            first += size
    assert_ranges_are_the_log(paths, folder / "spool", data.draw(st.sampled_from([1, 8, 50, 5000]), label="range"))


def one_file(folder: Path, table: pa.Table, row_group: int, **options: Any) -> str:
    path = folder / f"{len(list(folder.iterdir()))}.parquet"
    pq.write_table(table, path, row_group_size=row_group, **options)
    return str(path)


def test_bounds_fall_on_edges_of_row_groups(tmp_path: Path) -> None:
    table = a_log(1000, 0, step=3)
    table = table.set_column(0, "ts", pa.array(np.arange(1000) * 2))
    ranges = assert_ranges_are_the_log([one_file(tmp_path, table, 100)], tmp_path / "spool", 200)
    assert [len(range_.parts[0].groups) for range_ in ranges] == [2, 2, 2, 2, 2]
    assert [range_.rows for range_ in ranges] == [200] * 5
    assert [range_.parts[0].first_row for range_ in ranges] == [0, 200, 400, 600, 800]


def test_a_large_row_group_is_cut_inside(tmp_path: Path) -> None:
    ranges = assert_ranges_are_the_log([one_file(tmp_path, a_log(2000, 1), 2000)], tmp_path / "spool", 50)
    assert len(ranges) == 10
    assert max(range_.rows for range_ in ranges) <= 250


def test_events_of_one_ts_stay_together(tmp_path: Path) -> None:
    tables = [a_log(300, seed, step=1) for seed in range(2)]
    paths = [one_file(tmp_path, table, 20) for table in tables]
    ranges = assert_ranges_are_the_log(paths, tmp_path / "spool", 10)
    assert len(ranges) == 1


def test_times_at_both_ends_of_int64(tmp_path: Path) -> None:
    table = a_log(6, 3).set_column(0, "ts", pa.array([INT64_MIN, INT64_MIN, -1, 0, INT64_MAX, INT64_MAX]))
    assert_ranges_are_the_log([one_file(tmp_path, table, 2), one_file(tmp_path, table, 6)], tmp_path / "spool", 1)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_timestamps_are_times(tmp_path: Path, unit: str) -> None:
    table = a_log(400, 5)
    times = pc.add(table["ts"], 1_700_000_000).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    path = one_file(tmp_path, table.set_column(0, "ts", times), 50)
    assert len(assert_ranges_are_the_log([path], tmp_path / "spool", 100)) == 4


def test_text_and_arrow_files_are_spooled(tmp_path: Path) -> None:
    table = a_log(500, 7, bad=0.02).drop_columns(["keys", "note"])
    keys = pa.array(["[]"] * 500)
    csv, arrow, bare = str(tmp_path / "a.csv"), str(tmp_path / "b.arrow"), str(tmp_path / "c.parquet")
    pa.csv.write_csv(table.append_column("keys", keys), csv)
    full = a_log(300, 8, bad=0.02)
    with pa.ipc.new_file(arrow, full.schema) as writer:
        writer.write_table(full, max_chunksize=70)
    pq.write_table(full, bare, write_statistics=False)
    assert_ranges_are_the_log([arrow, bare, csv], tmp_path / "spool", 100)


def test_between_is_a_part_of_the_log(tmp_path: Path) -> None:
    paths = [one_file(tmp_path, a_log(600, 1, bad=bad), 90) for bad in (0.0, 0.03)]
    wanted, wanted_rejects = whole(paths)
    everything: list[Any] = []
    offsets: list[Any] = []
    for between in ((None, 100), (100, 101), (101, 250), (250, None)):
        inputs, spooled = opened(paths, tmp_path / "spool", between)
        rows, rejected = in_ranges(cut_log(inputs, range_rows=60, between=between))
        low, high = (-INT64_MAX if between[0] is None else between[0]), between[1] or INT64_MAX
        assert rows == [row for row in wanted if low <= row[0] < high]
        everything += rows
        offsets += [row for table in [*rejected, *spooled] for row in table.drop_columns(["data"]).to_pylist()]
    assert everything == wanted
    in_order = sorted(offsets, key=lambda row: (row["input"], row["offset"]))
    assert in_order == wanted_rejects.drop_columns(["data"]).to_pylist()


def test_bad_bounds_are_errors() -> None:
    with pytest.raises(InputError, match="between="):
        cut_log([], between=(5, 5))
    with pytest.raises(InputError, match="two integers"):
        cut_log([], between=("a", None))  # type: ignore[arg-type]


def test_row_groups_out_of_order_are_an_error_that_names_them(tmp_path: Path) -> None:
    table = a_log(200, 0)
    path = one_file(tmp_path, pa.concat_tables([table.slice(100), table.slice(0, 100)]), 50)
    with pytest.raises(InputError, match=r"row group 2 of .*0\.parquet begins at ts"):
        cut_log([LogInput(path, None, read_footers(path) or ())])


def test_an_error_names_the_row_of_the_input(tmp_path: Path) -> None:
    table = a_log(400, 0)
    src = table["src"].to_pylist()
    src[333] = None
    path = one_file(tmp_path, table.set_column(2, "src", pa.array(src)), 100)
    ranges = cut_log([LogInput(path, None, read_footers(path) or ())], range_rows=100)
    with pytest.raises(InputError, match=r"row 333\b"):
        in_ranges(ranges, on_bad="raise")


def test_an_empty_log_has_no_ranges(tmp_path: Path) -> None:
    assert assert_ranges_are_the_log([one_file(tmp_path, a_log(0, 0), 100)], tmp_path / "spool", 10) == []


def test_computed_keys_need_no_other_columns_than_functions_do(tmp_path: Path) -> None:
    """The key comes from a derived column; nobody uses `unused`, so its nulls are nobody's business."""
    keyed = ms.App("keyed")

    @keyed.event
    class Word:
        text: str
        by: int
        unused: int

    @keyed.derive(Word, length=int)
    def measure(batch):
        return {"length": pc.utf8_length(batch["text"]).cast(pa.int64())}

    @keyed.event
    class Number:
        value: int
        unused: int

    @keyed.table(key=int)
    class Count:
        times: int = 0

    @keyed.table(key=int)
    class Second:
        times: int = 0

    @keyed.on(Word)
    def on_word(e):
        Count[e.length % 3].times += e.by
        Second[e.by + 1].times += Count[e.length % 3].times
        return {"times": Second[e.by + 1].times}

    @keyed.on(Number)
    def on_number(e):
        Count[e.value % 3].times += 1
        return {"times": Count[e.value % 3].times}

    flow = staged(keyed.spec, jit=False)
    assert flow.computed
    texts, by = ["abcdefg"[: k % 7] for k in range(90)], [k % 4 for k in range(90)]
    words = pa.table({"ts": range(90), "text": texts, "by": by, "unused": range(90)})
    numbers = pa.table({"ts": range(90), "value": range(90), "unused": pa.nulls(90, pa.int64())})
    paths = {"Word": one_file(tmp_path, words, 20), "Number": one_file(tmp_path, numbers, 30)}
    inputs = [LogInput(path, event, read_footers(path) or ()) for event, path in paths.items()]
    ranges = [read_range(r, flow.program)[0] for r in cut_log(inputs, range_rows=25)]
    assert len(ranges) > 3
    outputs, tables = replay_local(flow, ranges, shards=2, epoch=2, folder=tmp_path, jit=False)
    wanted = keyed.run(paths, engine="oracle")
    assert outputs[0].to_pylist() == wanted.outputs.to_pylist()
    assert tables == dict(keyed.state)


def test_types_that_disagree_can_not_be_spooled() -> None:
    other = ms.App("other")

    @other.event
    class A:
        x: int

    @other.event
    class B:
        x: str

    @other.on(A)
    def on_a(e):
        return {"a": e.x}

    @other.on(B)
    def on_b(e):
        return {"b": e.x}

    assert "A.x" in why_not_spooled(other.program)
    assert not why_not_spooled(PROGRAM)
