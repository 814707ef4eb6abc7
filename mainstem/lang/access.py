"""Attributes and subscripts: fields of events and rows, cells of arrays, items of lists."""

from __future__ import annotations

import ast
import math
import types

from mainstem.lang import mathlib
from mainstem.lang.dispatch import expression
from mainstem.lang.frame import Frame
from mainstem.lang.ir import Value
from mainstem.lang.operators import integer
from mainstem.lang.rows import array_cell, load, row_site, row_value, table_of
from mainstem.lang.runtime import Table
from mainstem.lang.values import event_value, global_value, is_event, list_field, list_item, list_length, literal
from mainstem.schema import Field, Type


@expression(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    if is_event(frame, node.value):
        return event_value(frame, node)
    site = row_site(frame, node.value)
    if site is not None:
        return row_value(frame, node, site)
    if isinstance(node.value, ast.Name) and node.value.id not in frame.env:
        owner = global_value(frame, node.value)
        if isinstance(owner, Table):
            raise frame.error(
                f"{owner.schema.name}.{node.attr} has no key", node, f"write {owner.schema.name}[key].{node.attr}"
            )
        if owner is math and node.attr in mathlib.CONSTANTS:
            return literal(frame, mathlib.CONSTANTS[node.attr], node)
        if isinstance(owner, types.ModuleType) and hasattr(owner, node.attr):
            return literal(frame, getattr(owner, node.attr), node)
    raise frame.uncompilable(f"attribute {node.attr!r} is not compiled", node)


@expression(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    if table_of(frame, node.value) is not None:
        raise frame.error("a row has no value of its own", node, "use one of its fields: T[key].field")
    field = list_field(frame, node.value)
    if field is not None:
        length = list_length(frame, node.value, field)
        at = frame.checked(node, "index_in", (integer(frame, node.slice), length), "int")
        return list_item(frame, node, field, at)
    if isinstance(node.value, ast.Name) and (binding := frame.env.get(node.value.id)) and binding.items:
        if (
            isinstance(node.slice, ast.Constant)
            and isinstance(node.slice.value, int)
            and -len(binding.items) <= node.slice.value < len(binding.items)
        ):
            return binding.items[node.slice.value]
    cell = array_cell(frame, node)
    if cell is None:
        raise frame.uncompilable("this subscript is not compiled", node)
    site, cell_field, at = cell
    return load(frame, site, Field(cell_field.name, Type(cell_field.type.base)), node, at)
