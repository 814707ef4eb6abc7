"""Which pieces a function becomes: what runs in each of its stages, what is read for later, where it answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from mainstem.lang import ir
from mainstem.lang.pieces import Cell, Draft, Known, cells_read
from mainstem.lang.slices import may_be_unset
from mainstem.lang.tables import Columns, Cuttable, TableGraph, may_fail_rarely


@dataclass
class Cut:
    """The pieces of one function, by stage. The order in a stage is that in which they run."""

    function: Cuttable
    reading: dict[int, list[Draft]] = field(default_factory=dict)
    running: dict[int, Draft] = field(default_factory=dict)
    home: Draft | None = None
    verdict_from: int | None = None  # the stage whose piece knows about aborts
    may_abort: bool = False

    @property
    def answered_in(self) -> int | None:
        return next((stage for stage, draft in self.running.items() if draft.answers), None)

    @property
    def why_not(self) -> str:
        """Why it can't stay cut; empty when it can, or is not cut anyway."""
        if self.function.whole:
            return ""
        drafts = [*self.running.values(), *([self.home] if self.home else [])]
        body = self.function.unit.body
        for site, name in (cell for draft in drafts for cell in draft.given):
            field_ = body.tables_schemas[body.sites[site].table].field(name)
            if field_ is not None and field_.type.length:
                row = body.sites[site]
                return f"{row.text}.{name} is an array that another stage needs (line {row.line})"
        local = {name for s in self.function.statements for name in ir.defines(s)}
        if any(may_be_unset(draft.block, local) for draft in drafts):
            return "a piece of it might read a name before it is set"
        return ""

    def pieces(self, stage: int) -> list[Draft]:
        running = [self.running[stage]] if stage in self.running else []
        return [*self.reading.get(stage, []), *running]


