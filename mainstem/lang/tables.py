"""Which tables need which: edges between tables, the groups that must be updated together, and their order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from mainstem.lang import arith, ir
from mainstem.lang.analyse import cycles
from mainstem.lang.flow import loops_by_state
from mainstem.lang.lowering import Lowered, Unit
from mainstem.lang.slices import Slicer

Columns = tuple[str, ...] | None

Failures = Literal["rare", "tied"]
"""Whether a failing computation (overflow, division by zero) counts as an abort that ties tables together."""

RARE_CODES = frozenset(range(1, len(arith.BUILTIN_REASONS))) - {arith.INDEX, arith.NULL}
_ALWAYS_COUNT = ("index_in",)  # what users rely on to abort, beside `require` and their own helpers


def may_fail_rarely(s: ir.Statement) -> bool:
    """Arithmetic that aborts only when its result can't be represented."""
    return isinstance(s, ir.Checked) and s.call not in _ALWAYS_COUNT and not (s.call[0] == "h" and s.call[1].isdigit())


@dataclass(frozen=True)
class Edge:
    """A write to table `written` needs table `read`; `why` names the function and the lines."""

    read: int
    written: int
    why: str


@dataclass
class Cuttable:
    """One function and what cutting it needs to know."""

    unit: Unit
    slicer: Slicer
    failures: Failures
    whole: str = ""  # why it can't be cut

    @property
    def sites(self) -> list[ir.Site]:
        return self.unit.body.sites

    @cached_property
    def keys(self) -> dict[int, Columns]:
        """Per site: the columns that are its key; computed keys are columns, too. None for keys that vary in a loop, or
        that can't be columns."""
        return key_columns(self.unit, self.slicer)

    @property
    def met(self) -> list[ir.Site]:
        """Sites whose rows it looks at or changes; a row may be named for nothing."""
        return [s for s in self.sites if s.reads or s.writes]

    @property
    def statements(self) -> list[ir.Statement]:
        return self.slicer.statements

    @property
    def aborts(self) -> list[int]:
        """Statements that decide about an abort."""
        return [
            n
            for n, s in enumerate(self.statements)
            if isinstance(s, ir.AbortIf)
            or (isinstance(s, ir.Checked) and (self.failures == "tied" or not may_fail_rarely(s)))
        ]

    def stores(self, tables: Iterable[int]) -> list[int]:
        wanted = set(tables)
        return [
            n
            for n, s in enumerate(self.statements)
            if isinstance(s, ir.Store | ir.Delete) and self.sites[s.site].table in wanted
        ]

    def reads(self, kept: Iterable[int]) -> set[int]:
        """Sites whose values these statements look at."""
        return {s.site for s in (self.statements[n] for n in kept) if isinstance(s, ir.Load | ir.Exists)}

    @property
    def written(self) -> list[int]:
        return self.unit.body.written


@dataclass
class TableGraph:
    """Stages in topological order: groups of tables, each with its wave."""

    functions: list[Cuttable]
    edges: list[Edge]
    groups: list[tuple[int, ...]] = field(default_factory=list)
    waves: list[int] = field(default_factory=list)

    def stage_of(self, table: int) -> int:
        return next(n for n, group in enumerate(self.groups) if table in group)


def table_graph(lowered: Lowered, failures: Failures, uncut: Mapping[int, str]) -> TableGraph:
    """`uncut`: functions that are known not to be cut, and why."""
    functions = [
        Cuttable(u, Slicer(u.body), failures, uncut.get(u.body.index, "") or why_whole(u)) for u in lowered.units
    ]
    edges = [edge for f in functions for edge in _edges(f, set(lowered.checks))]
    graph = TableGraph(functions, edges)
    used = sorted({s.table for f in functions for s in (f.sites if f.whole else f.met)})
    pairs = {(e.read, e.written) for e in edges}
    tied = {frozenset(g) for g in cycles(len(lowered.spec.tables), pairs)}
    groups = sorted({next((tuple(sorted(g)) for g in tied if t in g), (t,)) for t in used})
    order = _ordered(groups, pairs)
    graph.groups, graph.waves = [g for g, _ in order], [wave for _, wave in order]
    return graph


