"""Statements to blocks: the body of one function, helper or check."""

from __future__ import annotations

import ast
from typing import Any

from mainstem.lang import calls, expressions, ir, runtime
from mainstem.lang.expressions import condition, lower
from mainstem.lang.frame import Binding, Frame, Helper, assigned_names
from mainstem.lang.ir import Value
from mainstem.schema import Field, Type


def lower_body(frame: Frame) -> ir.Block:
    """The block of a function bound to an event."""
    _statements(frame, frame.source.tree.body)
    if frame.reachable:
        frame.emit(ir.Return(frame.source.tree.lineno, 0))
    return frame.block


def lower_helper(frame: Frame, name: str, shapes: tuple[tuple[str, bool], ...]) -> Helper:
    """The block of a pure function of values, given the base of each argument and whether it may be null."""
    parameters = [a.arg for a in frame.source.tree.args.args]
    flags = []
    for parameter, (base, nullable) in zip(parameters, shapes, strict=True):
        frame.types[parameter] = (base, frame.source.tree.lineno)
        flag = f"l_{parameter}_null" if nullable else None
        frame.env[parameter] = Binding(value=Value(f"l_{parameter}", base, flag))
        if flag is not None:
            frame.nullable_names.add(parameter)
            flags.append(flag)
    block = _value_block(frame)
    (result,) = calls.result_base(block)
    return Helper(name, (*(f"l_{p}" for p in parameters), *flags), block, result)


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
    _statements(frame, frame.source.tree.body)
    if frame.reachable:
        raise frame.error(f"{frame.source.name} may end without a return", None, "return a value on every path")
    bases = calls.result_base(frame.block)
    if len(bases) != 1:
        raise frame.error(f"{frame.source.name} returns {' and '.join(sorted(bases))}", None, "return one type on every path")
    return frame.block


def _statements(frame: Frame, nodes: list[ast.stmt]) -> None:
    for node in nodes:
        if not frame.reachable:
            return  # Python never gets here either
        kind = _KINDS.get(type(node))
        if kind is None:
            what, remedy = _REFUSED.get(type(node), (type(node).__name__, "see docs/language.md for what is supported"))
            raise frame.error(f"{what} is not supported inside a function", node, remedy)
        kind(frame, node)


def _block(frame: Frame, nodes: list[ast.stmt], known: list[ast.expr] | None = None) -> tuple[ir.Block, dict[str, Binding] | None]:
    """Lowers a nested block in which `known` are not None; gives what is known at its end, None when that is never reached."""
    block: ir.Block = []
    with frame.into(block), frame.scope():
        expressions.narrow(frame, known or [])
        _statements(frame, nodes)
        env = frame.env if frame.reachable else None
    frame.reachable = True
    return block, env


# -- assignment ----------------------------------------------------------------------------------------------------


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


def _annotated(frame: Frame, node: ast.AnnAssign) -> None:
    if node.value is None:
        return
    _store(frame, node.target, lower(frame, node.value), node)


def _bind_row_or_tuple(frame: Frame, target: ast.Name, value: ast.expr) -> bool:
    if isinstance(value, ast.Tuple):
        items = expressions.tuple_items(frame, value).items or ()
        frame.env[target.id] = Binding(items=tuple(_copied(frame, v, value) for v in items))
        return True
    if isinstance(value, ast.Subscript | ast.Name):
        site = expressions.row_site(frame, value)
        if site is not None:
            if target.id in frame.types:
                raise frame.error(f"{target.id} is a value above and becomes a row", target, "use another name")
            frame.env[target.id] = Binding(site=site)
            return True
    return False


def _copied(frame: Frame, value: Value, node: ast.AST) -> Value:
    """The value in a temporary of its own, safe from later assignments to the local it was read from."""
    if not value.names:
        return value
    copy = frame.let(node, value.text, value.names[:1], value.base) if value.text.isidentifier() else value
    null = frame.let(node, value.null, (value.null,), "bool").text if value.null and value.null.isidentifier() else value.null
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
    copies = [_copied(frame, v, node) for v in values]
    for element, value in zip(target.elts, copies, strict=True):
        _store(frame, element, value, node)


