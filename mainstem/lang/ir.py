"""The intermediate form of one function: typed three-address statements in structured blocks.

A `Value` is an operand: a local of the generated code or a literal. Statements name what they define and use, so that
analysis (`analyse`, `keys`) needs no knowledge of Python. `emit` turns blocks into kernel source.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

NOT_CONSTANT: Any = object()


@dataclass(frozen=True)
class Value:
    """An operand. `null` names a local that is true when the value is null; None when it can't be."""

    text: str
    base: str  # int, float, bool, str, bytes or none
    null: str | None = None
    constant: Any = NOT_CONSTANT

    @property
    def names(self) -> tuple[str, ...]:
        """The locals that this operand reads."""
        parts = [p for p in (self.text, self.null) if p is not None and p.isidentifier() and p not in ("True", "False")]
        return tuple(parts)


@dataclass
class Site:
    """One place of state that a function reaches: a table and a key expression (the papers' *ref*)."""

    index: int
    table: int
    text: str  # as written, for people
    line: int
    dynamic: bool = False  # the key varies in a loop
    repeats: bool = False  # dynamic, and a loop that state decides about may reach one key many times
    columns: tuple[str, ...] | None = None  # event columns when the key is just these
    reads: bool = False
    writes: bool = False
    depends: set[int] = field(default_factory=set)  # D_j: sites whose earlier values the new value needs


@dataclass
class Statement:
    line: int


@dataclass
class Let(Statement):
    """target = expression of pure operands."""

    target: str
    text: str
    uses: tuple[str, ...]


@dataclass
class Done(Let):
    """Sets the flag that a function of a group has returned: the rest of that function does not run."""


@dataclass
class Item(Statement):
    """target = item `index` of a list field of the event."""

    target: str
    field: str
    index: Value
    is_bool: bool


@dataclass
class Checked(Statement):
    """target = call(arguments), which may abort."""

    target: str
    call: str
    arguments: tuple[Value, ...]
    turns: tuple[str, ...] = ()  # locals among the arguments that decide how long a loop of the called helper runs


@dataclass
class Resolve(Statement):
    """The key of a site is known here."""

    site: int
    key: tuple[Value, ...]


@dataclass
class Load(Statement):
    target: str
    site: int
    field: str
    index: str | None = None


@dataclass
class Exists(Statement):
    target: str
    site: int


@dataclass
class Store(Statement):
    site: int
    field: str
    value: Value
    index: str | None = None


@dataclass
class Delete(Statement):
    site: int


@dataclass
class If(Statement):
    condition: Value
    then: list[Statement]
    otherwise: list[Statement]


@dataclass
class For(Statement):
    variable: str
    start: Value
    stop: Value
    step: int
    body: list[Statement]


@dataclass
class Turn(Statement):
    """One turn of a `For`, in a part that runs once per turn: `turn` counts them from 0 and is bound outside."""

    variable: str
    start: Value
    step: int
    body: list[Statement]


@dataclass
class While(Statement):
    """`head` computes `condition` anew before every turn."""

    head: list[Statement]
    condition: Value
    body: list[Statement]


@dataclass
class Once(Statement):
    """A block of the key slice whose condition depends on state: taken once, whatever the state."""

    body: list[Statement]


@dataclass
class Break(Statement):
    pass


@dataclass
class Continue(Statement):
    pass


@dataclass
class AbortIf(Statement):
    """Abort with `code` when `condition` is true (`True` for always)."""

    condition: Value
    code: int
    expected: str = ""  # the condition as written, for people


@dataclass
class Return(Statement):
    number: int
    columns: tuple[tuple[str, Value], ...] = ()


@dataclass
class Finish(Statement):
    """Return of a helper or a check: a value instead of columns."""

    value: Value


Block = list[Statement]


def defines(statement: Statement) -> tuple[str, ...]:
    if isinstance(statement, Let | Item | Checked | Load | Exists):
        return (statement.target,)
    return (statement.variable,) if isinstance(statement, For | Turn) else ()


def operands(statement: Statement) -> tuple[str, ...]:
    """Locals that the statement itself reads (not those of its blocks)."""
    match statement:
        case Let(uses=uses):
            return uses
        case Item(index=index):
            return index.names
        case Checked(arguments=arguments):
            return tuple(n for a in arguments for n in a.names)
        case Resolve(key=key):
            return tuple(n for k in key for n in k.names)
        case Load(index=cell):
            return (cell,) if cell and cell.isidentifier() else ()
        case Store(value=value, index=cell):
            return value.names + ((cell,) if cell and cell.isidentifier() else ())
        case If(condition=condition) | While(condition=condition) | AbortIf(condition=condition):
            return condition.names
        case For(start=start, stop=stop):
            return start.names + stop.names
        case Turn(start=start):
            return start.names
        case Return(columns=columns):
            return tuple(n for _, v in columns for n in v.names)
        case Finish(value=value):
            return value.names
    return ()


_BLOCKS: dict[type, tuple[str, ...]] = {
    If: ("then", "otherwise"), For: ("body",), Turn: ("body",), Once: ("body",), While: ("head", "body"),
}  # fmt: skip
"""By exact type: programs are walked millions of times, and a match tries every case for a statement without blocks."""


def blocks(statement: Statement) -> tuple[Block, ...]:
    return tuple(getattr(statement, name) for name in _BLOCKS.get(type(statement), ()))


def walk(block: Block) -> Iterator[Statement]:
    """Every statement, outer before inner, in program order."""
    for statement in block:
        yield statement
        for name in _BLOCKS.get(type(statement), ()):
            yield from walk(getattr(statement, name))


def rewritten(block: Block, change: Callable[[Statement], list[Statement]]) -> Block:
    """The block with every simple statement replaced by what `change` gives for it; conditions and loops stay."""
    result: Block = []
    for s in block:
        match s:
            case If():
                then, otherwise = rewritten(s.then, change), rewritten(s.otherwise, change)
                result.append(replace(s, then=then, otherwise=otherwise))
            case While():
                result.append(replace(s, head=rewritten(s.head, change), body=rewritten(s.body, change)))
            case For() | Turn() | Once():
                result.append(replace(s, body=rewritten(s.body, change)))
            case _:
                result += change(s)
    return result


def texts(s: Statement) -> list[str]:
    """Where a statement may name a field of the event."""
    values: list[Value] = []
    match s:
        case Let():
            return [s.text]
        case Item():
            values = [s.index]
        case Checked():
            values = [*s.arguments]
        case Resolve():
            values = [*s.key]
        case Store():
            values = [s.value]
        case If() | While() | AbortIf():
            values = [s.condition]
        case For():
            values = [s.start, s.stop]
        case Return():
            values = [value for _, value in s.columns]
    return [text for value in values for text in (value.text, value.null) if text is not None]
