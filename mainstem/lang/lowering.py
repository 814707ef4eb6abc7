"""From declarations to typed blocks: every function of an app, lowered and checked."""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.errors import ProgramError
from mainstem.lang import emit, ir
from mainstem.lang.flow import Flow
from mainstem.lang.frame import Frame, Shared
from mainstem.lang.keys import check_keys, key_slice, mark_repeats
from mainstem.lang.program import FIXED_COLUMNS, Bound, Spec
from mainstem.lang.source import Source, source_of
from mainstem.lang.statements import lower_body, lower_check
from mainstem.schema import Field

Checks = dict[int, list[tuple[str, int, ir.Block]]]
"""Per table: (name, abort code, block) of each of its checks."""


@dataclass(frozen=True)
class Unit:
    """One function, lowered."""

    body: emit.Body
    source: Source
    flow: Flow
    derived: tuple[Field, ...] = ()  # fields of its event type that derive functions add


class Lowered:
    """All functions and checks of an app, and what they share. Errors in functions show here."""

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.kinds = {e.name: k for k, e in enumerate(spec.events)}
        self.shared = Shared({id(t): i for i, t in enumerate(spec.tables)}, list(spec.tables))
        self.checks: Checks = {}
        self._columns: dict[
            str, tuple[str, str, str, int]
        ] = {}  # output column -> (base, function that first gave it, file, line)
        self._lower_checks()
        self.units = [self._lower(i, bound) for i, bound in enumerate(spec.functions)]
        self._refuse_empty_columns()

    @property
    def columns(self) -> dict[str, str]:
        """Output columns and their bases."""
        return {name: base for name, (base, *_) in self._columns.items()}

    def _lower_checks(self) -> None:
        for i, table in enumerate(self.spec.tables):
            for function in table.checks:
                source = source_of(function)
                frame = Frame(source, self.shared, row=i)
                block = lower_check(frame)
                code = self.shared.reason(f"check {table.schema.name}.{source.name} failed")
                self.checks.setdefault(i, []).append((source.name, code, block))

    def _lower(self, index: int, bound: Bound) -> Unit:
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
        return Unit(body, source, flow, self.spec.events[kind].derived)

    def _note_columns(self, frame: Frame, source: Source) -> None:
        for name, (base, line) in frame.columns.items():
            if name in FIXED_COLUMNS:
                raise ProgramError(
                    f"output column {name!r} is one of Mainstem's own (in {source.name})",
                    file=source.file,
                    line=line,
                    remedy="give it another name",
                )
            known = self._columns.get(name)
            if known is not None and "none" not in (known[0], base) and known[0] != base:
                raise ProgramError(
                    f"output column {name!r} is {known[0]} in {known[1]} and {base} in {source.name}",
                    file=source.file,
                    line=line,
                    remedy="give it one type everywhere, or another name",
                )
            if known is None or known[0] == "none":
                self._columns[name] = (base, source.name, source.file, line)

    def _refuse_empty_columns(self) -> None:
        for name, (base, function, file, line) in self._columns.items():
            if base == "none":
                raise ProgramError(
                    f"output column {name!r} is always None (in {function})",
                    file=file,
                    line=line,
                    remedy="leave it out",
                )
