"""Users' functions as they are: plain Python, one event at a time, on dicts. This defines what is right.

`Interpreter` is the whole meaning of a program; the oracle is one that starts from empty dicts.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.engine.changes import CHANGES, Installed, change_column
from mainstem.engine.returned import Record, checked
from mainstem.errors import UserCodeError
from mainstem.gate import EventBatch
from mainstem.lang import Abort, Bound, Program, Spec
from mainstem.lang.runtime import Row, coerce, reason_of, running, wrap
from mainstem.lang.source import interpretable
from mainstem.schema import MISSING, EventSchema, TableSchema, Type

Load = Callable[[str, Any], Record | None]


class LoadFailed(Exception):
    """A row could not be loaded: no fault of the function that asked for it, and no reason to abort."""


class Transaction:
    """Writes are kept apart until `commit`; a missing row reads as its defaults."""

    def __init__(self, rows: dict[str, dict[Any, Record | None]], load: Load, defaults: dict[str, Record]) -> None:
        self.rows, self.load, self.defaults = rows, load, defaults
        self.writes: dict[str, dict[Any, Record | None]] = {name: {} for name in rows}

    def _record(self, table: str, key: Any) -> Record | None:
        if key in self.writes[table]:
            return self.writes[table][key]
        try:
            return self._committed(table, key)
        except Exception as error:
            raise LoadFailed from error

    def _committed(self, table: str, key: Any) -> Record | None:
        if key not in self.rows[table]:
            self.rows[table][key] = self.load(table, key)
        return self.rows[table][key]

    def read(self, table: str, key: Any, field: str) -> Any:
        return (self._record(table, key) or self.defaults[table])[field]

    def exists(self, table: str, key: Any) -> bool:
        return self._record(table, key) is not None

    def write(self, table: str, key: Any, field: str, value: Any) -> None:
        self.writes[table][key] = {**(self._record(table, key) or self.defaults[table]), field: value}

    def delete(self, table: str, key: Any) -> None:
        self.writes[table][key] = None

    def changes(self) -> list[tuple[str, Any, Record | None]]:
        """Rows that hold something else after `commit`; None for one that is deleted. Call it before."""
        found = []
        for table, written in self.writes.items():
            for key, record in written.items():
                if not same_record(self._committed(table, key), record):
                    found.append((table, key, record))
        return found

    def commit(self) -> None:
        for table, changes in self.writes.items():
            self.rows[table].update(changes)


def abort_reason(error: Exception, name: str, values: Record) -> str:
    """Why a transaction aborts. What is no reason to is raised: a bug of the function, a row that can't be loaded."""
    if isinstance(error, LoadFailed) and error.__cause__ is not None:
        raise error.__cause__ from None
    reason = reason_of(error)
    if reason is None:
        raise UserCodeError(f"function {name} failed on {values}: {type(error).__name__}: {error}") from error
    return reason


class Interpreter:
    """Runs batches; `rows` is the state it knows, `load` gives a row it does not know yet."""

    def __init__(self, spec: Spec, outputs: dict[str, Type] | None, load: Load = lambda table, key: None) -> None:
        self.spec, self.outputs, self.load = spec, outputs, load
        self.rows: dict[str, dict[Any, Record | None]] = {t.schema.name: {} for t in spec.tables}
        self.changed: dict[str, dict[Any, None]] = {t.schema.name: {} for t in spec.tables}
        self.defaults = {t.schema.name: default_record(t.schema) for t in spec.tables}
        self.checks = {t.schema.name: [(c.__name__, interpretable(c)) for c in t.checks] for t in spec.tables}
        self.keeps_changes = False  # whether rows of `run` have their changes
        self.functions = [(t[0].event, t[0].transaction, one_function(t)) for t in spec.transactions]

    def run(self, batch: EventBatch, first_seq: int) -> list[Record]:
        """One dict per transaction: ts, seq, event, function, status, reason, and `values`."""
        readers = [iter(events_seen(batch, k, s)) for k, s in enumerate(self.spec.events)]
        out = []
        for i, kind in enumerate(batch.kind.tolist()):
            event, name = next(readers[kind]), self.spec.events[kind].name
            for bound, function_name, function in self.functions:
                if bound == name:
                    row = {"ts": int(batch.ts[i]), "seq": first_seq + i, "event": name, "function": function_name}
                    out.append(row | self.transaction(function_name, function, event))
        return out

    def transaction(self, name: str, function: Callable[..., Any], event: SimpleNamespace) -> Record:
        """One of `functions` on one event: status, reason, `values`, and `changes` if they are kept."""
        transaction = Transaction(self.rows, self.load, self.defaults)
        try:
            with running(transaction, event.ts):
                values = self._output(function(event))
                self._check(transaction)
        except Exception as error:
            return {"status": "aborted", "reason": abort_reason(error, name, vars(event)), "values": {}}
        changes = transaction.changes() if self.keeps_changes else []
        transaction.commit()
        for table, written in transaction.writes.items():
            self.changed[table].update(dict.fromkeys(written))
        return {"status": "committed", "reason": None, "values": values, "changes": changes}

    def _check(self, transaction: Transaction) -> None:
        for table in self.spec.tables:
            name = table.schema.name
            for key, record in transaction.writes[name].items():
                for check_name, check in self.checks[name] if record is not None else ():
                    if not check(Row(table.schema, key)):
                        raise Abort(f"check {name}.{check_name} failed")

    def _output(self, values: Record) -> Record:
        if self.outputs is not None:
            return {n: None if v is None else coerce(self.outputs[n], v, f"column {n}") for n, v in values.items()}
        if self.keeps_changes and CHANGES in values:
            raise ValueError(f"changes=True adds a column {CHANGES!r}: return it by another name")
        return values

    def export(self) -> dict[str, pa.Table]:
        """The state as Arrow tables, sorted by key."""
        alive = (
            (t.schema, {k: r for k, r in self.rows[t.schema.name].items() if r is not None}) for t in self.spec.tables
        )
        return {schema.name: records_to_arrow(schema, records) for schema, records in alive}


