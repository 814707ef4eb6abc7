"""Assignments: locals, rows bound to names, fields, cells, and `del`."""

from __future__ import annotations

import ast
from typing import Any

from mainstem.lang import ir
from mainstem.lang.dispatch import lower, statement
from mainstem.lang.frame import Binding, Frame
from mainstem.lang.ir import Value
from mainstem.lang.operators import arithmetic, to_float
from mainstem.lang.rows import array_cell, array_place, checked_index, load, refuse_row, row_site, table_field, table_of
from mainstem.lang.values import is_event, seen_as
from mainstem.schema import Field, Type


@statement(ast.Assign)
def _assign(frame: Frame, node: ast.Assign) -> None:
    if len(node.targets) > 1:
        value = lower(frame, node.value)
        for target in node.targets:
            _store(frame, target, value, node)
        return
    target = node.targets[0]
    if isinstance(target, ast.Tuple | ast.List):
        _unpack(frame, target, node)
    elif isinstance(target, ast.Name) and _bind_row_or_tuple(frame, target, node.value):
        return
    else:
        _store(frame, target, lower(frame, node.value), node)


@statement(ast.AnnAssign)
def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    _store(frame, node.target, lower(frame, node.value), node)


def _bind_row_or_tuple(frame: Frame, target: ast.Name, value: ast.expr) -> bool:
    if isinstance(value, ast.Tuple):
        items = [lower(frame, item) for item in value.elts]
        frame.env[target.id] = Binding(items=tuple(copied(frame, v, value) for v in items))
        return True
    if isinstance(value, ast.Subscript | ast.Name):
        site = row_site(frame, value)
        if site is not None:
            if target.id in frame.types:
                raise frame.error(f"{target.id} is a value above and becomes a row", target, "use another name")
            frame.env[target.id] = Binding(site=site)
            return True
    return False


def copied(frame: Frame, value: Value, node: ast.AST) -> Value:
    """The value in a temporary of its own, safe from later assignments to the local it was read from."""
    if not value.names:
        return value
    copy = frame.let(node, value.text, value.names[:1], value.base) if value.text.isidentifier() else value
    null = (
        frame.let(node, value.null, (value.null,), "bool").text
        if value.null and value.null.isidentifier()
        else value.null
    )
    return Value(copy.text, value.base, null)


def _unpack(frame: Frame, target: ast.Tuple | ast.List, node: ast.Assign) -> None:
    if isinstance(node.value, ast.Tuple):
        values: tuple[Value, ...] = tuple(lower(frame, v) for v in node.value.elts)
    elif isinstance(node.value, ast.Name) and (b := frame.env.get(node.value.id)) and b.items is not None:
        values = b.items
    else:
        raise frame.uncompilable("unpacking of this value is not compiled", node)
    if len(values) != len(target.elts) or any(isinstance(t, ast.Starred) for t in target.elts):
        raise frame.error(f"{len(values)} values for {len(target.elts)} names", node)
    copies = [copied(frame, v, node) for v in values]
    for element, value in zip(target.elts, copies, strict=True):
        _store(frame, element, value, node)


def _store(frame: Frame, target: ast.expr, value: Value, node: ast.AST) -> None:
    if isinstance(target, ast.Name):
        store_name(frame, target, value)
    elif isinstance(target, ast.Attribute):
        _store_field(frame, target, value, node)
    elif isinstance(target, ast.Subscript):
        _store_cell(frame, target, value, node)
    else:
        raise frame.error("this can't be assigned to", target)


def store_name(frame: Frame, target: ast.Name, value: Value) -> None:
    if frame.event is not None and target.id == frame.source.tree.args.args[0].arg:
        raise frame.error(f"the event {target.id} can't be replaced", target, "use another name")
    binding = frame.env.get(target.id)
    if binding is not None and binding.value is None:
        raise frame.error(f"{target.id} is a row or a tuple above and becomes a value", target, "use another name")
    frame.assign(target.id, value, target)


