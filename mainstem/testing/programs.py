"""Random programs: a whole module with events, tables, checks, helpers and functions, from a seed.

The same seed and knobs give the same text in every process, so a failing seed is a reproduction.
"""

from __future__ import annotations

import linecache
import sys
from dataclasses import replace
from types import ModuleType
from typing import Any

from mainstem.schema import EventSchema, Field, TableSchema, Type
from mainstem.testing.expressions import Expressions
from mainstem.testing.model import Draw, Helper, Knobs, RowName, Scope, Variable, World
from mainstem.testing.statements import Body, Lines, indented

_EVENT_NAMES = ("Order", "Payment", "Click")
_TABLE_NAMES = ("Account", "Stock", "Rank", "Seen")
_HEADER = ("import math", "from datetime import datetime", "", "import mainstem as ms", "")
_FIELD_BASES = ((6, "int"), (3, "float"), (2, "bool"), (3, "str"), (1, "bytes"), (1, "datetime"))
_KEY_BASES = ((6, "int"), (4, "str"), (1, "bytes"), (1, "datetime"))
_ARRAY_BASES = ((3, "int"), (2, "float"), (1, "bool"))
_RESULT_BASES = ((5, "int"), (3, "float"), (2, "bool"), (2, "str"))


def generate_program(seed: object, **knobs: Any) -> str:
    """The text of a random module; its `app` is the program. `knobs` are the fields of `Knobs`."""
    draw, world = Draw(seed, Knobs(**knobs)), World()
    lines: Lines = ["from __future__ import annotations", ""] if draw.chance(0.5) else []
    lines += [*_HEADER, 'app = ms.App("generated")', ""]
    if draw.chance(0.3):
        world.constants = {"int": "LIMIT", "str": "HOME", "float": "RATE"}
        lines += [f"LIMIT = {draw.between((-3, 20))}", 'HOME = "north"', "RATE = 0.75", ""]
    for name in _EVENT_NAMES[: draw.between(draw.knobs.events)]:
        lines += _event(draw, world, name)
    for name in _TABLE_NAMES[: draw.between(draw.knobs.tables)]:
        lines += _table(draw, world, name)
    lines += _work(draw.knobs.work) if draw.knobs.work else []
    for i in range(draw.between(draw.knobs.helpers)):
        lines += _helper(draw, world, f"helper{i}")
    world.columns = {f"out{i}": draw.weighted(_RESULT_BASES) for i in range(draw.between((0, 4)))}
    for event in world.events:
        if draw.knobs.groups and draw.chance(draw.knobs.groups):
            lines += _group(draw, world, event)
        count = draw.between(draw.knobs.functions) if draw.chance(0.3) else draw.knobs.functions[0]
        for i in range(count):
            function = Body(draw, world, event).function(f"on_{event.name.lower()}_{i}")
            lines += ["", f"@app.on({event.name})", *function, ""]
    return "\n".join(lines) + "\n"


def _group(draw: Draw, world: World, event: EventSchema) -> Lines:
    """Two or three functions in one transaction, with columns of their own, declared in one of the two ways."""
    names = [f"in_{event.name.lower()}_{i}" for i in range(draw.between((2, 3)))]
    lines: Lines = []
    for i, name in enumerate(names):
        body = Body(draw, world, event)
        body.columns = [c for n, c in enumerate(world.columns) if n % len(names) == i]
        lines += ["", f"@app.on({event.name})", *body.function(name), ""]
    if draw.chance(0.5):
        return ["", f"with app.atomic({event.name}):", *indented(lines)]
    return [*lines, f'app.transaction({", ".join(names)}, name="{event.name.lower()} group")', ""]


def load_program(source: str, name: str = "generated") -> ModuleType:
    """Execute a program's text as the module `name`, replacing an earlier one; its `app` is the program.

    The text is registered with `linecache` and the module with `sys.modules`, so that `inspect.getsource`,
    annotations kept as text and error messages work as for a file.
    """
    file = f"<{name}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    module = ModuleType(name)
    module.__file__ = file
    sys.modules[name] = module
    exec(compile(source, file, "exec"), module.__dict__)
    return module


def _annotation(t: Type) -> str:
    text = f"list[{t.base}]" if t.is_list else t.base
    text = f"ms.Array[{text}, {t.length}]" if t.length else text
    return f"{text} | None" if t.nullable else text


def _event(draw: Draw, world: World, name: str) -> Lines:
    """Field names tell the type, so that two event types in one input agree on every shared column."""
    fields = [Field("int0", Type("int"))]
    fields += [Field("int1", Type("int"))] if draw.knobs.layered else []
    fields += [_event_field(draw, "int", i) for i in range(1, draw.between((1, 3)))]
    fields += [Field("str0", Type("str"))] if draw.chance(0.6) and "str" in draw.knobs.bases else []
    fields += [_event_field(draw, draw.weighted(_bases(draw, _FIELD_BASES)), i) for i in range(draw.between((1, 4)))]
    fields += [Field("int_list9", Type("int", is_list=True))] if draw.knobs.key_loops else []
    fields = list({f.name: f for f in fields}.values())
    world.events.append(EventSchema(name, tuple(fields)))
    return ["", "@app.event", f"class {name}:", *(f"    {f.name}: {_annotation(f.type)}" for f in fields), ""]


