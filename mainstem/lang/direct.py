"""Source of the entry point `direct`: whole transactions one after the other, in place, each undone when it aborts.

Its item says which ones: the number of the first, and in the lowest `STRETCH_BITS` bits how many follow it. What is the
same for all of them, above all where the arrays of the batch are, is looked up once.
"""

from __future__ import annotations

from mainstem.lang.context import HALF, WORD, Context
from mainstem.lang.emit import Body, Lines, transaction_parameters

STRETCH_BITS = 6
# Parameters of a transaction that the entry point itself provides.
_LOCAL = ("j", "p", "t")


def direct_source(bodies: list[Body], context: Context) -> list[str]:
    """Writes the abort code of each transaction, and gives that of the last."""
    inner = Lines()
    inner.depth = 1
    for name in ("fn", "ev"):
        context.want(name, HALF)
    context.want("mark", WORD)
    context.want("code", "INT16")
    inner.add(f"first = natural(item >> {STRETCH_BITS})", "c = 0")
    inner.add(f"for t in range(first, first + (item & {2**STRETCH_BITS - 1}) + 1):")
    inner.depth += 1
    inner.add("c, f, j = 0, fn[t], natural(ev[t])")
    for number, body in enumerate(bodies):
        inner.add(f"{'elif' if number else 'if'} f == {body.index}:")
        inner.depth += 1
        _one(inner, body, context)
        inner.depth -= 1
    inner.add("code[t] = c")
    inner.depth -= 1
    inner.add("return c")
    head = Lines()
    head.add("@entry", "def direct(context, item, worker):")
    head.depth = 1
    context.unpack(head)
    return [*head.text, *inner.text]


def _one(lines: Lines, body: Body, context: Context) -> None:
    lines.add(f"p = natural({context.want(f'pos{body.kind}', WORD)}[j])")
    parameters = transaction_parameters(body)
    arguments = [n if n in _LOCAL else context.parameter(body, n) for n in parameters]
    if "ret" in parameters:
        lines.add("ret[t] = 0")
    counts = [f"u{i}" for i in body.written]
    lines.add(f"c, {', '.join(counts) or '_'} = txn_{body.index}({', '.join(arguments)})")
    undo = ["ret[t] = 0"] if "ret" in parameters else []
    for i in body.undone:
        undo += [f"for q in range(u{i} - 1, -1, -1):", f"    T{i}[V{i}[q]] = U{i}[q]"]
    if undo:
        lines.add("if c != 0:", *("    " + line for line in undo))
    if counts:
        lines.add("if c == 0 and mark[0] > 0:")
        for i in body.written:
            context.want(f"M{i}", WORD)
            lines.add(f"    for q in range(u{i}):", f"        M{i}[V{i}[q]] = mark[0]")
