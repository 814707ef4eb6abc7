"""One function cut along stages: blocks in which rows of other stages are locals.

A piece works on the rows of its stage. Rows of earlier stages are *given*: the event brings their fields as they were
before the transaction, and the piece keeps them in locals (`g3_balance`: field balance of site 3), where it also
repeats what the function stores there. What a piece hands on are outputs of its stage's program.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from mainstem.lang import emit, ir
from mainstem.lang.flow import Flow
from mainstem.lang.frame import Shared
from mainstem.lang.keys import key_slice
from mainstem.lang.lowering import Unit
from mainstem.lang.values import float_text, seen_as
from mainstem.schema import MISSING, Field, Type

ALIVE = "_alive"
Cell = tuple[int, str]
"""A site and a field of its row, or ALIVE."""

_EVENT_NAME = re.compile(r"\b(?:e|ne|lo|hi)_(\w+)")


# -- names under which values travel; unique among the pieces of an app ------------------------------------------


def cell_name(function: int, cell: Cell) -> str:
    return f"c{function}_{cell[0]}_{cell[1]}"


def answer_name(function: int, column: str) -> str:
    return f"c{function}_o_{column}"


def code_name(function: int) -> str:
    return f"c{function}_code"


def end_name(function: int) -> str:
    """The abort code that comes with an answer."""
    return f"c{function}_end"


def return_name(function: int) -> str:
    return f"c{function}_return"


def cell_type(body: emit.Body, cell: Cell) -> Type:
    """The type under which a cell travels: timestamps are integers, as functions see them."""
    site, name = cell
    return Type("bool") if name == ALIVE else Type(seen_as(_field(body, site, name).type))


def _field(body: emit.Body, site: int, name: str) -> Field:
    found = body.tables_schemas[body.sites[site].table].field(name)
    assert found is not None
    return found


def cells_read(block: ir.Block, sites: Iterable[int]) -> tuple[Cell, ...]:
    """What the block looks at of the rows of these sites."""
    wanted, found = set(sites), dict[Cell, None]()
    for s in ir.walk(block):
        if isinstance(s, ir.Load | ir.Exists) and s.site in wanted:
            found[s.site, s.field if isinstance(s, ir.Load) else ALIVE] = None
    return tuple(found)


# -- pieces ---------------------------------------------------------------------------------------------------


Known = Literal["no", "first", "last"]
"""Whether the function aborts was found out before, and comes with the event. It comes first; or last, where the piece
has to look by itself for what may fail before."""


@dataclass
class Draft:
    """A piece before it is part of a program: what it runs and what it exchanges."""

    unit: Unit
    block: ir.Block  # with the sites of the function
    live: tuple[int, ...] = ()  # sites whose rows it meets
    keys: Mapping[int, tuple[str, ...] | None] = field(default_factory=dict)  # of all sites: columns, where they are
    given: tuple[Cell, ...] = ()
    emits: tuple[Cell, ...] = ()  # handed on as they are before the transaction
    answers: bool = False  # its returns carry the function's output columns
    verdict: Known = "no"
    exact: bool = False  # the function runs as it is: no abort comes too late

    @property
    def function(self) -> int:
        return self.unit.body.index

    @property
    def key_fields(self) -> dict[str, Type]:
        """Columns of computed keys."""
        body, found = self.unit.body, dict[str, Type]()
        for site in (body.sites[i] for i in self.live):
            types = body.tables_schemas[site.table].key
            if site.columns is None:
                found |= {n: Type(seen_as(t)) for n, t in zip(self.keys.get(site.index) or (), types, strict=False)}
        return found

    @property
    def given_fields(self) -> dict[str, Type]:
        found = {cell_name(self.function, c): cell_type(self.unit.body, c) for c in self.given}
        return {**found, code_name(self.function): Type("int")} if self.verdict != "no" else found


def finish(draft: Draft, index: int, kind: int, shared: Shared, names: Mapping[str, str]) -> Unit:
    """The draft as function `index` of a program, for its event type `kind`.

    `names`: output columns of the function, and how they are called in that program.
    """
    body, live = draft.unit.body, {site: n for n, site in enumerate(draft.live)}
    opening = [*_take_given(draft), *_load_emitted(draft)]
    block = [*opening, *draft.block, ir.Return(draft.unit.source.tree.lineno, 0)]
    block = ir.rewritten(block, lambda s: _returned(s, draft, names))
    block = ir.rewritten(block, _Placed(draft, live, shared).statement)
    keyed = [replace(body.sites[site], columns=draft.keys.get(site)) for site in draft.live]
    keys = key_slice(body.block, keyed, draft.unit.flow)
    keys = None if keys is None else ir.rewritten(keys, lambda s: _resolved_alone(s, live))
    sites = [_site(site, n, block) for n, site in enumerate(keyed)]
    known = {**body.fields, **draft.given_fields, **draft.key_fields}
    fields = _used_fields([*block, *(keys or [])], known, sites)
    made = emit.Body(index, body.name, kind, block, sites, fields, keys, body.tables_schemas)
    return Unit(made, draft.unit.source, Flow(block))


def _take_given(draft: Draft) -> ir.Block:
    """Given values into locals; an abort that is known already comes first."""
    statements: ir.Block = _abort_known(draft) if draft.verdict == "first" else []
    for cell in draft.given:
        name = f"e_{cell_name(draft.function, cell)}"
        text = f"1 if {name} else 0" if cell_type(draft.unit.body, cell).base == "bool" else name
        statements.append(ir.Let(0, _local(cell), text, (name,)))
    return statements


def _abort_known(draft: Draft) -> ir.Block:
    return [ir.Checked(0, "known", "carried", (ir.Value(f"e_{code_name(draft.function)}", "int"),))]


def _load_emitted(draft: Draft) -> ir.Block:
    """What is handed on, before anything is stored."""
    statements: ir.Block = [ir.Resolve(0, site, ()) for site in dict.fromkeys(site for site, _ in draft.emits)]
    for cell in draft.emits:
        site, name = cell
        load = ir.Exists(0, _emitted(cell), site) if name == ALIVE else ir.Load(0, _emitted(cell), site, name)
        statements.append(load)
    return statements


def _returned(s: ir.Statement, draft: Draft, names: Mapping[str, str]) -> list[ir.Statement]:
    if not isinstance(s, ir.Return):
        return [s]
    if draft.answers:
        known = _abort_known(draft) if draft.verdict == "last" else []
        return [*known, replace(s, columns=tuple((names[name], value) for name, value in s.columns))]
    if not draft.emits:
        return [replace(s, number=0, columns=())]
    values = [(cell, ir.Value(_emitted(cell), cell_type(draft.unit.body, cell).base)) for cell in draft.emits]
    return [replace(s, number=1, columns=tuple((cell_name(draft.function, cell), v) for cell, v in values))]


def _local(cell: Cell) -> str:
    return f"g{cell[0]}_{cell[1]}"


def _emitted(cell: Cell) -> str:
    return f"p{cell[0]}_{cell[1]}"


class _Placed:
    """Statements on sites: renumbered where the row is met here, on locals where it is given."""

    def __init__(self, draft: Draft, live: dict[int, int], shared: Shared) -> None:
        self.body, self.given, self.live, self.shared = draft.unit.body, set(draft.given), live, shared

    def statement(self, s: ir.Statement) -> list[ir.Statement]:
        if not isinstance(s, ir.Resolve | ir.Load | ir.Exists | ir.Store | ir.Delete):
            return [s]
        if s.site in self.live:
            return [replace(s, site=self.live[s.site])]
        match s:
            case ir.Load():
                cell = _local((s.site, s.field))
                return [ir.Let(s.line, s.target, cell, (cell,))]
            case ir.Exists():
                cell = _local((s.site, ALIVE))
                return [ir.Let(s.line, s.target, f"{cell} != 0", (cell,))]
            case ir.Store():
                text = f"1 if {s.value.text} else 0" if s.value.base == "bool" else s.value.text
                return [*self._set(s, s.field, text, s.value.names), *self._set(s, ALIVE, "1")]
            case ir.Delete():
                fields = self.body.tables_schemas[self.body.sites[s.site].table].fields
                looked_at = [f for f in fields if (s.site, f.name) in self.given]
                defaults = [let for f in looked_at for let in self._set(s, f.name, self._default(f))]
                return [*defaults, *self._set(s, ALIVE, "0")]
        return []

    def _set(self, s: ir.Store | ir.Delete, name: str, text: str, uses: tuple[str, ...] = ()) -> list[ir.Statement]:
        """Nothing where nobody looks."""
        return [ir.Let(s.line, _local((s.site, name)), text, uses)] if (s.site, name) in self.given else []

    def _default(self, of: Field) -> str:
        value = of.type.zero if of.default is MISSING else of.default
        if isinstance(value, str | bytes):
            return self.shared.string(value).text
        if of.type.base == "float":
            return float_text(float(value))
        return str(int(value))


def _resolved_alone(s: ir.Statement, live: dict[int, int]) -> list[ir.Statement]:
    return [replace(s, site=live[s.site])] if isinstance(s, ir.Resolve) else [s]


def _site(site: ir.Site, index: int, block: ir.Block) -> ir.Site:
    reads = any(isinstance(s, ir.Load | ir.Exists) and s.site == index for s in ir.walk(block))
    writes = any(isinstance(s, ir.Store | ir.Delete) and s.site == index for s in ir.walk(block))
    return replace(site, index=index, reads=reads, writes=writes, depends=set())


def _used_fields(block: ir.Block, known: Mapping[str, Type], sites: list[ir.Site]) -> dict[str, Type]:
    """Event fields that the block reads, or that are keys."""
    used = {column for site in sites for column in site.columns or ()}
    for s in ir.walk(block):
        used |= {s.field} if isinstance(s, ir.Item) else set()
        for text in ir.texts(s):
            used.update(_EVENT_NAME.findall(text))
    return {name: type_ for name, type_ in known.items() if name in used}
