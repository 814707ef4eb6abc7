"""Random function bodies: blocks of statements that keep the language's rules while they are written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from mainstem.schema import EventSchema, Field
from mainstem.testing.expressions import Expressions
from mainstem.testing.model import Draw, RowName, Scope, Variable, World, seen

Lines = list[str]
_BASES = ((6, "int"), (3, "float"), (2, "bool"), (2, "str"), (0.5, "bytes"))
_PREFIXES = {"int": "n", "float": "x", "bool": "b", "str": "s", "bytes": "y"}
_STEPS = {"int": ("+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"), "float": ("+", "-", "*", "/")}
_REASONS = ("too small", "not allowed", "limit reached", "ungültig")
_NO_LEVEL, _ANY_LEVEL = -2, -1  # where `break` and `continue` may stand: nowhere, anywhere in the loop


def indented(lines: Lines) -> Lines:
    return [f"    {line}" for line in lines]


class Body:
    """Writes one function bound to an event."""

    def __init__(self, draw: Draw, world: World, event: EventSchema) -> None:
        self.draw, self.world = draw, world
        tables = draw.random.sample(world.tables, draw.between((1, len(world.tables))))
        parameter = draw.weighted(((4, "e"), (1, "event")))
        self.scope = Scope(event, parameter, tables, tables, refs_left=draw.between(draw.knobs.refs))
        if draw.knobs.layered and draw.chance(draw.knobs.layered):
            self._layer()
        self.write = Expressions(draw, world, self.scope)
        self.columns = list(world.columns)  # that it may return
        self.jump_level = _NO_LEVEL

    def _layer(self) -> None:
        """Reads tables up to one of them, writes that one and later ones: no circle comes of it."""
        tables, e = self.world.tables, self.scope.parameter
        at = self.draw.between((0, len(tables) - 1))
        self.scope.tables, self.scope.written = tables[: at + 1], tables[at:]
        for table in tables:
            parts = [self.draw.one((f"{e}.int0", f"{e}.int1")) for _ in table.key]
            self.scope.columns[table.name] = parts[0] if table.scalar_key else f"({', '.join(parts)})"

    def function(self, name: str) -> Lines:
        count = self.draw.between(self.draw.knobs.statements)
        if self.draw.knobs.refusals:  # anywhere: before the first write, between writes or after the last
            before = self.draw.between((0, count))
            body = [*self.block(before), *self.refusal(), *self.block(count - before)]
        else:
            body = self.block(count)
        if self.draw.knobs.key_loops and self.draw.chance(self.draw.knobs.key_loops):
            body += self.key_loop()
        if self.draw.knobs.work:
            body += self.work()
        if self.draw.knobs.all_refs:
            body += self.remaining_refs()
        if self.draw.chance(0.8):
            body += self.returned()
        return [f"def {name}({self.scope.parameter}):", *indented(body)]

    def block(self, count: int) -> Lines:
        lines: Lines = []
        for _ in range(count):
            lines += self.statement()
        return lines or ["pass"]

    def statement(self) -> Lines:
        options: list[tuple[float, Callable[[], Lines]]] = [
            (5, self.write_place),
            (3, self.step_place),
            (4, self.new_local),
            (3, self.change_local),
            (1, self.tuple_assignment),
            (0.7, self.maybe_null_local),
            (0.8, self.bind_key),
            (2, self.bind_row),
            (0.8, self.delete),
            (1.2, self.require),
        ]
        if self.scope.nesting < self.draw.knobs.nesting:
            options += [
                (4, self.if_),
                (0.8, self.chosen_local),
                (1, self.early_exit),
                (1.6, self.for_),
                (0.8, self.while_),
            ]
        for _ in range(8):  # some statements need names that do not exist here; then another is drawn
            if lines := self.draw.weighted(options)():
                return lines
        return self.new_local()

    # Locals.

    def new_local(self) -> Lines:
        base = self.draw.weighted(_BASES)
        pure = self.draw.chance(0.4)
        value = self.write.of(base, pure=pure)
        kind = self.draw.weighted(((12, "plain"), (1, "annotated"), (1, "chained")))
        if kind == "annotated":
            return [f"{self.declare(base, pure)}: {base} = {value}"]
        if kind == "chained" and (place := self.write.place(base, writing=True)):
            return [f"{self.declare(base, pure)} = {place} = {value}"]
        return [f"{self.declare(base, pure)} = {value}"]

    def declare(self, base: str, pure: bool) -> str:
        return self._new(_PREFIXES[base], Variable("", base, pure, self.scope.level))

    def _new(self, prefix: str, like: Variable) -> str:
        name = self.scope.local(prefix, like)
        self.scope.variables.append(replace(like, name=name))
        return name

    def maybe_null_local(self) -> Lines:
        base = self.draw.one(("int", "float", "str"))
        pure = self.draw.chance(0.5)
        known = [v for v in self.scope.variables if v.nullable and v.base == base and self._may_assign(v)]
        if known and self.draw.chance(0.4):
            v = self.draw.one(known)
            if base != "str" and self.draw.chance(0.3):
                return [f"{v.name} {self.step(base, v.pure)}"]
            return [f"{v.name} = {self.write.maybe_null(base, v.pure)}"]
        value = self.write.maybe_null(base, pure)
        return [f"{self._new('maybe', Variable('', base, pure, self.scope.level, nullable=True))} = {value}"]

    def bind_key(self) -> Lines:
        """A tuple under a name, to be a key later: it keeps the values of the line that made it."""
        tables = [t for t in self.scope.tables if not t.scalar_key]
        if not tables:
            return []
        bases = tuple(seen(t.base) for t in self.draw.one(tables).key)
        value = self.write.key_tuple(bases)
        return [f"{self._new('key', Variable('', '', True, self.scope.level, parts=bases))} = {value}"]

    def _may_assign(self, v: Variable) -> bool:
        return not v.loop and (not v.pure or v.level == self.scope.level)

    def assignable(self, bases: tuple[str, ...]) -> list[Variable]:
        return [v for v in self.scope.variables if v.base in bases and not v.nullable and self._may_assign(v)]

    def change_local(self) -> Lines:
        variables = self.assignable(("int", "float", "bool", "str", "bytes"))
        if not variables:
            return []
        v = self.draw.one(variables)
        if v.base in _STEPS and self.draw.chance(0.6):
            return [f"{v.name} {self.step(v.base, v.pure)}"]
        return [f"{v.name} = {self.write.of(v.base, pure=v.pure)}"]

    def step(self, base: str, pure: bool) -> str:
        """`+= …` and its kin, of operators that keep the type."""
        operator = self.draw.one(_STEPS[base][:4] if self.draw.chance(0.8) else _STEPS[base])
        if base == "int":
            return f"{operator}= {self.write.operand(operator, 2, pure)}"
        return f"{operator}= {self.write.of('int' if self.draw.chance(0.2) else 'float', 2, pure=pure)}"

    def tuple_assignment(self) -> Lines:
        kind = self.draw.weighted(((2, "new"), (2, "swap"), (2, "places")))
        if kind == "new":
            bases = [self.draw.weighted(_BASES) for _ in range(self.draw.between((2, 3)))]
            values = [self.write.of(b, 2) for b in bases]
            names = [self.declare(b, False) for b in bases]
            return [f"{', '.join(names)} = {', '.join(values)}"]
        base = self.draw.one(("int", "float"))
        if kind == "swap":
            variables = [v for v in self.assignable((base,)) if not v.pure]
            if len(variables) < 2:
                return []
            a, b = self.draw.random.sample(variables, 2)
            return [f"{a.name}, {b.name} = {b.name}, {self.write.of(base, 1) if self.draw.chance(0.3) else a.name}"]
        left, right = self.write.place(base, writing=True), self.write.place(base, writing=True)
        return [f"{left}, {right} = {right}, {left}"] if left and right else []

    # Places in tables.

    def write_place(self) -> Lines:
        base = self.draw.weighted(_BASES)
        narrower = {"float": "int", "int": "bool"}.get(base, base)  # a field also takes these, converted
        value = self.write.of(narrower if self.draw.chance(0.1) else base)
        if base == "int" and self.draw.chance(0.5):  # keeps most values small, so that most transactions commit
            value = f"{self.write.of('int')} % {self.draw.between((5, 1000))}"
        if base in ("int", "float", "str") and self.draw.chance(0.03):
            value = self.write.maybe_null(base, False) or value  # a null aborts when it is stored
        place = self.write.place(base, writing=True)
        if place is None:
            return []
        return [f"{place} = {value}"]

    def step_place(self) -> Lines:
        base = self.draw.one(("int", "int", "float"))
        place = self.write.place(base, writing=True)
        return [f"{place} {self.step(base, False)}"] if place else []

    def remaining_refs(self) -> Lines:
        """One more write for every ref that the function may still have."""
        lines: Lines = []
        while self.scope.refs_left > 0:
            row = self.write.ref(self.draw.one(self.scope.tables))
            lines.append(f"{row}.count {self.step('int', False)}")
        return lines

    def work(self) -> Lines:
        """A long computation between reading a value and storing what follows from it."""
        row = self.write.ref(self.draw.one(self.scope.tables))
        return [f"{row}.count = worked({row}.count + {self.scope.parameter}.ts) % 1000"]

    def bind_row(self) -> Lines:
        if self.scope.rows and self.draw.chance(0.15):
            other, name = self.draw.one(self.scope.rows), self.scope.name("row")
            self.scope.rows.append(RowName(name, other.table))
            return [f"{name} = {other.name}"]
        if not self.scope.tables or self.scope.refs_left <= 0 or self.scope.columns:
            return []
        table = self.draw.one(self.scope.tables)
        ref, name = self.write.ref(table), self.scope.name("row")
        self.scope.rows.append(RowName(name, table))
        return [f"{name} = {ref}"]

    def delete(self) -> Lines:
        if not self.scope.tables or self.scope.refs_left <= 0:
            return []
        return [f"del {self.write.ref(self.draw.one(self.scope.written))}"]

    # Control.

    def if_(self) -> Lines:
        pure = self.draw.chance(0.3)
        lines: Lines = []
        for word in ("if", "elif")[: self.draw.weighted(((4, 1), (1, 2)))]:
            condition = self.write.condition(pure=pure)
            with self.scope.block(state_dependent=not pure):
                lines += [f"{word} {condition}:", *indented(self.block(self.draw.between((1, 2))))]
        if self.draw.chance(0.4):
            with self.scope.block(state_dependent=not pure):
                lines += ["else:", *indented(self.block(self.draw.between((1, 2))))]
        return lines

    def chosen_local(self) -> Lines:
        """A local that both arms of an `if` set, so that it is known after them."""
        base, pure = self.draw.weighted(_BASES), self.draw.chance(0.5)
        condition = self.write.condition(pure=pure)
        arms = []
        for _ in range(2):
            with self.scope.block(state_dependent=not pure):
                arms.append((self.block(1) if self.draw.chance(0.4) else [], self.write.of(base, pure=pure)))
        name = self.declare(base, pure)
        (first, value), (second, other) = arms
        return [
            f"if {condition}:",
            *indented([*first, f"{name} = {value}"]),
            "else:",
            *indented([*second, f"{name} = {other}"]),
        ]

    def require(self) -> Lines:
        """A condition that mostly holds, else few transactions would commit."""
        condition = self.write.condition(2)
        if self.draw.chance(0.7):
            condition = f"{condition} or {self.write.of('int', 1)} > -3"
        return [f'ms.require({condition}, "{self.draw.one(_REASONS)}")']

    def refusal(self) -> Lines:
        """A guard that fails for a share of the transactions; for which ones depends on the state that they meet."""
        e = self.scope.parameter
        state = self.write.place("int") or f"{e}.int0"
        tenths = round(10 * self.draw.knobs.refusals)
        return [f'ms.require(({state} % 10 + {e}.ts * 7) % 10 >= {tenths}, "refused")']

    def early_exit(self) -> Lines:
        """A conditional return or abort; in a loop also break and continue."""
        exits = [(3, "return"), (1, "abort")]
        if self.jump_level in (_ANY_LEVEL, self.scope.level):
            exits += [(3, "break"), (3, "continue")]
        kind = self.draw.weighted(exits)
        # A state-dependent jump would make the loop's pure variables depend on state.
        pure = kind in ("break", "continue") and self.jump_level != _ANY_LEVEL
        condition = f"{self.write.of('bool', 2, pure=pure)} and {self.write.of('int', 1, pure=pure)} > 2"
        with self.scope.block(state_dependent=not pure):
            if kind == "return":
                leave = self.returned() if self.draw.chance(0.8) else ["return"]
            else:
                leave = [f'ms.abort("{self.draw.one(_REASONS)}")'] if kind == "abort" else [kind]
        return [f"if {condition}:", *indented(leave)]

    def for_(self) -> Lines:
        lists = self.scope.fields(lambda f: f.type.is_list)
        over_lists = bool(lists) and self.draw.chance(0.6)
        pure = over_lists or self.draw.chance(0.7)
        bases, iterable = self._lists(lists) if over_lists else (["int"], self._range(pure))
        with self.loop(state_dependent=self.draw.chance(0.5) or not pure):
            names = [self._new("k", Variable("", base, pure, self.scope.level, loop=True)) for base in bases]
            body = self.block(self.draw.between((1, 3)))
        return [f"for {', '.join(names)} in {iterable}:", *indented(body)]

    def key_loop(self) -> Lines:
        """One row per key, and mostly nothing else: turns of such a loop may run apart from each other."""
        tables = [t for t in self.scope.tables if t.scalar_key and seen(t.key[0].base) == "int"]
        lists = self.scope.fields(lambda f: f.type.is_list and seen(f.type.base) == "int")
        if not tables or not lists:
            return []
        table, keys = self.draw.one(tables), f"{self.scope.parameter}.{self.draw.one(lists).name}"
        self.scope.refs_left -= 1
        with self.loop(state_dependent=False, jumps=False):
            key = self._new("k", Variable("", "int", True, self.scope.level, loop=True))
            row = RowName(self.scope.name("row"), table)
            self.scope.rows = [row]
            lines = [f"{row.name} = {table.name}[{key}]", f"{row.name}.count {self.step('int', False)}"]
            lines += self.write_place() if self.draw.chance(0.5) else []
        return [f"for {key} in {keys}:", *indented(lines)]

    def _lists(self, lists: list[Field]) -> tuple[list[str], str]:
        """Types of the loop variables, and what they run over: a list, an enumerated one or several at once."""
        kind = self.draw.weighted(((6, "list"), (1, "enumerate"), (1, "zip")))
        fields = [self.draw.one(lists) for _ in range(2 if kind == "zip" else 1)]
        bases = [seen(f.type.base) for f in fields]
        texts = ", ".join(f"{self.scope.parameter}.{f.name}" for f in fields)
        if kind == "enumerate":
            return ["int", *bases], f"enumerate({texts})"
        return bases, f"zip({texts})" if kind == "zip" else texts

    def _range(self, pure: bool) -> str:
        stop = f"{self.write.of('int', 1, pure=pure)} % {self.draw.between((2, 5))}"
        kind = self.draw.weighted(((3, "stop"), (2, "constant"), (1, "start"), (1, "down")))
        if kind == "constant":
            return f"range({self.draw.between((0, 4))})"
        if kind == "start":
            return f"range({self.draw.between((-2, 2))}, {stop}, {self.draw.between((1, 2))})"
        return f"range({stop}, {self.draw.between((-2, 0))}, -1)" if kind == "down" else f"range({stop})"

    def while_(self) -> Lines:
        """A counter that steps once, unconditionally, at the top level of the loop's body."""
        pure = self.draw.chance(0.5)
        counter = self.scope.name("n")
        bound, start = self.draw.between((1, 4)), self.draw.between((0, 1))
        up = self.draw.chance(0.7)
        test = f"{counter} {self.draw.one(('<', '<=') if up else ('>', '>='))} {bound if up else -bound}"
        if self.draw.chance(0.6):
            extra = self.write.of("bool", 2, pure=pure)
            test = f"{test} and {extra}" if self.draw.chance(0.7) else f"{extra} and {test}"
        step = f"{counter} {'+' if up else '-'}= 1"
        jumps = self.draw.chance(0.4)
        with self.loop(state_dependent=not pure, jumps=jumps):
            self.scope.variables.append(Variable(counter, "int", pure, self.scope.level, loop=True))
            parts = [self.statement() for _ in range(self.draw.between((1, 3)))]
            # `continue` before the step would skip it, so the step comes first when the body may jump.
            parts.insert(0 if jumps else self.draw.between((0, len(parts))), [step])
        body = [line for part in parts for line in part]
        return [f"{counter} = {start}", f"while {test}:", *indented(body)]

    @contextmanager
    def loop(self, *, state_dependent: bool, jumps: bool = True) -> Iterator[None]:
        """The body of a loop; notes at which level a jump leaves the loop's pure variables pure."""
        outer = self.jump_level
        with self.scope.block(state_dependent=state_dependent):
            self.jump_level = (_ANY_LEVEL if state_dependent else self.scope.level) if jumps else _NO_LEVEL
            yield
        self.jump_level = outer

    # Results.

    def returned(self) -> Lines:
        columns = [c for c in self.columns if self.draw.chance(0.7)]
        return [f"return {{{', '.join(f'{c!r}: {self._column(c)}' for c in columns)}}}"] if columns else ["return"]

    def _column(self, column: str) -> str:
        base = self.world.columns[column]
        if column in self.world.typed and self.draw.chance(0.08):
            return "None"
        self.world.typed.add(column)
        if self.draw.chance(0.15) and (value := self.write.nullable(False, base)):
            return value
        return self.write.of(base, 2)
