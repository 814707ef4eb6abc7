"""Truth: comparisons, and/or/not, conditional expressions, and what a test tells about None."""

from __future__ import annotations

import ast
from typing import Any

from mainstem.lang import ir
from mainstem.lang.dispatch import expression, lower
from mainstem.lang.frame import Binding, Frame
from mainstem.lang.ir import Value
from mainstem.lang.operators import NUMERIC, to_int
from mainstem.lang.rows import site_of, table_of
from mainstem.lang.values import is_event, list_field, list_item, list_length
from mainstem.schema import Field


def condition(frame: Frame, node: ast.expr) -> Value:
    """The truth of `node` as a bool operand."""
    if isinstance(node, ast.BoolOp):
        with frame.scope():
            return _short_circuit(frame, node, [lambda i=i: _link(frame, node, i) for i in range(len(node.values))])
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        inner = condition(frame, node.operand)
        return frame.let(node, f"not {inner.text}", inner.names, "bool")
    if isinstance(node, ast.Attribute) and (field := list_field(frame, node)) is not None:
        length = list_length(frame, node, field)
        return frame.let(node, f"{length.text} != 0", length.names, "bool")
    return truth(frame, lower(frame, node), node)


def _link(frame: Frame, node: ast.BoolOp, index: int) -> Value:
    """One part of and/or; what the part before it tells about None is known here."""
    if index:
        narrow(frame, narrowings(node.values[index - 1])[0 if isinstance(node.op, ast.And) else 1])
    return condition(frame, node.values[index])


def truth(frame: Frame, value: Value, node: ast.AST) -> Value:
    if value.base == "none":
        return Value("False", "bool")
    if value.base == "bool":
        plain = Value(value.text, "bool")
    else:
        # The empty string has code 0, so one test serves numbers and strings.
        plain = frame.let(node, f"{value.text} != {'0.0' if value.base == 'float' else '0'}", value.names[:1], "bool")
    if value.null is None:
        return plain
    return frame.let(node, f"(not {value.null}) and {plain.text}", plain.names + (value.null,), "bool")


_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


@expression(ast.Compare)
def _compare(frame: Frame, node: ast.Compare) -> Value:
    if len(node.ops) == 1:
        if isinstance(node.ops[0], ast.In | ast.NotIn):
            return _membership(frame, node)
        left = lower(frame, node.left)
        return comparison(frame, node.ops[0], left, lower(frame, node.comparators[0]), node)
    carried: list[Value] = [lower(frame, node.left)]

    def step(op: ast.cmpop, right: ast.expr) -> Value:
        value = lower(frame, right)
        left, carried[0] = carried[0], value
        return comparison(frame, op, left, value, node)

    links = [lambda op=op, right=right: step(op, right) for op, right in zip(node.ops, node.comparators, strict=True)]
    return _chain(frame, node, links)


def _chain(frame: Frame, node: ast.AST, links: list[Any], stop_on: str = "") -> Value:
    """Evaluates links one after the other while they hold (`stop_on=""`) or until one holds (`"not "`)."""
    result = frame.temporary()
    line = getattr(node, "lineno", 0)
    first = links[0]()
    frame.emit(ir.Let(line, result, first.text, first.names))
    for link in links[1:]:
        guard = Value(result, "bool") if not stop_on else frame.let(node, f"not {result}", (result,), "bool")
        inner: ir.Block = []
        with frame.into(inner):
            value = link()
            frame.emit(ir.Let(line, result, value.text, value.names))
        frame.emit(ir.If(line, guard, inner, []))
    return Value(result, "bool")


