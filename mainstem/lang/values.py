"""Leaves of expressions: constants, names, and the event's fields."""

from __future__ import annotations

import ast
import builtins
import math
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang import ir
from mainstem.lang.dispatch import expression
from mainstem.lang.frame import Frame
from mainstem.lang.ir import Value
from mainstem.schema import INT64_MAX, INT64_MIN, Field, Type

# A field's base as functions see it: timestamps are integers.
_SEEN_AS = {"datetime": "int"}


def seen_as(type_: Type) -> str:
    return _SEEN_AS.get(type_.base, type_.base)


@expression(ast.Constant)
def _constant(frame: Frame, node: ast.Constant) -> Value:
    return literal(frame, node.value, node)


def literal(frame: Frame, value: Any, node: ast.AST) -> Value:
    if value is None:
        return Value("0", "none", "True", None)
    if isinstance(value, bool):
        return Value(str(value), "bool", constant=value)
    if isinstance(value, int):
        if not INT64_MIN <= value <= INT64_MAX:
            raise frame.error(f"{value} does not fit in 64 bits", node, "use a smaller constant")
        # The smallest integer has no literal of its own: -(2**63) would be a negated overflow.
        text = "(-9223372036854775807 - 1)" if value == INT64_MIN else f"({value})" if value < 0 else str(value)
        return Value(text, "int", constant=int(value))
    if isinstance(value, float):
        return Value(float_text(value), "float", constant=value)
    if isinstance(value, str | bytes):
        return frame.shared.string(value)
    raise frame.uncompilable(f"a value of type {type(value).__name__} is not compiled", node)


def float_text(value: float) -> str:
    if math.isnan(value):
        return "math.nan"
    if math.isinf(value):
        return "math.inf" if value > 0 else "(-math.inf)"
    return f"({value!r})"


@expression(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Value:
    binding = frame.env.get(node.id)
    if binding is not None:
        if binding.value is None:
            kind = "a row" if binding.site is not None else "a tuple"
            raise frame.error(
                f"{node.id} is {kind} and has no value of its own", node, "use one of its fields or items"
            )
        return binding.value
    if node.id in frame.assigned:
        raise unset_name(frame, node)
    return literal(frame, global_value(frame, node), node)


def unset_name(frame: Frame, node: ast.Name) -> ProgramError:
    return frame.error(
        f"{node.id} may have no value here, or stands for different rows in different branches",
        node,
        "give it a value on every path before this line (rows: choose the key, not the row, in the branches)",
    )


def global_value(frame: Frame, node: ast.Name) -> Any:
    if node.id in frame.source.scope:
        return frame.source.scope[node.id]
    builtin = getattr(builtins, node.id, None)
    if builtin is None:
        raise frame.error(
            f"name {node.id!r} is not defined", node, "define it before the program runs, or check the spelling"
        )
    return builtin


def is_event(frame: Frame, node: ast.expr) -> bool:
    return (
        frame.event is not None
        and isinstance(node, ast.Name)
        and node.id == frame.source.tree.args.args[0].arg
        and node.id not in frame.assigned
    )


def event_field(frame: Frame, node: ast.Attribute) -> Field:
    assert frame.event is not None
    if node.attr == "ts":
        return Field("ts", Type("int"))
    field = frame.event.field(node.attr)
    if field is None:
        names = ", ".join(["ts", *(f.name for f in frame.event.fields + frame.event.derived)])
        raise frame.error(f"event {frame.event.name} has no field {node.attr!r}", node, f"its fields are: {names}")
    return field


def list_field(frame: Frame, node: ast.expr) -> Field | None:
    """The list field of the event that `node` names, if it is one."""
    if isinstance(node, ast.Attribute) and is_event(frame, node.value):
        field = event_field(frame, node)
        return field if field.type.is_list else None
    return None


def list_length(frame: Frame, node: ast.expr, field: Field) -> Value:
    frame.used_fields[field.name] = field.type
    if field.type.nullable:
        frame.not_null(Value("0", "int", f"ne_{field.name}"), node)
    return frame.let(node, f"hi_{field.name} - lo_{field.name}", (), "int")


def list_item(frame: Frame, node: ast.expr, field: Field, index: Value) -> Value:
    name = frame.temporary()
    frame.emit(ir.Item(getattr(node, "lineno", 0), name, field.name, index, field.type.base == "bool"))
    return Value(name, seen_as(field.type))


def event_value(frame: Frame, node: ast.Attribute) -> Value:
    field = event_field(frame, node)
    if field.type.is_list:
        raise frame.uncompilable(f"list field {field.name} can be looped over, indexed and measured only", node)
    frame.used_fields[field.name] = field.type
    null = f"ne_{field.name}" if field.type.nullable and field.name not in frame.not_null_fields else None
    return Value(f"e_{field.name}", seen_as(field.type), null)
