"""Source of the kernels that compute the keys of a batch from event columns: the event-only slice of a function.

Names beside those of `emit`:

    k3_0, k3_ok     part 0 of the keys of static site 3; whether an event has that key
    q0_0, q0_site, q0_turn  part 0 of the keys of table 0 that vary in loops; their sites; their turns
    q0_row          their rows, -1 for a key that is new
    d0, end0        how many of those there are so far; where those of an event end
    f0              negative when one of them is new
    facts           per such table, by `FOUND` and `MOST`: f0; the largest number of keys of one event
    tn_v            turns that the key loop over `v` took
"""

from __future__ import annotations

from mainstem.lang import ir
from mainstem.lang.emit import Body, Lines, Writer, event_parameters, index_parameters, load_event, look_up

FOUND, MOST, FACTS = 0, 1, 2


class SliceWriter(Writer):
    """An event-only slice: nothing in it stops a transaction, and it may compute more than the transaction does."""

    def __init__(self, lines: Lines, body: Body) -> None:
        super().__init__(lines)
        self.body = body

    def resolve(self, s: ir.Resolve) -> None:
        raise AssertionError("a subclass says what to do with a key")

    def checked(self, s: ir.Checked) -> None:
        # A failed surplus computation must not stop the others: it gives 0, and nobody looks at that key.
        self.lines.add(f"{s.target}, _ = {self.call(s)}")

    def item(self, s: ir.Item) -> str:
        # The index check may have failed and the slice gone on, so this must not read past the list.
        inside = f"lo_{s.field} + {s.index.text} < hi_{s.field}"
        return f"{super().item(s)} if {inside} else {'False' if s.is_bool else '0'}"

    def special(self, s: ir.Statement) -> None:
        if isinstance(s, ir.Resolve):
            self.resolve(s)
        elif isinstance(s, ir.Return):
            self.leave("0")
        else:
            super().special(s)


class KeyWriter(SliceWriter):
    """Fills key arrays; gives the running `d` and `f` of each table with dynamic keys."""

    def __init__(self, lines: Lines, body: Body) -> None:
        super().__init__(lines, body)
        self.dynamic = sorted({s.table for s in body.sites if s.dynamic})
        self.loops = {id(loop) for loop in key_loops(body)}

    def leave(self, code: str) -> None:
        self.lines.add(f"return {_counters(self.dynamic) or '0'}")

    def statement(self, s: ir.Statement) -> None:
        if id(s) in self.loops and isinstance(s, ir.For):
            self._key_loop(s)
        else:
            super().statement(s)

    def _key_loop(self, s: ir.For) -> None:
        """Counts turns, so that keys can be told apart by the turn that they belong to."""
        self.lines.add("turn = -1", f"for {s.variable} in range({s.start.text}, {s.stop.text}, {s.step}):")
        self.lines.add("    turn += 1", f"    tn_{s.variable}[j] = turn + 1")
        self.block(s.body)
        self.lines.add("turn = -1")

    def resolve(self, s: ir.Resolve) -> None:
        site = self.body.sites[s.site]
        if not site.dynamic:
            for c, key in enumerate(s.key):
                self.lines.add(f"k{s.site}_{c}[j] = {key.text}")
            self.lines.add(f"k{s.site}_ok[j] = 1")
            return
        i = site.table
        self.lines.add(f"if d{i} < len(q{i}_site):")
        self.lines.add(*(f"    q{i}_{c}[d{i}] = {key.text}" for c, key in enumerate(s.key)))
        self.lines.add(
            f"    q{i}_site[d{i}] = {s.site}",
            f"    q{i}_turn[d{i}] = turn",
            f"    q{i}_row[d{i}] = {look_up([f'q{i}_{c}[d{i}]' for c in range(len(s.key))], i)}",
            f"    f{i} |= q{i}_row[d{i}]",
            f"d{i} += 1",
        )


def key_loops(body: Body) -> list[ir.For]:
    """Loops of the key slice that nothing encloses, with keys of their own in each turn."""
    return [
        s
        for s in body.slice or []
        if isinstance(s, ir.For)
        and any(isinstance(i, ir.Resolve) and body.sites[i.site].dynamic for i in ir.walk(s.body))
    ]


def key_parameters(body: Body) -> list[str]:
    names = ["S", *event_parameters(body.fields)]
    for site in body.sites:
        if site.columns is None and not site.dynamic:
            names += [f"k{site.index}_{c}" for c in range(_arity(body, site.index))] + [f"k{site.index}_ok"]
    for i in sorted({s.table for s in body.sites if s.dynamic}):
        arity = max(_arity(body, s.index) for s in body.sites if s.table == i)
        names += [f"q{i}_{c}" for c in range(arity)] + [f"q{i}_site", f"q{i}_turn", f"q{i}_row"]
        names += index_parameters(i, body.tables_schemas)
    return names + [f"tn_{loop.variable}" for loop in key_loops(body)]


def _arity(body: Body, site: int) -> int:
    return len(body.tables_schemas[body.sites[site].table].key)


def keys_source(body: Body) -> list[str]:
    """`key_f` does one event, `keys_f` all of a batch. Keys that there is no room for are only counted."""
    assert body.slice is not None
    lines, parameters = Lines(), key_parameters(body)
    dynamic = sorted({s.table for s in body.sites if s.dynamic})
    counters = [_counters(dynamic)] if dynamic else []
    lines.add("@inlined", f"def key_{body.index}({', '.join(['j', 'p', *counters, *parameters])}):")
    lines.depth += 1
    load_event(lines, body.fields)
    if dynamic:
        lines.add("turn = -1")
    lines.depth -= 1
    writer = KeyWriter(lines, body)
    writer.block(body.slice)
    lines.depth += 1
    writer.leave("0")
    lines.depth -= 1
    ends = [f"end{i}" for i in dynamic]
    lines.add("", "@kernel", f"def keys_{body.index}({', '.join(['pos', 'facts', *ends, *parameters])}):")
    lines.depth += 1
    lines.add(*(f"d{i}, f{i}, most{i}, before{i} = 0, 0, 0, 0" for i in dynamic))
    lines.add("for j in range(len(pos)):")
    result = ", ".join(counters) or "_"
    lines.add(f"    {result} = key_{body.index}({', '.join(['j', 'pos[j]', *counters, *parameters])})")
    for i in dynamic:
        lines.add(f"    end{i}[j] = d{i}", f"    most{i} = max(most{i}, d{i} - before{i})", f"    before{i} = d{i}")
    for n, i in enumerate(dynamic):
        lines.add(f"facts[{n * FACTS + FOUND}] = f{i}", f"facts[{n * FACTS + MOST}] = most{i}")
    return lines.text


def _counters(dynamic: list[int]) -> str:
    return ", ".join(f"d{i}, f{i}" for i in dynamic)
