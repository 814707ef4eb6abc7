"""Calls inside expressions: built-ins, `math`, and users' pure helper functions."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import types
from typing import Any

from mainstem.lang import ir, mathlib, runtime
from mainstem.lang.dispatch import expression, lower
from mainstem.lang.frame import Frame, Helper
from mainstem.lang.history import History
from mainstem.lang.ir import Value
from mainstem.lang.logic import condition
from mainstem.lang.rows import row_site, table_field
from mainstem.lang.source import source_of
from mainstem.lang.values import list_field, list_length
from mainstem.lang.windows import row_call


@expression(ast.Call)
def lower_call(frame: Frame, node: ast.Call) -> Value:
    found = row_call(frame, node)
    if found is not None:
        return found
    target = callee(frame, node.func)
    if target in (runtime.require, runtime.abort):
        raise frame.error(f"ms.{target.__name__} has no value", node, "call it on a line of its own")
    if isinstance(target, types.FunctionType):
        return _helper(frame, node, target)
    special = _BUILTINS.get(target) if target.__hash__ is not None else None
    if special is None:
        raise frame.uncompilable(f"a call of {ast.unparse(node.func)} is not compiled", node)
    if node.keywords:
        raise frame.uncompilable("keyword arguments of built-in functions are not compiled", node)
    return special(frame, node)


def callee(frame: Frame, node: ast.expr) -> Any:
    """The object that is called."""
    if isinstance(node, ast.Name):
        if node.id in frame.env or node.id in frame.assigned:
            raise frame.error(f"{node.id} is a local value and can't be called", node)
        if node.id in frame.source.scope:
            return frame.source.scope[node.id]
        if hasattr(builtins, node.id):
            return getattr(builtins, node.id)
        raise frame.error(
            f"name {node.id!r} is not defined", node, "define it before the program runs, or check the spelling"
        )
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id not in frame.env:
        owner = frame.source.scope.get(node.value.id)
        if isinstance(owner, types.ModuleType):
            if not hasattr(owner, node.attr):
                raise frame.error(f"module {node.value.id} has no {node.attr!r}", node)
            return getattr(owner, node.attr)
        if isinstance(owner, runtime.Table):
            remedy = "use T[key].field, `key in T` and `del T[key]`"
            if isinstance(owner, History):
                remedy = f"write {node.value.id}[key].{node.attr}(…)"
            raise frame.error(f"tables have no method {node.attr!r}", node, remedy)
    raise frame.uncompilable(f"a call of {ast.unparse(node)} is not compiled", node)


def _arguments(frame: Frame, node: ast.Call, count: tuple[int, ...]) -> list[Value]:
    if len(node.args) not in count:
        raise frame.uncompilable(f"{ast.unparse(node.func)} with {len(node.args)} arguments is not compiled", node)
    values = [lower(frame, a) for a in node.args]  # all of them before the first is looked at, as Python does
    return [frame.not_null(v, a) for v, a in zip(values, node.args, strict=True)]


def _as_float(frame: Frame, value: Value, node: ast.AST) -> Value:
    if value.base not in ("int", "float", "bool"):
        raise frame.error(f"a number is needed here, this is {value.base}", node)
    return value if value.base == "float" else frame.let(node, f"float({value.text})", value.names, "float")


def _as_int(frame: Frame, value: Value, node: ast.AST) -> Value:
    return value if value.base != "bool" else frame.let(node, f"int({value.text})", value.names, "int")


# -- built-ins -----------------------------------------------------------------------------------------------------


def _abs(frame: Frame, node: ast.Call) -> Value:
    (value,) = _arguments(frame, node, (1,))
    if value.base == "float":
        return frame.let(node, f"abs({value.text})", value.names, "float")
    if value.base != "int":
        raise frame.error(f"abs of {value.base}", node, "abs takes an int or a float")
    return frame.checked(node, "absolute", (value,), "int")


def _extreme(sign: str) -> Any:
    def lower_extreme(frame: Frame, node: ast.Call) -> Value:
        if len(node.args) < 2:
            raise frame.uncompilable("min/max of one argument is not compiled", node)
        values = _arguments(frame, node, (len(node.args),))
        bases = {v.base for v in values}
        if len(bases) > 1 or not bases <= {"int", "float"}:
            raise frame.error(
                f"{ast.unparse(node.func)} of {' and '.join(sorted(bases))}",
                node,
                "give all arguments one number type, e.g. 0.0 for 0",
            )
        best = values[0]
        for value in values[1:]:
            # As CPython: a later one wins only when it is strictly better, also beside nan.
            text = f"{value.text} if {value.text} {sign} {best.text} else {best.text}"
            best = frame.let(node, text, value.names + best.names, best.base)
        return best

    return lower_extreme


def _len(frame: Frame, node: ast.Call) -> Value:
    if len(node.args) == 1:
        argument = node.args[0]
        field = list_field(frame, argument)
        if field is not None:
            return list_length(frame, argument, field)
        if isinstance(argument, ast.Attribute):
            site = row_site(frame, argument.value)
            if site is not None and (length := table_field(frame, site, argument.attr, node).type.length):
                return Value(str(length), "int", constant=length)
    raise frame.uncompilable("len is compiled for event lists and array fields only", node)


def _round(frame: Frame, node: ast.Call) -> Value:
    (value,) = _arguments(frame, node, (1,))
    if value.base == "float":
        return frame.checked(node, "round_int", (value,), "int")
    if value.base != "int":
        raise frame.error(f"round of {value.base}", node, "round takes an int or a float")
    return value


def _int(frame: Frame, node: ast.Call) -> Value:
    (value,) = _arguments(frame, node, (1,))
    if value.base == "float":
        return frame.checked(node, "to_int", (value,), "int")
    if value.base not in ("int", "bool"):
        raise frame.uncompilable(f"int of {value.base} is not compiled", node)
    return _as_int(frame, value, node)


def _float(frame: Frame, node: ast.Call) -> Value:
    (value,) = _arguments(frame, node, (1,))
    if value.base not in ("int", "float", "bool"):
        raise frame.uncompilable(f"float of {value.base} is not compiled", node)
    return _as_float(frame, value, node)


def _bool(frame: Frame, node: ast.Call) -> Value:
    if len(node.args) != 1:
        raise frame.uncompilable("bool takes one argument", node)
    return condition(frame, node.args[0])


# -- math ----------------------------------------------------------------------------------------------------------


def _math_checked(call: str, arity: int, result: str = "float") -> Any:
    def lower_math(frame: Frame, node: ast.Call) -> Value:
        values = _arguments(frame, node, (arity,))
        return frame.checked(node, call, tuple(_as_float(frame, v, node) for v in values), result)

    return lower_math


def _math_to_int(call: str) -> Any:
    def lower_math(frame: Frame, node: ast.Call) -> Value:
        (value,) = _arguments(frame, node, (1,))
        if value.base == "int":
            return value
        return frame.checked(node, call, (_as_float(frame, value, node),), "int")

    return lower_math


def _math_plain(name: str, arity: int, result: str) -> Any:
    def lower_math(frame: Frame, node: ast.Call) -> Value:
        values = [_as_float(frame, v, node) for v in _arguments(frame, node, (arity,))]
        names = tuple(n for v in values for n in v.names)
        return frame.let(node, f"math.{name}({', '.join(v.text for v in values)})", names, result)

    return lower_math


_BUILTINS: dict[Any, Any] = {
    abs: _abs, min: _extreme("<"), max: _extreme(">"), len: _len, round: _round, int: _int, float: _float, bool: _bool,
    math.floor: _math_to_int("floor_int"), math.ceil: _math_to_int("ceil_int"), math.trunc: _math_to_int("to_int"),
    math.pow: _math_checked("math_pow", 2), math.fmod: _math_checked("math_fmod", 2),
    **{getattr(math, n): _math_checked(f"math_{n}", 1) for n in mathlib.FUNCTIONS},
    **{getattr(math, n): _math_plain(n, arity, "float") for n, arity in mathlib.PLAIN.items()},
    **{getattr(math, n): _math_plain(n, 1, "bool") for n in mathlib.PREDICATES},
}  # fmt: skip


# -- helpers -------------------------------------------------------------------------------------------------------


def _helper(frame: Frame, node: ast.Call, function: types.FunctionType) -> Value:
    values = _bind(frame, node, function)
    shapes = tuple((v.base, v.null is not None) for v in values)
    key = (function, shapes)
    helper = frame.shared.helpers.get(key)
    if helper is None:
        if function in frame.shared.lowering:
            raise frame.error(f"{function.__name__} calls itself", node, "write it as a loop")
        helper = _lower_helper(frame, function, shapes)
        frame.shared.helpers[key] = helper
    # A value that may be null travels with its flag.
    flags = [Value(v.null, "bool") for v in values if v.null is not None]
    arguments = (*(Value(v.text, v.base) for v in values), *flags)
    turns = [a.names for a, name in zip(arguments, helper.parameters, strict=True) if name in helper.turns]
    return frame.checked(node, helper.name, arguments, helper.result, tuple(n for names in turns for n in names))


def _bind(frame: Frame, node: ast.Call, function: types.FunctionType) -> list[Value]:
    """Arguments in the order of the helper's parameters, defaults filled in."""
    signature = inspect.signature(function)
    if any(p.kind not in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY) for p in signature.parameters.values()):
        raise frame.uncompilable(f"{function.__name__} takes * or keyword-only arguments", node)
    if any(k.arg is None for k in node.keywords) or any(isinstance(a, ast.Starred) for a in node.args):
        raise frame.uncompilable("* in calls is not compiled", node)
    try:
        bound = signature.bind(*node.args, **{str(k.arg): k.value for k in node.keywords})
    except TypeError as error:
        raise frame.error(f"{function.__name__}: {error}", node) from error
    values = []
    for name, parameter in signature.parameters.items():
        if name in bound.arguments:
            value = lower(frame, bound.arguments[name])
        else:
            value = lower(frame, ast.copy_location(ast.Constant(parameter.default), node))
        if value.base == "none":
            raise frame.uncompilable(f"None is passed to {function.__name__}", node)
        values.append(value)
    return values


def _lower_helper(frame: Frame, function: types.FunctionType, shapes: tuple[tuple[str, bool], ...]) -> Helper:
    from mainstem.lang import statements  # statements imports this module

    frame.shared.lowering.append(function)
    try:
        inner = Frame(source_of(function), frame.shared)
        name = f"h{len(frame.shared.helpers)}_{function.__name__}"
        return statements.lower_helper(inner, name, shapes)
    finally:
        frame.shared.lowering.pop()


def result_base(block: ir.Block) -> set[str]:
    return {s.value.base for s in ir.walk(block) if isinstance(s, ir.Finish)}
