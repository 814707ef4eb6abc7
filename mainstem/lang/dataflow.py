"""A program as stages: groups of tables in an order in which each can be run over the whole log before the next.

`docs/design/replay.md` tells what stages, pieces and waves are, and why the result is that of the serial run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from mainstem.errors import ProgramError
from mainstem.lang import ir
from mainstem.lang.assemble import Assembler
from mainstem.lang.build import assembled
from mainstem.lang.cutting import Cut, Cutter
from mainstem.lang.flow import Flow
from mainstem.lang.folding import UNKNOWN, Folding, folding
from mainstem.lang.frame import Uncompilable
from mainstem.lang.lowering import Lowered, Unit
from mainstem.lang.pieces import Draft, answer_name, cell_name, cell_type, code_name, end_name, finish, return_name
from mainstem.lang.program import Program, Spec
from mainstem.lang.tables import RARE_CODES, Edge, Failures, TableGraph, table_graph
from mainstem.lang.values import seen_as
from mainstem.schema import EventSchema, Field, Type

__all__ = ["RARE_CODES", "Carry", "Dataflow", "Home", "Piece", "Stage", "dataflow"]


@dataclass(frozen=True)
class Carry:
    """Values that one piece hands to another."""

    producer: int  # number of the piece
    columns: tuple[str, ...]  # outputs of the producer's program, fields of the consumer's event type


@dataclass(frozen=True)
class Piece:
    """One function in one stage, or at home."""

    number: int  # in the dataflow; pieces of one event in one stage run in this order
    function: int  # of the original program
    kind: int  # event type of the original program
    stage: int  # -1 - h: home number h
    local: int  # function of the stage's program, and its event type; at home: the function of the original
    fields: tuple[str, ...]  # columns of the original event that it takes, `ts` excepted
    given: tuple[Carry, ...]  # what it takes from other pieces of the same event
    key: tuple[str, ...] | None  # event columns that decide about its shard; None where there are no shards
    emits: tuple[str, ...] = ()  # its columns that some piece takes
    emits_code: str | None = None  # the name under which its abort code travels
    emits_return: str | None = None  # the name under which the number of the return that it took travels
    first_return: int = 1  # number of its first return in the stage's program
    exact: bool = False  # it is all of its function, so that even rare aborts are where they belong


@dataclass(frozen=True)
class Stage:
    number: int
    wave: int  # from 1; stages of one wave do not need each other
    tables: tuple[int, ...]
    keyed: bool
    why: str  # it is not keyed, or runs tables together: for people
    program: Program
    pieces: tuple[Piece, ...]  # by `local`
    folding: Folding = UNKNOWN  # what its pieces do to its rows, as far as keys can be split by time


@dataclass(frozen=True)
class Home:
    """Where outputs are made: a program without tables, with the functions of the original."""

    program: Program
    pieces: tuple[Piece, ...]  # one per function


@dataclass(frozen=True)
class ComputedKey:
    """Columns that hold the key of some sites of the original program: what its key slice computes."""

    function: int
    sites: tuple[int, ...]  # their keys are computed alike, but not all may be computed for every event
    names: tuple[str, ...]
    types: tuple[Type, ...]


@dataclass(frozen=True)
class Dataflow:
    program: Program  # the original
    stages: tuple[Stage, ...]
    homes: tuple[Home, ...]
    overflow: Failures
    edges: tuple[Edge, ...] = ()
    computed: tuple[ComputedKey, ...] = ()  # columns that some pieces take, and that the log does not have

    @cached_property
    def pieces(self) -> tuple[Piece, ...]:
        """Of all stages and homes, by number."""
        found = [*(p for s in self.stages for p in s.pieces), *(p for h in self.homes for p in h.pieces)]
        return tuple(sorted(found, key=lambda piece: piece.number))

    @property
    def waves(self) -> list[list[Stage]]:
        last = max((s.wave for s in self.stages), default=0)
        return [[s for s in self.stages if s.wave == wave] for wave in range(1, last + 1)]


def dataflow(spec: Spec, overflow: Failures = "rare") -> Dataflow:
    """The stages of an app. With "rare", computations that fail (overflow, division by zero) tie no tables together; a
    replay that meets one has to be repeated with "tied"."""
    try:
        lowered = Lowered(spec)
    except Uncompilable as why:
        raise ProgramError(
            f"app {spec.name} runs interpreted, so what it touches is known only when it runs: {why}",
            remedy="use another plan, or move that work to @app.derive",
        ) from why
    return _Builder(lowered, overflow).dataflow()


class _Builder:
    def __init__(self, lowered: Lowered, failures: Failures) -> None:
        self.lowered, self.failures = lowered, failures
        self.graph, self.cuts = _cut_up(lowered, failures)
        self.schemas = tuple(t.schema for t in lowered.spec.tables)
        self.producers: dict[str, int] = {}  # carried column -> number of the piece that hands it on
        self.count = 0

    def dataflow(self) -> Dataflow:
        program = assembled(Lowered(self.lowered.spec))
        groups = [n for n in range(len(self.graph.groups)) if self._drafts(n)]
        waves = sorted({self.graph.waves[n] for n in groups})
        stages = tuple(self._stage(n, g, 1 + waves.index(self.graph.waves[g])) for n, g in enumerate(groups))
        home = self._home()
        taken = {c for p in [*(p for s in stages for p in s.pieces), *home.pieces] for g in p.given for c in g.columns}
        stages = tuple(replace(s, pieces=tuple(_trimmed(p, taken) for p in s.pieces)) for s in stages)
        return Dataflow(program, stages, (home,), self.failures, tuple(self.graph.edges), self._computed(stages))

    def _computed(self, stages: tuple[Stage, ...]) -> tuple[ComputedKey, ...]:
        taken = {name for stage in stages for piece in stage.pieces for name in piece.fields}
        found: dict[tuple[str, ...], ComputedKey] = {}
        for cut in self.cuts:
            for site in cut.function.sites:
                names = cut.function.keys[site.index]
                if names is None or site.columns is not None or not taken.intersection(names):
                    continue
                types = tuple(Type(seen_as(part)) for part in self.schemas[site.table].key)
                alike = found.setdefault(names, ComputedKey(cut.function.unit.body.index, (), names, types))
                found[names] = replace(alike, sites=(*alike.sites, site.index))
        return tuple(found.values())

    # -- stages -------------------------------------------------------------------------------------------------

    def _drafts(self, group: int) -> list[tuple[Cut, Draft]]:
        """The pieces of a stage; none where tables are only read for nothing."""
        return [(cut, draft) for cut in self.cuts for draft in cut.pieces(group)]

    def _stage(self, number: int, group: int, wave: int) -> Stage:
        drafts = self._drafts(group)
        why = _why_not_keyed(drafts)
        units = [self._unit(draft, local, local) for local, (_, draft) in enumerate(drafts)]
        events = tuple(_event_type(f"p{n}", [unit]) for n, unit in enumerate(units))
        program = self._assembled(f"{self.lowered.spec.name}_{number}", events, units, self._columns(drafts))
        pieces = [
            self._piece(draft, unit, number, local, not why)
            for local, ((_, draft), unit) in enumerate(zip(drafts, units, strict=True))
        ]
        for cut in self.cuts:
            if cut.answered_in == group and cut.may_abort:
                self._note_code(cut, pieces, end_name(cut.function.unit.body.index))
            elif cut.verdict_from == group:
                self._note_code(cut, pieces, code_name(cut.function.unit.body.index))
        tables = self.graph.groups[group]
        folds = Folding(why=f"it runs in one task: {why}") if why else folding(units, self.lowered.checks)
        return Stage(number, wave, tables, not why, why or self._together(tables), program, tuple(pieces), folds)

    def _unit(self, draft: Draft, index: int, kind: int) -> Unit:
        names = {name: answer_name(draft.function, name) for name in draft.unit.body.columns}
        return finish(draft, index, kind, self.lowered.shared, names)

    def _columns(self, drafts: list[tuple[Cut, Draft]]) -> dict[str, str]:
        """Output columns of a stage's program and their bases."""
        columns: dict[str, str] = {}
        for _, draft in drafts:
            body = draft.unit.body
            columns |= {cell_name(draft.function, cell): cell_type(body, cell).base for cell in draft.emits}
            if draft.answers:
                columns |= {answer_name(draft.function, c): self.lowered.columns[c] for c in body.columns}
        return columns

    def _assembled(
        self, name: str, events: tuple[EventSchema, ...], units: list[Unit], columns: dict[str, str]
    ) -> Program:
        shared, checks = self.lowered.shared, self.lowered.checks
        return Assembler(name, events, self.schemas, shared, checks, units, columns).program()

    def _piece(self, draft: Draft, unit: Unit, stage: int, local: int, keyed: bool) -> Piece:
        original = draft.unit.body
        number, self.count = self.count, self.count + 1
        names = [cell_name(draft.function, cell) for cell in draft.emits]
        if draft.answers and stage >= 0:
            names += [answer_name(draft.function, column) for column in original.columns]
            self.producers[return_name(draft.function)] = number
        self.producers |= dict.fromkeys(names, number)
        key = unit.body.sites[0].columns if keyed and unit.body.sites else None
        return Piece(
            number, draft.function, original.kind, stage, local,
            tuple(n for n in unit.body.fields if n != "ts" and (n in original.fields or n in draft.key_fields)),
            self._given(unit),
            key, tuple(names), first_return=unit.body.first_return,
            emits_return=return_name(draft.function) if draft.answers and stage >= 0 else None, exact=draft.exact,
        )  # fmt: skip

    def _given(self, unit: Unit) -> tuple[Carry, ...]:
        by_producer: dict[int, list[str]] = {}
        for name in unit.body.fields:
            if name in self.producers:
                by_producer.setdefault(self.producers[name], []).append(name)
        return tuple(Carry(number, tuple(names)) for number, names in sorted(by_producer.items()))

    def _note_code(self, cut: Cut, pieces: list[Piece], name: str) -> None:
        """The last piece of a function in a stage is the one that runs: it knows whether the function aborts."""
        local = max(p.local for p in pieces if p.function == cut.function.unit.body.index)
        pieces[local] = replace(pieces[local], emits_code=name)
        self.producers[name] = pieces[local].number

    def _together(self, group: tuple[int, ...]) -> str:
        if len(group) == 1:
            return ""
        whys = [e.why for e in self.graph.edges if e.read in group and e.written in group and e.read != e.written]
        return "; ".join(dict.fromkeys(whys))

    # -- home ---------------------------------------------------------------------------------------------------

    def _home(self) -> Home:
        spec = self.lowered.spec
        drafts = [self._home_draft(cut) for cut in self.cuts]
        units = [self._home_unit(cut, draft) for cut, draft in zip(self.cuts, drafts, strict=True)]
        events = tuple(
            _event_type(event.name, [u for u in units if u.body.kind == k]) for k, event in enumerate(spec.events)
        )
        program = self._assembled(spec.name, events, units, self.lowered.columns)
        pieces = [self._piece(d, u, -1, n, False) for n, (d, u) in enumerate(zip(drafts, units, strict=True))]
        return Home(program, tuple(pieces))

    def _home_draft(self, cut: Cut) -> Draft:
        return cut.home if cut.home is not None else Draft(cut.function.unit, [])

    def _home_unit(self, cut: Cut, draft: Draft) -> Unit:
        body = cut.function.unit.body
        if cut.answered_in is not None:
            return self._repeated(cut)
        return finish(draft, body.index, body.kind, self.lowered.shared, {name: name for name in body.columns})

    def _repeated(self, cut: Cut) -> Unit:
        """The answer that a stage has found, once more: which return was taken, or why the function aborted."""
        unit = cut.function.unit
        body, number = unit.body, unit.body.index
        line = unit.source.tree.lineno
        nullable = {c for s in ir.walk(body.block) if isinstance(s, ir.Return) for c, v in s.columns if v.null}
        block: ir.Block = []
        fields: dict[str, Type] = {}
        if cut.may_abort:
            fields[end_name(number)] = Type("int")
            block.append(ir.Checked(line, "known", "carried", (ir.Value(f"e_{end_name(number)}", "int"),)))
        for s in ir.walk(body.block):
            if isinstance(s, ir.Return) and s.number:
                fields[return_name(number)] = Type("int")
                taken, name = f"taken{s.number}", f"e_{return_name(number)}"
                columns = []
                for column, value in s.columns:
                    base = self.lowered.columns[column]
                    fields[answer_name(number, column)] = Type(base, nullable=column in nullable)
                    columns.append((column, _answered(number, column, value, base, column in nullable)))
                block.append(ir.Let(line, taken, f"{name} == {s.number}", (name,)))
                block.append(ir.If(line, ir.Value(taken, "bool"), [replace(s, columns=tuple(columns))], []))
        block.append(ir.Return(line, 0))
        return _given_alone(unit, block, fields)


