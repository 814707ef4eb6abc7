"""The event-only slice of a function: computes the keys of its sites before the batch runs.

The slice may compute *more* keys than the transaction reaches (both branches of a condition on state), never fewer.
A surplus key costs an unused row number; a failing surplus computation gives some key that nobody looks at, because the
transaction itself aborts at that point if it gets there.
"""

from __future__ import annotations

from mainstem.errors import ProgramError
from mainstem.lang import ir
from mainstem.lang.flow import Flow
from mainstem.lang.source import Source


def check_keys(block: ir.Block, sites: list[ir.Site], flow: Flow, source: Source) -> None:
    """Keys are computed from the event alone."""
    for statement in ir.walk(block):
        if isinstance(statement, ir.Resolve) and flow.depends_on_state(ir.operands(statement)):
            raise ProgramError(
                f"the key of {sites[statement.site].text} depends on state (in {source.name})",
                file=source.file,
                line=statement.line,
                remedy="compute keys from the event alone: fields, constants, and loops over event lists; "
                "look the key up before, and send it with the event",
            )


def mark_repeats(block: ir.Block, sites: list[ir.Site], flow: Flow, decided: bool = False) -> None:
    """Finds dynamic sites in loops that state decides about.

    The slice lists their keys once, the transaction may come by often.
    """
    for s in block:
        if isinstance(s, ir.Resolve) and decided:
            sites[s.site].repeats = sites[s.site].dynamic
        looped = isinstance(s, ir.For | ir.While) and flow.depends_on_state(ir.operands(s))
        for inner in ir.blocks(s):
            mark_repeats(inner, sites, flow, decided or looped)


def key_slice(block: ir.Block, sites: list[ir.Site], flow: Flow) -> ir.Block | None:
    """The statements that compute the keys of these sites where they are not plain columns; None when there are none.

    `sites` are all of the block, or some: the slice then computes the keys of those alone.
    """
    wanted = {s.index for s in sites if s.columns is None}
    if not wanted:
        return None
    # Event-only exits matter only to keep loops over keys from running where the transaction would have stopped.
    sliced = _Slicer(wanted, flow, guards=any(s.dynamic for s in sites)).block(block, True, True)
    while _prune(sliced, _needed(sliced)):
        pass
    return sliced


class _Slicer:
    """Walks a body and keeps what is known from the event alone.

    `certain`: the transaction surely gets here unless an event-only exit was taken before. `turn`: the same,
    counted from the top of the innermost loop, so that `break` and `continue` can be kept.
    """

    def __init__(self, wanted: set[int], flow: Flow, guards: bool) -> None:
        self.wanted, self.flow, self.guards = wanted, flow, guards
        self.in_while = False  # the innermost loop is a `while`

    def block(self, block: ir.Block, certain: bool, turn: bool) -> ir.Block:
        return [kept for s in block for kept in self._statement(s, certain, turn)]

    def _loop(self, block: ir.Block, certain: bool, turn: bool, is_while: bool = False) -> ir.Block:
        outer, self.in_while = self.in_while, is_while
        try:
            return self.block(block, certain, turn)
        finally:
            self.in_while = outer

    def _statement(self, s: ir.Statement, certain: bool, turn: bool) -> ir.Block:
        match s:
            case ir.Let() | ir.Item() | ir.Checked():
                return [] if s.target in self.flow.tainted else [s]
            case ir.Resolve():
                return [s] if s.site in self.wanted else []
            case ir.If():
                return self._if(s, certain, turn)
            case ir.For():
                return self._for(s, certain)
            case ir.While():
                return self._while(s, certain)
            case ir.AbortIf():
                return self._exit(s, certain)
            case ir.Return():
                return [s] if certain and self.guards else []
            case ir.Break() | ir.Continue():
                return [s] if turn else []
        return []

    def _if(self, s: ir.If, certain: bool, turn: bool) -> ir.Block:
        if not self.flow.depends_on_state(s.condition.names):
            return [
                ir.If(s.line, s.condition, self.block(s.then, certain, turn), self.block(s.otherwise, certain, turn))
            ]
        return [ir.Once(s.line, self._loop(part, False, False)) for part in (s.then, s.otherwise)]

    def _for(self, s: ir.For, certain: bool) -> ir.Block:
        if self.flow.depends_on_state(s.start.names + s.stop.names):
            return [ir.Once(s.line, self._loop(s.body, False, False))]
        calm = not self._jumps_by_state(s.body)
        return [ir.For(s.line, s.variable, s.start, s.stop, s.step, self._loop(s.body, certain and calm, calm))]

    def _while(self, s: ir.While, certain: bool) -> ir.Block:
        if self.flow.depends_on_state(s.condition.names):
            return [ir.Once(s.line, self._loop(s.head + s.body, False, False))]
        # State can't jump out of this one, as it would decide about the counter, and so about the condition. Only a
        # return from a function of a group can: then what follows the loop need not be reached.
        calm = not self._jumps_by_state(s.body)
        head, body = (self._loop(part, certain and calm, True, is_while=True) for part in (s.head, s.body))
        return [ir.While(s.line, head, s.condition, body)]

    def _jumps_by_state(self, body: ir.Block, decided: bool = False) -> bool:
        """Whether state decides about a `break` or `continue` of this loop: then no turn is sure to be complete."""
        for s in body:
            if isinstance(s, ir.Break | ir.Continue) and decided:
                return True
            if isinstance(s, ir.If):
                inner = decided or self.flow.depends_on_state(s.condition.names)
                if self._jumps_by_state(s.then, inner) or self._jumps_by_state(s.otherwise, inner):
                    return True
        return False

    def _exit(self, s: ir.AbortIf, certain: bool) -> ir.Block:
        if not self.guards or self.flow.depends_on_state(s.condition.names):
            return []
        if certain:
            return [s]
        # In a part that state decides about, only that part is left, or this turn: it lies in a `Once` or a loop.
        # A `while` is left for good, because another turn might never come to its step.
        leave = ir.Break(s.line) if self.in_while else ir.Continue(s.line)
        return [ir.If(s.line, s.condition, [leave], [])] if s.condition.names else []


def _needed(block: ir.Block) -> set[str]:
    """Locals that keys and the conditions around them read, all the way back."""
    needed: set[str] = set()
    for s in ir.walk(block):
        if not isinstance(s, ir.Let | ir.Item | ir.Checked):
            needed.update(ir.operands(s))
    grown = True
    while grown:
        grown = False
        for s in ir.walk(block):
            if (
                isinstance(s, ir.Let | ir.Item | ir.Checked)
                and s.target in needed
                and not needed.issuperset(ir.operands(s))
            ):
                needed.update(ir.operands(s))
                grown = True
    return needed


def _prune(block: ir.Block, needed: set[str]) -> bool:
    """Drops what nothing needs; true when something went."""
    before = len(block)
    changed = False
    for s in block:
        for inner in ir.blocks(s):
            changed |= _prune(inner, needed)
    block[:] = [s for s in block if not _idle(s, needed)]
    return changed or len(block) != before


def _idle(s: ir.Statement, needed: set[str]) -> bool:
    if isinstance(s, ir.Let | ir.Item | ir.Checked):
        return s.target not in needed
    if isinstance(s, ir.While):
        return not s.body
    return isinstance(s, ir.If | ir.For | ir.Once) and not any(ir.blocks(s))
