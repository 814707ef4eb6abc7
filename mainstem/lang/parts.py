"""A transaction as parts that run independently: each makes the new versions of some rows from versions before it.

A part is a slice of the function's body (`slices`): the stores to its rows and all that they need. One part also
decides and answers: it holds every abort and the returns with their columns. Parts that would do the same work twice
are one. A loop over the event's keys whose turns have nothing to do with each other gives one vertex per turn.

What the engine sees to, because only the rows of a transaction can tell. Such a transaction runs whole:

- two different sites are one row, and one of them may write it;
- a row of a site that a part writes turn by turn is met in two different turns.

One site may meet a row as often as it likes within a turn, or anywhere when no part takes its loop turn by turn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

from mainstem.lang import ir
from mainstem.lang.emit import Body
from mainstem.lang.flow import Flow, loops_by_state
from mainstem.lang.slices import Slicer, may_be_unset


@dataclass(frozen=True)
class Part:
    """One slice of a function. All numbers are those of sites, but for `precise`."""

    block: ir.Block
    owned: tuple[int, ...]  # the part makes their new versions
    private: tuple[int, ...]  # it stores there only to read it again: a copy that nobody else sees
    read: tuple[int, ...]  # it reads them, as they were before the transaction
    turns: bool  # one vertex per turn of the key loop: the block holds one `ir.Turn`
    answers: bool  # it holds the returns with their columns
    precise: frozenset[int]  # positions in `ir.walk(block)` of aborts that no other abort of the body can precede
    may_abort: bool  # it holds an abort, or owns rows that have checks


def decompose_all(functions: Sequence[tuple[Body, Flow]], checked_tables: set[int]) -> list[tuple[Part, ...]]:
    """The parts of each function of a program.

    Parts offer rows before others have decided whether the transaction aborts. Where state decides how long some loop
    runs, by such a row or by one that follows from it, that could be for ever: then what may abort runs whole.
    """
    found = [decompose(body, checked_tables, flow) for body, flow in functions]
    if not any(loops_by_state(body.block, flow) for body, flow in functions):
        return found
    return [() if any(part.may_abort for part in parts) else parts for parts in found]


def decompose(body: Body, checked_tables: set[int], flow: Flow) -> tuple[Part, ...]:
    """The parts of a function, the one that answers first; () when it runs whole."""
    # A part may run past an abort that guards a loop, and then nothing would end it.
    if not body.written or loops_by_state(body.block, flow):
        return ()
    slicer = Slicer(body)
    distinct = slicer.key_loops()
    while True:
        cutter = _Cutter(Slicer(body, distinct) if distinct else slicer, flow)
        groups = cutter.groups()
        # Only where turns are vertices does the engine make sure that their rows differ.
        apart = {site for g in groups if g.turn >= 0 for site in g.sites}
        if apart.issuperset(distinct) or len(groups) == 1:
            break
        distinct = {site: loop for site, loop in distinct.items() if site in apart}
    parts = tuple(cutter.part(group, checked_tables) for group in groups)
    # A name that an unconditional abort of another part keeps from being read unset would be read unset here.
    local = {name for s in ir.walk(body.block) for name in ir.defines(s)}
    return () if len(parts) == 1 or any(may_be_unset(part.block, local) for part in parts) else parts


@dataclass(frozen=True)
class _Group:
    """A part in the making."""

    sites: frozenset[int]  # owned
    answers: bool
    core: frozenset[int]  # statements that it needs
    kept: frozenset[int]  # and the guards before them
    turn: int = -1  # the loop of which it runs one turn


class _Cutter:
    """Groups the written sites of one body until no two groups should be one."""

    def __init__(self, slicer: Slicer, flow: Flow) -> None:
        self.slicer, self.statements = slicer, slicer.statements
        self.aborts = [n for n, s in enumerate(self.statements) if isinstance(s, ir.AbortIf)]
        self.guards = [n for n in self.aborts if not flow.depends_on_state(ir.operands(self.statements[n]))]
        self.abortable = [n for n, s in enumerate(self.statements) if isinstance(s, ir.AbortIf | ir.Checked)]
        self.costly = {n for n, s in enumerate(self.statements) if _costs(s)}
        self.decisions = self._decisions()
        self.left_over: list[int] = []  # computations that may abort and that no written row needs

    def _decisions(self) -> list[int]:
        """Where the answering part begins: aborts, and returns with what they return."""
        returns = [n for n, s in enumerate(self.statements) if isinstance(s, ir.Return) and s.number]
        return [*self.aborts, *returns, *(d for n in returns for d in self.slicer.data[n])]

    # -- single groups ------------------------------------------------------------------------------------------

    def _group(self, sites: frozenset[int], answers: bool = False) -> _Group:
        seeds = [n for n, s in enumerate(self.statements) if isinstance(s, ir.Store | ir.Delete) and s.site in sites]
        if answers:
            seeds += [*self.decisions, *self.left_over]
        loops = {self.slicer.distinct.get(site, -1) for site in sites}
        if not answers and len(loops) == 1 and -1 not in loops:
            (loop,) = loops
            core = self.slicer.closure(seeds, loop)
            group = _Group(sites, answers, core, self._guarded(core, loop), loop)
            if self._turns_apart(group.kept, loop):
                return group
        core = self.slicer.closure(seeds)
        return _Group(sites, answers, core, self._guarded(core))

    def _guarded(self, core: frozenset[int], turn: int = -1) -> frozenset[int]:
        """With every abort before the end that the event alone decides, as far as it needs no more state.

        Past such an abort keys may be unknown and loops long. Whatever state has to decide before it, the core has
        decided too wherever that matters.
        """
        end = self.slicer.last[self.slicer.top(max(core))] if core else -1
        kept = set(core)
        for guard in self.guards:
            if guard <= end:
                needed = self.slicer.closure([guard], turn)
                if self._reads(needed) <= core:
                    kept |= needed
        return frozenset(kept)

    def _reads(self, kept: Iterable[int]) -> set[int]:
        return {n for n in kept if isinstance(self.statements[n], ir.Load | ir.Exists)}

    def _turns_apart(self, kept: frozenset[int], loop: int) -> bool:
        """Whether each turn of the loop can run without the others, and without doing common work again."""
        inside = {n for n in kept if self.slicer.within(n, loop)}
        leaves = self.slicer.breaks(loop) | {n for n in inside if isinstance(self.statements[n], ir.Return)}
        carries = any(loop in self.slicer.carried[n] for n in inside)
        return not (leaves & kept or carries or (kept & self.costly) - inside - {loop})

    # -- all groups ---------------------------------------------------------------------------------------------

    def groups(self) -> list[_Group]:
        """The answering group first, then the others in the order of their first stores."""
        written = dict.fromkeys(s.site for s in self.statements if isinstance(s, ir.Store | ir.Delete))
        groups = [self._group(frozenset((site,))) for site in written]
        self.left_over = self._uncovered(groups)
        groups.insert(0, self._group(frozenset(), answers=True))
        while (pair := self._contained(groups) or self._shared(groups) or self._absorbed(groups)) is not None:
            merged = self._group(pair[0].sites | pair[1].sites, pair[0].answers or pair[1].answers)
            place = min(groups.index(g) for g in pair)
            groups = [merged if i == place else g for i, g in enumerate(groups) if i == place or g not in pair]
        return groups

    def _uncovered(self, groups: list[_Group]) -> list[int]:
        # There may be no turn at all, so what a part does before its turn does not count.
        covered = {n for g in groups for n in g.kept if g.turn < 0 or self.slicer.within(n, g.turn)}
        covered |= self.slicer.closure(self.decisions)
        return [n for n, s in enumerate(self.statements) if isinstance(s, ir.Checked) and n not in covered]

    def _contained(self, groups: list[_Group]) -> tuple[_Group, _Group] | None:
        """A group whose work another one does anyway; with the smallest of those, so that rows wait for little."""
        for group in groups:
            around = [g for g in groups if g is not group and group.core <= g.kept]
            if around and not group.answers:
                return min(around, key=lambda g: len(g.kept)), group
        return None

    def _shared(self, groups: list[_Group]) -> tuple[_Group, _Group] | None:
        """Two groups that would both do something that costs. A loop costs nothing where only one turn of it runs."""
        for a, b in combinations(groups, 2):
            if (a.kept & b.kept & self.costly) - {a.turn, b.turn}:
                return a, b
        return None

    def _absorbed(self, groups: list[_Group]) -> tuple[_Group, _Group] | None:
        """The answer, when it owns no row, with a group that meets all its rows: then it is no vertex of its own."""
        answer = groups[0]
        needs = self._sites(answer.kept)
        able = [
            g
            for g in groups[1:]
            if g.turn < 0 and needs <= self._sites(g.kept) and not (answer.kept & self.costly) - g.kept
        ]
        return (answer, min(able, key=lambda g: len(g.kept))) if able and not answer.sites else None

    def _sites(self, kept: Iterable[int], *kinds: type[ir.Statement]) -> set[int]:
        """Sites of the loads, stores and so on that are kept."""
        wanted = kinds or (ir.Load, ir.Exists, ir.Store, ir.Delete)
        return {s.site for s in (self.statements[n] for n in kept) if isinstance(s, wanted)}  # type: ignore[attr-defined]

    # -- parts --------------------------------------------------------------------------------------------------

    def part(self, group: _Group, checked_tables: set[int]) -> Part:
        block = self.slicer.cut(group.kept, group.answers, group.turn)
        stored = self._sites(group.kept, ir.Store, ir.Delete)
        checked = any(self.slicer.body.sites[site].table in checked_tables for site in group.sites)
        return Part(
            block=block,
            owned=tuple(sorted(group.sites)),
            private=tuple(sorted(stored - group.sites)),
            read=tuple(sorted(self._sites(group.kept, ir.Load, ir.Exists) - stored)),
            turns=group.turn >= 0,
            answers=group.answers,
            precise=self._precise(block, group),
            may_abort=checked or any(isinstance(s, ir.AbortIf | ir.Checked) for s in ir.walk(block)),
        )

    def _precise(self, block: ir.Block, group: _Group) -> frozenset[int]:
        """Aborts that come first whenever they come: all that could abort before them is in this part too."""
        found = set()
        for position, s in enumerate(ir.walk(block)):
            if isinstance(s, ir.AbortIf | ir.Checked):
                n = self.slicer.number[id(s)]
                before = self._abortable_before(n)
                known = before <= group.kept if isinstance(s, ir.AbortIf) else not before
                if known and not (group.turn >= 0 and self.slicer.within(n, group.turn)):
                    found.add(position)
        return frozenset(found)

    def _abortable_before(self, n: int) -> set[int]:
        """What may abort before n: all above it, and all around it that an earlier turn has run."""
        loops = [m for m in self.slicer.around(n) if isinstance(self.statements[m], ir.For | ir.While)]
        end = self.slicer.last[loops[-1]] if loops else n
        return {m for m in self.abortable if m <= end and m != n}


def _costs(s: ir.Statement) -> bool:
    """Loops, also over a history (`ring_sum_int`), and a user's helpers (`h3_name`): too much to be done twice."""
    if isinstance(s, ir.Checked):
        return s.call.startswith("ring_") or (s.call.startswith("h") and s.call[1:2].isdigit())
    if isinstance(s, ir.Let):
        return s.text.startswith("ring_")
    return isinstance(s, ir.For | ir.While)


def describe(parts: tuple[Part, ...], body: Body) -> str:
    """One line per part, for people; none when the function runs whole."""
    return "\n".join(f"part {i} {_described(part, body)}" for i, part in enumerate(parts, 1))


def _described(part: Part, body: Body) -> str:
    def texts(sites: tuple[int, ...]) -> str:
        return ", ".join(dict.fromkeys(body.sites[i].text for i in sites))

    does = [f"{verb} {texts(sites)}" for verb, sites in
            (("writes", part.owned), ("reads", part.read), ("works on a copy of", part.private)) if sites]  # fmt: skip
    marks = [mark for mark, on in (("answers", part.answers), ("per turn", part.turns)) if on]
    return f"({', '.join(marks)}) " * bool(marks) + (", ".join(does) or "meets no row")
