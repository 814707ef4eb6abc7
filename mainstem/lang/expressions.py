"""Expressions to operands: one function per kind of syntax, found by name in `_KINDS`."""

from __future__ import annotations

import ast
import math
import types
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang import calls, ir, mathlib
from mainstem.lang.frame import Binding, Frame
from mainstem.lang.ir import Value
from mainstem.lang.runtime import Table
from mainstem.schema import INT64_MAX, INT64_MIN, Field, Type

NUMERIC = ("int", "float", "bool")
# A field's base as functions see it: timestamps are integers.
_SEEN_AS = {"datetime": "int"}


def seen_as(type_: Type) -> str:
    return _SEEN_AS.get(type_.base, type_.base)


def lower(frame: Frame, node: ast.expr) -> Value:
    """The operand that holds the value of `node`; statements that compute it go to the frame's block."""
    kind = _KINDS.get(type(node))
    if kind is None and isinstance(node, ast.Lambda | ast.Yield | ast.YieldFrom | ast.Await | ast.NamedExpr):
        raise frame.error(f"{type(node).__name__} is not supported inside a function", node, "see docs/language.md for what is supported")
    if kind is None:
        raise frame.uncompilable(f"{type(node).__name__} expressions are not compiled", node)
    return kind(frame, node)  # type: ignore[no-any-return]


def condition(frame: Frame, node: ast.expr) -> Value:
    """The truth of `node` as a bool operand."""
    if isinstance(node, ast.BoolOp):
        with frame.scope():
            return _short_circuit(frame, node, [lambda i=i: _link(frame, node, i) for i in range(len(node.values))], "bool")
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


# -- leaves --------------------------------------------------------------------------------------------------------


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
        return Value(_float_text(value), "float", constant=value)
    if isinstance(value, str | bytes):
        return frame.shared.string(value)
    raise frame.uncompilable(f"a value of type {type(value).__name__} is not compiled", node)


def _float_text(value: float) -> str:
    if math.isnan(value):
        return "math.nan"
    if math.isinf(value):
        return "math.inf" if value > 0 else "(-math.inf)"
    return f"({value!r})"


def _name(frame: Frame, node: ast.Name) -> Value:
    binding = frame.env.get(node.id)
    if binding is not None:
        if binding.value is None:
            kind = "a row" if binding.site is not None else "a tuple"
            raise frame.error(f"{node.id} is {kind} and has no value of its own", node, "use one of its fields or items")
        return binding.value
    if node.id in frame.assigned:
        raise _unset(frame, node)
    return literal(frame, global_value(frame, node), node)


def global_value(frame: Frame, node: ast.Name) -> Any:
    if node.id in frame.source.scope:
        return frame.source.scope[node.id]
    builtin = getattr(__import__("builtins"), node.id, None)
    if builtin is None:
        raise frame.error(f"name {node.id!r} is not defined", node, "define it before the program runs, or check the spelling")
    return builtin


def is_event(frame: Frame, node: ast.expr) -> bool:
    return (
        frame.event is not None
        and isinstance(node, ast.Name)
        and node.id == frame.source.tree.args.args[0].arg
        and node.id not in frame.assigned
    )


def _attribute(frame: Frame, node: ast.Attribute) -> Value:
    if is_event(frame, node.value):
        return _event_value(frame, node)
    site = row_site(frame, node.value)
    if site is not None:
        return _row_value(frame, node, site)
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
        frame.not_null(Value("0", "int", f"e_{field.name}_null"), node)
    return frame.let(node, f"e_{field.name}_hi - e_{field.name}_lo", (), "int")


def list_item(frame: Frame, node: ast.expr, field: Field, index: Value) -> Value:
    name = frame.temporary()
    frame.emit(ir.Item(getattr(node, "lineno", 0), name, field.name, index, field.type.base == "bool"))
    return Value(name, seen_as(field.type))


def _event_value(frame: Frame, node: ast.Attribute) -> Value:
    field = event_field(frame, node)
    if field.type.is_list:
        raise frame.uncompilable(f"list field {field.name} can be looped over, indexed and measured only", node)
    frame.used_fields[field.name] = field.type
    null = f"e_{field.name}_null" if field.type.nullable and field.name not in frame.not_null_fields else None
    return Value(f"e_{field.name}", seen_as(field.type), null)


