"""Which stages update their rows so that runs of accesses can be summed up without knowing where they start.

A store to a field *folds* when it sets `f ⊕ g`: ⊕ is associative, g and the way to the store do not depend on rows of
the stage. What a run of such stores does to the field is then one value, its total, whatever the field held before.
Then the accesses to one key need not be run by one task: `docs/design/replay.md`, hot keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from mainstem.lang import ir
from mainstem.lang.lowering import Checks, Unit
from mainstem.lang.slices import Slicer
from mainstem.lang.tables import may_fail_rarely
from mainstem.schema import Field

SUM, MAX, MIN, OR, AND, XOR, SET = "sum", "max", "min", "or", "and", "xor", "set"

_BITS = {"|": OR, "&": AND, "^": XOR}
_OPERAND = r"(-?[\w.]+)"
_EXTREME = re.compile(rf"{_OPERAND} if \1 ([<>]) {_OPERAND} else \3")
_BITWISE = re.compile(rf"{_OPERAND} ([|&^]) {_OPERAND}")
_TRUTH = re.compile(r"(\w+) != 0")


@dataclass(frozen=True)
class Fold:
    """How the functions of a stage update a field."""

    table: int
    field: str
    way: str  # one of the words above


@dataclass(frozen=True)
class Folding:
    """`why` tells what stands against folding; then the folds mean nothing."""

    folds: tuple[Fold, ...] = ()
    why: str = ""


UNKNOWN = Folding(why="nobody has looked how it updates its rows")


class _Unfoldable(Exception):
    """Its text says why, for people."""


def folding(units: Iterable[Unit], checks: Checks) -> Folding:
    """What the pieces of a keyed stage do to its rows."""
    found: dict[tuple[int, str], str] = {}
    try:
        for unit in units:
            for place, way in _Folder(unit, checks).folds().items():
                if found.setdefault(place, way) != way:
                    table = unit.body.tables_schemas[place[0]].name
                    raise _Unfoldable(f"{table}.{place[1]} is updated in several ways: {found[place]} and {way}")
    except _Unfoldable as why:
        return Folding(why=str(why))
    return Folding(tuple(Fold(table, name, way) for (table, name), way in sorted(found.items())))


@dataclass
class _Folder:
    """One piece. All its sites have one key, so sites of one table are one row."""

    unit: Unit
    checks: Checks
    slicer: Slicer = field(init=False)
    setters: Mapping[str, Sequence[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.slicer = Slicer(self.unit.body)
        setters: dict[str, list[int]] = {}
        for n, s in enumerate(self.slicer.statements):
            for name in ir.defines(s):
                setters.setdefault(name, []).append(n)
        self.setters = setters

    def folds(self) -> dict[tuple[int, str], str]:
        found: dict[tuple[int, str], str] = {}
        body = self.unit.body
        for n, s in enumerate(self.slicer.statements):
            if isinstance(s, ir.Delete):
                raise self._unfoldable(f"{self._row(s.site)} is deleted", s)
            if isinstance(s, ir.Store):
                place = body.sites[s.site].table, s.field
                way = self._store(n, s)
                if found.setdefault(place, way) != way:
                    raise self._unfoldable(f"{self._cell(s)} is updated in several ways: {found[place]} and {way}", s)
        if found:
            self._check_aborts(found)
        return found

    # -- what decides ---------------------------------------------------------------------------------------------

    def _check_aborts(self, found: Iterable[tuple[int, str]]) -> None:
        for table in {table for table, _ in found}:
            if table in self.checks:
                name = self.unit.body.tables_schemas[table].name
                raise _Unfoldable(f"a check of {name} may abort what {self.unit.body.name} stores")
        for n, s in enumerate(self.slicer.statements):
            decides = isinstance(s, ir.AbortIf) or (isinstance(s, ir.Checked) and not may_fail_rarely(s))
            if decides and not self._free([n]):
                raise self._unfoldable("a row decides about an abort", s)

    def _free(self, seeds: Iterable[int], without: int = -1) -> bool:
        """Whether statements run, and compute what they compute, whatever the rows hold. `without`: taken as free."""
        seen, todo = {without}, list(seeds)
        while todo:
            n = todo.pop()
            if n in seen or n < 0:
                continue
            seen.add(n)
            if isinstance(self.slicer.statements[n], ir.Load | ir.Exists):
                return False
            todo += [*self.slicer.control[n], *self.slicer.data[n], self.slicer.parent[n]]
        return True

    def _way_to(self, n: int) -> list[int]:
        return [self.slicer.parent[n], *self.slicer.control[n]]

    def _name_free(self, text: str, without: int = -1) -> bool:
        return self._free(self.setters.get(text, ()), without)

    # -- stores -----------------------------------------------------------------------------------------------------

    def _store(self, n: int, s: ir.Store) -> str:
        field_ = self._field(s)
        if s.index is not None or field_.type.length:
            raise self._unfoldable(f"{self._cell(s)} is an array", s)
        if field_.type.pooled:
            raise self._unfoldable(f"{self._cell(s)} is text", s)
        if any(isinstance(self.slicer.statements[m], ir.For | ir.While) for m in self.slicer.around(n)):
            raise self._unfoldable(f"{self._cell(s)} is set in a loop", s)
        if not self._free(self._way_to(n)):
            raise self._unfoldable(f"a row decides whether {self._cell(s)} is set", s)
        way = self._update(s, s.value.text)
        if way is None and all(self._name_free(name) for name in s.value.names):
            return SET
        if field_.type.base == "float":
            raise self._unfoldable(f"{self._cell(s)} is a float, and float arithmetic depends on the order", s)
        if way is None or way == "":
            raise self._unfoldable(f"{self._cell(s)} is set to more than a sum, an extreme or a bit operation", s)
        return way

    def _update(self, s: ir.Store, text: str) -> str | None:
        """How a value follows from the stored field: "" when it is the field itself, None when it is something else."""
        setters = self.setters.get(text, ())
        if len(setters) == 2:
            return self._short_cut(s, text, *setters)
        if len(setters) != 1:
            return None
        match self.slicer.statements[setters[0]]:
            case ir.Load(site=site, field=name, index=None):
                return "" if (self._table(site), name) == (self._table(s.site), s.field) else None
            case ir.Checked(call="add", arguments=(a, b)):
                return self._both(s, SUM, a.text, b.text)
            case ir.Checked(call="sub", arguments=(a, b)):
                return self._joined(SUM, self._update(s, a.text)) if self._name_free(b.text) else None
            case ir.Let(text=formula):
                return self._formula(s, formula)
        return None

    def _formula(self, s: ir.Store, formula: str) -> str | None:
        if formula.isidentifier():
            return self._update(s, formula)
        if (truth := _TRUTH.fullmatch(formula)) and self._field(s).type.base == "bool":
            return self._update(s, truth[1])
        if extreme := _EXTREME.fullmatch(formula):
            return self._both(s, MAX if extreme[2] == ">" else MIN, extreme[1], extreme[3])
        if bits := _BITWISE.fullmatch(formula):
            return self._both(s, _BITS[bits[2]], bits[1], bits[3])
        return None

    def _both(self, s: ir.Store, way: str, a: str, b: str) -> str | None:
        """The field in either of two operands, nothing of a row in the other."""
        for own, other in ((a, b), (b, a)):
            if self._name_free(other) and (inner := self._update(s, own)) is not None:
                return self._joined(way, inner)
        return None

    def _joined(self, way: str, inner: str | None) -> str | None:
        return way if inner in ("", way) else None

    def _short_cut(self, s: ir.Store, text: str, first: int, second: int) -> str | None:
        """`f or g`: a name that is the field, and g where that does not decide."""
        start, other = self.slicer.statements[first], self.slicer.statements[second]
        around = self.slicer.parent[second]
        test = self.slicer.statements[around] if around >= 0 else None
        if not (isinstance(start, ir.Let) and isinstance(other, ir.Let) and isinstance(test, ir.If)):
            return None
        if self._field(s).type.base != "bool" or other not in test.then:
            return None
        way = self._tested(test.condition.text, text)
        if way is None or not self._free([second], without=around):
            return None
        return self._joined(way, self._formula(s, start.text))

    def _tested(self, condition: str, text: str) -> str | None:
        if condition == text:
            return AND
        setters = self.setters.get(condition, ())
        test = self.slicer.statements[setters[0]] if len(setters) == 1 else None
        if isinstance(test, ir.Let) and test.text in (f"not {text}", text):
            return OR if test.text.startswith("not") else AND
        return None

    # -- for people -----------------------------------------------------------------------------------------------

    def _table(self, site: int) -> int:
        return self.unit.body.sites[site].table

    def _field(self, s: ir.Store) -> Field:
        found = self.unit.body.tables_schemas[self._table(s.site)].field(s.field)
        assert found is not None
        return found

    def _row(self, site: int) -> str:
        return self.unit.body.sites[site].text

    def _cell(self, s: ir.Store) -> str:
        return f"{self._row(s.site)}.{s.field}"

    def _unfoldable(self, what: str, s: ir.Statement) -> _Unfoldable:
        return _Unfoldable(f"{self.unit.body.name}: {what} (line {s.line})")
