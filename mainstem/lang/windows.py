"""Calls on rows of histories: `append`, and reads of windows that end with the event.

They become loads, stores and aborts; what runs over the entries of a window is in `rings`. An array field that is
loaded without an index is a view of all its cells, used at once.
"""

from __future__ import annotations

import ast

from mainstem.lang import ir
from mainstem.lang.assign import converted
from mainstem.lang.dispatch import lower
from mainstem.lang.frame import Frame
from mainstem.lang.history import (
    APPEND,
    COUNT,
    LOST,
    READS,
    TS,
    History,
    ahead_reason,
    entry_fields,
    full_reason,
    keep_of,
    read_field,
    refusal_of,
    unknown_field,
)
from mainstem.lang.ir import Value
from mainstem.lang.rows import row_site
from mainstem.lang.values import seen_as
from mainstem.schema import Field, Type

_NO_VALUE = Value("0", "none", "True", None)


def row_call(frame: Frame, node: ast.Call, alone: bool = False) -> Value | None:
    """The value of `row.method(…)`; None when it is no call on a row. `alone`: it stands on a line of its own."""
    if not isinstance(node.func, ast.Attribute):
        return None
    site = row_site(frame, node.func.value)
    if site is None:
        return None
    handle, method = frame.shared.handles[frame.sites[site].table], node.func.attr
    name = handle.schema.name
    if not isinstance(handle, History):
        if method not in (APPEND, *READS):
            raise frame.uncompilable(f"a call of {method!r} on a row is not compiled", node)
        remedy = f"declare it with @app.history(key=…, keep=…) to use {method}"
        raise frame.error(f"{name} is a plain table: its rows have no {method!r}", node, remedy)
    if method not in (APPEND, *READS):
        remedy = f"they have: {', '.join((APPEND, *READS))}"
        raise frame.error(f"rows of history {name} have no method {method!r}", node, remedy)
    if method == APPEND and not alone:
        raise frame.error("append has no value", node, "call it on a line of its own")
    ring = Ring(frame, site, node)
    return _append(ring) if method == APPEND else _read(ring, method)


class Ring:
    """One row while one call on it is lowered."""

    def __init__(self, frame: Frame, site: int, call: ast.Call) -> None:
        self.frame, self.site, self.call, self.line = frame, site, call, call.lineno
        self.schema = frame.shared.handles[frame.sites[site].table].schema
        self.keep = keep_of(self.schema)

    def let(self, text: str, *operands: Value, base: str = "int") -> Value:
        names = tuple(name for operand in operands for name in operand.names)
        return self.frame.let(self.call, text, names, base)

    def load(self, field: str, slot: Value | None = None) -> Value:
        """What is stored: bools are bytes, strings are codes; without a slot all of an array."""
        self.frame.sites[self.site].reads = True
        name = self.frame.temporary()
        self.frame.emit(ir.Load(self.line, name, self.site, field, slot.text if slot else None))
        return Value(name, "int")

    def store(self, field: str, value: Value, slot: Value | None = None) -> None:
        self.frame.sites[self.site].writes = True
        self.frame.emit(ir.Store(self.line, self.site, field, value, slot.text if slot else None))

    def call_on(self, function: str, field: str, *arguments: Value, base: str = "int") -> Value:
        """The value of a function of `rings` that can't fail."""
        operands = (self.load(field), *arguments)
        return self.let(f"{function}({', '.join(o.text for o in operands)})", *operands, base=base)

    def abort_when(self, reason: str, text: str, *operands: Value) -> None:
        condition = self.let(text, *operands, base="bool")
        self.frame.emit(ir.AbortIf(self.line, condition, self.frame.shared.reason(reason)))

    def now(self) -> Value:
        self.frame.used_fields["ts"] = Type("int")
        return Value("e_ts", "int")

    def slot(self, number: str, *operands: Value) -> Value:
        """Where an entry stands, by its number."""
        return self.let(f"({number}) % {self.keep}", *operands)

    def appended(self) -> Value:
        """How many entries were ever appended. Aborts when the newest of them is yet to come."""
        count, now = self.load(COUNT), self.now()
        newest = self.load(TS, self.slot(f"{count.text} + {self.keep - 1}", count))
        ahead = f"{count.text} > 0 and {newest.text} > {now.text}"
        self.abort_when(ahead_reason(self.schema), ahead, count, newest, now)
        return count

    def window(self, last: Value | None) -> tuple[Value, Value]:
        """(slot of the first entry, number of entries) of the last `last` units of time; None: of all that is kept.

        Aborts when an entry that belongs there was overwritten.
        """
        after = None if last is None else self.frame.checked(self.call, "sub", (self.now(), last), "int")
        count = self.appended()
        if after is None:
            size = self.let(f"min({count.text}, {self.keep})", count)
        else:
            lost = self.load(LOST)
            gone = f"{count.text} > {self.keep} and {lost.text} > {after.text}"
            self.abort_when(full_reason(self.schema), gone, count, lost, after)
            size = self.call_on("ring_newer", TS, count, after)
        return self.slot(f"{count.text} - {size.text}", count, size), size


