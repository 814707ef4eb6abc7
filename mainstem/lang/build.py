"""`build`: from declarations to a `Program`."""

from __future__ import annotations

from dataclasses import replace

from mainstem.errors import ProgramError
from mainstem.lang.assemble import Assembler
from mainstem.lang.frame import Uncompilable
from mainstem.lang.groups import refuse_same_columns
from mainstem.lang.lowering import Lowered
from mainstem.lang.program import NAMES_MAX, Program, Spec


def build(spec: Spec) -> Program:
    """Parses, checks and translates all functions; one that can't be translated makes the program interpreted."""
    if not spec.functions:
        raise ProgramError(f"app {spec.name} has no function", remedy="bind one with @app.on(EventType)")
    _refuse_many_names(spec)
    refuse_same_columns(spec)
    try:
        return assembled(Lowered(spec))
    except Uncompilable as why:
        return _interpreted(spec, str(why))


def _refuse_many_names(spec: Spec) -> None:
    names = {
        "event types and windows": {event.name for event in spec.events},
        "names of functions and groups": {members[0].transaction for members in spec.transactions},
    }
    for what, found in names.items():
        if len(found) > NAMES_MAX:
            raise ProgramError(
                f"app {spec.name} has {len(found)} {what}, and outputs tell {NAMES_MAX} apart",
                remedy="give one event type a field that tells its kinds apart, or make several apps",
            )


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
