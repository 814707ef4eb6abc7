"""Bodies of functions, helpers and checks: blocks, branches, aborts and returns."""

from __future__ import annotations

import ast
from typing import Any

from mainstem.lang import access, assign, calls, ir, loops, runtime  # noqa: F401  (they register what they lower)
from mainstem.lang.dispatch import lower, lower_statements, statement
from mainstem.lang.flow import Flow, loops_by_state
from mainstem.lang.frame import Binding, Frame, Helper
from mainstem.lang.ir import Value
from mainstem.lang.logic import condition, narrow, narrowings
from mainstem.lang.values import global_value
from mainstem.lang.windows import row_call


def lower_body(frame: Frame) -> ir.Block:
    """The block of a function bound to an event."""
    lower_statements(frame, frame.source.tree.body)
    if frame.reachable:
        frame.emit(ir.Return(frame.source.tree.lineno, 0))
    return frame.block


def lower_helper(frame: Frame, name: str, shapes: tuple[tuple[str, bool], ...]) -> Helper:
    """The block of a pure function of values, given the base of each argument and whether it may be null."""
    parameters = [a.arg for a in frame.source.tree.args.args]
    flags = []
    for parameter, (base, nullable) in zip(parameters, shapes, strict=True):
        frame.types[parameter] = (base, frame.source.tree.lineno)
        flag = f"ln_{parameter}" if nullable else None
        frame.env[parameter] = Binding(value=Value(f"l_{parameter}", base, flag))
        if flag is not None:
            frame.nullable_names.add(parameter)
            flags.append(flag)
    block = _value_block(frame)
    (result,) = calls.result_base(block)
    names = (*(f"l_{p}" for p in parameters), *flags)
    return Helper(name, names, block, result, frozenset(n for n in names if loops_by_state(block, Flow(block, {n}))))


def lower_check(frame: Frame) -> ir.Block:
    """The block of a check: a truth about one row, which is site 0 of the frame."""
    arguments = frame.source.tree.args.args
    if len(arguments) != 1 or frame.row_table is None:
        raise frame.error("a check takes one parameter, the row", None, f"write def {frame.source.name}(row):")
    frame.sites.append(ir.Site(0, frame.row_table, arguments[0].arg, frame.source.tree.lineno, columns=()))
    frame.env[arguments[0].arg] = Binding(site=0)
    return _value_block(frame)


def _value_block(frame: Frame) -> ir.Block:
    """Lowers a body that must return a value of one type on every path."""
    lower_statements(frame, frame.source.tree.body)
    if frame.reachable:
        raise frame.error(f"{frame.source.name} may end without a return", None, "return a value on every path")
    bases = calls.result_base(frame.block)
    if len(bases) != 1:
        raise frame.error(
            f"{frame.source.name} returns {' and '.join(sorted(bases))}", None, "return one type on every path"
        )
    return frame.block


def _block(
    frame: Frame, nodes: list[ast.stmt], known: list[ast.expr] | None = None
) -> tuple[ir.Block, dict[str, Binding] | None]:
    """Lowers a nested block in which `known` are not None; gives what is known at its end, None when never reached."""
    block: ir.Block = []
    with frame.into(block), frame.scope():
        narrow(frame, known or [])
        lower_statements(frame, nodes)
        env = frame.env if frame.reachable else None
    frame.reachable = True
    return block, env


@statement(ast.If)
def _if(frame: Frame, node: ast.If) -> None:
    test = condition(frame, node.test)
    held, broken = narrowings(node.test)
    then, env_then = _block(frame, node.body, held)
    otherwise, env_else = _block(frame, node.orelse, broken)
    frame.emit(ir.If(node.lineno, test, then, otherwise))
    frame.join((env_then, then), (env_else, otherwise))
    if env_then is None or env_else is None:
        narrow(frame, broken if env_then is None else held)


@statement(ast.Pass)
def _pass(frame: Frame, node: ast.Pass) -> None:
    return None


