"""Calls on rows of histories: `append`, and reads of windows that end with the event."""

from __future__ import annotations

import ast
from typing import Any

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
    entry_fields,
    read_field,
    refusal_of,
    unknown_field,
)
from mainstem.lang.ir import Value
from mainstem.lang.ring import Ring
from mainstem.lang.rows import row_site
from mainstem.lang.values import seen_as
from mainstem.schema import Field

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


# -- append --------------------------------------------------------------------------------------------------------


def _append(ring: Ring) -> Value:
    fields, values = entry_fields(ring.schema), _appended(ring)
    count, slot = ring.counted()
    stored = [converted(ring.frame, f, values[f.name], ring.call) for f in fields]
    with ring.when(f"{count.text} >= {ring.keep}", count):
        ring.store(LOST, ring.load(TS, slot))
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


def _read(ring: Ring, method: str) -> Value:
    reads = {"sum": _sum, "mean": _mean, "min": _extreme, "max": _extreme, "distinct": _distinct}
    options = _options(ring, method)
    if method == "count":
        return ring.window(_last(ring, options))[1]
    field = _field(ring, method, options.pop("field"))
    if method == "last":
        return _newest(ring, field)
    rank = _rank(ring, options.get("rank"))
    first, count = ring.window(_last(ring, options))
    return _top(ring, field, first, count, rank) if method == "top" else reads[method](ring, field, first, count)


_POSITIONAL = {"count": (), "top": ("field", "rank")}
_BY_NAME = {"last": (), "top": ("rank", "last")}
_SHAPES = {
    "count": "count(last=3600)",
    "last": 'last("{0}")',
    "top": 'top("{0}"), top("{0}", 2) or top("{0}", 2, last=3600)',
}


def _options(ring: Ring, method: str) -> dict[str, ast.expr]:
    """The arguments by name."""
    positional, by_name = _POSITIONAL.get(method, ("field",)), _BY_NAME.get(method, ("last",))
    call, names = ring.call, [k.arg for k in ring.call.keywords]
    found = dict(zip(positional, call.args, strict=False))
    fits = len(call.args) <= len(positional) and all(n in by_name and n not in found for n in names)
    if not fits or ("field" in positional and "field" not in found):
        shape = _SHAPES.get(method, f'{method}("{{0}}", last=3600)').format(entry_fields(ring.schema)[0].name)
        raise ring.frame.error(f"{ast.unparse(call)} does not fit {method}", call, f"write {shape}")
    return found | {str(k.arg): k.value for k in call.keywords}


def _field(ring: Ring, method: str, node: ast.expr) -> tuple[str, Field]:
    """The array that holds the field, and the field of one entry."""
    name = node.value if isinstance(node, ast.Constant) else None
    field = read_field(ring.schema, name) if isinstance(name, str) else None
    if field is None or not isinstance(name, str):
        if not isinstance(name, str):
            what = f"{method} takes the name of a field in quotes, not {ast.unparse(node)}"
            raise ring.frame.error(what, node, unknown_field(ring.schema, name)[1])
        raise ring.frame.error(unknown_field(ring.schema, name)[0], node, unknown_field(ring.schema, name)[1])
    refusal = refusal_of(method, field, name)
    if refusal is not None:
        raise ring.frame.error(refusal[0], node, refusal[1])
    return field