def _event_field(draw: Draw, base: str, number: int) -> Field:
    kind = draw.weighted(((6, ""), (1.5, "nullable"), (2, "list")))
    if kind == "list" and draw.chance(0.15):
        return Field(f"{base}_list_or_none{number}", Type(base, is_list=True, nullable=True))
    if kind == "list":
        return Field(f"{base}_list{number}", Type(base, is_list=True))
    if kind == "nullable":
        return Field(f"{base}_or_none{number}", Type(base, nullable=True))
    return Field(f"{base}{number}", Type(base))


def _bases(draw: Draw, choices: tuple[tuple[float, str], ...]) -> list[tuple[float, str]]:
    return [(w, b) for w, b in choices if b in draw.knobs.bases]


def _table(draw: Draw, world: World, name: str) -> Lines:
    scalar = draw.knobs.keyed or draw.chance(0.65)
    key = tuple(Type(draw.weighted(_bases(draw, _KEY_BASES))) for _ in range(1 if scalar else draw.between((2, 3))))
    if draw.knobs.keyed or (draw.knobs.key_loops and not world.tables):
        scalar, key = True, (Type("int"),)
    if draw.knobs.layered:
        key = tuple(Type("int") for _ in key)
    fields = [Field("count", Type("int"))]
    for i in range(draw.between((0, 4))):
        t = Type(draw.weighted(_bases(draw, _FIELD_BASES)))
        if draw.chance(0.2):
            t = replace(Type(draw.weighted(_ARRAY_BASES)), length=draw.between((1, 4)))
        fields.append(Field(f"f{i}", t))
    table = TableSchema(name, key, scalar, tuple(fields))
    world.tables.append(table)
    key_text = key[0].base if scalar else f"({', '.join(t.base for t in key)})"
    lines = ["", f"@app.table(key={key_text})", f"class {name}:"]
    lines += [f"    {f.name}: {_annotation(f.type)}{_default(draw, world, f.type)}" for f in fields]
    for i in range(draw.weighted(((12, 0), (1, 1)) if draw.knobs.layered else ((5, 0), (4, 1), (1, 2)))):
        lines += _check(draw, world, table, f"check{i}")
    return [*lines, ""]


def _default(draw: Draw, world: World, t: Type) -> str:
    if t.base == "datetime" or draw.chance(0.4):
        return ""
    constant = Expressions(Draw(draw.random.random(), replace(draw.knobs, extremes=0.0)), world, Scope()).constant
    if t.length:
        return f" = ({', '.join(constant(t.base) for _ in range(t.length))},)" if draw.chance(0.3) else ""
    return f" = {constant(t.base)}"


def _check(draw: Draw, world: World, table: TableSchema, name: str) -> Lines:
    """A lower bound mostly; sometimes any condition on the row, which then often fails."""
    scope = Scope(rows=[RowName("row", table)])
    write = Expressions(draw, world, scope)
    condition = f"row.count >= {-draw.between((0, 9))}"
    if draw.chance(0.4):
        condition = f"{condition} or {write.of('bool', 2)}"
    return ["", "    @ms.check", f"    def {name}(row):", f"        return {condition}"]


def _work(turns: int) -> Lines:
    """Every turn needs the one before: no compiler finds a short cut."""
    loop = [f"for _ in range({turns}):", "    value = (value * 48271 + 11) % 2147483647"]
    return ["", "def worked(value):", *indented(["value = value % 2147483647", *loop, "return value"]), ""]


def _helper(draw: Draw, world: World, name: str) -> Lines:
    """A pure function of one or two arguments, with a branch, a loop or neither."""
    parameters = tuple(draw.weighted(_RESULT_BASES) for _ in range(draw.between((1, 2))))
    result = draw.one(("int", "int", "float", "bool"))
    names = [f"p{i}" for i in range(len(parameters))]
    scope = Scope(variables=[Variable(n, b, True, 0) for n, b in zip(names, parameters, strict=True)])
    write = Expressions(draw, world, scope)
    body: Lines = []
    kind = draw.weighted(((3, "plain"), (2, "branch"), (1, "loop")))
    if kind == "branch":
        body += [f"if {write.of('bool', 1)}:", *indented([f"return {write.of(result, 1)}"])]
    if kind == "loop":
        scope.variables.append(Variable("total", "int", True, 0))
        body += ["total = 0", f"for i in range({draw.between((1, 4))}):", f"    total += {write.of('int', 1)} % 7 + i"]
    body.append(f"return {write.of(result, 2)}")
    world.helpers.append(Helper(name, parameters, result))
    return ["", f"def {name}({', '.join(names)}):", *indented(body), ""]
