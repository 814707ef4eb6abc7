"""Source of the entry point `asks`: in one pass over a batch, numbers its transactions and lists the rows that each may
reach. What `keys_f` does for one function at a time, and with more to know about each key.

Names beside those of `emit` and `key_source`:

    request, n      what transactions ask for (`engine/requests.py`); how many requests there are so far
    request_lo      where those of a transaction begin
    row_lo0         the number of the first row of table 0, in the numbering of all (from `row_lo`)
    last            who asked for a row last (`lang/asked.py`); transactions have the stamps from `base` + 1 on
    b, before       the last stamp that this transaction may conflict with; its number, -1: none of this batch
    near            transactions with a conflict less than `WINDOW` before them
    f               negative when some key has no row yet
    d0, most0       keys of table 0 that vary in loops, of this event; the largest number of any
    facts           by `BASE`, `FOUND`, `NEAR`: base, f, near; from `MOST` on, per table: most0
    start           transactions before it ask for nothing: they have run
"""

from __future__ import annotations

from mainstem.lang import ir
from mainstem.lang.context import BYTE, HALF, WORD, Context
from mainstem.lang.emit import Body, Lines, event_parameters, index_parameters, load_event, look_up
from mainstem.lang.key_source import SliceWriter

BASE, FOUND, NEAR, MOST = 0, 1, 2, 3
WINDOW = 64  # transactions that may be running, or about to, when one behind them begins
_WORDS = ("request_lo", "last", "row_lo", "facts")
_HALVES = ("fn", "ev", "request", "before")  # what threads read most: less of it to send from one to the other
_LOCAL = ("j", "p", "stamp", "n", "b", "f")


class AskWriter(SliceWriter):
    """Lists requests instead of keys; gives the running `n` and `f`, and how many keys of each table it met."""

    def __init__(self, lines: Lines, body: Body, written: set[int]) -> None:
        super().__init__(lines, body)
        self.written, self.counted = written, body.unbounded

    def leave(self, code: str) -> None:
        self.lines.add(f"return {', '.join(['n', 'b', 'f', *(f'd{i}' for i in self.counted)])}")

    def resolve(self, s: ir.Resolve) -> None:
        site = self.body.sites[s.site]
        if not site.dynamic:
            return
        self.lines.add(f"r = {look_up([key.text for key in s.key], site.table)}", "f |= r")
        self.ask("r", site)
        if site.table in self.counted:
            self.lines.add(f"d{site.table} += 1")

    def ask(self, row: str, site: ir.Site) -> None:
        """Nobody waits for a row of a table that no function writes."""
        if site.table in self.written:
            number = f"row_lo{site.table} + {row}"
            self.lines.add(f"n, b = asked(request, n, last, b, stamp, {number}, {int(site.writes)})")

    def ask_static(self, site: ir.Site) -> None:
        if site.table in self.written:
            self.lines.add(f"if R{site.index}[j] >= 0:")
            self.lines.depth += 1
            self.ask(f"R{site.index}[j]", site)
            self.lines.depth -= 1


def asks_source(bodies: list[Body], kinds: int, context: Context) -> list[str]:
    """Requests that there is no room for are only counted; gives their number."""
    written = {i for body in bodies for i in body.written}
    lines = Lines()
    for body in bodies:
        lines.text += [*_ask_source(body, written), "", ""]
    inner = _loop(bodies, kinds, context)
    lines.add("@entry", "def asks(context, start, worker):")
    lines.depth += 1
    context.unpack(lines)
    return [*lines.text, *inner.text]


def _loop(bodies: list[Body], kinds: int, context: Context) -> Lines:
    for name in _WORDS:
        context.want(name, WORD)
    for name in _HALVES:
        context.want(name, HALF)
    context.want("kind", BYTE)
    counted = sorted({i for body in bodies for i in body.unbounded})
    tables = sorted({i for body in bodies for i in body.tables})
    lines = Lines()
    lines.depth = 1
    lines.add(
        f"base, t, n, f, near = facts[{BASE}], 0, 0, 0, 0",
        *(f"row_lo{i} = row_lo[{i}]" for i in tables),
        *(f"j{k} = 0" for k in range(kinds)),
        *(f"most{i} = 0" for i in counted),
    )
    lines.add("for i in range(len(kind)):")
    lines.depth += 1
    for k in range(kinds):
        lines.add(f"{'if' if k == 0 else 'elif'} kind[i] == {k}:")
        lines.depth += 1
        for body in bodies:
            if body.kind == k:
                _one(lines, body, context)
        lines.add(f"j{k} += 1")
        lines.depth -= 1
    lines.depth -= 1
    lines.add("request_lo[t] = n", f"facts[{FOUND}], facts[{NEAR}] = f, near")
    lines.add(*(f"facts[{MOST + i}] = most{i}" for i in counted), "return n")
    return lines


def _one(lines: Lines, body: Body, context: Context) -> None:
    """Numbers one transaction, and lists what it asks for."""
    k = body.kind
    position = f"natural({context.want(f'pos{k}', WORD)}[j{k}])"
    provided = {"j": f"j{k}", "p": position, "stamp": "base + t + 1", "b": "base"}
    provided |= {name: name for name in (*_WORDS, *_HALVES, "n", "f", *(f"row_lo{i}" for i in body.tables))}
    arguments = [provided.get(name) or context.parameter(body, name) for name in _parameters(body)]
    counts = [f"d{i}" for i in body.unbounded]
    lines.add(f"t, j{k}, n = natural(t), natural(j{k}), natural(n)")
    lines.add(f"fn[t], ev[t], request_lo[t] = {body.index}, j{k}, n", "if t >= start:")
    lines.add(
        f"    {', '.join(['n', 'b', 'f', *counts])} = ask_{body.index}({', '.join(arguments)})",
        *(f"    most{i} = max(most{i}, d{i})" for i in body.unbounded),
        "    before[t] = b - base - 1",
        f"    near += b > base and t - before[t] < {WINDOW}",
        "t += 1",
    )


def _parameters(body: Body) -> list[str]:
    names = [*_LOCAL, "request", "last", "S", *event_parameters(body.fields)]
    names += [f"row_lo{i}" for i in body.tables]
    names += [f"R{site.index}" for site in body.sites if not site.dynamic]
    for i in sorted({site.table for site in body.sites if site.dynamic}):
        names += index_parameters(i, body.tables_schemas)
    return names


def _ask_source(body: Body, written: set[int]) -> list[str]:
    """`ask_f` does one event: rows that are known from the start, then those of keys that vary in loops."""
    lines = Lines()
    writer = AskWriter(lines, body, written)
    lines.add("@inlined", f"def ask_{body.index}({', '.join(_parameters(body))}):")
    lines.depth += 1
    load_event(lines, body.fields)
    lines.add(*(f"d{i} = 0" for i in writer.counted))
    for site in body.sites:
        if not site.dynamic:
            writer.ask_static(site)
    lines.depth -= 1
    if any(site.dynamic for site in body.sites):
        writer.block(body.slice or [])
    lines.depth += 1
    writer.leave("0")
    return lines.text
