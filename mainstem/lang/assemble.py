"""From typed blocks to a `Program`: numbers, layouts, and the source of its kernels."""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.errors import ProgramError
from mainstem.gate.derive import Derive
from mainstem.lang import emit, ir, key_source, serial, value_source
from mainstem.lang.analyse import Dependencies, dependencies, table_edges
from mainstem.lang.ask_source import asks_source
from mainstem.lang.context import Context
from mainstem.lang.direct import direct_source
from mainstem.lang.frame import Shared
from mainstem.lang.lowering import Checks, Unit
from mainstem.lang.parts import Part, decompose_all, describe
from mainstem.lang.program import (
    EVENT_ORDER,
    OWN,
    PRIVATE,
    PROTOCOLS,
    READ,
    Entry,
    Function,
    PartLayout,
    Program,
)
from mainstem.lang.versioned import Vertex, part_vertex, versioned_source, vertex_source, whole_vertex
from mainstem.schema import EventSchema, TableSchema, Type

_NARROW_RETURNS = 256  # a byte tells that many returns apart


@dataclass
class Assembler:
    """Functions that make one program: those of an app, or pieces of them."""

    name: str
    events: tuple[EventSchema, ...]
    tables: tuple[TableSchema, ...]
    shared: Shared
    checks: Checks
    units: list[Unit]
    columns: dict[str, str]  # output columns and their bases
    derives: tuple[Derive, ...] = ()

    def program(self) -> Program:
        bodies = [unit.body for unit in self.units]
        nullable = self._number_columns(bodies)
        found = [dependencies(body.block, body.sites, set(self.checks)) for body in bodies]
        split = decompose_all([(unit.body, unit.flow) for unit in self.units], set(self.checks))
        wholes, parts = self._vertices(bodies, split)
        functions = tuple(
            self._function(u, d, self._layouts(u.body, p, v))
            for u, d, p, v in zip(self.units, found, split, parts, strict=True)
        )
        return Program(
            name=self.name,
            events=self.events,
            tables=self.tables,
            bindings=tuple((body.kind, body.name) for body in bodies),
            outputs=tuple((name, Type(base)) for name, base in self.columns.items()),
            reasons=tuple(self.shared.reasons),
            derives=self.derives,
            functions=functions,
            strings=tuple(self.shared.strings),
            nullable_outputs=frozenset(nullable),
            source=self._source(bodies),
            parameters=tuple(serial.serial_parameters(bodies, len(self.events))),
            asks=self._asks(bodies),
            direct=self._direct(bodies),
            versioned=self._versioned([*wholes, *(v for group in parts for v in group)]),
            edges=frozenset(table_edges([(b.sites, d) for b, d in zip(bodies, found, strict=True)])),
        )

    def _number_columns(self, bodies: list[emit.Body]) -> set[str]:
        ids = {name: i for i, name in enumerate(self.columns)}
        nullable = {
            c
            for b in bodies
            for s in ir.walk(b.block)
            if isinstance(s, ir.Return)
            for c, v in s.columns
            if v.null is not None
        }
        first = 1
        for body in bodies:
            body.ids, body.null_columns, body.first_return = ids, nullable & set(body.columns), first
            first += _last_return(body.block)
        self.returns = first
        if first > 65_535:
            raise ProgramError(f"app {self.name} has {first} returns", remedy="split it into several apps")
        return nullable

    def _function(self, unit: Unit, found: Dependencies, parts: tuple[PartLayout, ...]) -> Function:
        body, source, bounds = unit.body, unit.source, unit.bounds
        returns: dict[int, tuple[str, ...]] = {}
        aborts = []
        for s in ir.walk(body.block):
            if isinstance(s, ir.Return) and s.number:
                returns[s.number] = tuple(c for c, _ in s.columns)
            elif isinstance(s, ir.AbortIf):
                aborts.append((s.line, s.code, s.expected))
        return Function(
            body.index,
            body.name,
            self.events[body.kind].name,
            body.kind,
            source.file,
            source.tree.lineno,
            tuple(body.sites),
            found,
            dict(body.fields),
            tuple(returns.get(n, ()) for n in range(1, _last_return(body.block) + 1)),
            tuple(key_source.key_parameters(body)) if body.slice is not None else None,
            tuple(aborts),
            parts,
            bounds[0].isolation if bounds else EVENT_ORDER,
            bounds[0].protocol if bounds else PROTOCOLS[0],
            tuple(b.name for b in bounds if b.group is not None),
        )

    # -- generated source ---------------------------------------------------------------------------------------

    def _helpers(self) -> list[list[str]]:
        parts = [value_source.helper_source(h) for h in self.shared.helpers.values()]
        for i, checks in self.checks.items():
            parts += [value_source.check_source(i, name, block) for name, _, block in checks]
            parts.append(value_source.checks_source(i, [(name, code) for name, code, _ in checks]))
        return parts

    def _source(self, bodies: list[emit.Body]) -> str:
        parts = self._helpers()
        for body in bodies:
            if body.slice is not None:
                parts.append(key_source.keys_source(body))
            parts.append(emit.transaction_source(body, set(self.checks)))
        parts.append(serial.serial_source(bodies, len(self.events)))
        return _joined(parts)

    def _context(self) -> Context:
        outputs = [Type(base) for base in self.columns.values()]
        return Context(self.tables, outputs, self.returns > _NARROW_RETURNS)

    def _asks(self, bodies: list[emit.Body]) -> Entry:
        context = self._context()
        main = asks_source(bodies, len(self.events), context)
        return Entry(_joined([context.header(), *self._helpers(), main]), tuple(context.names))

    def _direct(self, bodies: list[emit.Body]) -> Entry:
        context = self._context()
        transactions = [emit.transaction_source(body, set(self.checks)) for body in bodies]
        main = direct_source(bodies, context)
        return Entry(_joined([context.header(), *self._helpers(), *transactions, main]), tuple(context.names))

    def _versioned(self, vertices: list[Vertex]) -> Entry:
        context, checked = self._context(), set(self.checks)
        bodies = [vertex_source(v, checked) for v in vertices]
        main = versioned_source(vertices, context, checked)
        return Entry(_joined([context.header(), *self._helpers(), *bodies, main]), tuple(context.names))

    def _vertices(
        self, bodies: list[emit.Body], split: list[tuple[Part, ...]]
    ) -> tuple[list[Vertex], list[list[Vertex]]]:
        """One kind of vertex per whole function, then one per part."""
        number, parts = len(bodies), []
        for body, group in zip(bodies, split, strict=True):
            parts.append([part_vertex(number + n, body, part) for n, part in enumerate(group)])
            number += len(group)
        return [whole_vertex(body) for body in bodies], parts

    def _layouts(self, body: emit.Body, parts: tuple[Part, ...], vertices: list[Vertex]) -> tuple[PartLayout, ...]:
        texts = describe(parts, body).splitlines()
        return tuple(
            PartLayout(
                vertex.number,
                tuple((s, OWN if s in part.owned else PRIVATE if s in part.private else READ) for s in vertex.sites),
                next((s.variable for s in part.block if isinstance(s, ir.Turn)), None),
                text,
            )
            for part, vertex, text in zip(parts, vertices, texts, strict=True)
        )


def _joined(parts: list[list[str]]) -> str:
    return "\n\n\n".join("\n".join(part) for part in parts) + "\n"


def _last_return(block: ir.Block) -> int:
    """The highest number of a return with columns. A piece of a function may lack some; others keep their numbers."""
    return max((s.number for s in ir.walk(block) if isinstance(s, ir.Return)), default=0)
