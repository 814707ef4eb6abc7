"""What a transaction depends on: D_j of each written site, D_A of the abort decision, D_out; and the table graph."""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.lang import ir


@dataclass(frozen=True)
class Dependencies:
    """Site numbers of one function."""

    reads: tuple[int, ...]
    writes: tuple[int, ...]
    per_write: tuple[tuple[int, tuple[int, ...]], ...]  # (j, D_j)
    abort: tuple[int, ...]  # D_A
    output: tuple[int, ...]  # D_out


def dependencies(block: ir.Block, sites: list[ir.Site], checked_tables: set[int]) -> Dependencies:
    collector = _Collector(sites)
    collector.settle(block)
    abort = set(collector.abort)
    for site in sites:
        if site.writes and site.table in checked_tables:
            abort |= {site.index} | collector.writes[site.index]
    for site in sites:
        site.depends = collector.writes[site.index]
    written = [s.index for s in sites if s.writes]
    return Dependencies(
        reads=tuple(s.index for s in sites if s.reads),
        writes=tuple(written),
        per_write=tuple((j, tuple(sorted(collector.writes[j]))) for j in written),
        abort=tuple(sorted(abort)),
        output=tuple(sorted(collector.output)),
    )


class _Collector:
    """Flows sets of sites through locals and conditions until nothing changes."""

    def __init__(self, sites: list[ir.Site]) -> None:
        self.sites = sites
        self.locals: dict[str, set[int]] = {}
        self.writes: dict[int, set[int]] = {s.index: set() for s in sites}
        self.abort: set[int] = set()
        self.output: set[int] = set()
        self.stored: set[int] = set()  # sites stored to so far, in program order

    def settle(self, block: ir.Block) -> None:
        size = -1
        while size != (size := self._size()):
            self.stored = set()
            self._visit(block, set())

    def _size(self) -> int:
        groups = [*self.locals.values(), *self.writes.values(), self.abort, self.output]
        return sum(len(g) for g in groups)

    def _of(self, names: tuple[str, ...]) -> set[int]:
        return set().union(*(self.locals.get(n, set()) for n in names)) if names else set()

    def _read(self, site: int) -> set[int]:
        """A read sees the site's earlier value, or what this transaction stored at it, or at a site of the same key."""
        table = self.sites[site].table
        return {site}.union(*(self.writes[i] for i in self.stored if self.sites[i].table == table))

    def _visit(self, block: ir.Block, control: set[int]) -> None:
        for s in block:
            here = control | self._of(ir.operands(s))
            match s:
                case ir.Load() | ir.Exists():
                    self.locals.setdefault(s.target, set()).update(here | self._read(s.site))
                case ir.Let() | ir.Item():
                    self.locals.setdefault(s.target, set()).update(here)
                case ir.Checked():
                    self.locals.setdefault(s.target, set()).update(here)
                    self.abort |= here
                case ir.Store() | ir.Delete():
                    self.writes[s.site] |= here
                    self.stored.add(s.site)
                case ir.AbortIf():
                    self.abort |= here
                case ir.Return():
                    self.output |= here
                case ir.For():
                    self.locals.setdefault(s.variable, set()).update(here)
            if isinstance(s, ir.For | ir.While):  # a later turn reads what an earlier one stored
                self.stored |= {i.site for i in ir.walk([s]) if isinstance(i, ir.Store | ir.Delete)}
            if isinstance(s, ir.While):
                self._visit(s.head, control)
                here = control | self._of(ir.operands(s))
                self._visit(s.body, here)
            else:
                for inner in ir.blocks(s):
                    self._visit(inner, here)


def table_edges(functions: list[tuple[list[ir.Site], Dependencies]]) -> set[tuple[int, int]]:
    """(read, written): a write to the second table needs the first.

    An abort undoes all writes, so what decides about it counts for each of them.
    """
    edges = set()
    for sites, found in functions:
        for j, needs in found.per_write:
            for i in {*needs, *found.abort}:
                edges.add((sites[i].table, sites[j].table))
    return edges


def cycles(count: int, edges: set[tuple[int, int]]) -> list[list[int]]:
    """Strongly connected tables (more than one table): groups that must be updated together."""
    reach = [{b for a, b in edges if a == i} for i in range(count)]
    for k in range(count):
        for i in range(count):
            if k in reach[i]:
                reach[i] |= reach[k]
    groups: list[list[int]] = []
    for i in range(count):
        if not any(i in g for g in groups):
            group = [j for j in range(count) if j == i or (j in reach[i] and i in reach[j])]
            if len(group) > 1:
                groups.append(group)
    return groups