def _ordered(groups: list[tuple[int, ...]], pairs: set[tuple[int, int]]) -> list[tuple[tuple[int, ...], int]]:
    """Groups with their waves: one more than the latest group that they need."""
    needs = {g: [o for o in groups if o != g and any(a in o and b in g for a, b in pairs)] for g in groups}
    waves: dict[tuple[int, ...], int] = {}
    while len(waves) < len(groups):
        for g in groups:
            if g not in waves and all(o in waves for o in needs[g]):
                waves[g] = 1 + max((waves[o] for o in needs[g]), default=0)
    return sorted(waves.items(), key=lambda item: (item[1], item[0]))


def key_columns(unit: Unit, slicer: Slicer) -> dict[int, Columns]:
    """Sites whose keys are computed alike share their columns."""
    found: dict[int, Columns] = {}
    alike: dict[tuple[str, ...], Columns] = {}
    for site in unit.body.sites:
        if site.columns is not None or site.dynamic or uses_derived(unit):
            found[site.index] = site.columns
            continue
        key = next(s.key for s in slicer.statements if isinstance(s, ir.Resolve) and s.site == site.index)
        formula = tuple(_formula(value, slicer, site.index) for value in key)
        names = tuple(f"k{unit.body.index}_{site.index}_{part}" for part in range(len(key)))
        found[site.index] = alike.setdefault(formula, names)
    return found


def _formula(value: ir.Value, slicer: Slicer, site: int) -> str:
    """The computation behind a value, written out; of a name that is set more than once, just its name at this site."""
    if not value.text.isidentifier() or value.text.startswith("e_"):
        return value.text
    setters = [s for s in slicer.statements if value.text in ir.defines(s)]
    match setters:
        case [ir.Let(text=text)]:
            return re.sub(r"\b[lt]\w*", lambda m: _formula(ir.Value(m[0], ""), slicer, site), text)
        case [ir.Checked(call=call, arguments=arguments)]:
            return f"{call}({', '.join(_formula(a, slicer, site) for a in arguments)})"
    return f"{value.text} of {site}"


def uses_derived(unit: Unit) -> bool:
    """Whether its computed keys may need columns that are themselves computed when the log is read."""
    texts = [t for s in ir.walk(unit.body.slice or []) for t in ir.texts(s)]
    return any(re.search(rf"\b(?:e|ne|lo|hi)_{field.name}\b", t) for field in unit.derived for t in texts)


def why_whole(unit: Unit) -> str:
    """Why a function can't be cut into pieces; empty when it can."""
    body = unit.body
    dynamic = next((s for s in body.sites if s.dynamic), None)
    if dynamic is not None:
        return f"the key of {dynamic.text} varies in a loop (line {dynamic.line})"
    computed = next((s for s in body.sites if s.columns is None), None)
    if computed is not None and len(body.sites) > 1 and uses_derived(unit):
        return f"the key of {computed.text} is computed from a derived column (line {computed.line})"
    for site in body.sites:
        others = [s for s in body.sites if s.table == site.table and s is not site]
        if site.writes and others:
            return f"{site.text} and {others[0].text} may be one row, and it is written (line {site.line})"
    if loops_by_state(body.block, unit.flow):
        return "state decides how long a loop runs"
    return ""


def _edges(f: Cuttable, checked: set[int]) -> list[Edge]:
    name = f.unit.body.name
    if f.whole:
        tables = sorted({s.table for s in f.sites})
        return _tied(tables, f"{name} runs whole: {f.whole}")
    edges = []
    for table in f.written:
        decided = f.slicer.closure(f.aborts)
        for site in sorted(f.reads(f.slicer.closure(f.stores([table])) | decided)):
            read, by = f.sites[site], "decides about an abort of" if site in f.reads(decided) else "is needed by"
            target = next(s for s in f.sites if s.table == table and s.writes)
            edges.append(Edge(read.table, table, f"{name}: {read.text} (line {read.line}) {by} {target.text}"))
    if any(table in checked for table in f.written):
        edges += _tied(f.written, f"{name}: a check of one of the written rows aborts all of them")
    return edges


def _tied(tables: list[int], why: str) -> list[Edge]:
    return [Edge(a, b, why) for a in tables for b in tables]
