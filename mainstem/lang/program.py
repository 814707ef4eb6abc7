"""`build`: from declarations to a `Program`, the picklable thing that engines run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstem.errors import ProgramError
from mainstem.gate.derive import Derive
from mainstem.lang import emit, ir, serial
from mainstem.lang.analyse import Dependencies, cycles, dependencies, table_edges
from mainstem.lang.context import Context
from mainstem.lang.direct import direct_source
from mainstem.lang.flow import Flow
from mainstem.lang.frame import Frame, Shared, Uncompilable
from mainstem.lang.keys import check_keys, key_slice, mark_repeats
from mainstem.lang.parts import Part, decompose, describe
from mainstem.lang.runtime import Table
from mainstem.lang.source import Source, source_of
from mainstem.lang.statements import lower_body, lower_check
from mainstem.lang.versioned import Vertex, part_vertex, versioned_source, vertex_source, whole_vertex
from mainstem.schema import EventSchema, TableSchema, Type

FIXED_COLUMNS = ("ts", "seq", "event", "function", "status", "reason")
_NARROW_RETURNS = 256  # a byte tells that many returns apart
KEY_PARTS_MAX = 4  # generated code probes with at most this many components


@dataclass(frozen=True)
class Bound:
    """One `@app.on(event)` function."""

    event: str
    name: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class Spec:
    """What a user declared, as Python objects."""

    name: str
    events: tuple[EventSchema, ...]
    tables: tuple[Table, ...]
    functions: tuple[Bound, ...]
    derives: tuple[Derive, ...] = ()


READ, OWN, PRIVATE = range(3)  # how a part uses a site; the engine's kernels count alike


@dataclass(frozen=True)
class PartLayout:
    """A part of a function as the engine lays it out."""

    number: int  # in the program, after one number for each whole function
    sites: tuple[tuple[int, int], ...]  # (site, how it is used); static ones first, in the order of their refs
    loop: str | None  # the variable of the key loop that it runs one turn of
    text: str  # for people


@dataclass(frozen=True)
class Entry:
    """Source of an entry point, and the names of the arrays of its context, in order."""

    source: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Function:
    """One compiled function, as plain data."""

    index: int
    name: str
    event: str
    kind: int
    file: str
    line: int
    sites: tuple[ir.Site, ...]
    dependencies: Dependencies
    fields: dict[str, Type]
    returns: tuple[tuple[str, ...], ...]  # columns of each return that has some
    key_parameters: tuple[str, ...] | None  # of its `keys_f`; None when all keys are plain columns
    aborts: tuple[tuple[int, int, str], ...]  # (line, code, condition as written)
    parts: tuple[PartLayout, ...]  # empty when the function only runs whole


@dataclass(frozen=True)
class Program:
    """Everything an engine needs. `spec` is set only when the program runs interpreted (`why_interpreted`)."""

    name: str
    events: tuple[EventSchema, ...]
    tables: tuple[TableSchema, ...]
    bindings: tuple[tuple[int, str], ...]  # (event kind, function name) in declaration order
    outputs: tuple[tuple[str, Type], ...]
    reasons: tuple[str, ...]
    derives: tuple[Derive, ...] = ()
    functions: tuple[Function, ...] = ()
    strings: tuple[str | bytes, ...] = ()
    nullable_outputs: frozenset[str] = frozenset()
    source: str = ""
    parameters: tuple[str, ...] = ()
    direct: Entry | None = None
    versioned: Entry | None = None
    edges: frozenset[tuple[int, int]] = frozenset()
    spec: Spec | None = None
    why_interpreted: tuple[str, ...] = ()

    @property
    def compiled(self) -> bool:
        return self.spec is None

    @property
    def per_kind(self) -> list[list[int]]:
        """Functions (positions in `bindings`) of each event type."""
        return [[i for i, (kind, _) in enumerate(self.bindings) if kind == k] for k in range(len(self.events))]

    @property
    def names_functions(self) -> bool:
        """Whether outputs carry a `function` column."""
        return any(len(group) > 1 for group in self.per_kind)

    @property
    def used_columns(self) -> dict[str, list[str]]:
        """Event fields that the functions read, per event type: the only ones worth moving."""
        if not self.compiled:
            return {e.name: [f.name for f in e.fields + e.derived] for e in self.events}
        used: dict[str, dict[str, None]] = {e.name: {} for e in self.events}
        for function in self.functions:
            used[function.event].update(dict.fromkeys(f for f in function.fields if f != "ts"))
        return {name: list(fields) for name, fields in used.items()}

    @property
    def output_schema(self) -> pa.Schema:
        small, wide = pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int16(), pa.string())
        fields = [("ts", pa.int64()), ("seq", pa.int64()), ("event", small)]
        if self.names_functions:
            fields.append(("function", small))
        fields += [("status", small), ("reason", wide), *((name, t.arrow) for name, t in self.outputs)]
        return pa.schema(fields)

    @property
    def keyed(self) -> dict[str, tuple[str, ...]] | None:
        """The key columns per event type when every event touches one key that is a plain column; else None."""
        if not self.compiled:
            return None
        found: dict[str, tuple[str, ...]] = {}
        for function in self.functions:
            for site in function.sites:
                if site.columns is None or found.setdefault(function.event, site.columns) != site.columns:
                    return None
        return found if len(found) == len(self.events) else None

    @property
    def cyclic_tables(self) -> list[list[str]]:
        return [[self.tables[i].name for i in group] for group in cycles(len(self.tables), set(self.edges))]


def build(spec: Spec) -> Program:
    """Parses, checks and translates all functions; one that can't be translated makes the program interpreted."""
    if not spec.functions:
        raise ProgramError(f"app {spec.name} has no function", remedy="bind one with @app.on(EventType)")
    kinds = {e.name: k for k, e in enumerate(spec.events)}
    bindings = tuple((kinds[b.event], b.name) for b in spec.functions)
    try:
        return _Builder(spec, kinds, bindings).program()
    except Uncompilable as why:
        return _interpreted(spec, bindings, str(why))