@statement(ast.Expr)
def _expression(frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # a docstring or an ellipsis
    if isinstance(node.value, ast.Call):
        if row_call(frame, node.value, alone=True) is not None:
            return
        target = calls.callee(frame, node.value.func)
        if target is runtime.require:
            _require(frame, node.value)
            return
        if target is runtime.abort:
            code = _reason(frame, node.value, 0)
            frame.emit(ir.AbortIf(node.lineno, Value("True", "bool"), code))
            frame.reachable = False
            return
    if isinstance(node.value, ast.Yield | ast.YieldFrom | ast.Await):
        raise frame.error(
            "yield and await are not supported inside a function", node, "return one dict of output columns"
        )
    lower(frame, node.value)


def _require(frame: Frame, call: ast.Call) -> None:
    if frame.event is None:
        raise frame.error(
            "ms.require works in functions bound with @app.on only", call, "return a bool and require it there"
        )
    if len(call.args) != 2 or call.keywords:
        raise frame.error("ms.require takes a condition and a reason", call, 'write ms.require(condition, "reason")')
    held = condition(frame, call.args[0])
    broken = frame.let(call, f"not {held.text}", held.names, "bool")
    code = _reason(frame, call, 1)
    frame.emit(ir.AbortIf(call.lineno, broken, code, ast.unparse(call.args[0])))
    narrow(frame, narrowings(call.args[0])[0])


def _reason(frame: Frame, call: ast.Call, position: int) -> int:
    if frame.event is None:
        raise frame.error("ms.abort works in functions bound with @app.on only", call, "return a value and abort there")
    if len(call.args) != position + 1 or call.keywords:
        raise frame.error("a reason is missing", call, 'write ms.abort("reason")')
    node = call.args[position]
    value: Any = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name) and node.id not in frame.env and node.id not in frame.assigned:
        value = global_value(frame, node)
    if not isinstance(value, str):
        raise frame.error("a reason is a constant string", node, "use a plain text; return values in output columns")
    return frame.shared.reason(value)


@statement(ast.Return)
def _return(frame: Frame, node: ast.Return) -> None:
    if frame.event is None:
        if node.value is None:
            raise frame.error(f"{frame.source.name} returns nothing", node, "return a value")
        value = _returned_value(frame, node.value)
        frame.emit(ir.Finish(node.lineno, value))
    elif node.value is None or (isinstance(node.value, ast.Constant) and node.value.value is None):
        frame.emit(ir.Return(node.lineno, 0))
    else:
        _return_columns(frame, node.value, node)
    frame.reachable = False


def _returned_value(frame: Frame, node: ast.expr) -> Value:
    value = condition(frame, node) if frame.row_table is not None else lower(frame, node)
    if value.null is not None:
        raise frame.uncompilable(f"{frame.source.name} may return None", node)
    return value


def _return_columns(frame: Frame, node: ast.expr, statement: ast.Return) -> None:
    if not isinstance(node, ast.Dict) or not all(
        isinstance(k, ast.Constant) and isinstance(k.value, str) for k in node.keys
    ):
        raise frame.error(
            "a function returns nothing or a dict with constant column names", node, 'write return {"column": value, …}'
        )
    columns = []
    for key, item in zip(node.keys, node.values, strict=True):
        assert isinstance(key, ast.Constant)
        value = lower(frame, item)
        _note_column(frame, str(key.value), value, item)
        columns.append((str(key.value), value))
    if len({name for name, _ in columns}) != len(columns):
        raise frame.error("a column is returned twice", node, "give each column its own name")
    frame.returns += 1
    frame.emit(ir.Return(statement.lineno, frame.returns, tuple(columns)))


def _note_column(frame: Frame, name: str, value: Value, node: ast.AST) -> None:
    known = frame.columns.get(name)
    if known is not None and "none" not in (known[0], value.base) and known[0] != value.base:
        raise frame.error(
            f"output column {name!r} is {known[0]} on line {known[1]} and {value.base} here",
            node,
            "return one type in every place",
        )
    if known is None or known[0] == "none":
        frame.columns[name] = (value.base, getattr(node, "lineno", 0))
