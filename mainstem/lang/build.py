"""`build`: from declarations to a `Program`."""

from __future__ import annotations

from dataclasses import replace

from mainstem.errors import ProgramError
from mainstem.lang.assemble import Assembler
from mainstem.lang.frame import Uncompilable
from mainstem.lang.groups import refuse_same_columns, refuse_shared_tables
from mainstem.lang.lowering import Lowered
from mainstem.lang.program import Program, Spec


def build(spec: Spec) -> Program:
    """Parses, checks and translates all functions; one that can't be translated makes the program interpreted."""
    if not spec.functions:
        raise ProgramError(f"app {spec.name} has no function", remedy="bind one with @app.on(EventType)")
    refuse_same_columns(spec)
    try:
        program = assembled(Lowered(spec))
    except Uncompilable as why:
        return _interpreted(spec, str(why))
    refuse_shared_tables(program)
    return program


def assembled(lowered: Lowered) -> Program:
    spec = lowered.spec
    schemas = tuple(t.schema for t in spec.tables)
    program = Assembler(
        spec.name, spec.events, schemas, lowered.shared, lowered.checks, lowered.units, lowered.columns, spec.derives
    ).program()
    return replace(program, windows=spec.windows)


def _interpreted(spec: Spec, why: str) -> Program:
    kinds = {e.name: k for k, e in enumerate(spec.events)}
    bindings = tuple((kinds[bounds[0].event], bounds[0].transaction) for bounds in spec.transactions)
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
        windows=spec.windows,
    )