def one_function(members: tuple[Bound, ...]) -> Callable[..., Any]:
    """The functions of a transaction as one that gives the columns of all of them."""
    functions = [(member.name, checked(interpretable(member.function))) for member in members]
    if len(functions) == 1:
        return functions[0][1]

    def in_turn(event: SimpleNamespace) -> Record:
        values: Record = {}
        giver: dict[str, str] = {}
        for name, function in functions:
            returned = function(event)
            for column in returned:
                if giver.setdefault(column, name) != name:
                    raise ValueError(f"{giver[column]} and {name} both return the column {column!r}")
            values |= returned
        return values

    return in_turn


def default_record(schema: TableSchema) -> Record:
    return {f.name: f.type.zero if f.default is MISSING else _coerce_default(f.type, f.default) for f in schema.fields}


def _coerce_default(type_: Type, value: Any) -> Any:
    if type_.length:
        return tuple(coerce(Type(type_.base), item) for item in value)
    return coerce(type_, value)


def _sort_key(key: Any) -> Any:
    """Strings sort by their UTF-8 bytes, as Arrow does."""
    parts = key if isinstance(key, tuple) else (key,)
    return tuple(p.encode() if isinstance(p, str) else p for p in parts)


def same_record(a: Record | None, b: Record | None) -> bool:
    """Floats are the same when their bits are, and any nan is like any other."""
    if a is None or b is None:
        return a is b
    return all(_same(value, b[name]) for name, value in a.items())


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, tuple):
        return all(_same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, float):
        return struct.pack("d", a) == struct.pack("d", b) or (math.isnan(a) and math.isnan(b))
    return bool(a == b)


def interpreted_changes(program: Program, rows: list[Record]) -> pa.Array:
    """The column `changes` of transactions that ran interpreted."""
    by_table: dict[str, list[tuple[int, Any, Record | None]]] = {t.name: [] for t in program.tables}
    for number, row in enumerate(rows):
        for table, key, record in row.get("changes", ()):
            by_table[table].append((number, key, record))
    installed = [_installed(table, by_table[table.name]) for table in program.tables]
    return change_column(installed, np.array([row["status"] == "committed" for row in rows], bool))


def _installed(schema: TableSchema, changes: list[tuple[int, Any, Record | None]]) -> Installed:
    default = default_record(schema)
    keys = [key if isinstance(key, tuple) else (key,) for _, key, _ in changes]
    records = [default if record is None else record for _, _, record in changes]
    return Installed(
        schema,
        np.array([number for number, _, _ in changes], np.int64),
        np.array([record is not None for _, _, record in changes], bool),
        [pa.array([key[part] for key in keys], type_.arrow) for part, type_ in enumerate(schema.key)],
        [pa.array([record[f.name] for record in records], f.type.arrow) for f in schema.fields],
    )


def records_to_arrow(schema: TableSchema, records: dict[Any, Record], flags: tuple[str, ...] = ()) -> pa.Table:
    """Key columns, fields, and bool columns named in `flags`; sorted by key."""
    keys = sorted(records, key=_sort_key)
    columns: list[Any] = []
    for i, type_ in enumerate(schema.key):
        columns.append(pa.array([k if schema.scalar_key else k[i] for k in keys], type_.arrow))
    for field in schema.fields:
        columns.append(pa.array([records[k][field.name] for k in keys], field.type.arrow))
    arrow = schema.arrow
    for flag in flags:
        columns.append(pa.array([records[k][flag] for k in keys], pa.bool_()))
        arrow = arrow.append(pa.field(flag, pa.bool_(), nullable=False))
    return pa.table(columns, schema=arrow)


def rows_of_arrow(schema: TableSchema, table: pa.Table) -> dict[Any, Record]:
    """The opposite of `records_to_arrow`."""
    keys = list(zip(*(_plain(table[c]) for c in schema.key_columns), strict=True))
    values = {f.name: _plain(table[f.name]) for f in schema.fields}
    records = [dict(zip(values, row, strict=True)) for row in zip(*values.values(), strict=True)]
    return {k[0] if schema.scalar_key else k: r for k, r in zip(keys, records or [{} for _ in keys], strict=True)}


def _plain(column: pa.Array | pa.ChunkedArray) -> list[Any]:
    """Values as functions see them: timestamps are integers, fixed arrays tuples."""
    fixed = pa.types.is_fixed_size_list(column.type)
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.int64())
    elif (fixed or pa.types.is_list(column.type)) and pa.types.is_timestamp(column.type.value_type):
        column = column.cast(pa.list_(pa.int64(), column.type.list_size) if fixed else pa.list_(pa.int64()))
    values: list[Any] = column.to_pylist()
    return [tuple(v) for v in values] if fixed else values


def events_seen(batch: EventBatch, kind: int, schema: EventSchema) -> list[SimpleNamespace]:
    """The events of one type, in order, as functions see them."""
    found = batch.columns[kind]
    if found is None:
        return []
    stamps = batch.ts[batch.kind == kind].tolist()
    columns: dict[str, list[Any]] = {"ts": stamps}
    for field in schema.fields + schema.derived:
        if field.name in found.arrays:
            columns[field.name] = _plain(found.arrays[field.name].take(pa.array(found.pos)))
    names = list(columns)
    return [
        SimpleNamespace(
            **{n: [wrap(x) for x in v] if isinstance(v, list) else wrap(v) for n, v in zip(names, row, strict=True)}
        )
        for row in zip(*columns.values(), strict=True)
    ]
