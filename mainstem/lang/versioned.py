"""Source of the entry point `versioned`: one vertex (a whole transaction or a part of one) on versions of rows.

Names beside those of `emit`:

    T0              here: the versions of table 0 (`W0` in the context)
    q, end, A       refs of the vertex are q … end - 1; `A[k]` is the version that ref k works on
    first           where the refs of dynamic sites begin
    turn            which turn of its key loop a part runs
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainstem.lang import ir
from mainstem.lang.context import HALF, WORD, Context
from mainstem.lang.emit import (
    INTERNAL,
    Body,
    Lines,
    TransactionWriter,
    event_parameters,
    index_parameters,
    load_event,
    look_up,
)
from mainstem.lang.parts import Part

# Set in the code of an abort that may not be the first one of its transaction in program order.
IMPRECISE = 1 << 20
_LOCAL = ("j", "p", "t", "q", "end", "turn")


@dataclass(frozen=True)
class Vertex:
    """One kind of vertex: a body, the statements to run, and what it does to each site."""

    number: int
    body: Body
    block: ir.Block
    sites: tuple[int, ...]  # static sites first, in the order of their refs; then dynamic ones
    owned: frozenset[int]
    precise: frozenset[int] | None  # positions of exact aborts in the block; None: all are

    @property
    def static(self) -> tuple[int, ...]:
        return tuple(s for s in self.sites if not self.body.sites[s].dynamic)

    def noted(self, checked: set[int]) -> list[int]:
        """Tables whose written rows are listed, because checks follow."""
        tables = {self.body.sites[s].table for s in self.owned}
        return sorted(tables & checked)


def whole_vertex(body: Body) -> Vertex:
    sites = sorted((s.index for s in body.sites), key=lambda i: (body.sites[i].dynamic, i))
    owned = frozenset(s.index for s in body.sites if s.writes)
    return Vertex(body.index, body, body.block, tuple(sites), owned, None)


def part_vertex(number: int, body: Body, part: Part) -> Vertex:
    used = {*part.owned, *part.private, *part.read}
    sites = sorted(used, key=lambda i: (body.sites[i].dynamic, i))
    return Vertex(number, body, part.block, tuple(sites), frozenset(part.owned), part.precise)


class VersionWriter(TransactionWriter):
    """A block on versions: no undo, rows through `A`."""

    def __init__(self, lines: Lines, vertex: Vertex, checked: set[int]) -> None:
        super().__init__(lines, vertex.body)
        self.vertex, self.undone = vertex, []
        self.noted = vertex.noted(checked)
        exact = vertex.precise
        self.exact = None if exact is None else {id(s) for n, s in enumerate(ir.walk(vertex.block)) if n in exact}
        self.current: ir.Statement | None = None

    def statement(self, s: ir.Statement) -> None:
        self.current = s
        super().statement(s)

    def leave(self, code: str) -> None:
        if code != "0" and code != str(INTERNAL) and self.exact is not None and id(self.current) not in self.exact:
            code = f"{code} | {IMPRECISE}"
        self.lines.add(f"return {', '.join([code, *(f'u{i}' for i in self.noted)])}{'' if self.noted else ', 0'}")

    def special(self, s: ir.Statement) -> None:
        if isinstance(s, ir.Turn):
            self.lines.add(f"{s.variable} = {s.start.text} + turn * {s.step}")
            self.lines.depth -= 1
            self.block(s.body)
            self.lines.depth += 1
        elif isinstance(s, ir.Return) and not s.number:
            self.leave("0")
        else:
            super().special(s)

    def _resolve(self, s: ir.Resolve) -> None:
        site = self._site(s.site)
        if site.columns is not None:
            return
        if site.dynamic:
            place = f"a{s.site}"
            self.lines.add(
                f"r{s.site} = {look_up([k.text for k in s.key], site.table)}",
                f"{place} = locate(ref_table, ref_row, q + {len(self.vertex.static)}, end, {place}, "
                f"{site.table}, r{s.site})",
                f"r{s.site} = -1 if {place} < 0 else A[{place}]",
            )
            if site.table in self.noted and s.site in self.vertex.owned:
                seen = f"saved(V{site.table}, u{site.table}, r{s.site})" if site.repeats else "False"
                self.lines.add(f"w{s.site} = {seen}")
        self.lines.add(f"if r{s.site} < 0:")
        self.lines.depth += 1
        self.leave(str(INTERNAL))
        self.lines.depth -= 1

    def _save(self, site: int) -> None:
        table = self._site(site).table
        if table in self.noted and site in self.vertex.owned:
            super()._save(site)


def vertex_parameters(vertex: Vertex, checked: set[int]) -> list[str]:
    body = vertex.body
    names = [*_LOCAL, "S", *event_parameters(body.fields), "A"]
    dynamic = sorted({body.sites[s].table for s in vertex.sites if body.sites[s].dynamic})
    if dynamic:
        names += ["ref_table", "ref_row"]
    deleted = {body.sites[s.site].table for s in ir.walk(vertex.block) if isinstance(s, ir.Delete)}
    noted = vertex.noted(checked)
    for i in sorted({body.sites[s].table for s in vertex.sites}):
        names.append(f"T{i}")
        names += [f"V{i}"] * (i in noted) + [f"Z{i}"] * (i in deleted)
        names += index_parameters(i, body.tables_schemas) if i in dynamic else []
    returns = [s for s in ir.walk(vertex.block) if isinstance(s, ir.Return) and s.number]
    for column in dict.fromkeys(c for s in returns for c, _ in s.columns):
        names.append(f"O{body.ids[column]}")
        if column in body.null_columns:
            names.append(f"N{body.ids[column]}")
    return [*names, "ret"] if returns else names


def vertex_source(vertex: Vertex, checked: set[int]) -> list[str]:
    lines, parameters = Lines(), vertex_parameters(vertex, checked)
    body, noted = vertex.body, vertex.noted(checked)
    lines.add("@inlined", f"def part_{vertex.number}({', '.join(parameters)}):")
    lines.depth += 1
    load_event(lines, body.fields)
    lines.add(*(f"r{s} = A[q + {n}]" for n, s in enumerate(vertex.static)))
    dynamic = [s for s in vertex.sites if body.sites[s].dynamic]
    lines.add(*(f"a{s} = q + {len(vertex.static)}" for s in dynamic))
    lines.add(*(f"w{s} = False" for s in vertex.static if body.sites[s].table in noted and s in vertex.owned))
    lines.add(*(f"u{i} = 0" for i in noted))
    lines.depth -= 1
    writer = VersionWriter(lines, vertex, checked)
    writer.block(vertex.block)
    lines.depth += 1
    writer.leave("0")
    lines.depth -= 1
    counts = [f"u{i}" for i in noted] or ["_"]
    lines.add("", "@inlined", f"def vertex_{vertex.number}({', '.join(parameters)}):")
    lines.add(f"    code, {', '.join(counts)} = part_{vertex.number}({', '.join(parameters)})")
    flag = "" if vertex.precise is None else f" | {IMPRECISE}"
    for i in noted:
        lines.add(
            "    if code == 0:",
            f"        code = checks_{i}(T{i}, V{i}, u{i}, S)",
            "        if code != 0:",
            f"            code = code{flag}",
        )
    lines.add("    return code")
    return lines.text


def versioned_source(vertices: Sequence[Vertex], context: Context, checked: set[int]) -> list[str]:
    inner = Lines()
    inner.depth = 1
    _acquire(inner, context)
    inner.add("kind = v_part[v]", "turn = v_turn[v]", "j = ev[t]")
    for name in ("v_part", "v_turn"):
        context.want(name, WORD)
    context.want("ev", HALF)
    for vertex in vertices:
        inner.add(f"if kind == {vertex.number}:")
        inner.depth += 1
        _call(inner, vertex, context, checked)
        inner.depth -= 1
    inner.add("return 0")
    head = Lines()
    head.add("@entry", "def versioned(context, v, worker):")
    head.depth = 1
    context.unpack(head)
    return [*head.text, *inner.text]


def _call(lines: Lines, vertex: Vertex, context: Context, checked: set[int]) -> None:
    lines.add(f"p = {context.want(f'pos{vertex.body.kind}', WORD)}[j]")
    parameters = vertex_parameters(vertex, checked)
    arguments = [n if n in _LOCAL else _argument(n, vertex.body, context) for n in parameters]
    if "ret" in parameters:
        lines.add("ret[t] = 0")
    lines.add(f"return vertex_{vertex.number}({', '.join(arguments)})")


def _argument(name: str, body: Body, context: Context) -> str:
    if name in ("A", "ref_table", "ref_row"):
        return context.want(name, WORD)
    if name[0] == "T":
        return context.want(f"W{name[1:]}", f"D{name[1:]}")
    return context.parameter(body, name)


def _acquire(lines: Lines, context: Context) -> None:
    """Finds the version behind each ref, and copies those that the vertex will change."""
    for name in ("v_txn", "v_lo", "ref_op", "ref_mode", "ref_slot", "A", "op_row", "op_prev"):
        context.want(name, WORD)
    for name in ("op_slot", "op_src", "op_ver", "row_base", "row_table"):
        context.want(name, WORD)
    lines.add("t = v_txn[v]", "q = v_lo[v]", "end = v_lo[v + 1]", "for k in range(q, end):")
    lines.depth += 1
    lines.add("o = ref_op[k]", "mode = ref_mode[k]", "if o < 0:", "    A[k] = -1", "elif mode == 3:")
    lines.add("    A[k] = A[ref_slot[k]]", "else:")
    lines.depth += 1
    lines.add(
        "before = op_prev[o]",
        "source = op_ver[before] if before >= 0 else row_base[op_row[o]]",
        "if mode == 0:",
        "    A[k] = source",
        "else:",
    )
    lines.depth += 1
    lines.add(
        "copy = op_slot[o] if mode == 1 else ref_slot[k]",
        "if mode == 1:",
        "    op_src[o] = source",
        "A[k] = copy",
        "table = row_table[op_row[o]]",
    )
    for i in range(len(context.tables)):
        context.want(f"W{i}", f"D{i}")
        lines.add(f"if table == {i}:", f"    W{i}[copy] = W{i}[source]")
    lines.depth -= 3
