"""`Program`: the picklable thing that engines run, and what it is made from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mainstem.gate.derive import Derive
from mainstem.lang import ir
from mainstem.lang.analyse import Dependencies, cycles
from mainstem.lang.runtime import Table
from mainstem.schema import EventSchema, TableSchema, Type
from mainstem.windows import Window

FIXED_COLUMNS = ("ts", "seq", "event", "function", "status", "reason")
LEVELS = ("PL1", "PL2", "PL3", "PL4")
"""Isolation levels, the weakest first; docs/isolation.md tells what each allows."""
EVENT_ORDER = LEVELS[-1]
PROTOCOLS = ("auto", "lock", "timestamp")
NAMES_MAX = 128
"""Event types, and names of functions: outputs hold their codes in signed bytes."""


@dataclass(frozen=True)
class Bound:
    """One `@app.on(event)` function. Those with the same `group` are one transaction, at one isolation level."""

    event: str
    name: str
    function: Callable[..., Any]
    isolation: str = "PL4"
    protocol: str = "auto"
    group: str | None = None

    @property
    def transaction(self) -> str:
        """The name of the transaction that it is, or is a part of."""
        return self.name if self.group is None else self.group


@dataclass(frozen=True)
class Spec:
    """What a user declared, as Python objects."""

    name: str
    events: tuple[EventSchema, ...]
    tables: tuple[Table, ...]
    functions: tuple[Bound, ...]
    derives: tuple[Derive, ...] = ()
    windows: tuple[Window, ...] = ()

    @property
    def inputs(self) -> tuple[EventSchema, ...]:
        """Event types that come from outside; those of closed windows stand behind them in `events`."""
        return self.events[: len(self.events) - len(self.windows)]

    @property
    def transactions(self) -> tuple[tuple[Bound, ...], ...]:
        """Functions that are one transaction, in order: each alone, or a group at the place of its first function."""
        found: dict[tuple[str, str, bool], list[Bound]] = {}
        for bound in self.functions:
            found.setdefault((bound.event, bound.transaction, bound.group is not None), []).append(bound)
        return tuple(tuple(members) for members in found.values())


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
    isolation: str = "PL4"
    protocol: str = "auto"
    members: tuple[str, ...] = ()  # the functions of a transaction group, in order; empty for one that is in none

    @property
    def group(self) -> bool:
        """Whether it stands for a transaction group."""
        return bool(self.members)


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
    asks: Entry | None = None
    direct: Entry | None = None
    versioned: Entry | None = None
    edges: frozenset[tuple[int, int]] = frozenset()
    spec: Spec | None = None
    why_interpreted: tuple[str, ...] = ()
    windows: tuple[Window, ...] = ()

    @property
    def inputs(self) -> tuple[EventSchema, ...]:
        """Event types that come from outside; those of closed windows stand behind them in `events`."""
        return self.events[: len(self.events) - len(self.windows)]

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
        """Event fields that functions and windows read, per event type: the only ones worth moving."""
        if not self.compiled:
            return {e.name: [f.name for f in e.fields + e.derived] for e in self.events}
        used: dict[str, dict[str, None]] = {e.name: {} for e in self.events}
        for function in self.functions:
            used[function.event].update(dict.fromkeys(f for f in function.fields if f != "ts"))
        for window in self.windows:
            used[window.event.name].update(dict.fromkeys(window.columns))
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