def _cut_up(lowered: Lowered, failures: Failures) -> tuple[TableGraph, list[Cut]]:
    """Arrays do not travel: a function that would have to send one is not cut, which may tie more tables together."""
    uncut: dict[int, str] = {}
    while True:
        graph = table_graph(lowered, failures, uncut)
        cuts = [Cutter(f, graph, set(lowered.checks)).cut_up() for f in graph.functions]
        found = {cut.function.unit.body.index: why for cut in cuts if (why := cut.why_not)}
        if not found:
            return graph, cuts
        uncut |= found


def _why_not_keyed(drafts: list[tuple[Cut, Draft]]) -> str:
    for cut, draft in drafts:
        sites = [cut.function.sites[i] for i in draft.live]
        name = cut.function.unit.body.name
        if any(s.columns is None for s in sites):
            return f"{name}: {cut.function.whole or 'a key is computed, not a column'}"
        if len({s.columns for s in sites}) > 1:
            together = ", ".join(dict.fromkeys(s.text for s in sites))
            return f"{name} meets rows under several keys at once: {together}"
    return ""


def _event_type(name: str, units: list[Unit]) -> EventSchema:
    fields = {n: t for unit in units for n, t in unit.body.fields.items() if n != "ts"}
    return EventSchema(name, tuple(Field(n, t) for n, t in fields.items()))


def _answered(function: int, column: str, value: ir.Value, base: str, nullable: bool) -> ir.Value:
    if value.base == "none":
        return value
    name = answer_name(function, column)
    return ir.Value(f"e_{name}", base, f"ne_{name}" if nullable else None)


def _given_alone(unit: Unit, block: ir.Block, fields: dict[str, Type]) -> Unit:
    body = replace(unit.body, block=block, sites=[], fields=fields, slice=None, ids={}, null_columns=set())
    return Unit(body, unit.source, Flow(block))


def _trimmed(piece: Piece, taken: set[str]) -> Piece:
    """Without what nobody takes."""
    return replace(
        piece,
        emits=tuple(name for name in piece.emits if name in taken),
        emits_code=piece.emits_code if piece.emits_code in taken else None,
        emits_return=piece.emits_return if piece.emits_return in taken else None,
    )