def _store_field(frame: Frame, target: ast.Attribute, value: Value, node: ast.AST) -> None:
    if is_event(frame, target.value):
        raise frame.error("events can't be changed", target, "keep the new value in a local variable")
    site = row_site(frame, target.value)
    if site is None:
        raise refuse_row(frame, target.value, target)
    field = table_field(frame, site, target.attr, target)
    if field.type.length:
        raise frame.error(
            f"array field {field.name} is assigned cell by cell", target, f"write {ast.unparse(target)}[i] = value"
        )
    _write(frame, site, field, value, node, None)


def _store_cell(frame: Frame, target: ast.Subscript, value: Value, node: ast.AST) -> None:
    table = table_of(frame, target.value)
    if table is not None:
        name = table.schema.name
        raise frame.error(
            f"{name}[…] = … is not supported", target, f"assign its fields one by one: {name}[key].field = value"
        )
    place = array_place(frame, target)
    if place is None:
        raise frame.uncompilable("this subscript assignment is not compiled", target)
    site, field, index = place
    item = Field(field.name, Type(field.type.base))
    value = converted(frame, item, value, node)  # before the index is looked at, as Python does it
    _write(frame, site, item, value, node, checked_index(frame, target, field, index))


def _write(frame: Frame, site: int, field: Field, value: Value, node: ast.AST, index: Value | None) -> None:
    if frame.row_table is not None:
        raise frame.error("a check only looks at its row", node, "write to tables in functions bound with @app.on")
    value = converted(frame, field, value, node)
    frame.sites[site].writes = True
    frame.emit(ir.Store(getattr(node, "lineno", 0), site, field.name, value, index.text if index else None))


def converted(frame: Frame, field: Field, value: Value, node: ast.AST) -> Value:
    """The value as this field holds it; a null aborts."""
    value = frame.not_null(value, node)
    want = seen_as(field.type)
    if (value.base, want) == ("bool", "int"):
        value = frame.let(node, f"int({value.text})", value.names, "int")
    elif want == "float" and value.base in ("int", "bool"):
        value = to_float(frame, value, node)
    elif value.base != want:
        remedy = (
            "convert with int(…), round(…) or math.floor(…)"
            if (value.base, want) == ("float", "int")
            else "convert it first"
        )
        raise frame.error(f"field {field.name} is {field.type}, the value is {value.base}", node, remedy)
    return value


@statement(ast.AugAssign)
def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    target: Any = node.target
    if isinstance(target, ast.Name):
        old = lower(frame, ast.copy_location(ast.Name(target.id, ast.Load()), target))
        new = arithmetic(frame, node.op, old, lower(frame, node.value), node)
        store_name(frame, target, new)
        return
    if isinstance(target, ast.Attribute) and not is_event(frame, target.value):
        site = row_site(frame, target.value)
        if site is not None:
            field = table_field(frame, site, target.attr, target)
            if not field.type.length:
                old = load(frame, site, field, node)
                new = arithmetic(frame, node.op, old, lower(frame, node.value), node)
                _write(frame, site, field, new, node, None)
                return
    if isinstance(target, ast.Subscript) and table_of(frame, target.value) is None:
        cell = array_cell(frame, target)
        if cell is not None:
            site, array, at = cell
            field = Field(array.name, Type(array.type.base))
            old = load(frame, site, field, node, at)
            new = arithmetic(frame, node.op, old, lower(frame, node.value), node)
            _write(frame, site, field, new, node, at)
            return
    _store(frame, target, Value("0", "int"), node)  # raises the error that fits the target


@statement(ast.Delete)
def _delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Subscript) or table_of(frame, target.value) is None:
            raise frame.error("only rows can be deleted", target, "write del T[key]")
        site = row_site(frame, target)
        assert site is not None
        frame.sites[site].writes = True
        frame.emit(ir.Delete(node.lineno, site))
