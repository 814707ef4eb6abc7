"""Tables of a program against tables of a directory: which changes are taken in, and which are refused and why.

A new table, and a new field with a default, are taken in: files keep the rows as they were written, the format file
notes the default of that day, and whoever reads rows that lack the field fills it in (`completed`). So taking in costs
one small file however large the state is, and a default that the program changes later changes no old row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from mainstem.errors import CorruptError, StoreError
from mainstem.lang.history import keep_of
from mainstem.schema import MISSING, Field, TableSchema, Type
from mainstem.state import DELETED
from mainstem.store.frame import REMEDY

Schemas = tuple[TableSchema, ...]


def merged(path: Path, stored: Sequence[TableSchema], given: Iterable[TableSchema]) -> Schemas:
    """The tables that the directory has from now on; a `StoreError` when the program does not fit to what it holds.

    Fields that are new carry the program's default, those that were there the one that old rows are filled with.
    """
    before, after = {s.name: s for s in stored}, {s.name: s for s in given}
    problems = list(_problems(before, after))
    if problems:
        raise StoreError(
            f"{path} holds the state of a program with other tables:\n    "
            + "\n    ".join(problems)
            + "\n  to change tables in other ways: `mainstem export` them, change the files, and start a new directory "
            "with `initial=`"
        )
    kept = tuple(_merged_table(old, after[old.name]) for old in stored)
    return kept + tuple(_as_stored(new) for name, new in after.items() if name not in before)


def completed(schema: TableSchema, rows: pa.Table) -> pa.Table:
    """Rows as they were written, with the columns that the table has today, in its order."""
    wanted = schema.arrow.names
    columns = rows.column_names
    if columns == wanted or columns == [*wanted, DELETED]:
        return rows
    unknown = [name for name in columns if name not in wanted and name != DELETED]
    if unknown:
        raise UnknownColumn(
            f"rows of table {schema.name} have the column {unknown[0]}, which the format file does not name\n  {REMEDY}"
        )
    arrays = [rows[name] if name in columns else _filled(schema, name, rows.num_rows) for name in wanted]
    made = pa.table(arrays, schema=schema.arrow)
    return made.append_column(rows.schema.field(DELETED), rows[DELETED]) if DELETED in columns else made


class UnknownColumn(CorruptError):
    """Rows are newer than the tables: damage, or, beside a writer, a format file that was read before it changed."""


def schema_to_json(schema: TableSchema) -> dict[str, Any]:
    """What the stored rows depend on; other defaults, and checks, belong to the program and may change."""
    return {
        "name": schema.name,
        "key": [t.base for t in schema.key],
        "scalar_key": schema.scalar_key,
        "fields": [_field_to_json(f) for f in schema.fields],
    }


def schema_from_json(value: dict[str, Any]) -> TableSchema:
    fields = tuple(_field_from_json(*parts) for parts in value["fields"])
    return TableSchema(value["name"], tuple(Type(base) for base in value["key"]), value["scalar_key"], fields)


def key_text(schema: TableSchema) -> str:
    names = ", ".join(str(t) for t in schema.key)
    return names if schema.scalar_key else f"({names})"


# -- what is taken in ------------------------------------------------------------------------------------------------


def _merged_table(old: TableSchema, new: TableSchema) -> TableSchema:
    """The program's order of fields, once there is something to take in; until then the directory's."""
    known = {f.name: f for f in old.fields}
    if known.keys() == {f.name for f in new.fields}:
        return old
    return replace(old, fields=tuple(known.get(f.name, f) for f in new.fields))


def _as_stored(schema: TableSchema) -> TableSchema:
    """A table without older rows: no default counts."""
    return replace(schema, fields=tuple(replace(f, default=MISSING) for f in schema.fields), checks=())


def _filled(schema: TableSchema, name: str, rows: int) -> pa.ChunkedArray:
    field = schema.field(name)
    if field is None or field.default is MISSING:
        raise CorruptError(f"rows of table {schema.name} lack the column {name}\n  {REMEDY}")
    return pa.chunked_array([pa.repeat(pa.scalar(field.default, field.type.arrow), rows)])


def _field_to_json(field: Field) -> list[Any]:
    told = [field.name, field.type.base, field.type.length]
    return told if field.default is MISSING else [*told, _value_to_json(field.type, field.default)]


def _field_from_json(name: str, base: str, length: int, default: Any = MISSING) -> Field:
    type_ = Type(base, length=length)
    return Field(name, type_, MISSING if default is MISSING else _value_from_json(type_, default))


def _value_to_json(type_: Type, value: Any) -> Any:
    """JSON has no bytes, no infinity, and floats that other programs round."""
    if type_.length:
        return [_value_to_json(replace(type_, length=0), item) for item in value]
    if type_.base == "float":
        return float(value).hex()
    return value.hex() if type_.base == "bytes" else value


def _value_from_json(type_: Type, value: Any) -> Any:
    if type_.length:
        return tuple(_value_from_json(replace(type_, length=0), item) for item in value)
    if type_.base == "float":
        return float.fromhex(value)
    return bytes.fromhex(value) if type_.base == "bytes" else value


# -- what is refused -------------------------------------------------------------------------------------------------


def _problems(stored: dict[str, TableSchema], given: dict[str, TableSchema]) -> Iterator[str]:
    for name in sorted(stored.keys() - given.keys()):
        yield f"table {name} is in the directory, not in the program: declare it again, also if nothing uses it"
    for name in sorted(stored.keys() & given.keys()):
        old, new = stored[name], given[name]
        if (old.key, old.scalar_key) != (new.key, new.scalar_key):
            yield (
                f"table {name}: its key is {key_text(old)} in the directory, {key_text(new)} in the program: "
                "keys can't change"
            )
        if keep_of(old) or keep_of(new):
            yield from _history_problems(old, new)
        else:
            yield from _field_problems(old, new)


def _field_problems(old: TableSchema, new: TableSchema) -> Iterator[str]:
    before, after = {f.name: f for f in old.fields}, {f.name: f for f in new.fields}
    added = [f for f in new.fields if f.name not in before]
    for name, field in before.items():
        where = f"table {old.name}: field {name} is {field.type} in the directory"
        if name not in after:
            same = [f.name for f in added if f.type == field.type]
            renamed = f"; if {same[0]} is its new name, keep the old one" if same else ""
            yield f"{where}, missing in the program: declare it again{renamed}"
        elif field.type != after[name].type:
            yield (
                f"{where}, {after[name].type} in the program: declare it as {field.type}, and add a field with another "
                "name and a default"
            )
    for field in added:
        if field.default is MISSING:
            yield (
                f"table {old.name}: field {field.name} is missing in the directory, {field.type} in the program: give "
                f"it a default for the rows that are there, e.g. {field.name} = {_example(field.type)}"
            )


def _history_problems(old: TableSchema, new: TableSchema) -> Iterator[str]:
    """Rows of a history are rings of one size, and nothing is known of a field's earlier entries."""
    if not keep_of(old) or not keep_of(new):
        was, now = ("a history" if keep_of(schema) else "a plain table" for schema in (old, new))
        yield f"table {old.name} is {was} in the directory, {now} in the program: give the new one another name"
    elif keep_of(old) != keep_of(new):
        yield (
            f"history {old.name} keeps {keep_of(old)} entries in the directory, {keep_of(new)} in the program: "
            f"write keep={keep_of(old)}, or give the new history another name"
        )
    elif {f.name: f.type for f in old.fields} != {f.name: f.type for f in new.fields}:
        was, now = (", ".join(_entry_text(f) for f in schema.fields if f.name[0] != "_") for schema in (old, new))
        yield (
            f"history {old.name}: entries have {was} in the directory, {now} in the program: "
            "entries that are kept have no other fields; give the new history another name"
        )


def _entry_text(field: Field) -> str:
    return f"{field.name}: {field.type.base}"


def _example(type_: Type) -> str:
    return repr(list(type_.zero) if type_.length else type_.zero)
