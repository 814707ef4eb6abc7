"""The column `changes`: which rows each transaction installed, as JSON. Columns in, columns out.

A change counts when the content of a row is another one afterwards: a field, or whether the row is there at all. Of a
transaction, changes come by table in the order of declaration, then by the text of the key.

Values are written as JSON. What JSON does not have is text, as in answers of `mainstem serve`: bytes in Base64, times
in ISO 8601 (beyond the years 1 to 9999 in microseconds since 1970), and "NaN", "Infinity" and "-Infinity".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.engine.layout import Batch, Versions
from mainstem.errors import ProgramError
from mainstem.lang import Program
from mainstem.schema import TableSchema
from mainstem.state import TableState

CHANGES = "changes"
CHANGE = pa.struct([("table", pa.string()), ("key", pa.string()), ("row", pa.string())])
CHANGES_FIELD = pa.field(CHANGES, pa.list_(CHANGE))
_TIMES = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # microseconds of the years 1 to 9999
_NOT_NUMBERS = r"(NaN|-?Infinity)"


def with_changes(program: Program) -> pa.Schema:
    """The outputs of a program with what its transactions changed."""
    schema = program.output_schema
    if CHANGES in schema.names:
        raise ProgramError(
            f"changes=True adds a column {CHANGES!r}, but functions of app {program.name} return one of that name",
            remedy="give theirs another name",
        )
    return schema.append(CHANGES_FIELD)


@dataclass(frozen=True)
class Installed:
    """Rows of one table that transactions installed; one element of every array per change."""

    schema: TableSchema
    txn: np.ndarray
    alive: np.ndarray  # false where the row was deleted
    keys: Sequence[pa.Array]
    fields: Sequence[pa.Array]


@dataclass
class Changes:
    """Collects what the transactions of a batch installed."""

    tables: list[TableState]
    found: list[Installed] = field(default_factory=list)

    def note(self, batch: Batch, versions: Versions, code: np.ndarray) -> None:
        """Of transactions that ran on versions: the new record of an operation against the one that it came from."""
        ops = batch.ops
        txn = np.repeat(np.arange(batch.transactions), np.diff(batch.txn_lo[: batch.transactions + 1]))
        (written,) = np.nonzero((batch.op_write[:ops] != 0) & (code[txn] == 0))
        row = batch.op_row[written]
        for number, table in enumerate(self.tables):
            own = batch.row_table[row] == number
            op, records = written[own], versions.records[number]
            new, old = records[versions.op_slot[op]], records[versions.op_src[op]]
            changed = differing(new, old)
            kept = new[changed]
            self.found.append(
                Installed(
                    table.schema,
                    txn[op[changed]],
                    kept["_alive"] != 0,
                    table.keys_of(batch.row_at[row[own][changed]]),
                    [table.encoded(f, kept[f.name]) for f in table.schema.fields],
                )
            )

    def take(self, committed: np.ndarray) -> pa.Array:
        """The column, one list per transaction, null where it aborted; forgets what was collected."""
        found, self.found = self.found, []
        return change_column(found, committed)


def differing(new: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Which records hold other values: floats by their bits, but any nan is like any other."""
    changed = np.zeros(len(new), bool)
    for name in new.dtype.names or ():
        a, b = new[name], old[name]
        unlike = a != b
        if a.dtype.kind == "f":
            unlike = (_bits(a) != _bits(b)) & ~(np.isnan(a) & np.isnan(b))
        changed |= unlike.any(axis=1) if unlike.ndim > 1 else unlike
    return changed


