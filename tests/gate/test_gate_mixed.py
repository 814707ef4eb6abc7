"""One table with a column `event`: encodings of the column, nulls that other types leave, columns that types share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from gate_support import BOTH, MOVE, PING, mixed, move, read

from mainstem.errors import InputError
from mainstem.gate import open_events
from mainstem.gate.piece import Chunk
from mainstem.gate.raw import RawBatch
from mainstem.gate.validate import Validator
from mainstem.schema import EventSchema

ROWS = [("Move", move(n, n)) if n % 3 == 1 else ("Ping", {"ts": n, "src": n}) for n in range(40)]
TABLE = mixed(ROWS)
INDICES = [pa.int8(), pa.uint8(), pa.int16(), pa.uint16(), pa.int32(), pa.uint32(), pa.int64(), pa.uint64()]
DICTIONARIES = [["Move", "Ping"], ["Ping", "Move"], ["Other", "Ping", None, "Move"]]


def encoded(
    names: list[str | None], dictionary: list[str | None], indices: pa.DataType, values: pa.DataType
) -> pa.Array:
    codes = pa.array([None if name is None else dictionary.index(name) for name in names], indices)
    return pa.DictionaryArray.from_arrays(codes, pa.array(dictionary, values))


def with_events(table: pa.Table, events: pa.Array) -> pa.Table:
    return table.set_column(0, "event", events)


@pytest.mark.parametrize("indices", INDICES, ids=str)
@pytest.mark.parametrize("dictionary", DICTIONARIES, ids=str)
def test_any_dictionary_is_as_strings(indices: pa.DataType, dictionary: list[str | None]) -> None:
    names = TABLE["event"].to_pylist()
    for values in (pa.string(), pa.large_string()):
        table = with_events(TABLE, encoded(names, dictionary, indices, values))
        assert read(table, batch_size=7) == read(TABLE)


@pytest.mark.parametrize("indices", [pa.int8(), pa.int32()], ids=str)
@pytest.mark.parametrize("dictionary", DICTIONARIES, ids=str)
def test_nulls_and_unknown_names_of_a_dictionary_are_bad_rows(
    indices: pa.DataType, dictionary: list[str | None]
) -> None:
    names: list[Any] = TABLE["event"].to_pylist()
    names[5], names[11] = None, "Stranger"
    columns = [encoded(names, ["Stranger", *dictionary], indices, pa.string()), pa.array(names)]
    batches, rejects = zip(*(open_events(with_events(TABLE, c), BOTH, on_bad="reject") for c in columns), strict=True)
    assert [[batch.ts.tolist() for batch in found] for found in batches] == [
        [[n for n in range(40) if n not in (5, 11)]]
    ] * 2
    assert rejects[0].table.equals(rejects[1].table)
    assert rejects[0].table["offset"].to_pylist() == [5, 11]


@pytest.mark.parametrize("values", [pa.array([b"Move", b"Ping"]), pa.array([[0], [1]])], ids=["bytes", "lists"])
def test_a_dictionary_of_anything_but_names_is_unknown(values: pa.Array) -> None:
    codes = pa.array(np.zeros(len(TABLE), dtype=np.int8))
    with pytest.raises(InputError, match=r"row 0: column 'event' names .* is no event type of this app"):
        read(with_events(TABLE, pa.DictionaryArray.from_arrays(codes, values)))


def test_a_null_name_means_the_only_type() -> None:
    events = encoded(["Ping", None, "Ping"], ["Ping"], pa.int8(), pa.string())
    table = pa.table({"event": events, "ts": [1, 2, 3], "src": [4, 5, 6]})
    assert [row["src"] for _, _, row in read(table, [PING])] == [4, 5, 6]
    assert table["event"].null_count == 1


def test_kinds_that_the_dictionary_holds_are_not_copied() -> None:
    events = encoded(TABLE["event"].to_pylist(), ["Move", "Ping"], pa.int8(), pa.string())
    (batch,) = open_events(with_events(TABLE, events), BOTH)[0]
    assert batch.kind.ctypes.data == events.indices.buffers()[1].address
    assert not batch.kind.flags.writeable


@pytest.mark.parametrize("start", range(10))
@pytest.mark.parametrize("bad", [10, 16, 31, 37])
def test_a_null_is_found_at_any_bit(start: int, bad: int) -> None:
    """Of Move only (rows 1, 4, 7, …); Ping leaves `rate` null in all other rows."""
    rates = TABLE["rate"].to_pylist()
    rates[bad] = None
    table = TABLE.set_column(TABLE.schema.get_field_index("rate"), "rate", pa.array(rates, pa.float64())).slice(start)
    with pytest.raises(InputError, match=f"row {bad - start}: column 'rate' is null"):
        read(table)
    batches, rejects = open_events(table, BOTH, on_bad="reject", batch_size=11)
    assert [ts for batch in batches for ts in batch.ts.tolist()] == [n for n in range(start, 40) if n != bad]
    assert rejects.table["offset"].to_pylist() == [bad - start]


def test_types_share_the_columns_of_their_table() -> None:
    """Also when a batch is put together from several chunks."""
    chunks = pa.concat_tables([TABLE.slice(0, 13), TABLE.slice(13)])
    for batch in open_events(chunks, BOTH, batch_size=25)[0]:
        moves, pings = batch.columns
        assert moves is not None and pings is not None
        assert moves.arrays["src"] is pings.arrays["src"]
    assert read(chunks, batch_size=25) == read(TABLE)


def test_rejected_rows_stay_out_of_stacked_chunks() -> None:
    """A chunk keeps the rows that were set aside in its columns; those of the next chunk come behind them."""
    sources = TABLE["src"].to_pylist()
    for row in (0, 1, 12, 13, 39):
        sources[row] = None
    table = TABLE.set_column(TABLE.schema.get_field_index("src"), "src", pa.array(sources, pa.int64()))
    chunks = pa.concat_tables([table.slice(0, 13), table.slice(13, 9), table.slice(22)])
    good = [row for row in read(TABLE) if row[1] not in (0, 1, 12, 13, 39)]
    for batch_size in (5, 25, 100):
        assert read(chunks, on_bad="reject", batch_size=batch_size) == good


def test_a_type_without_used_columns_counts_its_rows() -> None:
    chunks = pa.concat_tables([TABLE.slice(0, 13), TABLE.slice(13)])
    used: dict[str, list[str]] = {"Move": ["src"], "Ping": []}
    for batch in open_events(chunks, BOTH, batch_size=25, columns=used)[0]:
        pings = batch.columns[1]
        assert pings is not None and pings.arrays == {}
        assert len(pings.pos) == (batch.kind == 1).sum()
        assert (np.diff(pings.pos) > 0).all()


@pytest.mark.parametrize("schemas", [BOTH, [PING, MOVE]], ids=["declared", "reversed"])
@pytest.mark.parametrize("store_schema", [True, False])
def test_parquet_names_are_read_as_a_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: list[EventSchema], store_schema: bool
) -> None:
    """Row groups of odd size in several files: each has its own dictionary, batches go across all."""
    for number, start in enumerate((0, 17)):
        part = TABLE.slice(start, 17 if number == 0 else None)
        pq.write_table(part, tmp_path / f"{number}.parquet", row_group_size=6, store_schema=store_schema)
    expected = read(TABLE, schemas)
    seen: list[pa.DataType] = []
    accept = Validator.accept

    def spy(validator: Validator, raw: RawBatch) -> Chunk:
        seen.append(raw.source.schema.field("event").type)
        return accept(validator, raw)

    monkeypatch.setattr(Validator, "accept", spy)
    assert read(tmp_path, schemas, batch_size=10) == expected
    assert seen and all(map(pa.types.is_dictionary, seen))