# -- state ---------------------------------------------------------------------------------------------------------


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
            return _unset(frame, node)
        if not isinstance(global_value(frame, node), Table):
            return frame.error(f"{node.id} is no table of this app", node, "declare it with @app.table(key=…)")
    remedy = "assign to a field of a row: T[key].field = value"
    return frame.error(f"{ast.unparse(use)} can't be assigned to", use, remedy)


def _unset(frame: Frame, node: ast.Name) -> ProgramError:
    return frame.error(
        f"{node.id} may have no value here, or stands for different rows in different branches",
        node,
        "give it a value on every path before this line (rows: choose the key, not the row, in the branches)",
    )


def site_of(frame: Frame, table: Table, key: ast.expr, node: ast.AST) -> int:
    if frame.event is None:
        raise frame.error(
            f"{frame.source.name} touches table {table.schema.name}",
            node,
            "only functions bound with @app.on touch tables: pass it values, and write the result in the bound function",
        )
    index = frame.shared.tables.get(id(table))
    if index is None:
        raise frame.error(f"table {table.schema.name} belongs to another app", node, "declare it with this app's @app.table")
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
            raise frame.error(f"{schema.name} has keys of {type_}, this one is {value.base}", key, "convert it to the key's type")
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
    identity = (table, ast.unparse(key))
    if shareable and identity in frame.site_of:
        return frame.site_of[identity]
    site = ir.Site(len(frame.sites), table, f"{frame.shared.handles[table].schema.name}[{ast.unparse(key)}]",
                   getattr(node, "lineno", 0), dynamic, columns=_plain_columns(frame, values))  # fmt: skip
    frame.sites.append(site)
    if shareable:
        frame.site_of[identity] = site.index
    return site.index


def _stable(frame: Frame, name: str) -> bool:
    """The name has one value wherever it is read: two equal key expressions are then one site."""
    count = frame.assigned.get(name, 0)
    return count == 0 or (count == 1 and (name not in frame.assigned_in_loops or name in frame.loop_variables))


def _plain_columns(frame: Frame, values: tuple[Value, ...]) -> tuple[str, ...] | None:
    columns = [v.text[2:] for v in values if v.text.startswith("e_") and v.text[2:] in frame.used_fields]
    plain = [c for c in columns if not frame.used_fields[c].nullable]
    return tuple(plain) if len(plain) == len(values) else None


def table_field(frame: Frame, site: int, name: str, node: ast.AST) -> Field:
    schema = frame.shared.handles[frame.sites[site].table].schema
    field = schema.field(name)
    if field is None:
        names = ", ".join(f.name for f in schema.fields)
        raise frame.error(f"table {schema.name} has no field {name!r}", node, f"its fields are: {names}")
    return field


def _row_value(frame: Frame, node: ast.Attribute, site: int) -> Value:
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
    if not isinstance(node.value, ast.Attribute):
        return None
    site = row_site(frame, node.value.value)
    if site is None:
        return None
    field = table_field(frame, site, node.value.attr, node)
    if not field.type.length:
        raise frame.error(f"field {field.name} is {field.type}, not an array", node)
    index = integer(frame, node.slice)
    at = frame.checked(node, "index_in", (index, Value(str(field.type.length), "int")), "int")
    return site, field, at


def integer(frame: Frame, node: ast.expr) -> Value:
    value = frame.not_null(lower(frame, node), node)
    if value.base == "bool":
        return frame.let(node, f"int({value.text})", value.names, "int")
    if value.base != "int":
        raise frame.error(f"an int is needed here, this is {value.base}", node, "convert with int(…)")
    return value


def _subscript(frame: Frame, node: ast.Subscript) -> Value:
    if table_of(frame, node.value) is not None:
        raise frame.error("a row has no value of its own", node, "use one of its fields: T[key].field")
    field = list_field(frame, node.value)
    if field is not None:
        length = list_length(frame, node.value, field)
        at = frame.checked(node, "index_in", (integer(frame, node.slice), length), "int")
        return list_item(frame, node, field, at)
    if isinstance(node.value, ast.Name) and (binding := frame.env.get(node.value.id)) and binding.items:
        if isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, int) and -len(binding.items) <= node.slice.value < len(binding.items):
            return binding.items[node.slice.value]
    cell = array_cell(frame, node)
    if cell is None:
        raise frame.uncompilable("this subscript is not compiled", node)
    site, cell_field, at = cell
    return load(frame, site, Field(cell_field.name, Type(cell_field.type.base)), node, at)


