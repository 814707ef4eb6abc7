"""What can be known about the arrays of a batch before there is one: names, places and constant parts, per program.

A small batch runs in less time than it takes to put these together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from mainstem.engine.columns import FieldPlan, frozen, kernel_arrays
from mainstem.lang import Function, Program
from mainstem.state import State

_NO_POSITIONS = frozen(np.zeros(0, np.int64))
_INDEX = {"I": "direct", "H": "slots", "K": "keys"}  # letters of generated code -> arrays of `KeyIndex`


@dataclass(frozen=True)
class KindPlan:
    """The fields of an event type that functions read."""

    kind: int
    pos: str
    ts: str | None  # the array of timestamps, where functions read them
    fields: tuple[FieldPlan, ...]
    empty: dict[str, Any]  # all arrays, for a batch without such events


@dataclass(frozen=True)
class PlainPlan:
    """Sites whose keys are columns of the event; sites with the same keys share their rows."""

    kind: int
    pos: str
    table: int
    columns: tuple[str, ...]
    timed: tuple[str, ...]  # columns that are timestamps: stored per event of the type, not by position
    targets: tuple[str, ...]


@dataclass(frozen=True)
class ListedPlan:
    """Where a function's dynamic keys of one table are, among the arguments of its key slice."""

    table: int
    parts: tuple[int, ...]
    site: int
    turn: int
    row: int
    index: tuple[tuple[int, str], ...]  # places of the arrays of the table's index, and what it calls them
    ends: str
    target: str

    @property
    def places(self) -> tuple[int, ...]:
        return (*self.parts, self.site, self.turn, self.row)


@dataclass(frozen=True)
class SingleKeyPlan:
    """Where the computed key of a site with one key per event is, among the arguments of the key slice."""

    table: int
    parts: tuple[int, ...]
    ok: int
    target: str


@dataclass(frozen=True)
class SlicePlan:
    """The key slice of a function, and which arrays its arguments are: first the batch's own, then what it fills."""

    kernel: Any
    pos: str
    arguments: int
    given: tuple[tuple[int, str], ...]  # places and names of the batch's arrays
    per_event: tuple[tuple[int, str, Any], ...]  # place, name and dtype of arrays with one value per event
    listed: tuple[ListedPlan, ...]
    singles: tuple[SingleKeyPlan, ...]
    turns: tuple[tuple[int, str], ...]  # places and names of turns of key loops

    @property
    def can_wait(self) -> bool:
        """Whether the serial kernel finds these keys by itself, as it does in loops."""
        return not self.singles


@dataclass(frozen=True)
class FunctionPlan:
    slice: SlicePlan | None
    plain: tuple[PlainPlan, ...]
    fixed_room: tuple[int, ...]  # per table: records that one transaction may have to save, besides dynamic ones


@dataclass(frozen=True)
class TablePlan:
    """What kernels call the arrays of a table."""

    rows: str
    undo: str
    undo_rows: str
    direct: str
    slots: str
    keys: str

    @classmethod
    def of(cls, number: int) -> TablePlan:
        return cls(*(f"{letter}{number}" for letter in "TUVIHK"))


def kind_plans(program: Program, state: State) -> list[KindPlan]:
    return [_kind_plan(program, kind, state) for kind in range(len(program.events))]


def _kind_plan(program: Program, kind: int, state: State) -> KindPlan:
    types = {n: t for f in program.functions if f.kind == kind for n, t in f.fields.items()}
    timed = types.pop("ts", None) is not None
    fields = [FieldPlan.of(kind, name, type_) for name, type_ in types.items()]
    empty: dict[str, Any] = {f"pos{kind}": _NO_POSITIONS}
    for field in fields:
        empty |= {field.names[role]: array for role, array in kernel_arrays(field.type, None, state).items()}
    if timed:
        empty[f"x{kind}_ts"] = _NO_POSITIONS
    return KindPlan(
        kind,
        f"pos{kind}",
        f"x{kind}_ts" if timed else None,
        tuple(fields),
        empty,
    )


def function_plans(program: Program, kernels: dict[str, Any]) -> list[FunctionPlan]:
    plain: dict[int, list[PlainPlan]] = {}
    targets: dict[tuple[int, int, tuple[str, ...]], list[str]] = {}
    for function in program.functions:
        for site in function.sites:
            if site.columns is not None:
                key = (function.kind, site.table, site.columns)
                targets.setdefault(key, []).append(f"R{function.index}_{site.index}")
    for (kind, table, columns), names in targets.items():
        first = int(names[0][1:].partition("_")[0])
        arrays = tuple(f"x{kind}_{column}" for column in columns)
        timed = tuple(name for name, column in zip(arrays, columns, strict=True) if column == "ts")
        plan = PlainPlan(kind, f"pos{kind}", table, arrays, timed, tuple(names))
        plain.setdefault(first, []).append(plan)
    return [
        FunctionPlan(
            None if f.key_parameters is None else _slice_plan(program, f, kernels),
            tuple(plain.get(f.index, ())),
            tuple(sum(s.writes and not s.dynamic for s in f.sites if s.table == i) for i in range(len(program.tables))),
        )
        for f in program.functions
    ]


def _slice_plan(program: Program, function: Function, kernels: dict[str, Any]) -> SlicePlan:
    names = function.key_parameters or ()
    at = {name: place for place, name in enumerate(names)}
    dynamic = sorted({s.table for s in function.sites if s.dynamic})
    listed = tuple(
        ListedPlan(
            i,
            tuple(at[f"q{i}_{c}"] for c in range(len(program.tables[i].key))),
            at[f"q{i}_site"],
            at[f"q{i}_turn"],
            at[f"q{i}_row"],
            tuple((at[f"{letter}{i}"], name) for letter, name in _INDEX.items() if f"{letter}{i}" in at),
            f"ends{function.index}_{i}",
            f"listed{function.index}_{i}",
        )
        for i in dynamic
    )
    singles = tuple(
        SingleKeyPlan(
            s.table,
            tuple(at[f"k{s.index}_{c}"] for c in range(len(program.tables[s.table].key))),
            at[f"k{s.index}_ok"],
            f"R{function.index}_{s.index}",
        )
        for s in function.sites
        if s.columns is None and not s.dynamic
    )
    return SlicePlan(
        kernels[f"keys_{function.index}"],
        f"pos{function.kind}",
        len(names),
        tuple(_given_arrays(function, names)),
        tuple(_arrays_per_event(function, names)),
        listed,
        singles,
        tuple((place, f"{name}_{function.index}") for name, place in at.items() if name.startswith("tn_")),
    )


def _given_arrays(function: Function, names: tuple[str, ...]) -> Iterator[tuple[int, str]]:
    for place, name in enumerate(names):
        role, _, field = name.partition("_")
        if role == "S":
            yield place, "S"
        elif role in ("x", "ok", "off"):
            yield place, f"{role}{function.kind}_{field}"


def _arrays_per_event(function: Function, names: tuple[str, ...]) -> Iterator[tuple[int, str, Any]]:
    for place, name in enumerate(names):
        role, _, rest = name.partition("_")
        if role == "tn" or (role[0] == "k" and role[1:].isdigit()):
            flag = rest == "ok" and role != "tn"
            yield place, f"slice{function.index} {name}", np.uint8 if flag else np.int64
