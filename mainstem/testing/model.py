"""What a program generator knows while it writes: knobs, the declared world and the names in scope."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from mainstem.schema import EventSchema, Field, TableSchema

T = TypeVar("T")

# Programs and streams draw from the same few texts, so that keys meet and comparisons are sometimes true.
TEXTS = ("", "a", "b", "north", "süd", "東")
BLOBS = (b"", b"\x00", b"a", b"\xff\xfe")


@dataclass(frozen=True)
class Knobs:
    """Bounds of a generated program; a pair is an inclusive range to draw from."""

    tables: tuple[int, int] = (1, 4)
    events: tuple[int, int] = (1, 3)
    functions: tuple[int, int] = (1, 3)  # per event type; most event types get one
    helpers: tuple[int, int] = (0, 2)
    refs: tuple[int, int] = (1, 16)  # per function
    all_refs: bool = False  # a function uses all refs that were drawn for it, else it may use fewer
    statements: tuple[int, int] = (2, 8)  # per function, at its top level
    depth: int = 3  # of nested expressions
    nesting: int = 3  # of nested blocks
    extremes: float = 0.06  # chance of a number near the 64-bit limits where a number is written
    bases: tuple[str, ...] = ("int", "float", "bool", "str", "bytes", "datetime")
    refusals: float = 0.0  # share of transactions that a guard refuses, beside those that abort anyway
    key_loops: float = 0.0  # chance that a function has a loop that writes one row per key of the event
    work: int = 0  # turns of a loop that a function goes through, so that transactions of several threads overlap
    keyed: bool = False  # every ref is `Table[e.int0]`, so that an event touches one key
    groups: float = 0.0  # chance that two or three functions of an event type are one transaction
    layered: float = 0.0  # chance that a function writes tables from those before them only, each under one column


@dataclass(frozen=True)
class Helper:
    """A pure module-level function: one result of a known type for arguments of known types."""

    name: str
    parameters: tuple[str, ...]
    result: str


@dataclass
class World:
    """Everything that one generated module declares."""

    events: list[EventSchema] = field(default_factory=list)
    tables: list[TableSchema] = field(default_factory=list)
    helpers: list[Helper] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)  # base -> name of a module constant
    columns: dict[str, str] = field(default_factory=dict)  # output column -> base
    typed: set[str] = field(default_factory=set)  # output columns that some return already gave a type


@dataclass(frozen=True)
class Variable:
    """A local. `pure`: its value depends on the event alone, so it may be part of a key.

    `level` counts the state-dependent conditions around its first assignment: a pure variable may be
    reassigned at that level only, else *whether* it was reassigned would depend on state.
    """

    name: str
    base: str
    pure: bool
    level: int
    loop: bool = False  # a loop variable or counter: the loop owns it
    nullable: bool = False
    parts: tuple[str, ...] = ()  # the bases of a tuple, which serves as a key


@dataclass(frozen=True)
class RowName:
    name: str
    table: TableSchema


@dataclass
class Scope:
    """The names that one function may use at the place being written."""

    event: EventSchema | None = None
    parameter: str = "e"
    tables: Sequence[TableSchema] = ()  # to read
    written: Sequence[TableSchema] = ()
    columns: dict[str, str] = field(default_factory=dict)  # layered: the key of each table
    variables: list[Variable] = field(default_factory=list)
    rows: list[RowName] = field(default_factory=list)
    refs_left: int = 0
    level: int = 0  # state-dependent conditions around this place
    nesting: int = 0
    fresh: int = 0  # numbers the names, so that no name is used with two types
    retired: list[Variable] = field(default_factory=list)  # names of blocks that ended, free to be used again

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def local(self, prefix: str, like: Variable) -> str:
        """A name for a new local such as `like`: a fresh one, or one of its kind whose block has ended.

        Pure names stay pure: a name that ever holds a value of state is no key anywhere in the function.
        """
        used = {v.name for v in self.variables}
        same = replace(like, name="", level=0)
        alike = [v.name for v in self.retired if replace(v, name="", level=0) == same and v.name.startswith(prefix)]
        again = [name for name in alike if name not in used]
        if again and self.fresh % 2:
            return again[-1]
        return self.name(prefix)

    def fields(self, wanted: Callable[[Field], bool]) -> list[Field]:
        """Event fields that satisfy `wanted`."""
        return [f for f in self.event.fields if wanted(f)] if self.event else []

    def nullable_fields(self, base: str | None = None) -> list[Field]:
        return self.fields(lambda f: f.type.nullable and not f.type.is_list and base in (None, seen(f.type.base)))

    @contextmanager
    def block(self, *, state_dependent: bool = False) -> Iterator[None]:
        """A nested block: names first bound inside are gone after it, because it may not have run."""
        variables, rows = list(self.variables), list(self.rows)
        self.level += state_dependent
        self.nesting += 1
        yield
        self.nesting -= 1
        self.level -= state_dependent
        self.retired += [v for v in self.variables if v not in variables]
        self.variables, self.rows = variables, rows


class Draw:
    """Random choices with the vocabulary of the generator."""

    def __init__(self, seed: object, knobs: Knobs) -> None:
        self.random = random.Random(str(seed))
        self.knobs = knobs

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def between(self, bounds: tuple[int, int]) -> int:
        return self.random.randint(*bounds)

    def one(self, items: Sequence[T]) -> T:
        return self.random.choice(items)

    def weighted(self, choices: Sequence[tuple[float, T]]) -> T:
        return self.random.choices([c for _, c in choices], [w for w, _ in choices])[0]


def seen(base: str) -> str:
    """The type that a function sees: a datetime is its integer of microseconds."""
    return "int" if base == "datetime" else base


def is_plain(field_: Field, base: str) -> bool:
    """A field that always holds exactly one value, which functions see as `base`."""
    t = field_.type
    return seen(t.base) == base and not (t.nullable or t.is_list or t.length)
