"""Whether rows that are about to be stored have the columns of their table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa

from mainstem.errors import StoreError
from mainstem.schema import TableSchema
from mainstem.state import DELETED


def check_tables(schemas: Iterable[TableSchema], tables: Mapping[str, pa.Table], *, deletes: bool) -> None:
    """Refuse unknown tables and wrong columns. `deletes`: whether the column `_deleted` may be there."""
    known = {schema.name: schema for schema in schemas}
    for name, table in tables.items():
        if name not in known:
            raise StoreError(f"unknown table {name}\n  the directory has: {', '.join(sorted(known)) or 'none'}")
        wanted = {field.name: field.type for field in known[name].arrow}
        if deletes and DELETED in table.column_names:
            wanted[DELETED] = pa.bool_()
        given = {field.name: field.type for field in table.schema}
        if given != wanted or table.num_columns != len(wanted):
            raise StoreError(f"table {name} has the columns {_text(given)}\n  its schema wants {_text(wanted)}")


def _text(columns: dict[str, pa.DataType]) -> str:
    return ", ".join(f"{name}: {kind}" for name, kind in columns.items())
