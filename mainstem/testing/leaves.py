"""The atoms of random expressions: constants, event values, locals, places in tables and their keys."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from mainstem.schema import Field, TableSchema
from mainstem.testing.model import BLOBS, TEXTS, Draw, Scope, Variable, World, is_plain, seen

_EXTREME_INTS = ("9223372036854775807", "(-9223372036854775808)", "4611686018427387904", "9007199254740993")
_EXTREME_FLOATS = ("1e308", "-1e308", "5e-324", "9007199254740993.0", "-0.0", "9.3e18", "math.pi", "math.inf")


class Leaves(ABC):
    """Writes atoms for one place; `scope` says what is visible there."""

    def __init__(self, draw: Draw, world: World, scope: Scope) -> None:
        self.draw, self.world, self.scope = draw, world, scope

    @abstractmethod
    def of(self, base: str, depth: int | None = None, *, pure: bool = False) -> str:
        """An expression of type `base`; leaves need it for keys and indexes."""

    def leaf(self, base: str, pure: bool) -> str:
        options: list[tuple[float, Callable[[str], str]]] = [(0.3 if base == "bool" else 1.5, self.constant)]
        if self.scope.event and (values := self._event_values(base)):
            options.append((4, lambda _: self.draw.one(values)))
        if self._variables(base, pure):
            options.append((3, lambda b: self.draw.one(self._variables(b, pure)).name))
        if not pure and self._places(base, self.scope.tables):
            options.append((5, lambda b: self.place(b) or self.constant(b)))
        if base == "int" and self.scope.rows and self.draw.chance(0.05) and (length := self._array_length()):
            return length
        return self.draw.weighted(options)(base)

    def _array_length(self) -> str | None:
        arrays = [f"len({r.name}.{f.name})" for r in self.scope.rows for f in r.table.fields if f.type.length]
        return self.draw.one(arrays) if arrays else None

    def constant(self, base: str) -> str:
        extreme = self.draw.chance(self.draw.knobs.extremes)
        if base in self.world.constants and self.draw.chance(0.1):
            return self.world.constants[base]
        if base == "int":
            return self.draw.one(_EXTREME_INTS) if extreme else str(self.draw.between((0, 9)))
        if base == "float":
            return self.draw.one(_EXTREME_FLOATS) if extreme else repr(self.draw.between((-40, 40)) / 8)
        if base == "bool":
            return self.draw.one(("True", "False"))
        return repr(self.draw.one(TEXTS if base == "str" else BLOBS))

    # The event and locals.

    def _event_values(self, base: str) -> list[str]:
        e = self.scope.parameter
        values = [f"{e}.{f.name}" for f in self.scope.fields(lambda f: is_plain(f, base))]
        values += [self._unless_null(f"{e}.{f.name}", base) for f in self.scope.nullable_fields(base)]
        if self.draw.chance(0.2):
            lists = self.scope.fields(lambda f: f.type.is_list and seen(f.type.base) == base)
            values += [f"{e}.{f.name}[{self.draw.one(('0', '-1', '1', f'{e}.int0'))}]" for f in lists]
        if base == "int":
            values += [f"len({e}.{f.name})" for f in self.scope.fields(lambda f: f.type.is_list)]
            values += [f"{e}.ts"] if self.draw.chance(0.1) else []
        return values

    def _unless_null(self, name: str, base: str) -> str:
        return f"({name} if {name} is not None else {self.constant(base)})"

    def _variables(self, base: str, pure: bool) -> list[Variable]:
        return [
            v
            for v in self.scope.variables
            if v.base == base and not v.nullable and not v.parts and (v.pure or not pure)
        ]

    def nullable(self, pure: bool, base: str | None = None) -> str | None:
        """An event field or a local that may be null; None when there is none."""
        e = self.scope.parameter
        names = [f"{e}.{f.name}" for f in self.scope.nullable_fields(base)]
        names += [
            v.name for v in self.scope.variables if v.nullable and base in (None, v.base) and (v.pure or not pure)
        ]
        return self.draw.one(names) if names else None

    # Places in tables.

    def _places(self, base: str, tables: Sequence[TableSchema]) -> list[tuple[str | TableSchema, Field]]:
        """(row name or table, field) pairs of `base` that may be reached from here."""
        found: list[tuple[str | TableSchema, Field]] = []
        for row in self.scope.rows:
            found += [(row.name, f) for f in row.table.fields if seen(f.type.base) == base]
        if self.scope.refs_left > 0:
            for table in tables:
                found += [(table, f) for f in table.fields if seen(f.type.base) == base]
        return found

    def place(self, base: str, *, writing: bool = False) -> str | None:
        """A table place of `base`; None when nothing of that type can be reached."""
        places = self._places(base, self.scope.written if writing else self.scope.tables)
        if not places:
            return None
        owner, field = self.draw.one(places)
        row = owner if isinstance(owner, str) else self.ref(owner)
        return f"{row}.{field.name}[{self._index(field.type.length)}]" if field.type.length else f"{row}.{field.name}"

    def _index(self, length: int) -> str:
        if self.draw.chance(0.6):
            return str(self.draw.between((-length, length - 1)))
        index = self.of("int", 1, pure=self.draw.chance(0.5))
        return f"({index} % {length})" if self.draw.chance(0.8) else index

    def ref(self, table: TableSchema) -> str:
        """`Table[key]`: one ref of the function's allowance."""
        key = self._key(table)
        return f"{table.name}[{key[1:-1] if key.startswith('(') and not table.scalar_key else key}]"

    def membership(self) -> str:
        """`key in Table`: also one ref."""
        table = self.draw.one(self.scope.tables)
        return f"({self._key(table)} {self.draw.one(('in', 'not in'))} {table.name})"

    def _key(self, table: TableSchema) -> str:
        """A key of the table; a tuple stands in parentheses or is the name of a tuple made earlier."""
        self.scope.refs_left -= 1
        if self.draw.knobs.keyed:
            return f"{self.scope.parameter}.int0"
        if self.scope.columns:
            return self.scope.columns[table.name]
        bases = tuple(seen(t.base) for t in table.key)
        if table.scalar_key:
            return self._key_part(bases[0])
        made = [v.name for v in self.scope.variables if v.parts == bases and v.pure]
        if made and self.draw.chance(0.6):
            return self.draw.one(made)
        return self.key_tuple(bases)

    def key_tuple(self, bases: tuple[str, ...]) -> str:
        parts = ", ".join(self._key_part(b) for b in bases)
        return f"({parts},)" if len(bases) == 1 else f"({parts})"

    def _key_part(self, base: str) -> str:
        """Plain columns mostly, so that different refs often name the same row."""
        if self.draw.chance(0.02) and (null := self.nullable(True, base)):
            return null
        if base != "int" or self.draw.chance(0.6):
            return self.leaf(base, True)
        expression = self.of("int", 2, pure=True)
        return f"({expression} % {self.draw.between((2, 9))})" if self.draw.chance(0.6) else expression
