"""The ring of a history's row inside a function being lowered: its slots, its window, loops over its entries.

See `history` for how a ring lies in a row. Loops run at most `keep` turns and leave early: their bounds are constants,
so that analysis sees loops that always end, whatever the state.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager

from mainstem.lang import ir
from mainstem.lang.frame import Frame
from mainstem.lang.history import COUNT, LOST, TS, ahead_reason, full_reason, keep_of
from mainstem.lang.ir import Value
from mainstem.schema import Type


class Ring:
    """One row while one call on it is lowered."""

    def __init__(self, frame: Frame, site: int, call: ast.Call) -> None:
        self.frame, self.site, self.call, self.line = frame, site, call, call.lineno
        self.schema = frame.shared.handles[frame.sites[site].table].schema
        self.keep = keep_of(self.schema)

    # -- statements ---------------------------------------------------------------------------------------------

    def let(self, text: str, *operands: Value, base: str = "int") -> Value:
        return self.frame.let(self.call, text, _names(operands), base)

    def set(self, variable: Value, text: str, *operands: Value) -> None:
        self.frame.emit(ir.Let(self.line, variable.text, text, _names(operands)))

    def load(self, field: str, slot: Value | None = None) -> Value:
        """A cell as it is stored: bools are bytes, strings are codes."""
        self.frame.sites[self.site].reads = True
        name = self.frame.temporary()
        self.frame.emit(ir.Load(self.line, name, self.site, field, slot.text if slot else None))
        return Value(name, "float" if self._base(field) == "float" else "int")

    def store(self, field: str, value: Value, slot: Value | None = None) -> None:
        self.frame.sites[self.site].writes = True
        self.frame.emit(ir.Store(self.line, self.site, field, value, slot.text if slot else None))

    def abort_when(self, condition: Value, reason: str) -> None:
        self.frame.emit(ir.AbortIf(self.line, condition, self.frame.shared.reason(reason)))

    @contextmanager
    def when(self, text: str, *operands: Value) -> Iterator[None]:
        condition, then = self.let(text, *operands, base="bool"), []
        with self.frame.into(then):
            yield
        self.frame.emit(ir.If(self.line, condition, then, []))

    def leave_when(self, text: str, *operands: Value) -> None:
        """Ends the innermost loop."""
        with self.when(text, *operands):
            self.frame.emit(ir.Break(self.line))

    @contextmanager
    def loop(self, start: int, stop: int, step: int = 1) -> Iterator[Value]:
        variable = self.frame.temporary()
        body: ir.Block = []
        with self.frame.into(body):
            yield Value(variable, "int")
        bounds = Value(str(start), "int"), Value(str(stop), "int")
        self.frame.emit(ir.For(self.line, variable, *bounds, step, body))

    def _base(self, field: str) -> str:
        found = self.schema.field(field)
        assert found is not None
        return found.type.base

    # -- slots --------------------------------------------------------------------------------------------------

    def before(self, slot: Value) -> Value:
        return self.let(f"{slot.text} - 1 if {slot.text} > 0 else {self.keep - 1}", slot)

    def step(self, slot: Value) -> None:
        """On to the next slot."""
        self.set(slot, f"{slot.text} + 1 if {slot.text} < {self.keep - 1} else 0", slot)

    def back(self, slot: Value, steps: Value) -> Value:
        """The slot that many entries (at most `keep`) before this one."""
        far = self.let(f"{slot.text} - {steps.text}", slot, steps)
        return self.let(f"{far.text} if {far.text} >= 0 else {far.text} + {self.keep}", far)

    @contextmanager
    def entries(self, first: Value, count: Value) -> Iterator[tuple[Value, Value]]:
        """The `count` entries from slot `first` on, in order of time: (position from 0, slot)."""
        slot = self.let(first.text, first)
        with self.loop(0, self.keep) as i:
            self.leave_when(f"{i.text} >= {count.text}", i, count)
            yield i, slot
            self.step(slot)

    # -- time ---------------------------------------------------------------------------------------------------

    def now(self) -> Value:
        self.frame.used_fields["ts"] = Type("int")
        return Value("e_ts", "int")

    def counted(self) -> tuple[Value, Value]:
        """How many entries were ever appended, and the slot of the next one. Aborts when the newest is yet to come."""
        count = self.load(COUNT)
        slot = self.let(f"{count.text} % {self.keep}", count)
        newest, now = self.load(TS, self.before(slot)), self.now()
        ahead = self.let(f"{count.text} > 0 and {newest.text} > {now.text}", count, newest, now, base="bool")
        self.abort_when(ahead, ahead_reason(self.schema))
        return count, slot

    def window(self, last: Value | None) -> tuple[Value, Value]:
        """(slot of the first entry, number of entries) of the last `last` units of time; None: of all that is kept.

        Aborts when an entry that belongs there was overwritten.
        """
        after = None if last is None else self.frame.checked(self.call, "sub", (self.now(), last), "int")
        count, slot = self.counted()
        size = self.let(f"{count.text} if {count.text} < {self.keep} else {self.keep}", count)
        if after is not None:
            lost = self.load(LOST)
            test = f"{count.text} > {self.keep} and {lost.text} > {after.text}"
            self.abort_when(self.let(test, count, lost, after, base="bool"), full_reason(self.schema))
            size = self._newer(slot, size, after)
        return self.back(slot, size), size

    def _newer(self, end: Value, size: Value, after: Value) -> Value:
        """How many of the `size` entries before slot `end` are newer than `after`, by halving: they are in order."""
        found = self.let("0")
        with self.loop(self.keep.bit_length() - 1, -1, -1) as bit:
            more = self.let(f"{found.text} + (1 << {bit.text})", found, bit)
            with self.when(f"{more.text} <= {size.text}", more, size):
                stamp = self.load(TS, self.back(end, more))
                with self.when(f"{stamp.text} > {after.text}", stamp, after):
                    self.set(found, more.text, more)
        return found


def _names(operands: tuple[Value, ...]) -> tuple[str, ...]:
    return tuple(name for operand in operands for name in operand.names)