def comparison(frame: Frame, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    if isinstance(op, ast.Is | ast.IsNot):
        return _is_null(frame, op, left, right, node)
    if isinstance(op, ast.Eq | ast.NotEq):
        same = _equal(frame, left, right, node)
        return same if isinstance(op, ast.Eq) else frame.let(node, f"not {same.text}", same.names, "bool")
    if type(op) not in _ORDER:
        raise frame.uncompilable(f"comparison {type(op).__name__} is not compiled", node)
    left, right = frame.not_null(left, node), frame.not_null(right, node)
    if (left.base in NUMERIC) != (right.base in NUMERIC):
        raise frame.error(f"{left.base} and {right.base} have no order", node, "compare values of one type")
    if left.base not in NUMERIC:
        raise frame.uncompilable(f"ordering of {left.base} and {right.base} is not compiled", node)
    return _ordered(frame, op, left, right, node)


def _ordered(frame: Frame, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    if (left.base == "float") == (right.base == "float"):
        a, b = (left, right) if left.base == "float" else (to_int(frame, left, node), to_int(frame, right, node))
        return frame.let(node, f"{a.text} {_ORDER[type(op)]} {b.text}", a.names + b.names, "bool")
    # An integer beside a float: compared exactly, as Python does; a <= b is "a < b or a == b".
    if isinstance(op, ast.Gt | ast.GtE):
        left, right = right, left
    a, b = to_int(frame, left, node), to_int(frame, right, node)
    less = "less_float_int" if a.base == "float" else "less_int_float"
    text = f"{less}({a.text}, {b.text})"
    if isinstance(op, ast.LtE | ast.GtE):
        whole, real = (b, a) if a.base == "float" else (a, b)
        text += f" or equal_int_float({whole.text}, {real.text})"
    return frame.let(node, text, a.names + b.names, "bool")


def _equal(frame: Frame, left: Value, right: Value, node: ast.AST) -> Value:
    if "none" in (left.base, right.base):
        return _is_null(frame, ast.Is(), left, right, node)
    numeric = left.base in NUMERIC, right.base in NUMERIC
    if not all(numeric):
        if left.base != right.base:
            raise frame.error(f"{left.base} and {right.base} are never equal", node, "compare values of one type")
        plain = frame.let(node, f"{left.text} == {right.text}", left.names[:1] + right.names[:1], "bool")
    else:
        plain = _equal_numbers(frame, Value(left.text, left.base), Value(right.text, right.base), node)
    flags = [n for n in (left.null, right.null) if n is not None]
    if not flags:
        return plain
    text = f"(not {flags[0]}) and {plain.text}"
    if len(flags) == 2:
        text = f"({flags[0]} and {flags[1]}) or ((not {flags[0]}) and (not {flags[1]}) and {plain.text})"
    return frame.let(node, text, plain.names + tuple(flags), "bool")


def _equal_numbers(frame: Frame, left: Value, right: Value, node: ast.AST) -> Value:
    if (left.base == "float") == (right.base == "float"):
        a, b = (left, right) if left.base == "float" else (to_int(frame, left, node), to_int(frame, right, node))
        return frame.let(node, f"{a.text} == {b.text}", a.names + b.names, "bool")
    whole, real = (right, left) if left.base == "float" else (left, right)
    whole = to_int(frame, whole, node)
    return frame.let(node, f"equal_int_float({whole.text}, {real.text})", whole.names + real.names, "bool")


def _is_null(frame: Frame, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Value:
    if left.base != "none" and right.base != "none":
        raise frame.error("`is` compares with None only", node, "use == to compare values")
    tested = left if right.base == "none" else right
    flag = tested.null or "False"
    if isinstance(op, ast.Is | ast.Eq):
        return Value(flag, "bool")
    return frame.let(node, f"not {flag}", (flag,) if flag not in ("True", "False") else (), "bool")


def _membership(frame: Frame, node: ast.Compare) -> Value:
    container = node.comparators[0]
    table = table_of(frame, container)
    if table is not None:
        site = site_of(frame, table, node.left, node)
        frame.sites[site].reads = True
        name = frame.temporary()
        frame.emit(ir.Exists(node.lineno, name, site))
        found = Value(name, "bool")
    elif isinstance(container, ast.Tuple | ast.List | ast.Set) and container.elts:
        # Python computes all items before it compares: one that aborts does so whatever is found before it.
        left, *items = [lower(frame, n) for n in (node.left, *container.elts)]
        found = _chain(frame, node, [lambda v=v: comparison(frame, ast.Eq(), left, v, node) for v in items], "not ")
    elif (field := list_field(frame, container)) is not None:
        found = _list_membership(frame, node, container, field)
    else:
        raise frame.uncompilable("this membership test is not compiled", node)
    if isinstance(node.ops[0], ast.In):
        return found
    return frame.let(node, f"not {found.text}", found.names, "bool")


def _list_membership(frame: Frame, node: ast.Compare, container: ast.expr, field: Field) -> Value:
    left = lower(frame, node.left)
    length = list_length(frame, container, field)
    result, variable = frame.temporary(), frame.temporary()
    frame.emit(ir.Let(node.lineno, result, "False", ()))
    body: ir.Block = []
    with frame.into(body):
        same = _equal(frame, left, list_item(frame, container, field, Value(variable, "int")), node)
        frame.emit(ir.If(node.lineno, same, [ir.Let(node.lineno, result, "True", ()), ir.Break(node.lineno)], []))
    frame.emit(ir.For(node.lineno, variable, Value("0", "int"), length, 1, body))
    return Value(result, "bool")


@expression(ast.BoolOp)
def _boolean(frame: Frame, node: ast.BoolOp) -> Value:
    """`and` / `or` as a value: in Python the operand that decided, so all must be of one type."""
    result, flag = frame.temporary(), frame.temporary()
    base = "none"
    nullable = False
    outer = frame.block
    with frame.scope():
        for i, operand in enumerate(node.values):
            inner: ir.Block = []
            with frame.into(inner):
                if i:
                    narrow(frame, narrowings(node.values[i - 1])[0 if isinstance(node.op, ast.And) else 1])
                value = lower(frame, operand)
                if base not in ("none", value.base) and value.base != "none":
                    raise frame.uncompilable(
                        "and/or of values of different types is not compiled outside conditions", node
                    )
                base = value.base if value.base != "none" else base
                nullable = nullable or value.null is not None
                frame.emit(
                    ir.Let(node.lineno, result, value.text, value.names[:1] if value.text.isidentifier() else ())
                )
                null = value.null or "False"
                frame.emit(ir.Let(node.lineno, flag, null, (null,) if null not in ("True", "False") else ()))
                if i < len(node.values) - 1:
                    held = truth(frame, Value(result, base, flag if nullable else None), node)
                    go_on = (
                        held
                        if isinstance(node.op, ast.And)
                        else frame.let(node, f"not {held.text}", held.names, "bool")
                    )
            # Each operand is computed inside the branch that the one before it opens.
            outer.extend(inner)
            if i < len(node.values) - 1:
                branch = ir.If(node.lineno, go_on, [], [])
                outer.append(branch)
                outer = branch.then
    return Value(result, base, flag if nullable else None)


def _short_circuit(frame: Frame, node: ast.BoolOp, parts: list[Any]) -> Value:
    return _chain(frame, node, parts, "" if isinstance(node.op, ast.And) else "not ")


@expression(ast.IfExp)
def _conditional(frame: Frame, node: ast.IfExp) -> Value:
    test = condition(frame, node.test)
    result, flag = frame.temporary(), frame.temporary()
    arms: list[tuple[ir.Block, Value]] = []
    for arm, known in zip((node.body, node.orelse), narrowings(node.test), strict=True):
        block: ir.Block = []
        with frame.into(block), frame.scope():
            narrow(frame, known)
            arms.append((block, lower(frame, arm)))
    bases = {v.base for _, v in arms} - {"none"}
    if len(bases) > 1:
        raise frame.error(
            f"the two arms of this expression are {' and '.join(sorted(bases))}",
            node,
            "give both one type, e.g. 0.0 for 0",
        )
    nullable = any(v.null for _, v in arms)
    for block, value in arms:
        block.append(ir.Let(node.lineno, result, value.text, value.names[:1] if value.text.isidentifier() else ()))
        if nullable:
            null = value.null or "False"
            block.append(ir.Let(node.lineno, flag, null, (null,) if null not in ("True", "False") else ()))
    frame.emit(ir.If(node.lineno, test, arms[0][0], arms[1][0]))
    return Value(result, next(iter(bases), "none"), flag if nullable else None)


def narrowings(test: ast.expr) -> tuple[list[ast.expr], list[ast.expr]]:
    """What is known not to be None when `test` holds, and when it does not."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.comparators[0], ast.Constant):
        if test.comparators[0].value is None:
            if isinstance(test.ops[0], ast.IsNot | ast.NotEq):
                return [test.left], []
            if isinstance(test.ops[0], ast.Is | ast.Eq):
                return [], [test.left]
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        held, broken = narrowings(test.operand)
        return broken, held
    if isinstance(test, ast.BoolOp):
        parts = [narrowings(value) for value in test.values]
        if isinstance(test.op, ast.And):
            return [n for held, _ in parts for n in held], []
        return [], [n for _, broken in parts for n in broken]
    return [], []


def narrow(frame: Frame, known: list[ast.expr]) -> None:
    """From here on these names and event fields are not None."""
    for node in known:
        if isinstance(node, ast.Attribute) and is_event(frame, node.value):
            frame.not_null_fields.add(node.attr)
        elif isinstance(node, ast.Name) and node.id in frame.env:
            value = frame.env[node.id].value
            if value is not None and value.base != "none":
                frame.env[node.id] = Binding(value=Value(value.text, value.base))
