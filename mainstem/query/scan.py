"""The SQL of a scan: one table, some columns, a condition."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from mainstem.errors import QueryError


def scan_query(
    table: str,
    schema: pa.Schema,
    where: str | None,
    columns: Sequence[str] | None,
    order_by: str | None,
    limit: int | None,
) -> str:
    """One SELECT. The user's pieces stand on lines of their own, so that a comment in one ends with it."""
    _check_columns(table, schema, columns)
    if limit is not None and (not isinstance(limit, int) or isinstance(limit, bool) or limit < 0):
        raise QueryError(f"limit={limit!r}\n  pass a number of rows, 0 or more")
    chosen = ", ".join(quoted(name) for name in columns or schema.names)
    lines = [f"select {chosen} from {quoted(table)}"]
    if where is not None:
        lines += ["where (", where, ")"]
    if order_by is not None:
        lines += ["order by", order_by]
    if limit is not None:
        lines += [f"limit {limit}"]
    return "\n".join(lines)


def quoted(name: str) -> str:
    """A name as SQL reads it, whatever characters it has."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


def _check_columns(table: str, schema: pa.Schema, columns: Sequence[str] | None) -> None:
    if isinstance(columns, str) or (columns is not None and not columns):
        raise QueryError(f"columns={columns!r}\n  pass a list of names, of: {', '.join(schema.names)}")
    for name in columns or ():
        if name not in schema.names:
            raise QueryError(f"table {table} has no column {name!r}\n  it has: {', '.join(schema.names)}")