def _store(frame: Frame, target: ast.expr, value: Value, node: ast.AST) -> None:
    if isinstance(target, ast.Name):
        _store_name(frame, target, value)
    elif isinstance(target, ast.Attribute):
        _store_field(frame, target, value, node)
    elif isinstance(target, ast.Subscript):
        _store_cell(frame, target, value, node)
    else:
        raise frame.error("this can't be assigned to", target)


def _store_name(frame: Frame, target: ast.Name, value: Value) -> None:
    if frame.event is not None and target.id == frame.source.tree.args.args[0].arg:
        raise frame.error(f"the event {target.id} can't be replaced", target, "use another name")
    binding = frame.env.get(target.id)
    if binding is not None and binding.value is None:
        raise frame.error(f"{target.id} is a row or a tuple above and becomes a value", target, "use another name")
    frame.assign(target.id, value, target)


def _store_field(frame: Frame, target: ast.Attribute, value: Value, node: ast.AST) -> None:
    if expressions.is_event(frame, target.value):
        raise frame.error("events can't be changed", target, "keep the new value in a local variable")
    site = expressions.row_site(frame, target.value)
    if site is None:
        raise expressions.refuse_row(frame, target.value, target)
    field = expressions.table_field(frame, site, target.attr, target)
    if field.type.length:
        raise frame.error(f"array field {field.name} is assigned cell by cell", target, f"write {ast.unparse(target)}[i] = value")
    _write(frame, site, field, value, node, None)


def _store_cell(frame: Frame, target: ast.Subscript, value: Value, node: ast.AST) -> None:
    table = expressions.table_of(frame, target.value)
    if table is not None:
        name = table.schema.name
        raise frame.error(f"{name}[…] = … is not supported", target, f"assign its fields one by one: {name}[key].field = value")
    cell = expressions.array_cell(frame, target)
    if cell is None:
        raise frame.uncompilable("this subscript assignment is not compiled", target)
    site, field, at = cell
    _write(frame, site, Field(field.name, Type(field.type.base)), value, node, at)


def _write(frame: Frame, site: int, field: Field, value: Value, node: ast.AST, index: Value | None) -> None:
    if frame.row_table is not None:
        raise frame.error("a check only looks at its row", node, "write to tables in functions bound with @app.on")
    value = frame.not_null(value, node)
    want = expressions.seen_as(field.type)
    if (value.base, want) == ("bool", "int"):
        value = frame.let(node, f"int({value.text})", value.names, "int")
    elif want == "float" and value.base in ("int", "bool"):
        value = expressions.to_float(frame, value, node)
    elif value.base != want:
        remedy = "convert with int(…), round(…) or math.floor(…)" if (value.base, want) == ("float", "int") else "convert it first"
        raise frame.error(f"field {field.name} is {field.type}, the value is {value.base}", node, remedy)
    frame.sites[site].writes = True
    frame.emit(ir.Store(getattr(node, "lineno", 0), site, field.name, value, index.text if index else None))


def _augmented(frame: Frame, node: ast.AugAssign) -> None:
    target: Any = node.target
    if isinstance(target, ast.Name):
        old = lower(frame, ast.copy_location(ast.Name(target.id, ast.Load()), target))
        new = expressions.arithmetic(frame, node.op, old, lower(frame, node.value), node)
        _store_name(frame, target, new)
        return
    if isinstance(target, ast.Attribute) and not expressions.is_event(frame, target.value):
        site = expressions.row_site(frame, target.value)
        if site is not None:
            field = expressions.table_field(frame, site, target.attr, target)
            if not field.type.length:
                old = expressions.load(frame, site, field, node)
                new = expressions.arithmetic(frame, node.op, old, lower(frame, node.value), node)
                _write(frame, site, field, new, node, None)
                return
    if isinstance(target, ast.Subscript) and expressions.table_of(frame, target.value) is None:
        cell = expressions.array_cell(frame, target)
        if cell is not None:
            site, array, at = cell
            field = Field(array.name, Type(array.type.base))
            old = expressions.load(frame, site, field, node, at)
            new = expressions.arithmetic(frame, node.op, old, lower(frame, node.value), node)
            _write(frame, site, field, new, node, at)
            return
    _store(frame, target, Value("0", "int"), node)  # raises the error that fits the target


