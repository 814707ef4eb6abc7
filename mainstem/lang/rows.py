"""Rows of tables inside a function: sites, keys, loads."""

from __future__ import annotations

import ast
import copy
import types
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang import ir
from mainstem.lang.dispatch import lower
from mainstem.lang.frame import Frame
from mainstem.lang.history import History, no_attribute
from mainstem.lang.ir import Value
from mainstem.lang.operators import integer
from mainstem.lang.runtime import Table
from mainstem.lang.values import global_value, is_event, seen_as, unset_name
from mainstem.schema import Field


def table_of(frame: Frame, node: ast.expr) -> Table | None:
    if isinstance(node, ast.Name) and node.id not in frame.env and node.id not in frame.assigned:
        value = frame.source.scope.get(node.id)
        return value if isinstance(value, Table) else None
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in frame.env:
        owner = frame.source.scope.get(node.value.id)
        value = getattr(owner, node.attr, None) if isinstance(owner, types.ModuleType) else None
        return value if isinstance(value, Table) else None
    return None


def row_site(frame: Frame, node: ast.expr) -> int | None:
    """The site that `node` (a row name or `T[key]`) stands for, resolved here; None when it is no row."""
    if isinstance(node, ast.Name):
        binding = frame.env.get(node.id)
        return binding.site if binding is not None else None
    if isinstance(node, ast.Subscript):
        table = table_of(frame, node.value)
        if table is not None:
            return site_of(frame, table, node.slice, node)
    return None


def refuse_row(frame: Frame, node: ast.expr, use: ast.expr) -> ProgramError:
    """Why `node` is no row: the error that fits."""
    if isinstance(node, ast.Subscript):
        return refuse_row(frame, node.value, use)
    if isinstance(node, ast.Name) and node.id not in frame.env:
        if node.id in frame.assigned:
            return unset_name(frame, node)
        if not isinstance(global_value(frame, node), Table):
            return frame.error(f"{node.id} is no table of this app", node, "declare it with @app.table(key=…)")
    remedy = "assign to a field of a row: T[key].field = value"
    return frame.error(f"{ast.unparse(use)} can't be assigned to", use, remedy)


def site_of(frame: Frame, table: Table, key: ast.expr, node: ast.AST) -> int:
    if frame.event is None:
        raise frame.error(
            f"{frame.source.name} touches table {table.schema.name}",
            node,
            "only functions bound with @app.on touch tables: pass it values, and write the result there",
        )
    index = frame.shared.tables.get(id(table))
    if index is None:
        raise frame.error(
            f"table {table.schema.name} belongs to another app", node, "declare it with this app's @app.table"
        )
    values = _key_values(frame, table, key)
    site = _find_site(frame, index, key, values, node)
    frame.emit(ir.Resolve(getattr(node, "lineno", 0), site, values))
    return site


def _key_values(frame: Frame, table: Table, key: ast.expr) -> tuple[Value, ...]:
    schema = table.schema
    parts = _key_parts(frame, key, schema.scalar_key)
    if len(parts) != len(schema.key):
        raise frame.error(
            f"{schema.name} has a key of {len(schema.key)} part(s), this one has {len(parts)}",
            key,
            f"its key is ({', '.join(map(str, schema.key))})",
        )
    values = []
    for part, type_ in zip(parts, schema.key, strict=True):
        value = frame.not_null(part, key)
        if value.base != seen_as(type_):
            raise frame.error(
                f"{schema.name} has keys of {type_}, this one is {value.base}", key, "convert it to the key's type"
            )
        values.append(value)
    return tuple(values)


def _key_parts(frame: Frame, key: ast.expr, scalar: bool) -> tuple[Value, ...]:
    if isinstance(key, ast.Tuple):
        return tuple(lower(frame, item) for item in key.elts)
    if not scalar and isinstance(key, ast.Name) and key.id in frame.env:
        items = frame.env[key.id].items
        if items is not None:
            return items
    return (lower(frame, key),)


