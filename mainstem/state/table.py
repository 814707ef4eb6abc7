"""One table in memory: key index + record array (invariants I1 to I4 of docs/design/foundation.md)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.errors import InputError
from mainstem.schema import MISSING, Field, TableSchema
from mainstem.state.arrow import valid_flags, whole
from mainstem.state.columns import Columns, accepts, check_no_nulls
from mainstem.state.index import KeyIndex
from mainstem.state.pool import StringPool
from mainstem.state.records import RecordReader

DELETED = "_deleted"
_FIRST_ROWS = 1024
_FILL_ROWS = 4096  # defaults are written in blocks of this many rows: one long copy instead of many short ones


class TableState:
    """`rows[index.resolve(key)]` is the record of a key; a record that is not alive holds the defaults."""

    def __init__(self, schema: TableSchema, strings: StringPool, binaries: StringPool) -> None:
        self.schema = schema
        self.index = KeyIndex(len(schema.key))
        self._columns = Columns(strings, binaries)
        self.default_row = self._make_default_row()
        self._zero_default = not self.default_row.tobytes().strip(b"\0")
        self.rows = self._defaults(_FIRST_ROWS)
        self._reader = RecordReader(schema, self.index, self._columns)

    def __len__(self) -> int:
        return int(np.count_nonzero(self.rows["_alive"][: self.index.count]))

    def reserve(self) -> None:
        """Make a record for every key of the index; call it between kernels, after keys were added."""
        if self.index.count <= len(self.rows):
            return
        size = len(self.rows)
        while size < self.index.count:
            size *= 2
        rows = self._defaults(size, start=len(self.rows))
        words(rows)[: len(self.rows)] = words(self.rows)
        self.rows = rows

    def resolve(self, arrays: Sequence[pa.Array | pa.ChunkedArray]) -> np.ndarray:
        """The row of each key, given as Arrow columns; new keys get a row. A key with a null part gives -1."""
        parts = [self._columns.from_arrow(a, t) for a, t in zip(arrays, self.schema.key, strict=True)]
        flags = [valid_flags(whole(a)) for a in arrays if a.null_count]
        found = self.index.resolve(parts, np.bitwise_and.reduce(flags) if flags else None)
        self.reserve()
        return found

    def get(self, key: Any) -> dict[str, Any] | None:
        """The fields of a row as Python values; None when it is missing."""
        return self._reader.get(self.rows, key)

    def seen(self, key: Any) -> dict[str, Any] | None:
        """`get` as functions see it: times are integers, arrays tuples."""
        return self._reader.seen(self.rows, key)

    def get_many(self, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """`get` of every key, in their order."""
        return self._reader.get_many(self.rows, keys)

    def export(self) -> pa.Table:
        """All alive rows, sorted by key, with the schema `schema.arrow`."""
        rows = np.flatnonzero(self.rows["_alive"][: self.index.count])
        keys = self.keys_of(rows)
        order = key_order(keys)
        sorted_keys = [column.take(pa.array(order)) for column in keys]
        return pa.table([*sorted_keys, *self._fields(rows[order])], schema=self.schema.arrow)

    def delta(self, rows: np.ndarray) -> pa.Table:
        """Key and current values of some rows, with `_deleted`: what `apply` takes."""
        deleted = pa.array(self.rows["_alive"][rows] == 0)
        schema = self.schema.arrow.append(pa.field(DELETED, pa.bool_(), nullable=False))
        return pa.table([*self.keys_of(rows), *self._fields(rows), deleted], schema=schema)

    def apply(self, table: pa.Table) -> None:
        """Write rows by key, the last one of a key wins; rows with `_deleted` true go back to the defaults."""
        self._check_columns(table.schema)
        deleted = self._deleted_flags(table)
        for name in self.schema.key_columns:
            check_no_nulls(table[name], self._where(name), "every row needs a key")
        for field in self.schema.fields:
            check_no_nulls(table[field.name], self._where(field.name), "fields of tables are never null", deleted)
        rows = self.resolve([table[name] for name in self.schema.key_columns])
        for field in self.schema.fields:
            values = self._columns.from_arrow(table[field.name], field.type)
            if deleted.any():
                values = values.copy()
                values[deleted] = self.default_row[field.name][0]
            self.rows[field.name][rows] = values
        self.rows["_alive"][rows] = ~deleted

    def keys_of(self, rows: np.ndarray) -> list[pa.Array]:
        """The key columns of some rows."""
        keys = self.index.keys
        return [self._columns.to_arrow(keys[rows, c], t) for c, t in enumerate(self.schema.key)]

    def key_of(self, row: int) -> tuple[Any, ...]:
        """The key of one row, as values that compare like the sorted table."""
        stored = zip(self.index.keys[row].tolist(), self.schema.key, strict=True)
        return tuple(self._columns.pool(t).value(value) if t.pooled else value for value, t in stored)

    def encoded(self, field: Field, stored: np.ndarray) -> pa.Array:
        """Values of a field as records hold them, as Arrow."""
        return self._columns.to_arrow(stored, field.type)

    def _fields(self, rows: np.ndarray) -> list[pa.Array]:
        return [self.encoded(f, self.rows[f.name][rows]) for f in self.schema.fields]

    def _make_default_row(self) -> np.ndarray:
        row = np.zeros(1, self.schema.row_dtype)
        for field in self.schema.fields:
            default = field.type.zero if field.default is MISSING else field.default
            where = f"the default of {self._where(field.name)}"
            row[field.name][0] = self._columns.to_storage(default, field.type, where)
        return row

    def _defaults(self, size: int, start: int = 0) -> np.ndarray:
        """`size` records, the defaults from `start` on; zeros come from the system without being written."""
        rows = np.zeros(size, self.schema.row_dtype)
        if not self._zero_default:
            block = np.repeat(words(self.default_row), _FILL_ROWS, axis=0)
            for at in range(start, size, _FILL_ROWS):
                words(rows)[at : at + _FILL_ROWS] = block[: size - at]
        return rows

    def _deleted_flags(self, table: pa.Table) -> np.ndarray:
        if DELETED not in table.column_names:
            return np.zeros(table.num_rows, bool)
        check_no_nulls(table[DELETED], self._where(DELETED), "it must be true or false")
        return table[DELETED].to_numpy()

    def _check_columns(self, given: pa.Schema) -> None:
        types = dict(zip(self.schema.key_columns, self.schema.key, strict=True))
        types.update({f.name: f.type for f in self.schema.fields})
        expected = ", ".join(types)
        for name in types:
            if given.get_field_index(name) < 0:
                raise InputError(f"{self._where(name)} is missing or there twice; the columns are: {expected}")
        for column in given:
            if column.name == DELETED and column.type == pa.bool_():
                continue
            if column.name not in types:
                raise InputError(f"{self._where(column.name)} is unknown ({column.type}); the columns are: {expected}")
            if not accepts(types[column.name], column.type):
                wanted = types[column.name].arrow
                raise InputError(f"{self._where(column.name)} has type {column.type}; cast it to {wanted}")

    def _where(self, column: str) -> str:
        return f"column {self.schema.name}.{column}"


def key_order(keys: Sequence[pa.Array]) -> np.ndarray:
    """Positions in key order: numbers by value, text and bytes by their bytes."""
    if len(keys) == 1 and keys[0].type == pa.int64():
        return np.argsort(keys[0].to_numpy())
    names = [str(c) for c in range(len(keys))]
    order = pc.sort_indices(pa.table(list(keys), names=names), sort_keys=[(name, "ascending") for name in names])
    return order.to_numpy()


def words(rows: np.ndarray) -> np.ndarray:
    """Records as rows of plain integers: NumPy copies those at memory speed, but records field by field."""
    unit = np.int64 if rows.dtype.itemsize % 8 == 0 else np.uint8
    return rows.view(unit).reshape(len(rows), rows.dtype.itemsize // np.dtype(unit).itemsize)