class Cutter:
    """Cuts one function along the stages of its tables."""

    def __init__(self, function: Cuttable, graph: TableGraph, checked: set[int]) -> None:
        self.f, self.graph, self.checked = function, graph, checked
        self.stage = {s.index: graph.stage_of(s.table) for s in (function.sites if function.whole else function.met)}
        self.stages = sorted(set(self.stage.values()), key=lambda n: (graph.waves[n], n))
        self.stored = {n: self._stores(n) for n in self.stages}
        self.checks = any(t in checked for t in function.written)
        self.cut = Cut(function, may_abort=bool(function.aborts) or self.checks)
        self.overtaken = False  # the piece that knows about aborts can't tell whether a computation fails before one

    def _stores(self, stage: int) -> list[int]:
        return self.f.stores(self.graph.groups[stage])

    def cut_up(self) -> Cut:
        if self.f.whole or self._in_one_place():
            return self._whole()
        cut = self.cut
        storing = [stage for stage in self.stages if self.stored[stage]]
        for stage in storing:
            cut.running[stage] = self._running(stage, decides=stage == storing[-1])
        if cut.running and cut.may_abort:
            # The last piece that stores holds all aborts and checks, so it knows the first of them.
            cut.verdict_from = next(reversed(cut.running))
        self._answer()
        self._read_for_others()
        return cut

    def _in_one_place(self) -> bool:
        return len(self.stages) == 1 and len({self.f.keys[i] for i in self.stage}) == 1

    def _whole(self) -> Cut:
        body, cut = self.f.unit.body, self.cut
        live = tuple(s.index for s in body.sites)
        draft = Draft(self.f.unit, body.block, live, self.f.keys, answers=True, exact=True)
        if self.stages:
            cut.running[self.stages[0]] = draft
        else:
            cut.home = draft
        cut.may_abort = cut.may_abort or any(isinstance(s, ir.Checked) for s in self.f.statements)
        return cut

    # -- what runs ----------------------------------------------------------------------------------------------

    def _draft(self, seeds: Iterable[int], stage: int | None, answers: bool = False, verdict: bool = False) -> Draft:
        slicer = self.f.slicer
        block = slicer.cut(slicer.closure(seeds), answers)
        met = [i for i, of in self.stage.items() if of == stage]
        used = {s.site for s in ir.walk(block) if isinstance(s, ir.Load | ir.Exists | ir.Store | ir.Delete)}
        live = tuple(i for i in met if i in used)
        given = cells_read(block, [i for i in self.stage if i not in live])
        known: Known = ("last" if self.overtaken else "first") if verdict else "no"
        return Draft(self.f.unit, block, live, self.f.keys, given, answers=answers, verdict=known)

    def _running(self, stage: int, decides: bool) -> Draft:
        """`decides`: what it says about aborts counts, so it should know which comes first."""
        seeds = [*self.stored[stage], *self.f.aborts]
        draft = self._draft(seeds, stage)
        failing = self._failing_first(draft, stage) if decides and self.cut.may_abort else []
        return self._draft([*seeds, *failing], stage) if failing else draft

    def _failing_first(self, draft: Draft, stage: int) -> list[int]:
        """Computations before an abort that may fail instead of it, where the rows that they look at are at hand: those
        of the draft, and those of earlier stages."""
        slicer, statements, waves = self.f.slicer, self.f.statements, self.graph.waves
        handed = {i for i, of in self.stage.items() if waves[of] < waves[stage]}

        def at_hand(n: int) -> bool:
            loads = [s for s in (statements[m] for m in slicer.closure([n])) if isinstance(s, ir.Load | ir.Exists)]
            return all(s.site in draft.live or (s.site in handed and not _of_array(s)) for s in loads)

        found = [n for n in self._before_aborts() if at_hand(n)]
        self.overtaken = len(found) < len(self._before_aborts())
        return found

    def _before_aborts(self) -> list[int]:
        """Computations that may fail before the last abort does; checks of tables come behind everything."""
        slicer, statements = self.f.slicer, self.f.statements
        end = len(statements) if self.checks else slicer.last[slicer.top(max(self.f.aborts))] + 1
        return [n for n, s in enumerate(statements[:end]) if may_fail_rarely(s)]

    # -- the answer ---------------------------------------------------------------------------------------------

    def _answer(self) -> None:
        """In the last stage, where that is one; else at home. Nowhere when there is nothing to find out."""
        seeds = self._answer_seeds()
        known = self.cut.verdict_from is not None
        aborts = [] if known and not self.overtaken else self.f.aborts
        if not seeds and not aborts:
            if known:
                self.cut.home = Draft(self.f.unit, [], verdict="first")
            return
        last = self._last_stage()
        if last is not None:
            draft = self._answering(last, seeds, aborts)
            if self._one_key(draft):
                self.cut.running[last] = draft
                return
        self.cut.home = self._settled(self._draft([*seeds, *aborts], None, True, known), [*seeds, *self.f.aborts], None)

    def _answering(self, stage: int, seeds: list[int], aborts: list[int]) -> Draft:
        if self.stored[stage]:
            return self._draft([*self.stored[stage], *self.f.aborts, *seeds], stage, answers=True)
        known = self.cut.verdict_from is not None
        draft = self._draft([*seeds, *aborts], stage, answers=True, verdict=known)
        return self._settled(draft, [*seeds, *self.f.aborts], stage)

    def _settled(self, draft: Draft, seeds: list[int], stage: int | None) -> Draft:
        """With all aborts in it, where an abort that was left out keeps a name from being read unset."""
        local = {name for s in self.f.statements for name in ir.defines(s)}
        if not may_be_unset(draft.block, local):
            return draft
        return replace(self._draft(seeds, stage, True), verdict=draft.verdict)

    def _answer_seeds(self) -> list[int]:
        """Returns with columns and what they return; computations that may fail and that no piece does."""
        statements, slicer = self.f.statements, self.f.slicer
        returns = [n for n, s in enumerate(statements) if isinstance(s, ir.Return) and s.number]
        seeds = [*returns, *(d for n in returns for d in slicer.data[n])]
        kept = slicer.closure([*seeds, *self.f.aborts, *(n for stage in self.stages for n in self.stored[stage])])
        return [*seeds, *(n for n, s in enumerate(statements) if may_fail_rarely(s) and n not in kept)]

    def _last_stage(self) -> int | None:
        waves = self.graph.waves
        last = [n for n in self.stages if waves[n] == max(waves[m] for m in self.stages)]
        return last[0] if len(last) == 1 else None

    def _one_key(self, draft: Draft) -> bool:
        return len({self.f.keys[i] for i in draft.live}) <= 1

    # -- what is read for others --------------------------------------------------------------------------------

    def _read_for_others(self) -> None:
        takers = [*self.cut.running.values(), *([self.cut.home] if self.cut.home else [])]
        wanted = dict.fromkeys(cell for draft in takers for cell in draft.given)
        for stage in self.stages:
            cells = [cell for cell in wanted if self.stage[cell[0]] == stage]
            for columns in dict.fromkeys(self.f.keys[site] for site, _ in cells):
                self._read(stage, tuple(c for c in cells if self.f.keys[c[0]] == columns), columns)

    def _read(self, stage: int, cells: tuple[Cell, ...], columns: Columns) -> None:
        """By the piece that runs there under the same key, when it can't abort; else by a piece of its own."""
        running = self.cut.running.get(stage)
        if running is not None and not running.answers and self._surely_ends(running):
            if {self.f.keys[i] for i in running.live} == {columns}:
                sites = {*running.live, *(site for site, _ in cells)}
                self.cut.running[stage] = replace(running, emits=cells, live=tuple(sorted(sites)))
                return
        live = tuple(dict.fromkeys(site for site, _ in cells))
        self.cut.reading.setdefault(stage, []).append(Draft(self.f.unit, [], live, self.f.keys, emits=cells))

    def _surely_ends(self, draft: Draft) -> bool:
        return not self.f.aborts and not any(self.f.sites[i].table in self.checked for i in draft.live)


def _of_array(s: ir.Statement) -> bool:
    """Arrays do not travel."""
    return isinstance(s, ir.Load) and s.index is not None