def _bits(values: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(values).view(np.int64)


def change_column(found: Sequence[Installed], committed: np.ndarray) -> pa.Array:
    """Lists of changes, in order of their transactions."""
    text = _Text()
    parts = [_part(n, installed, text) for n, installed in enumerate(found) if len(installed.txn)]
    empty = pa.table({"txn": pa.array([], pa.int64()), "place": pa.array([], pa.int64()),
                      **{name: pa.array([], pa.string()) for name in ("table", "key", "row")}})  # fmt: skip
    rows = pa.concat_tables([empty, *parts])
    rows = rows.sort_by([("txn", "ascending"), ("place", "ascending"), ("key", "ascending")]).combine_chunks()
    counts = np.bincount(rows["txn"].to_numpy(), minlength=len(committed))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    items = [rows[name].combine_chunks() for name in ("table", "key", "row")]
    values = pa.StructArray.from_arrays(items, fields=list(CHANGE))
    return pa.ListArray.from_arrays(pa.array(offsets), values, type=CHANGES_FIELD.type, mask=pa.array(~committed))


def _part(place: int, installed: Installed, text: _Text) -> pa.Table:
    schema, count = installed.schema, len(installed.txn)
    keys = [text.of(column) for column in installed.keys]
    named = [_joined([text.of_name(f.name), ":", text.of(column)], count)
             for f, column in zip(schema.fields, installed.fields, strict=True)]  # fmt: skip
    row = _between("{", named, "}", count)
    return pa.table({
        "txn": pa.array(installed.txn, pa.int64()),
        "place": pa.array(np.full(count, place), pa.int64()),
        "table": pa.repeat(pa.scalar(schema.name, pa.string()), count),
        "key": keys[0] if schema.scalar_key else _between("[", keys, "]", count),
        "row": pc.if_else(pa.array(installed.alive), row, pa.scalar(None, pa.string())),
    })  # fmt: skip


def _between(opening: str, texts: Sequence[pa.Array], closing: str, count: int) -> pa.Array:
    inner = _joined(texts, count, ",") if texts else pa.repeat(pa.scalar("", pa.string()), count)
    return _joined([opening, inner, closing], count)


def _joined(texts: Sequence[Any], count: int, separator: str = "") -> pa.Array:
    columns = [t if isinstance(t, pa.Array) else pa.repeat(pa.scalar(t, pa.string()), count) for t in texts]
    return pc.binary_join_element_wise(*columns, pa.scalar(separator, pa.string()))


class _Text:
    """Columns as JSON texts."""

    def __init__(self) -> None:
        self._duckdb = duckdb.connect(":memory:", config={"threads": 1})

    def of(self, column: pa.Array) -> pa.Array:
        kind = column.type
        if pa.types.is_fixed_size_list(kind):
            size = kind.list_size
            lists = pa.ListArray.from_arrays(
                pa.array(np.arange(len(column) + 1, dtype=np.int32) * size), self.of(column.flatten())
            )
            return _between("[", [pc.binary_join(lists, ",")], "]", len(column))
        if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
            return column.cast(pa.string())
        if pa.types.is_floating(kind):
            return self._query(f"regexp_replace(to_json(x)::varchar, '{_NOT_NUMBERS}', '\"\\1\"')", column)
        if pa.types.is_timestamp(kind):
            return self._times(column)
        if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
            return self._query("to_json(base64(x))::varchar", column)
        return self._query("to_json(x)::varchar", column)

    def _times(self, column: pa.Array) -> pa.Array:
        number = column.view(pa.int64())
        known = pc.and_(pc.greater_equal(number, _TIMES[0]), pc.less_equal(number, _TIMES[1]))
        dated = pc.if_else(known, column, pa.scalar(0, column.type))
        return pc.if_else(known, self._query("replace(to_json(x)::varchar, ' ', 'T')", dated), number.cast(pa.string()))

    def of_name(self, name: str) -> str:
        return f'"{name}"'  # of a field: an identifier

    def _query(self, expression: str, column: pa.Array) -> pa.Array:
        values = pa.table({"x": column})
        made = self._duckdb.from_arrow(values).project(f"{expression} as x").to_arrow_table()["x"]
        return made.combine_chunks().cast(pa.string())