def _find_site(frame: Frame, table: int, key: ast.expr, values: tuple[Value, ...], node: ast.AST) -> int:
    names = {n.id for n in ast.walk(key) if isinstance(n, ast.Name)}
    looping = set().union(*frame.loops) if frame.loops else set()
    dynamic = bool(names & looping)
    shareable = all(_stable(frame, n) for n in names)
    identity = (table, _as_written(frame, key), tuple(_stands_for(frame, n) for n in sorted(names)))
    if shareable and identity in frame.site_of:
        return frame.site_of[identity]
    site = ir.Site(len(frame.sites), table, f"{frame.shared.handles[table].schema.name}[{ast.unparse(key)}]",
                   getattr(node, "lineno", 0), dynamic, columns=_plain_columns(frame, values))  # fmt: skip
    frame.sites.append(site)
    if shareable:
        frame.site_of[identity] = site.index
    return site.index


def _as_written(frame: Frame, key: ast.expr) -> str:
    """Functions of one transaction may call the event by different names."""
    written = copy.deepcopy(key)
    for node in ast.walk(written):
        if isinstance(node, ast.Name) and is_event(frame, node):
            node.id = "event"
    return ast.unparse(written)


def _stands_for(frame: Frame, name: str) -> Any:
    """What tells a name from the same name in another function of the transaction."""
    binding = frame.env.get(name)
    if binding is not None:
        return binding.value.text if binding.value is not None else binding.items
    return "the event" if is_event(frame, ast.Name(name)) else id(frame.source.scope.get(name))


def _stable(frame: Frame, name: str) -> bool:
    """The name has one value wherever it is read: two equal key expressions are then one site."""
    count = frame.assigned.get(name, 0)
    if count == 0 or (count == 1 and name not in frame.assigned_in_loops):
        return True
    value = frame.env[name].value if name in frame.env else None
    return value is not None and value.text in frame.loop_locals


def _plain_columns(frame: Frame, values: tuple[Value, ...]) -> tuple[str, ...] | None:
    columns = [v.text[2:] for v in values if v.text.startswith("e_") and v.text[2:] in frame.used_fields]
    plain = [c for c in columns if not frame.used_fields[c].nullable]
    return tuple(plain) if len(plain) == len(values) else None


def table_field(frame: Frame, site: int, name: str, node: ast.AST) -> Field:
    handle = frame.shared.handles[frame.sites[site].table]
    schema = handle.schema
    if isinstance(handle, History):
        what, remedy = no_attribute(schema, name)
        raise frame.error(what, node, remedy)
    field = schema.field(name)
    if field is None:
        names = ", ".join(f.name for f in schema.fields)
        raise frame.error(f"table {schema.name} has no field {name!r}", node, f"its fields are: {names}")
    return field


def row_value(frame: Frame, node: ast.Attribute, site: int) -> Value:
    field = table_field(frame, site, node.attr, node)
    if field.type.length:
        raise frame.uncompilable(f"array field {field.name} can be indexed and measured only", node)
    return load(frame, site, field, node)


def load(frame: Frame, site: int, field: Field, node: ast.AST, index: Value | None = None) -> Value:
    frame.sites[site].reads = True
    name = frame.temporary()
    frame.emit(ir.Load(getattr(node, "lineno", 0), name, site, field.name, index.text if index else None))
    if field.type.base == "bool":
        return frame.let(node, f"{name} != 0", (name,), "bool")
    return Value(name, seen_as(field.type))


def array_cell(frame: Frame, node: ast.Subscript) -> tuple[int, Field, Value] | None:
    """`row.field[i]` as (site, field, checked index)."""
    place = array_place(frame, node)
    if place is None:
        return None
    site, field, index = place
    return site, field, checked_index(frame, node, field, index)


def array_place(frame: Frame, node: ast.Subscript) -> tuple[int, Field, Value] | None:
    """The same before the index is checked."""
    if not isinstance(node.value, ast.Attribute):
        return None
    site = row_site(frame, node.value.value)
    if site is None:
        return None
    field = table_field(frame, site, node.value.attr, node)
    if not field.type.length:
        raise frame.error(f"field {field.name} is {field.type}, not an array", node)
    return site, field, integer(frame, node.slice)


def checked_index(frame: Frame, node: ast.AST, field: Field, index: Value) -> Value:
    return frame.checked(node, "index_in", (index, Value(str(field.type.length), "int")), "int")