def _delete(frame: Frame, node: ast.Delete) -> None:
    for target in node.targets:
        if not isinstance(target, ast.Subscript) or expressions.table_of(frame, target.value) is None:
            raise frame.error("only rows can be deleted", target, "write del T[key]")
        site = expressions.row_site(frame, target)
        assert site is not None
        frame.sites[site].writes = True
        frame.emit(ir.Delete(node.lineno, site))


# -- control -------------------------------------------------------------------------------------------------------


def _if(frame: Frame, node: ast.If) -> None:
    test = condition(frame, node.test)
    held, broken = expressions.narrowings(node.test)
    then, env_then = _block(frame, node.body, held)
    otherwise, env_else = _block(frame, node.orelse, broken)
    frame.emit(ir.If(node.lineno, test, then, otherwise))
    frame.join(env_then, env_else)
    if env_then is None or env_else is None:
        expressions.narrow(frame, broken if env_then is None else held)


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
        _statements(frame, node.body)
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
            length = expressions.list_length(frame, source.args[0], field)
            return zero, length, 1, lambda: _bind_loop(
                frame, node.target, [counter, expressions.list_item(frame, node.iter, field, counter)], node
            )
        if function is zip and source.args:
            return _zipped(frame, node, source, counter)
    field = _looped_list(frame, source)
    length = expressions.list_length(frame, source, field)
    return zero, length, 1, lambda: _bind_loop(
        frame, node.target, [expressions.list_item(frame, node.iter, field, counter)], node
    )


def _zipped(frame: Frame, node: ast.For, call: ast.Call, counter: Value) -> tuple[Value, Value, int, Any]:
    fields = [_looped_list(frame, a) for a in call.args]
    lengths = [expressions.list_length(frame, a, f) for a, f in zip(call.args, fields, strict=True)]
    names = tuple(n for v in lengths for n in v.names)
    shortest = lengths[0]
    if len(lengths) > 1:
        shortest = frame.let(node, f"min({', '.join(v.text for v in lengths)})", names, "int")
    return Value("0", "int"), shortest, 1, lambda: _bind_loop(
        frame, node.target, [expressions.list_item(frame, node.iter, f, counter) for f in fields], node
    )


def _looped_list(frame: Frame, node: ast.expr) -> Field:
    field = expressions.list_field(frame, node)
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
        if frame.assigned.get(element.id, 0) == 1:
            frame.loop_variables.add(element.id)
        _store_name(frame, element, value)


def _range(frame: Frame, call: ast.Call) -> tuple[Value, Value, int]:
    values = [expressions.integer(frame, a) for a in call.args]
    if call.keywords or not 1 <= len(values) <= 3:
        raise frame.error("range takes one to three integers", call)
    step = values[2].constant if len(values) == 3 else 1
    if not isinstance(step, int) or step == 0:
        raise frame.error("the step of range is a constant other than 0", call, "write e.g. range(0, n, 2)")
    # The bounds are read once, before the first turn, even when the body assigns to them.
    bounds = [_copied(frame, v, call) for v in values[:2]]
    return (Value("0", "int"), bounds[0], step) if len(values) == 1 else (bounds[0], bounds[1], step)


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
    body, _ = _block(frame, node.body)
    frame.emit(ir.While(node.lineno, head, test, body))
    frame.leave_loop(before)


