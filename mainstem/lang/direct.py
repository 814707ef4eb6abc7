"""Source of the entry point `direct`: one whole transaction, in place, undone when it aborts."""

from __future__ import annotations

from mainstem.lang.context import WORD, Context
from mainstem.lang.emit import Body, Lines, transaction_parameters

# Parameters of a transaction that the entry point itself provides.
_LOCAL = ("j", "p", "t")


def direct_source(bodies: list[Body], context: Context) -> list[str]:
    inner = Lines()
    inner.depth = 1
    for name in ("fn", "ev", "mark"):
        context.want(name, WORD)
    inner.add("f = fn[t]", "j = ev[t]")
    for body in bodies:
        inner.add(f"if f == {body.index}:")
        inner.depth += 1
        _one(inner, body, context)
        inner.depth -= 1
    inner.add("return 0")
    head = Lines()
    head.add("@entry", "def direct(context, t, worker):")
    head.depth = 1
    context.unpack(head)
    return [*head.text, *inner.text]


def _one(lines: Lines, body: Body, context: Context) -> None:
    lines.add(f"p = {context.want(f'pos{body.kind}', WORD)}[j]")
    parameters = transaction_parameters(body)
    arguments = [n if n in _LOCAL else context.parameter(body, n) for n in parameters]
    if "ret" in parameters:
        lines.add("ret[t] = 0")
    counts = [f"u{i}" for i in body.written]
    lines.add(f"c, {', '.join(counts) or '_'} = txn_{body.index}({', '.join(arguments)})", "if c != 0:")
    lines.depth += 1
    if "ret" in parameters:
        lines.add("ret[t] = 0")
    for i in body.undone:
        lines.add(f"for q in range(u{i} - 1, -1, -1):", f"    T{i}[V{i}[q]] = U{i}[q]")
    lines.add("return c")
    lines.depth -= 1
    if counts:
        lines.add("if mark[0] > 0:")
        for i in body.written:
            context.want(f"M{i}", WORD)
            lines.add(f"    for q in range(u{i}):", f"        M{i}[V{i}[q]] = mark[0]")
    lines.add("return 0")
