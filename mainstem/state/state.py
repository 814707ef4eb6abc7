"""All tables of one program in memory."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from mainstem.errors import InputError
from mainstem.schema import TableSchema
from mainstem.state.pool import StringPool
from mainstem.state.table import TableState


class State:
    """Tables by name, and the pools that give their strings and bytes codes. One thread changes it at a time."""

    def __init__(self, schemas: Mapping[str, TableSchema]) -> None:
        self.strings, self.binaries = StringPool(str), StringPool(bytes)
        self.tables = {name: TableState(schema, self.strings, self.binaries) for name, schema in schemas.items()}

    def export(self) -> dict[str, pa.Table]:
        """Every table's alive rows, sorted by key."""
        return {name: table.export() for name, table in self.tables.items()}

    def apply(self, name: str, table: pa.Table) -> None:
        """Write rows (and deletions) of one table; see `TableState.apply`."""
        if name not in self.tables:
            raise InputError(f"there is no table {name!r}; the tables are: {', '.join(self.tables) or 'none'}")
        self.tables[name].apply(table)

    def load(self, tables: Mapping[str, pa.Table]) -> None:
        """Apply one Arrow table per name, as `export` gives them."""
        for name, table in tables.items():
            self.apply(name, table)