# -- append --------------------------------------------------------------------------------------------------------


def _append(ring: Ring) -> Value:
    fields, values = entry_fields(ring.schema), _appended(ring)
    count = ring.appended()
    stored = [converted(ring.frame, f, values[f.name], ring.call) for f in fields]
    slot, full = ring.slot(count.text, count), ring.let(f"{count.text} >= {ring.keep}", count, base="bool")
    overwritten: ir.Block = []
    with ring.frame.into(overwritten):
        ring.store(LOST, ring.load(TS, slot))
    ring.frame.emit(ir.If(ring.line, full, overwritten, []))
    for field, value in zip(fields, stored, strict=True):
        ring.store(field.name, value, slot)
    ring.store(TS, ring.now(), slot)
    ring.store(COUNT, ring.let(f"{count.text} + 1", count))
    return _NO_VALUE


def _appended(ring: Ring) -> dict[str, Value]:
    """What the call gives for each field, computed in the order written."""
    frame, call, name = ring.frame, ring.call, ring.schema.name
    wanted, given = [f.name for f in entry_fields(ring.schema)], [k.arg for k in call.keywords]
    remedy = f"write append({', '.join(f'{field}=…' for field in wanted)})"
    if call.args or None in given:
        raise frame.error(f"append to {name} takes its fields by name", call, remedy)
    unknown = [field for field in given if field not in wanted]
    if unknown:
        raise frame.error(unknown_field(ring.schema, unknown[0])[0], call, remedy)
    missing = [field for field in wanted if field not in given]
    if missing:
        raise frame.error(f"append to {name} leaves out {', '.join(missing)}", call, remedy)
    return {str(k.arg): lower(frame, k.value) for k in call.keywords}


# -- arguments of reads --------------------------------------------------------------------------------------------

_POSITIONAL: dict[str, tuple[str, ...]] = {"count": (), "top": ("field", "rank")}
_BY_NAME: dict[str, tuple[str, ...]] = {"last": (), "top": ("rank", "last")}
_SHAPES = {
    "count": "count(last=3600)",
    "last": 'last("{0}")',
    "top": 'top("{0}", last=3600) or top("{0}", 2, last=3600)',
}


def _read(ring: Ring, method: str) -> Value:
    options = _options(ring, method)
    if method == "count":
        return ring.window(_last(ring, options))[1]
    field = _field(ring, method, options["field"])
    if method == "last":
        return _newest(ring, field)
    rank = _rank(ring, options.get("rank"))
    first, count = ring.window(_last(ring, options))
    if method == "distinct":
        return ring.call_on("ring_distinct", field.name, first, count)
    missing = ring.let(f"{count.text} == 0", count, base="bool")
    if method in ("sum", "mean"):
        total = _total(ring, method, field, first, count)
        return total if method == "sum" else Value(total.text, "float", missing.text)
    if method == "top":
        return _top(ring, field, first, count, rank)
    return _seen(ring, field, ring.call_on(f"ring_{method}", field.name, first, count), missing)


