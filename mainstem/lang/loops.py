"""`for` over event lists and ranges, and `while` with a bound."""

from __future__ import annotations

import ast
from typing import Any

from mainstem.lang import calls, ir
from mainstem.lang.assign import copied, store_name
from mainstem.lang.dispatch import lower_statements, statement
from mainstem.lang.frame import Frame, assigned_names
from mainstem.lang.ir import Value
from mainstem.lang.logic import condition
from mainstem.lang.operators import integer
from mainstem.lang.values import list_field, list_item, list_length
from mainstem.schema import Field


@statement(ast.For)
def _for(frame: Frame, node: ast.For) -> None:
    if node.orelse:
        raise frame.error("else after a loop is not supported", node, "use a flag variable")
    before = dict(frame.env)
    variable = frame.temporary()
    start, stop, step, bind = _iteration(frame, node, variable)
    frame.enter_loop(assigned_names([node]))
    body: ir.Block = []
    with frame.into(body), frame.scope():
        bind()
        lower_statements(frame, node.body)
    frame.emit(ir.For(node.lineno, variable, start, stop, step, body))
    frame.leave_loop(before)


def _iteration(frame: Frame, node: ast.For, variable: str) -> tuple[Value, Value, int, Any]:
    """Start, stop and step of the counter, and what the loop's names get at the top of a turn."""
    counter = Value(variable, "int")
    source, zero = node.iter, Value("0", "int")
    if isinstance(source, ast.Call) and isinstance(source.func, ast.Name) and source.func.id not in frame.env:
        function = calls.callee(frame, source.func)
        if function is range:
            start, stop, step = _range(frame, source)
            return start, stop, step, lambda: _bind_loop(frame, node.target, [counter], node)
        if function is enumerate and len(source.args) == 1:
            field = _looped_list(frame, source.args[0])
            length = list_length(frame, source.args[0], field)
            return (
                zero,
                length,
                1,
                lambda: _bind_loop(frame, node.target, [counter, list_item(frame, node.iter, field, counter)], node),
            )
        if function is zip and source.args:
            return _zipped(frame, node, source, counter)
    field = _looped_list(frame, source)
    length = list_length(frame, source, field)
    return (
        zero,
        length,
        1,
        lambda: _bind_loop(frame, node.target, [list_item(frame, node.iter, field, counter)], node),
    )


def _zipped(frame: Frame, node: ast.For, call: ast.Call, counter: Value) -> tuple[Value, Value, int, Any]:
    fields = [_looped_list(frame, a) for a in call.args]
    lengths = [list_length(frame, a, f) for a, f in zip(call.args, fields, strict=True)]
    names = tuple(n for v in lengths for n in v.names)
    shortest = lengths[0]
    if len(lengths) > 1:
        shortest = frame.let(node, f"min({', '.join(v.text for v in lengths)})", names, "int")
    return (
        Value("0", "int"),
        shortest,
        1,
        lambda: _bind_loop(frame, node.target, [list_item(frame, node.iter, f, counter) for f in fields], node),
    )


def _looped_list(frame: Frame, node: ast.expr) -> Field:
    field = list_field(frame, node)
    if field is None:
        raise frame.uncompilable("loops over event lists, range, enumerate and zip are compiled, others are not", node)
    return field


def _bind_loop(frame: Frame, target: ast.expr, values: list[Value], node: ast.For) -> None:
    targets = target.elts if isinstance(target, ast.Tuple) else [target]
    if len(targets) != len(values):
        raise frame.error(f"{len(values)} values for {len(targets)} names", node)
    for element, value in zip(targets, values, strict=True):
        if not isinstance(element, ast.Name):
            raise frame.error("a loop variable is a plain name", element)
        new = element.id not in frame.env
        store_name(frame, element, value)
        if new and element.id not in assigned_names(node.body):
            local = frame.env[element.id].value
            assert local is not None
            frame.loop_locals.add(local.text)


def _range(frame: Frame, call: ast.Call) -> tuple[Value, Value, int]:
    values = [integer(frame, a) for a in call.args]
    if call.keywords or not 1 <= len(values) <= 3:
        raise frame.error("range takes one to three integers", call)
    step = values[2].constant if len(values) == 3 else 1
    if not isinstance(step, int) or step == 0:
        raise frame.error("the step of range is a constant other than 0", call, "write e.g. range(0, n, 2)")
    # The bounds are read once, before the first turn, even when the body assigns to them.
    bounds = [copied(frame, v, call) for v in values[:2]]
    return (Value("0", "int"), bounds[0], step) if len(values) == 1 else (bounds[0], bounds[1], step)


@statement(ast.While)
def _while(frame: Frame, node: ast.While) -> None:
    if node.orelse:
        raise frame.error("else after a loop is not supported", node, "use a flag variable")
    if not _has_bound(node):
        raise frame.error(
            "this while loop may never end",
            node,
            "count its turns: `while … and n < 1000:` with `n += 1` once at the top level of the body",
        )
    before = dict(frame.env)
    frame.enter_loop(assigned_names([node]))
    head: ir.Block = []
    with frame.into(head):
        test = condition(frame, node.test)
    body: ir.Block = []
    with frame.into(body), frame.scope():
        lower_statements(frame, node.body)
    frame.emit(ir.While(node.lineno, head, test, body))
    frame.leave_loop(before)


def _has_bound(node: ast.While) -> bool:
    conjuncts = (
        node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
    )
    return any(_is_bound(c, node) for c in conjuncts)


def _is_bound(test: ast.expr, loop: ast.While) -> bool:
    """`n < bound` (or the other ways round) with n stepped towards the bound and the bound left alone."""
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return False
    op, left, right = test.ops[0], test.left, test.comparators[0]
    up = isinstance(op, ast.Lt | ast.LtE)
    if not up and not isinstance(op, ast.Gt | ast.GtE):
        return False
    changed = assigned_names(loop.body)
    for counter, bound, rising in ((left, right, up), (right, left, not up)):
        if isinstance(counter, ast.Name) and _fixed(bound, changed) and _stepped(counter.id, loop, rising):
            return True
    return False


def _fixed(bound: ast.expr, changed: set[str]) -> bool:
    """The bound reads no table and no name that the body assigns."""
    names = {n.id for n in ast.walk(bound) if isinstance(n, ast.Name)}
    return not (names & changed) and not any(isinstance(n, ast.Subscript | ast.Call) for n in ast.walk(bound))


def _stepped(name: str, loop: ast.While, rising: bool) -> bool:
    steps = [
        s for s in loop.body if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name) and s.target.id == name
    ]
    stores = [
        n
        for s in loop.body
        for n in ast.walk(s)
        if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name
    ]
    if len(steps) != 1 or len(stores) != 1:
        return False
    step, amount = steps[0], steps[0].value
    if not isinstance(amount, ast.Constant) or not isinstance(amount.value, int) or amount.value <= 0:
        return False
    before = loop.body[: loop.body.index(step)]
    if any(_continues(s) for s in before):
        return False
    return isinstance(step.op, ast.Add if rising else ast.Sub)


def _continues(node: ast.stmt) -> bool:
    """Whether the statement may `continue` the loop it stands in (not one of its own)."""
    if isinstance(node, ast.For | ast.While):
        return False
    return isinstance(node, ast.Continue) or any(
        _continues(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)
    )


@statement(ast.Break)
def _break(frame: Frame, node: ast.Break) -> None:
    frame.emit(ir.Break(node.lineno))
    frame.reachable = False


@statement(ast.Continue)
def _continue(frame: Frame, node: ast.Continue) -> None:
    frame.emit(ir.Continue(node.lineno))
    frame.reachable = False
