"""Arithmetic: checked where Python would leave 64 bits or raise."""

from __future__ import annotations

import ast

from mainstem.lang import ir
from mainstem.lang.dispatch import expression, lower
from mainstem.lang.frame import Frame
from mainstem.lang.ir import Value
from mainstem.lang.values import literal

NUMERIC = ("int", "float", "bool")
_INT_CALLS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
              ast.Div: "truediv", ast.LShift: "lshift", ast.RShift: "rshift"}  # fmt: skip
_FLOAT_CALLS = {ast.Div: "float_div", ast.FloorDiv: "float_floordiv", ast.Mod: "float_mod"}
_FLOAT_SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_BIT_SYMBOLS = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}


@expression(ast.BinOp)
def _binary(frame: Frame, node: ast.BinOp) -> Value:
    left = lower(frame, node.left)
    right = lower(frame, node.right)
    return arithmetic(frame, node.op, left, right, node)


def arithmetic(frame: Frame, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    left, right = frame.not_null(left, node), frame.not_null(right, node)
    for value in (left, right):
        if value.base not in NUMERIC:
            raise frame.uncompilable(f"{type(op).__name__} on {value.base} is not compiled", node)
    if "bool" in (left.base, right.base) and not (left.base == right.base and type(op) in _BIT_SYMBOLS):
        raise frame.error("arithmetic on a bool", node, "write int(flag), or a conditional expression")
    if isinstance(op, ast.Pow):
        return _power(frame, left, right, node)
    if "float" in (left.base, right.base):
        return _float_arithmetic(frame, op, left, right, node)
    return _int_arithmetic(frame, op, left, right, node)


def _int_arithmetic(frame: Frame, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    symbol = _BIT_SYMBOLS.get(type(op))
    if symbol is not None:
        return frame.let(node, f"{left.text} {symbol} {right.text}", left.names + right.names, left.base)
    call = _INT_CALLS.get(type(op))
    if call is None:
        raise frame.uncompilable(f"operator {type(op).__name__} is not compiled", node)
    return frame.checked(node, call, (left, right), "float" if call == "truediv" else "int")


def _float_arithmetic(frame: Frame, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Value:
    a, b = to_float(frame, left, node), to_float(frame, right, node)
    symbol = _FLOAT_SYMBOLS.get(type(op))
    if symbol is not None:
        return frame.let(node, f"{a.text} {symbol} {b.text}", a.names + b.names, "float")
    call = _FLOAT_CALLS.get(type(op))
    if call is None:
        raise frame.error(f"operator {type(op).__name__} does not work on floats", node, "convert with int(…)")
    return frame.checked(node, call, (a, b), "float")


def _power(frame: Frame, left: Value, right: Value, node: ast.AST) -> Value:
    exponent = right.constant
    remedy = "write math.pow(x, y) for other powers"
    if not isinstance(exponent, int) or isinstance(exponent, bool):
        raise frame.error("** needs a constant integer exponent", node, remedy)
    if left.base == "float":
        return frame.checked(node, "float_power", (left, right), "float")
    if exponent < 0:
        raise frame.error("an int with a negative exponent is a float in Python", node, remedy)
    return frame.checked(node, "int_power", (left, right), "int")


def to_int(frame: Frame, value: Value, node: ast.AST) -> Value:
    if value.base != "bool":
        return value
    if value.constant is not ir.NOT_CONSTANT:
        return Value(str(int(value.constant)), "int", constant=int(value.constant))
    return frame.let(node, f"int({value.text})", value.names, "int")


def to_float(frame: Frame, value: Value, node: ast.AST) -> Value:
    if value.base == "float":
        return value
    return frame.let(node, f"float({value.text})", value.names, "float")


@expression(ast.UnaryOp)
def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        from mainstem.lang.logic import condition  # logic builds on this module

        return condition(frame, node)
    if (
        isinstance(node.op, ast.USub)
        and isinstance(node.operand, ast.Constant)
        and isinstance(node.operand.value, int | float)
        and not isinstance(node.operand.value, bool)
    ):
        return literal(frame, -node.operand.value, node)
    value = frame.not_null(lower(frame, node.operand), node)
    if value.base not in NUMERIC:
        raise frame.uncompilable(f"unary operator on {value.base} is not compiled", node)
    if value.base == "float":
        if isinstance(node.op, ast.Invert):
            raise frame.error("~ does not work on floats", node, "convert with int(…)")
        return value if isinstance(node.op, ast.UAdd) else frame.let(node, f"-{value.text}", value.names, "float")
    if value.base == "bool":
        raise frame.error("arithmetic on a bool", node, "write int(flag), or `not flag`")
    if isinstance(node.op, ast.USub):
        return frame.checked(node, "neg", (value,), "int")
    return value if isinstance(node.op, ast.UAdd) else frame.let(node, f"~{value.text}", value.names, "int")


def integer(frame: Frame, node: ast.expr) -> Value:
    value = frame.not_null(lower(frame, node), node)
    if value.base == "bool":
        return frame.let(node, f"int({value.text})", value.names, "int")
    if value.base != "int":
        raise frame.error(f"an int is needed here, this is {value.base}", node, "convert with int(…)")
    return value