def _options(ring: Ring, method: str) -> dict[str, ast.expr]:
    """The arguments by name."""
    positional, by_name = _POSITIONAL.get(method, ("field",)), _BY_NAME.get(method, ("last",))
    call = ring.call
    found = dict(zip(positional, call.args, strict=False))
    named = {str(k.arg): k.value for k in call.keywords}
    known = len(call.args) <= len(positional) and all(n in by_name and n not in found for n in named)
    if not known or ("field" in positional and "field" not in found):
        shape = _SHAPES.get(method, f'{method}("{{0}}", last=3600)').format(entry_fields(ring.schema)[0].name)
        raise ring.frame.error(f"{method} does not take these arguments", call, f"write {shape}")
    return found | named


def _field(ring: Ring, method: str, node: ast.expr) -> Field:
    """The array of the field that `node` names."""
    name = node.value if isinstance(node, ast.Constant) else ast.unparse(node)
    field = read_field(ring.schema, name) if isinstance(node, ast.Constant) and isinstance(name, str) else None
    if field is None:
        raise ring.frame.error(*_placed(unknown_field(ring.schema, name), node))
    refusal = refusal_of(method, field, str(name))
    if refusal is not None:
        raise ring.frame.error(*_placed(refusal, node))
    return field


def _placed(problem: tuple[str, str], node: ast.AST) -> tuple[str, ast.AST, str]:
    return problem[0], node, problem[1]


def _last(ring: Ring, options: dict[str, ast.expr]) -> Value | None:
    node = options.get("last")
    if node is None:
        return None
    value = ring.frame.not_null(lower(ring.frame, node), node)
    if value.base != "int":
        raise ring.frame.error(f"last is {value.base}", node, "give an int, in the unit of ts: last=3600")
    if isinstance(value.constant, int) and value.constant < 1:
        raise ring.frame.error(f"a window of {value.constant} holds nothing", node, "give last=1 or more")
    return value


def _rank(ring: Ring, node: ast.expr | None) -> int:
    if node is None:
        return 1
    rank = lower(ring.frame, node).constant
    if not isinstance(rank, int) or isinstance(rank, bool) or not 1 <= rank <= ring.keep:
        what = f"the rank {ast.unparse(node)} is no constant from 1 to {ring.keep}"
        raise ring.frame.error(what, node, 'write top("field", 2) for the second most frequent value')
    return rank


# -- what reads compute --------------------------------------------------------------------------------------------


def _seen(ring: Ring, field: Field, stored: Value, missing: Value) -> Value:
    """A stored value as functions see it; None where `missing` holds."""
    if field.type.base == "bool":
        stored = ring.let(f"{stored.text} != 0", stored)
    return Value(stored.text, seen_as(field.type), missing.text)


def _newest(ring: Ring, field: Field) -> Value:
    count = ring.appended()
    value = ring.load(field.name, ring.slot(f"{count.text} + {ring.keep - 1}", count))
    return _seen(ring, field, value, ring.let(f"{count.text} == 0", count, base="bool"))


def _total(ring: Ring, method: str, field: Field, first: Value, count: Value) -> Value:
    stored = field.type.base
    base = "float" if method == "mean" or stored == "float" else "int"
    function = f"ring_{method}_{stored}"
    if stored == "int":
        return ring.frame.checked(ring.call, function, (ring.load(field.name), first, count), base)
    return ring.call_on(function, field.name, first, count, base=base)


def _top(ring: Ring, field: Field, first: Value, count: Value, rank: int) -> Value:
    found = ring.call_on("ring_top", field.name, first, count, Value(str(rank), "int"))
    missing = ring.let(f"{found.text} < 0", found, base="bool")
    value = ring.load(field.name, ring.let(f"max({found.text}, 0)", found))
    return _seen(ring, field, value, missing)
