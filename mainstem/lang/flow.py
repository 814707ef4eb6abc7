"""Which locals depend on state: the basis for keys that are known before the batch runs.

A local depends on state when a value read from a table flows into it, or when state decides which of its
assignments is seen. The second needs care: inside `if Account[k].open:` a name that is assigned and read only there has
one value whenever it is read, so the condition does not matter for it. Its *home* is the innermost block that holds all
its uses; only conditions between home and an assignment count.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mainstem.lang import ir


def loops_by_state(block: ir.Block, flow: Flow) -> bool:
    """Whether state decides how long a loop runs, here or in a helper."""
    return any(
        flow.depends_on_state(s.turns if isinstance(s, ir.Checked) else ir.operands(s))
        for s in ir.walk(block)
        if isinstance(s, ir.For | ir.While | ir.Checked)
    )


@dataclass
class _Region:
    """One block: what decides that it runs."""

    parent: int
    controls: tuple[str, ...]
    loop: bool = False
    escapes: list[tuple[int, ...]] = field(default_factory=list)  # paths of break/continue that leave this loop's turn


@dataclass
class _Use:
    path: tuple[int, ...]
    operands: tuple[str, ...] = ()
    from_state: bool = False


class Flow:
    """The locals of one body and where they are set and read."""

    def __init__(self, block: ir.Block, given: Iterable[str] = ()) -> None:
        """`given`: names that count as read from state, beside those that are."""
        self.regions: list[_Region] = [_Region(-1, ())]
        self.assignments: dict[str, list[_Use]] = {}
        self.reads: dict[str, list[_Use]] = {}
        self._visit(block, (0,))
        self.homes = {name: self._home(name) for name in self.assignments}
        self.tainted = set(given)
        self._spread()

    def depends_on_state(self, names: tuple[str, ...]) -> bool:
        return any(n in self.tainted for n in names)

    # -- collecting ---------------------------------------------------------------------------------------------

    def _open(self, path: tuple[int, ...], controls: tuple[str, ...], loop: bool = False) -> tuple[int, ...]:
        self.regions.append(_Region(path[-1], controls, loop))
        return (*path, len(self.regions) - 1)

    def _visit(self, block: ir.Block, path: tuple[int, ...]) -> None:
        for statement in block:
            if isinstance(statement, ir.While):
                self._visit_while(statement, path)
                continue
            self._read(ir.operands(statement), path)
            if isinstance(statement, ir.For):
                inner = self._open(path, ir.operands(statement), loop=True)
                self._assign(statement.variable, inner, ir.operands(statement))
                self._visit(statement.body, inner)
            elif isinstance(statement, ir.If):
                for part in (statement.then, statement.otherwise):
                    self._visit(part, self._open(path, statement.condition.names))
            elif isinstance(statement, ir.Break | ir.Continue):
                self._escape(path)
            else:
                from_state = isinstance(statement, ir.Load | ir.Exists)
                for name in ir.defines(statement):
                    self._assign(name, path, ir.operands(statement), from_state)

    def _visit_while(self, statement: ir.While, path: tuple[int, ...]) -> None:
        inner = self._open(path, statement.condition.names, loop=True)
        self._visit(statement.head, inner)
        self._read(statement.condition.names, inner)
        self._visit(statement.body, inner)

    def _read(self, names: tuple[str, ...], path: tuple[int, ...]) -> None:
        for name in names:
            self.reads.setdefault(name, []).append(_Use(path))

    def _assign(self, name: str, path: tuple[int, ...], operands: tuple[str, ...], from_state: bool = False) -> None:
        self.assignments.setdefault(name, []).append(_Use(path, operands, from_state))

    def _escape(self, path: tuple[int, ...]) -> None:
        for depth in range(len(path) - 1, 0, -1):
            if self.regions[path[depth]].loop:
                self.regions[path[depth]].escapes.append(path[depth + 1 :])
                return

    def _home(self, name: str) -> tuple[int, ...]:
        """The innermost block that holds every use. No name is read before it is set, so no value is older."""
        paths = [use.path for use in [*self.assignments[name], *self.reads.get(name, [])]]
        depth = 0
        while all(len(p) > depth and p[depth] == paths[0][depth] for p in paths):
            depth += 1
        return paths[0][:depth]

    # -- spreading ----------------------------------------------------------------------------------------------

    def _spread(self) -> None:
        changed = True
        while changed:
            changed = False
            for name, uses in self.assignments.items():
                if name not in self.tainted and any(self._takes_state(name, u) for u in uses):
                    self.tainted.add(name)
                    changed = True

    def _takes_state(self, name: str, use: _Use) -> bool:
        if use.from_state or self.depends_on_state(use.operands):
            return True
        between = use.path[len(self.homes[name]) :]
        return any(self._decided_by_state(region) for region in between)

    def _decided_by_state(self, index: int) -> bool:
        region = self.regions[index]
        if self.depends_on_state(region.controls):
            return True
        return any(self.depends_on_state(self.regions[r].controls) for escape in region.escapes for r in escape)
