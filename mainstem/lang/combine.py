"""Several variants of a program as one dataflow: stages that are the same run once, each variant has a home of its own.

A rule that differs in a threshold of its answer shares every stage with the others, one that counts differently shares
those before the difference.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mainstem.errors import ProgramError
from mainstem.lang.dataflow import Carry, Dataflow, Home, Piece, Stage


def combined(flows: Sequence[Dataflow]) -> Dataflow:
    """One dataflow with a home per variant, in their order. Events and derived columns must be the same in all."""
    first = flows[0]
    for flow in flows[1:]:
        _check_alike(first, flow)
    union = _Union()
    for number, flow in enumerate(flows):
        union.add(flow, number)
    return replace(first, stages=tuple(union.stages), homes=tuple(union.homes))


def _check_alike(first: Dataflow, other: Dataflow) -> None:
    for what in ("events", "derives", "tables"):
        if getattr(first.program, what) != getattr(other.program, what):
            raise ProgramError(
                f"variants {first.program.name} and {other.program.name} differ in their {what}",
                remedy="variants read one log in one go: give them the same events, derive functions and tables, "
                "or replay them one after the other",
            )
    if first.overflow != other.overflow:
        raise ProgramError(f"variants were built with overflow={first.overflow!r} and {other.overflow!r}")
    if (first.computed, _key_code(first)) != (other.computed, _key_code(other)):
        raise ProgramError(
            f"variants {first.program.name} and {other.program.name} compute keys in different ways",
            remedy="use the constant that differs in values, not in keys, or replay them one after the other",
        )


def _key_code(flow: Dataflow) -> list[str]:
    """The source of the functions that compute keys, with the constants that they name."""
    functions = re.findall(r"^def key_\d+\(.*?(?=^@|\Z)", flow.program.source, re.MULTILINE | re.DOTALL)
    return [*functions, *map(repr, flow.program.strings)] if flow.computed else []


@dataclass
class _Union:
    stages: list[Stage] = field(default_factory=list)
    homes: list[Home] = field(default_factory=list)
    known: dict[Any, int] = field(default_factory=dict)  # what a stage does -> its number
    count: int = 0  # pieces so far

    def add(self, flow: Dataflow, home: int) -> None:
        numbers: dict[int, int] = {}  # piece of this variant -> piece of the union
        for stage in sorted(flow.stages, key=lambda s: s.wave):
            self._stage(stage, numbers)
        pieces = []
        for piece in flow.homes[0].pieces:
            pieces.append(replace(piece, number=self._next(), stage=-1 - home, given=_renamed(piece.given, numbers)))
        self.homes.append(replace(flow.homes[0], pieces=tuple(pieces)))

    def _next(self) -> int:
        self.count += 1
        return self.count - 1

    def _stage(self, stage: Stage, numbers: dict[int, int]) -> None:
        given = [_renamed(piece.given, numbers) for piece in stage.pieces]
        does = _what_it_does(stage, given)
        if does in self.known:
            number = self.known[does]
            same = self.stages[number]
            self.stages[number] = replace(same, pieces=tuple(map(_with_emits_of, same.pieces, stage.pieces)))
        else:
            number = self.known[does] = len(self.stages)
            pieces = tuple(
                replace(piece, number=self._next(), stage=number, given=carries)
                for piece, carries in zip(stage.pieces, given, strict=True)
            )
            self.stages.append(replace(stage, number=number, wave=self._wave(pieces), pieces=pieces))
        for old, new in zip(stage.pieces, self.stages[number].pieces, strict=True):
            numbers[old.number] = new.number

    def _wave(self, pieces: tuple[Piece, ...]) -> int:
        producers = {carry.producer for piece in pieces for carry in piece.given}
        needed = [s.wave for s in self.stages if producers.intersection(p.number for p in s.pieces)]
        return 1 + max(needed, default=0)


def _renamed(given: tuple[Carry, ...], numbers: dict[int, int]) -> tuple[Carry, ...]:
    return tuple(Carry(numbers[carry.producer], carry.columns) for carry in given)


def _what_it_does(stage: Stage, given: list[tuple[Carry, ...]]) -> Any:
    """Equal for stages that give equal results on equal logs."""
    program = stage.program
    pieces = tuple((p.function, p.kind, p.fields, p.key, p.first_return, p.exact) for p in stage.pieces)
    code = (program.source, program.strings, program.events, program.outputs, program.reasons)
    return (stage.tables, stage.keyed, code, pieces, tuple(given))


def _with_emits_of(piece: Piece, other: Piece) -> Piece:
    """What the consumers of either take."""
    return replace(
        piece,
        emits=tuple(dict.fromkeys((*piece.emits, *other.emits))),
        emits_code=piece.emits_code or other.emits_code,
        emits_return=piece.emits_return or other.emits_return,
    )
