"""Two small tables, rows of them, and how states are compared."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.schema import Field, TableSchema, Type
from mainstem.store import (
    Store,
)

ACCOUNT = TableSchema("Account", (Type("int"),), True, (Field("balance", Type("int")), Field("owner", Type("str"))))
VISIT = TableSchema("Visit", (Type("str"), Type("int")), False, (Field("count", Type("int")),))
SCHEMAS = (ACCOUNT, VISIT)

Rows = dict[str, dict[Any, tuple[Any, ...]]]


def accounts(rows: Iterable[tuple[int, int, str]], deleted: Iterable[bool] | None = None) -> pa.Table:
    """Rows of the table Account: (key, balance, owner)."""
    keys, balances, owners = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    table = pa.table([pa.array(keys, pa.int64()), pa.array(balances, pa.int64()), pa.array(owners, pa.string())],
                     schema=ACCOUNT.arrow)  # fmt: skip
    return table if deleted is None else table.append_column("_deleted", pa.array(list(deleted), pa.bool_()))


def visits(rows: Iterable[tuple[str, int, int]]) -> pa.Table:
    """Rows of the table Visit: (key_0, key_1, count)."""
    names, days, counts = zip(*rows, strict=True) if (rows := list(rows)) else ((), (), ())
    arrays = [pa.array(names, pa.string()), pa.array(days, pa.int64()), pa.array(counts, pa.int64())]
    return pa.table(arrays, schema=VISIT.arrow)


def apply(state: Rows, name: str, table: pa.Table) -> None:
    """What `State.apply` does, on dicts."""
    keys = next(s for s in SCHEMAS if s.name == name).key_columns
    for row in table.to_pylist():
        key = tuple(row.pop(column) for column in keys)
        if row.pop("_deleted", False):
            state[name].pop(key, None)
        else:
            state[name][key] = tuple(row.values())


def empty() -> Rows:
    return {schema.name: {} for schema in SCHEMAS}


def rebuild(parts: Iterable[tuple[str, pa.Table]]) -> Rows:
    state = empty()
    for name, table in parts:
        apply(state, name, table)
    return state


def contents(path: Path) -> tuple[int, dict[str, Any], Rows]:
    """Epoch, meta and rows of a store."""
    with Store.open(path, SCHEMAS, create=False) as store:
        return store.epoch, store.meta, rebuild(store.replay())


def account_changes(state: Rows, epoch: int) -> pa.Table:
    """Non-commuting updates, and a deletion every third epoch."""
    rows, deleted = [], []
    for key in {epoch % 5, (epoch * 7) % 5, epoch % 3}:
        balance = state["Account"].get((key,), (1, ""))[0]
        rows.append((key, (balance * 3 + epoch) % 1_000_003, f"owner {key} of {epoch}"))
        deleted.append(epoch % 3 == 0 and key == epoch % 5)
    return accounts(rows, deleted)


def write_file(target: Path, text: str) -> None:
    fd = os.open(target, os.O_WRONLY | os.O_CREAT, 0o666)
    os.write(fd, text.encode())
    os.close(fd)


def read_outputs(outputs: Path) -> dict[str, str]:
    """All files of a directory, hidden ones too."""
    return {entry.name: entry.read_text() for entry in sorted(outputs.iterdir())}
