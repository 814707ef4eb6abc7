"""Slices of a body: what each statement needs, and the block that is left when only some statements are kept.

Statements are numbered in program order. A statement needs

    data      the assignments that it may read, followed through branches and loops. A field of a row is a variable like
              any other: two sites are two rows, so it is known by its site.
    control   the statement around it, and each break, continue or return that may be taken before it is reached.

Aborts are no control. A transaction that aborts anywhere leaves nothing behind, so a slice may run past an abort: what
it computes from there on is thrown away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from mainstem.lang import ir
from mainstem.lang.emit import Body

Loop = ir.For | ir.While
Jump = ir.Break | ir.Continue | ir.Return


@dataclass(frozen=True)
class _Row:
    """The row number of a site."""

    site: int


@dataclass(frozen=True)
class _Cell:
    """A field of the row of a site."""

    site: int
    field: str


@dataclass(frozen=True)
class _Left:
    """Whether a loop is left or its turn ended: set by jumps. -1 stands for the function."""

    loop: int


_Variable = str | _Row | _Cell | _Left
# What may have set each variable on the way here. ~n beside them: some of it was set in an earlier turn of loop n.
_Reaching = dict[_Variable, frozenset[int]]

_ALIVE = "_alive"
_NOTHING: frozenset[int] = frozenset()


class Slicer:
    """The needs of every statement of one body.

    `distinct` gives sites whose rows differ from turn to turn of a loop, and the number of that loop: what one turn
    stores there no other turn reads.
    """

    def __init__(self, body: Body, distinct: dict[int, int] | None = None) -> None:
        self.body, self.distinct = body, distinct or {}
        self.statements = list(ir.walk(body.block))
        self.number = {id(s): n for n, s in enumerate(self.statements)}
        count = len(self.statements)
        self.parent, self.last = [-1] * count, list(range(count))
        self.data: list[set[int]] = [set() for _ in range(count)]
        self.control: list[set[int]] = [set() for _ in range(count)]
        self.starts: dict[int, set[int]] = {}  # data of a `for` loop's first bound alone
        self.carried: list[set[int]] = [set() for _ in range(count)]  # loops from whose earlier turns it may read
        self._once = self._set_once()
        self._open = [_Left(-1)]  # what jumps from here may leave
        self._exits: list[tuple[list[_Reaching], list[_Reaching]]] = []  # per loop around: at breaks, at continues
        self._place(body.block, -1)
        self._block(body.block, {})

    # -- where statements are -----------------------------------------------------------------------------------

    def _place(self, block: ir.Block, parent: int) -> None:
        for s in block:
            n = self.number[id(s)]
            self.parent[n] = parent
            for inner in ir.blocks(s):
                self._place(inner, n)
                if inner:
                    self.last[n] = max(self.last[n], self.last[self.number[id(inner[-1])]])

    def within(self, n: int, outer: int) -> bool:
        return outer < n <= self.last[outer]

    def around(self, n: int) -> Iterator[int]:
        """The statements around n, innermost first."""
        while (n := self.parent[n]) >= 0:
            yield n

    def top(self, n: int) -> int:
        """The statement of the outermost block that holds n, or is it."""
        return [n, *self.around(n)][-1]

    def loop_of(self, n: int) -> int:
        """The innermost loop around n; -1 when there is none."""
        return next((m for m in self.around(n) if isinstance(self.statements[m], Loop)), -1)

    def _leaves(self, n: int) -> int:
        """What a jump leaves: a loop, or -1 for the function."""
        return -1 if isinstance(self.statements[n], ir.Return) else self.loop_of(n)

    def breaks(self, loop: int) -> frozenset[int]:
        inside = range(loop + 1, self.last[loop] + 1)
        return frozenset(n for n in inside if isinstance(self.statements[n], ir.Break) and self.loop_of(n) == loop)

    def _jumps_in(self, outer: int) -> dict[int, frozenset[int]]:
        """Jumps inside a statement that lead out of it, by what they leave."""
        found: dict[int, set[int]] = {}
        for n in range(outer + 1, self.last[outer] + 1):
            if isinstance(self.statements[n], Jump) and not outer <= (left := self._leaves(n)):
                found.setdefault(left, set()).add(n)
        return {left: frozenset(jumps) for left, jumps in found.items()}

    # -- what reaches them --------------------------------------------------------------------------------------

    def _set_once(self) -> dict[str, frozenset[int]]:
        """Locals with one assignment, most of them temporaries: no name is read before it is set, so it is that one."""
        found: dict[str, list[int]] = {}
        for n, s in enumerate(self.statements):
            for name in ir.defines(s):
                found.setdefault(name, []).append(n)
        return {name: frozenset(setters) for name, setters in found.items() if len(setters) == 1}

    def _setters(self, variable: _Variable, reaching: _Reaching) -> frozenset[int]:
        if isinstance(variable, str) and variable in self._once:
            return self._once[variable]
        return reaching.get(variable, _NOTHING)

    def _block(self, block: ir.Block, reaching: _Reaching) -> _Reaching | None:
        """What reaches the end; None when nothing gets there."""
        after: _Reaching | None = reaching
        for s in block:
            if after is None:
                break
            after = self._statement(s, after)
        return None if block and ends_in_abort(block) else after

    def _statement(self, s: ir.Statement, reaching: _Reaching) -> _Reaching | None:
        n = self.number[id(s)]
        for left in self._open:
            self.control[n] |= reaching.get(left, _NOTHING)
        match s:
            case ir.If():
                self._read(n, ir.operands(s), reaching)
                arms = [self._block(arm, reaching) for arm in (s.then, s.otherwise)]
                live = [arm for arm in arms if arm is not None]
                return _with_jumps(_join(live), self._jumps_in(n)) if live else None
            case ir.For() | ir.While():
                return self._loop(n, s, reaching)
            case ir.Break() | ir.Continue():
                self._exits[-1][isinstance(s, ir.Continue)].append(reaching)
                return None
        self._read(n, self._uses(s), reaching)
        return None if isinstance(s, ir.Return) else self._define(n, s, reaching)

    def _loop(self, n: int, s: ir.For | ir.While, before: _Reaching) -> _Reaching:
        if isinstance(s, ir.For):
            self._read(n, ir.operands(s), before)
            self.starts[n] = {d for name in s.start.names for d in self._setters(name, before) if d >= 0}
        first = before
        self._open.append(_Left(n))
        while True:
            self._exits.append(([], []))
            done, end = self._turn(n, s, first)
            left, ended = self._exits.pop()
            again = _join([first, self._next_turn(n, _join([end, *ended]))])
            if again == first:
                break
            first = again
        self._open.pop()
        after = _join([done, *left])
        return _with_jumps({v: d for v, d in after.items() if v != _Left(n)}, self._jumps_in(n))

    def _turn(self, n: int, s: ir.For | ir.While, first: _Reaching) -> tuple[_Reaching, _Reaching | None]:
        """What reaches the place where the loop ends by itself, and the end of its body."""
        if isinstance(s, ir.For):
            return first, self._block(s.body, self._define(n, s, first))
        done = self._block(s.head, first)
        assert done is not None, "a condition has no jumps"
        self._read(n, ir.operands(s), done)
        return done, self._block(s.body, done)

    def _next_turn(self, n: int, end: _Reaching) -> _Reaching:
        """What the end of a turn hands to the next one. Of its jumps only breaks matter from then on."""
        handed: _Reaching = {}
        for variable, setters in end.items():
            if isinstance(variable, _Cell) and self.distinct.get(variable.site) == n:
                continue
            own = isinstance(variable, str | _Cell) and any(self.within(d, n) for d in setters)
            handed[variable] = setters | {~n} if own else setters
        return {**handed, _Left(n): self.breaks(n)}

    def _read(self, n: int, variables: Iterable[_Variable], reaching: _Reaching) -> None:
        for variable in variables:
            for d in self._setters(variable, reaching):
                if d >= 0:
                    self.data[n].add(d)
                else:
                    self.carried[n].add(~d)

    def _uses(self, s: ir.Statement) -> list[_Variable]:
        used: list[_Variable] = [*ir.operands(s)]
        if isinstance(s, ir.Load | ir.Exists | ir.Store | ir.Delete):
            used.append(_Row(s.site))
        if isinstance(s, ir.Load):
            used.append(_Cell(s.site, s.field))
        elif isinstance(s, ir.Exists):
            used.append(_Cell(s.site, _ALIVE))
        return used

    def _define(self, n: int, s: ir.Statement, reaching: _Reaching) -> _Reaching:
        targets: list[_Variable] = [name for name in ir.defines(s) if name not in self._once]
        own = frozenset((n,))
        match s:
            case ir.Resolve():
                targets.append(_Row(s.site))
            case ir.Delete():
                schema = self.body.tables_schemas[self.body.sites[s.site].table]
                targets += [_Cell(s.site, name) for name in (_ALIVE, *(f.name for f in schema.fields))]
            case ir.Store(index=None):
                targets += [_Cell(s.site, _ALIVE), _Cell(s.site, s.field)]
            case ir.Store():
                targets.append(_Cell(s.site, _ALIVE))
                array = _Cell(s.site, s.field)  # its other cells stay as they are
                reaching = {**reaching, array: reaching.get(array, _NOTHING) | own}
        return {**reaching, **dict.fromkeys(targets, own)} if targets else reaching

    # -- slices -------------------------------------------------------------------------------------------------

    def closure(self, seeds: Iterable[int], turn: int = -1) -> frozenset[int]:
        """The seeds and all that they need. Of the loop `turn` only one turn runs, so it needs no end."""
        kept: set[int] = set()
        todo = list(seeds)
        while todo:
            n = todo.pop()
            if n not in kept:
                kept.add(n)
                todo += self.control[n]
                todo += self.starts[n] if n == turn else self._values(n)
                todo += [self.parent[n]] * (self.parent[n] >= 0)
        return frozenset(kept)

    def _values(self, n: int) -> set[int]:
        """Data that a slice computes. Rows of static sites are given to it; only the answer has columns to return."""
        s = self.statements[n]
        known = isinstance(s, ir.Resolve) and not self.body.sites[s.site].dynamic
        return set() if known or isinstance(s, ir.Return) else self.data[n]

    def key_loops(self) -> dict[int, int]:
        """Written sites whose key varies with the counter of an outermost `for` loop, and that loop."""
        found: dict[int, set[int]] = {}
        for n, s in enumerate(self.statements):
            if isinstance(s, ir.Resolve) and (site := self.body.sites[s.site]).dynamic and site.writes:
                loop = self.top(n)
                varies = isinstance(self.statements[loop], ir.For) and loop in self._computed_from(n)
                found.setdefault(s.site, set()).add(loop if varies else -1)
        return {site: next(iter(loops)) for site, loops in found.items() if len(loops) == 1 and -1 not in loops}

    def _computed_from(self, n: int) -> set[int]:
        seen: set[int] = set()
        todo = [n]
        while todo:
            if (m := todo.pop()) not in seen:
                seen.add(m)
                todo += self.data[m]
        return seen

    def cut(self, kept: frozenset[int], answers: bool, turn: int = -1) -> ir.Block:
        """The body without the statements that are not kept."""
        return self._cut(self.body.block, kept, answers, turn)

    def _cut(self, block: ir.Block, kept: frozenset[int], answers: bool, turn: int) -> ir.Block:
        def inner(part: ir.Block) -> ir.Block:
            return self._cut(part, kept, answers, turn)

        result: ir.Block = []
        for s in block:
            n = self.number[id(s)]
            if n not in kept:
                continue
            match s:
                case ir.If():
                    s = replace(s, then=inner(s.then), otherwise=inner(s.otherwise))
                case ir.For():
                    body = inner(s.body)
                    s = ir.Turn(s.line, s.variable, s.start, s.step, body) if n == turn else replace(s, body=body)
                case ir.While():
                    s = replace(s, head=inner(s.head), body=inner(s.body))
                case ir.Return() if not answers:
                    s = ir.Return(s.line, 0)
                case ir.Continue() if self.loop_of(n) == turn:
                    s = ir.Return(s.line, 0)  # nothing follows the loop in a part that runs one turn of it
                case ir.Resolve() if not self.body.sites[s.site].dynamic:
                    s = replace(s, key=())
            result.append(s)
        return result


def _join(ways: Sequence[_Reaching | None]) -> _Reaching:
    """What reaches the place where ways meet; None is a way that nobody comes."""
    joined: _Reaching = {}
    for way in ways:
        for variable, setters in (way or {}).items():
            joined[variable] = joined.get(variable, _NOTHING) | setters
    return joined


def _with_jumps(reaching: _Reaching, jumps: dict[int, frozenset[int]]) -> _Reaching:
    added: _Reaching = {_Left(n): reaching.get(_Left(n), _NOTHING) | taken for n, taken in jumps.items()}
    return {**reaching, **added}


def ends_in_abort(block: ir.Block) -> bool:
    """Whether the end of the block is an abort that nothing prevents."""
    return isinstance(block[-1], ir.AbortIf) and block[-1].condition.text == "True"


def may_be_unset(block: ir.Block, local: set[str]) -> set[str]:
    """Which of these locals the block may read before it sets them."""
    missing: set[str] = set()

    def read(names: tuple[str, ...], known: set[str]) -> None:
        missing.update(n for n in names if n in local and n not in known)

    def visit(part: ir.Block, known: set[str]) -> set[str] | None:
        for s in part:
            if not isinstance(s, ir.While):
                read(ir.operands(s), known)
            match s:
                case ir.If():
                    ends = [visit(arm, known) for arm in (s.then, s.otherwise)]
                    live = [end for end in ends if end is not None]
                    if not live:
                        return None
                    known = set.intersection(*live)
                case ir.For() | ir.Turn():
                    visit(s.body, {*known, s.variable})
                case ir.While():
                    known = visit(s.head, known) or known
                    read(ir.operands(s), known)
                    visit(s.body, known)
                case ir.Break() | ir.Continue() | ir.Return() | ir.Done():
                    return None  # what follows `Done` and runs nevertheless reads nothing of that function
                case _:
                    known = known.union(ir.defines(s))
        return None if part and ends_in_abort(part) else known

    visit(block, set())
    return missing