def _interpreted(spec: Spec, bindings: tuple[tuple[int, str], ...], why: str) -> Program:
    schemas = tuple(t.schema for t in spec.tables)
    everything = frozenset((i, j) for i in range(len(schemas)) for j in range(len(schemas)))
    return Program(
        spec.name,
        spec.events,
        schemas,
        bindings,
        (),
        (),
        spec.derives,
        edges=everything,
        spec=spec,
        why_interpreted=(why,),
    )


class _Builder:
    def __init__(self, spec: Spec, kinds: dict[str, int], bindings: tuple[tuple[int, str], ...]) -> None:
        self.spec, self.kinds, self.bindings = spec, kinds, bindings
        self.shared = Shared({id(t): i for i, t in enumerate(spec.tables)}, list(spec.tables))
        self.columns: dict[
            str, tuple[str, str, str, int]
        ] = {}  # output column -> (base, function that first gave it, file, line)
        self.checks: dict[int, list[tuple[str, int, ir.Block]]] = {}

    def program(self) -> Program:
        self._lower_checks()
        lowered = [self._lower(i, bound) for i, bound in enumerate(self.spec.functions)]
        bodies = [body for body, _, _ in lowered]
        nullable = self._number_columns(bodies)
        found = [dependencies(body.block, body.sites, set(self.checks)) for body in bodies]
        split = [decompose(body, set(self.checks), flow) for body, _, flow in lowered]
        wholes, parts = self._vertices(bodies, split)
        functions = tuple(
            self._function(b, s, d, self._layouts(b, p, v))
            for (b, s, _), d, p, v in zip(lowered, found, split, parts, strict=True)
        )
        return Program(
            name=self.spec.name,
            events=self.spec.events,
            tables=tuple(t.schema for t in self.spec.tables),
            bindings=self.bindings,
            outputs=tuple((name, Type(base)) for name, (base, *_) in self.columns.items()),
            reasons=tuple(self.shared.reasons),
            derives=self.spec.derives,
            functions=functions,
            strings=tuple(self.shared.strings),
            nullable_outputs=frozenset(nullable),
            source=self._source(bodies),
            parameters=tuple(serial.serial_parameters(bodies, len(self.spec.events))),
            direct=self._direct(bodies),
            versioned=self._versioned([*wholes, *(v for group in parts for v in group)]),
            edges=frozenset(table_edges([(b.sites, d) for b, d in zip(bodies, found, strict=True)])),
        )

    def _lower_checks(self) -> None:
        for i, table in enumerate(self.spec.tables):
            for function in table.checks:
                source = source_of(function)
                frame = Frame(source, self.shared, row=i)
                block = lower_check(frame)
                code = self.shared.reason(f"check {table.schema.name}.{source.name} failed")
                self.checks.setdefault(i, []).append((source.name, code, block))

    def _lower(self, index: int, bound: Bound) -> tuple[emit.Body, Source, Flow]:
        source = source_of(bound.function)
        arguments = source.tree.args
        if (
            len(arguments.args) != 1
            or arguments.vararg
            or arguments.kwonlyargs
            or arguments.kwarg
            or arguments.defaults
        ):
            raise source.error(
                "a function bound with @app.on takes one parameter, the event", None, f"write def {source.name}(e):"
            )
        kind = self.kinds[bound.event]
        frame = Frame(source, self.shared, event=self.spec.events[kind])
        block = lower_body(frame)
        flow = Flow(block)
        check_keys(block, frame.sites, flow, source)
        mark_repeats(block, frame.sites, flow)
        body = emit.Body(
            index,
            bound.name,
            kind,
            block,
            frame.sites,
            frame.used_fields,
            key_slice(block, frame.sites, flow),
            tuple(t.schema for t in self.spec.tables),
        )
        self._note_columns(frame, source)
        return body, source, flow

    def _note_columns(self, frame: Frame, source: Source) -> None:
        for name, (base, line) in frame.columns.items():
            if name in FIXED_COLUMNS:
                raise ProgramError(
                    f"output column {name!r} is one of Mainstem's own (in {source.name})",
                    file=source.file,
                    line=line,
                    remedy="give it another name",
                )
            known = self.columns.get(name)
            if known is not None and "none" not in (known[0], base) and known[0] != base:
                raise ProgramError(
                    f"output column {name!r} is {known[0]} in {known[1]} and {base} in {source.name}",
                    file=source.file,
                    line=line,
                    remedy="give it one type everywhere, or another name",
                )
            if known is None or known[0] == "none":
                self.columns[name] = (base, source.name, source.file, line)

    def _number_columns(self, bodies: list[emit.Body]) -> set[str]:
        for name, (base, function, file, line) in self.columns.items():
            if base == "none":
                raise ProgramError(
                    f"output column {name!r} is always None (in {function})",
                    file=file,
                    line=line,
                    remedy="leave it out",
                )
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
            first += sum(isinstance(s, ir.Return) and s.number > 0 for s in ir.walk(body.block))
        self.returns = first
        if first > 65_535:
            raise ProgramError(f"app {self.spec.name} has {first} returns", remedy="split it into several apps")
        return nullable

    def _function(
        self, body: emit.Body, source: Source, found: Dependencies, parts: tuple[PartLayout, ...]
    ) -> Function:
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
            self.spec.events[body.kind].name,
            body.kind,
            source.file,
            source.tree.lineno,
            tuple(body.sites),
            found,
            dict(body.fields),
            tuple(returns[i] for i in sorted(returns)),
            tuple(emit.key_parameters(body)) if body.slice is not None else None,
            tuple(aborts),
            parts,
        )

    # -- generated source ---------------------------------------------------------------------------------------

    def _helpers(self) -> list[list[str]]:
        parts = [emit.helper_source(h) for h in self.shared.helpers.values()]
        for i, checks in self.checks.items():
            parts += [emit.check_source(i, name, block) for name, _, block in checks]
            parts.append(emit.checks_source(i, [(name, code) for name, code, _ in checks]))
        return parts

    def _source(self, bodies: list[emit.Body]) -> str:
        parts = self._helpers()
        for body in bodies:
            if body.slice is not None:
                parts.append(emit.keys_source(body))
            parts.append(emit.transaction_source(body, set(self.checks)))
        parts.append(serial.serial_source(bodies, len(self.spec.events)))
        return _joined(parts)

    def _context(self) -> Context:
        outputs = [Type(base) for base, *_ in self.columns.values()]
        return Context(tuple(t.schema for t in self.spec.tables), outputs, self.returns > _NARROW_RETURNS)

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

    def _layouts(
        self, body: emit.Body, parts: tuple[Part, ...], vertices: list[Vertex]
    ) -> tuple[PartLayout, ...]:
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