# -- operators -----------------------------------------------------------------------------------------------------

_INT_CALLS = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.FloorDiv: "floordiv", ast.Mod: "mod",
              ast.Div: "truediv", ast.LShift: "lshift", ast.RShift: "rshift"}  # fmt: skip
_FLOAT_CALLS = {ast.Div: "float_div", ast.FloorDiv: "float_floordiv", ast.Mod: "float_mod"}
_FLOAT_SYMBOLS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}
_BIT_SYMBOLS = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}


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


def _to_int(frame: Frame, value: Value, node: ast.AST) -> Value:
    if value.base != "bool":
        return value
    if value.constant is not ir.NOT_CONSTANT:
        return Value(str(int(value.constant)), "int", constant=int(value.constant))
    return frame.let(node, f"int({value.text})", value.names, "int")


def to_float(frame: Frame, value: Value, node: ast.AST) -> Value:
    if value.base == "float":
        return value
    return frame.let(node, f"float({value.text})", value.names, "float")


def _unary(frame: Frame, node: ast.UnaryOp) -> Value:
    if isinstance(node.op, ast.Not):
        return condition(frame, node)
    if isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant) and type(node.operand.value) in (int, float):
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


# -- comparisons and logic -------------------------------------------------------------------------------------------

_ORDER = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


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
        a, b = (left, right) if left.base == "float" else (_to_int(frame, left, node), _to_int(frame, right, node))
        return frame.let(node, f"{a.text} {_ORDER[type(op)]} {b.text}", a.names + b.names, "bool")
    # An integer beside a float: compared exactly, as Python does; a <= b is "a < b or a == b".
    if isinstance(op, ast.Gt | ast.GtE):
        left, right = right, left
    a, b = _to_int(frame, left, node), _to_int(frame, right, node)
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
        a, b = (left, right) if left.base == "float" else (_to_int(frame, left, node), _to_int(frame, right, node))
        return frame.let(node, f"{a.text} == {b.text}", a.names + b.names, "bool")
    whole, real = (right, left) if left.base == "float" else (left, right)
    whole = _to_int(frame, whole, node)
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
                    raise frame.uncompilable("and/or of values of different types is not compiled outside conditions", node)
                base = value.base if value.base != "none" else base
                nullable = nullable or value.null is not None
                frame.emit(ir.Let(node.lineno, result, value.text, value.names[:1] if value.text.isidentifier() else ()))
                null = value.null or "False"
                frame.emit(ir.Let(node.lineno, flag, null, (null,) if null not in ("True", "False") else ()))
                if i < len(node.values) - 1:
                    held = truth(frame, Value(result, base, flag if nullable else None), node)
                    go_on = held if isinstance(node.op, ast.And) else frame.let(node, f"not {held.text}", held.names, "bool")
            # Each operand is computed inside the branch that the one before it opens.
            outer.extend(inner)
            if i < len(node.values) - 1:
                branch = ir.If(node.lineno, go_on, [], [])
                outer.append(branch)
                outer = branch.then
    return Value(result, base, flag if nullable else None)


def _short_circuit(frame: Frame, node: ast.BoolOp, parts: list[Any], base: str) -> Value:
    return _chain(frame, node, parts, "" if isinstance(node.op, ast.And) else "not ")


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
            f"the two arms of this expression are {' and '.join(sorted(bases))}", node, "give both one type, e.g. 0.0 for 0"
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


def tuple_items(frame: Frame, node: ast.Tuple) -> Binding:
    return Binding(items=tuple(lower(frame, item) for item in node.elts))


def _call(frame: Frame, node: ast.Call) -> Value:
    return calls.lower_call(frame, node, lower)


_KINDS: dict[type, Any] = {
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Subscript: _subscript,
    ast.BinOp: _binary,
    ast.UnaryOp: _unary,
    ast.Compare: _compare,
    ast.BoolOp: _boolean,
    ast.IfExp: _conditional,
    ast.Call: _call,
}