def _has_bound(node: ast.While) -> bool:
    conjuncts = node.test.values if isinstance(node.test, ast.BoolOp) and isinstance(node.test.op, ast.And) else [node.test]
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
    steps = [s for s in loop.body if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name) and s.target.id == name]
    stores = [n for s in loop.body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id == name]
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
    return isinstance(node, ast.Continue) or any(_continues(n) for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt))


def _break(frame: Frame, node: ast.Break) -> None:
    frame.emit(ir.Break(node.lineno))
    frame.reachable = False


def _continue(frame: Frame, node: ast.Continue) -> None:
    frame.emit(ir.Continue(node.lineno))
    frame.reachable = False


def _pass(frame: Frame, node: ast.Pass) -> None:
    return None


# -- calls on a line of their own, and returns ---------------------------------------------------------------------


def _expression(frame: Frame, node: ast.Expr) -> None:
    if isinstance(node.value, ast.Constant):
        return  # a docstring or an ellipsis
    if isinstance(node.value, ast.Call):
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
        raise frame.error("yield and await are not supported inside a function", node, "return one dict of output columns")
    lower(frame, node.value)


def _require(frame: Frame, call: ast.Call) -> None:
    if frame.event is None:
        raise frame.error("ms.require works in functions bound with @app.on only", call, "return a bool and require it there")
    if len(call.args) != 2 or call.keywords:
        raise frame.error("ms.require takes a condition and a reason", call, 'write ms.require(condition, "reason")')
    held = condition(frame, call.args[0])
    broken = frame.let(call, f"not {held.text}", held.names, "bool")
    code = _reason(frame, call, 1)
    frame.emit(ir.AbortIf(call.lineno, broken, code, ast.unparse(call.args[0])))
    expressions.narrow(frame, expressions.narrowings(call.args[0])[0])


def _reason(frame: Frame, call: ast.Call, position: int) -> int:
    if frame.event is None:
        raise frame.error("ms.abort works in functions bound with @app.on only", call, "return a value and abort there")
    if len(call.args) != position + 1 or call.keywords:
        raise frame.error("a reason is missing", call, 'write ms.abort("reason")')
    node = call.args[position]
    value: Any = node.value if isinstance(node, ast.Constant) else None
    if isinstance(node, ast.Name) and node.id not in frame.env and node.id not in frame.assigned:
        value = expressions.global_value(frame, node)
    if not isinstance(value, str):
        raise frame.error("a reason is a constant string", node, "use a plain text; return values in output columns")
    return frame.shared.reason(value)


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
    if not isinstance(node, ast.Dict) or not all(isinstance(k, ast.Constant) and isinstance(k.value, str) for k in node.keys):
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
            f"output column {name!r} is {known[0]} on line {known[1]} and {value.base} here", node, "return one type in every place"
        )
    if known is None or known[0] == "none":
        frame.columns[name] = (value.base, getattr(node, "lineno", 0))


_KINDS: dict[type, Any] = {
    ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Delete: _delete, ast.If: _if,
    ast.For: _for, ast.While: _while, ast.Break: _break, ast.Continue: _continue, ast.Pass: _pass,
    ast.Expr: _expression, ast.Return: _return,
}  # fmt: skip

_REFUSED: dict[type, tuple[str, str]] = {
    ast.Try: ("try", "aborts are not exceptions to catch: test with if, or use ms.require"),
    ast.With: ("with", "do such work outside, e.g. in @app.derive"),
    ast.Raise: ("raise", 'write ms.abort("reason")'),
    ast.Assert: ("assert", 'write ms.require(condition, "reason")'),
    ast.FunctionDef: ("a nested function", "define it at the top level of the module"),
    ast.ClassDef: ("a class", "define it at the top level of the module"),
    ast.Import: ("import", "import at the top of the module"),
    ast.ImportFrom: ("import", "import at the top of the module"),
    ast.Global: ("global", "shared state lives in tables"),
    ast.Nonlocal: ("nonlocal", "shared state lives in tables"),
    ast.Match: ("match", "use if/elif"),
}
