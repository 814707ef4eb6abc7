"""From declarations to typed blocks: every function of an app, lowered and checked."""

from __future__ import annotations

from dataclasses import dataclass, replace

from mainstem.errors import ProgramError
from mainstem.lang import emit, ir
from mainstem.lang.flow import Flow
from mainstem.lang.frame import Frame, Shared
from mainstem.lang.keys import check_keys, key_slice, mark_repeats
from mainstem.lang.program import FIXED_COLUMNS, Bound, Spec
from mainstem.lang.sequence import Joined, Member, in_sequence
from mainstem.lang.source import Source, source_of
from mainstem.lang.statements import lower_body, lower_check
from mainstem.schema import Field

Checks = dict[int, list[tuple[str, int, ir.Block]]]
"""Per table: (name, abort code, block) of each of its checks."""


@dataclass(frozen=True)
class Unit:
    """One transaction, lowered: a function, or those of a group in sequence."""

    body: emit.Body
    source: Source
    flow: Flow
    derived: tuple[Field, ...] = ()  # fields of its event type that derive functions add
    bounds: tuple[Bound, ...] = ()  # what it was made from; nothing for pieces


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
        self.units = [self._lower(i, bounds) for i, bounds in enumerate(spec.transactions)]
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

    def _lower(self, index: int, bounds: tuple[Bound, ...]) -> Unit:
        kind, name = self.kinds[bounds[0].event], bounds[0].transaction
        members: list[Member] = []
        for bound in bounds:
            members.append(self._member(bound, kind, members[-1].frame if members else None))
        first = members[0]
        joined = in_sequence(members) if len(members) > 1 else Joined(first.block, Flow(first.block))
        for member in members:
            check_keys(member.block, first.frame.sites, joined.flow, member.frame.source)
            self._note_columns(member.frame, member.frame.source)
        sites = first.frame.sites
        mark_repeats(joined.block, sites, joined.flow)
        body = emit.Body(
            index,
            name,
            kind,
            joined.block,
            sites,
            first.frame.used_fields,
            key_slice(joined.block, sites, joined.flow),
            tuple(t.schema for t in self.spec.tables),
        )
        source = replace(first.frame.source, name=name)
        return Unit(body, source, joined.flow, self.spec.events[kind].derived, bounds)

    def _member(self, bound: Bound, kind: int, after: Frame | None) -> Member:
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
        frame = Frame(source, self.shared, event=self.spec.events[kind], after=after)
        return Member(frame, lower_body(frame))

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
