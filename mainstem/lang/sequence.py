"""Functions of a transaction group, one after the other, as one block.

Each member is lowered on its own, with locals of its own. Put in sequence, a `return` must end its member and nothing
else, and blocks know no such jump. So what follows a branch that returns moves into the other branch:

    if a: return            if a: (its columns)
    rest               ->   else: rest

Where a branch returns only sometimes, or a loop is left by a return, a flag says so, and `rest` runs unless it is set.
What members return is kept in locals; the one return at the end hands on all columns. Those that a member may leave out
are null then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from mainstem.lang import ir
from mainstem.lang.flow import Flow
from mainstem.lang.frame import Frame, Uncompilable

NESTED_MAX = 60  # Python reads source that is indented up to 100 times; functions need some of that themselves
_ZERO = {"float": "0.0", "bool": "False"}
_NULL = ir.Value("0", "none", "True", None)


@dataclass(frozen=True)
class Member:
    """A function of a group, lowered as if it were alone."""

    frame: Frame
    block: ir.Block


@dataclass
class Joined:
    """The block of all members, and what is known about its locals."""

    block: ir.Block
    flow: Flow


@dataclass
class _Column:
    """An output column of a member: the locals that keep it until the group ends."""

    name: str
    base: str
    local: str
    null: str | None  # None: every return of its member gives a value
    optional: bool  # some return does not give it

    @property
    def value(self) -> ir.Value:
        return ir.Value(self.local, self.base, self.null)

    def opening(self) -> ir.Block:
        """Null unless the member returns it."""
        return self.taken(_NULL, 0) if self.optional else []

    def taken(self, value: ir.Value, line: int) -> ir.Block:
        texts = [(self.local, _ZERO.get(self.base, "0") if value.base == "none" else value.text)]
        if self.null is not None:
            texts.append((self.null, value.null or "False"))
        return [ir.Let(line, local, text, ir.Value(text, "").names) for local, text in texts]


class _Nothing(_Column):
    """A column that its member always returns as None: there is nothing to keep."""

    @property
    def value(self) -> ir.Value:
        return _NULL

    def taken(self, value: ir.Value, line: int) -> ir.Block:
        return []


def in_sequence(members: Sequence[Member]) -> Joined:
    """One block that does what the members do, in order."""
    block: ir.Block = []
    columns: list[_Column] = []
    flags = []
    for number, member in enumerate(members):
        own = _columns(member, len(columns))
        ending = _Ending(f"done{number}", {column.name: column for column in own})
        body = ending.block(member.block)
        block += [*(s for column in own for s in column.opening()), *ending.opening(), *body]
        columns += own
        flags.append(ending.done)
    last = members[-1].frame.source
    block.append(ir.Return(last.tree.lineno, int(bool(columns)), tuple((c.name, c.value) for c in columns)))
    if _depth(block) > NESTED_MAX:
        raise Uncompilable("so many early returns in a group are not compiled", last, None)
    own_names = {*flags, *(name for c in columns for name in c.value.names)}
    return Joined(block, _flow(members, block, own_names))


def _flow(members: Sequence[Member], block: ir.Block, own: set[str]) -> Flow:
    """What depends on state. Of the members' locals that is what they say as written.

    In the sequence, a branch that state decides about holds the rest of a member. But nothing reads there what an early
    return has kept from being set, so such a branch tells nothing about locals; only flags and outputs depend on it.
    """
    flow = Flow(block)
    written = Flow([s for member in members for s in member.block])
    flow.tainted = written.tainted | (flow.tainted & own)
    return flow


def _columns(member: Member, first: int) -> list[_Column]:
    returns = [dict(s.columns) for s in ir.walk(member.block) if isinstance(s, ir.Return)]
    found = []
    for number, (name, (base, _)) in enumerate(member.frame.columns.items(), first):
        optional = any(name not in columns for columns in returns)
        nullable = optional or any(columns[name].null is not None for columns in returns)
        kind = _Nothing if base == "none" else _Column
        found.append(kind(name, base, f"out{number}", f"none{number}" if nullable else None, optional))
    return found


@dataclass
class _Ending:
    """Rewrites the returns of one member."""

    done: str
    columns: dict[str, _Column]
    _flagged: bool = field(default=False)

    def opening(self) -> ir.Block:
        return [ir.Let(0, self.done, "False", ())] if self._flagged else []

    def block(self, block: ir.Block, tell: bool = False, looped: bool = False) -> ir.Block:
        """The block without returns. `tell`: a flag says that one was taken; `looped`: it leaves a loop."""
        result: ir.Block = []
        for n, s in enumerate(block):
            rest = block[n + 1 :]
            if isinstance(s, ir.Return):
                return [*result, *self._return(s, tell, looped)]
            if not _returns(s):
                result.append(s)
            elif isinstance(s, ir.If) and not looped:
                return [*result, *self._branch(s, rest, tell)]
            elif isinstance(s, ir.If):
                then, otherwise = self.block(s.then, tell, True), self.block(s.otherwise, tell, True)
                result.append(replace(s, then=then, otherwise=otherwise))
            else:
                assert isinstance(s, ir.For | ir.While)
                told = tell or looped or not _idle(rest)
                result.append(replace(s, body=self.block(s.body, told, True)))
                if not looped:
                    return [*result, *self._unless_done(s.line, rest, tell)]
                result.append(ir.If(s.line, self._flag, [ir.Break(s.line)], []))
        return result

    @property
    def _flag(self) -> ir.Value:
        return ir.Value(self.done, "bool")

    def _return(self, s: ir.Return, tell: bool, looped: bool) -> ir.Block:
        statements = [kept for name, value in s.columns for kept in self.columns[name].taken(value, s.line)]
        if tell:
            self._flagged = True
            statements.append(ir.Done(s.line, self.done, "True", ()))
        return [*statements, ir.Break(s.line)] if looped else statements

    def _branch(self, s: ir.If, rest: ir.Block, tell: bool) -> ir.Block:
        if _ends(s.then):
            return [replace(s, then=self.block(s.then, tell), otherwise=self.block([*s.otherwise, *rest], tell))]
        if _ends(s.otherwise):
            return [replace(s, then=self.block([*s.then, *rest], tell), otherwise=self.block(s.otherwise, tell))]
        told = tell or not _idle(rest)
        branch = replace(s, then=self.block(s.then, told), otherwise=self.block(s.otherwise, told))
        return [branch, *self._unless_done(s.line, rest, tell)]

    def _unless_done(self, line: int, rest: ir.Block, tell: bool) -> ir.Block:
        return [] if _idle(rest) else [ir.If(line, self._flag, [], self.block(rest, tell))]


def _returns(s: ir.Statement) -> bool:
    return any(isinstance(inner, ir.Return) for inner in ir.walk([s]))


def _ends(block: ir.Block) -> bool:
    """Whether the end of a block is never reached. What nobody reaches is not lowered, so the last statement tells."""
    last = block[-1] if block else None
    if isinstance(last, ir.If):
        return _ends(last.then) and _ends(last.otherwise)
    return isinstance(last, ir.Return) or (isinstance(last, ir.AbortIf) and last.condition.text == "True")


def _idle(rest: ir.Block) -> bool:
    """Nothing but the end of the function."""
    return all(isinstance(s, ir.Return) and not s.columns for s in rest)


def _depth(block: ir.Block) -> int:
    return max((1 + max((_depth(inner) for inner in ir.blocks(s)), default=0) for s in block), default=0)
