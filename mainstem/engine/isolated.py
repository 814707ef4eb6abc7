"""Runs batches at the isolation levels of their functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mainstem.engine.auto import REPLAN, AutoExecutor
from mainstem.engine.layout import Numbered
from mainstem.engine.options import PROTOCOL_ENGINES, Level, Strategy
from mainstem.engine.record import Recorder
from mainstem.engine.result import BatchResult, Ran
from mainstem.engine.strategies import keeping_versions
from mainstem.gate import EventBatch
from mainstem.lang import Program
from mainstem.lang.program import LEVELS
from mainstem.state import State

IN_ORDER = Strategy("components")
"""For functions in event order beside others that are not."""
MEETING = 0.1
"""Share of transactions that need what one of the few before them makes. Above it they stand in line for locks, and one
that is slow holds up all behind it; a retry costs less then."""


class IsolatedExecutor(AutoExecutor):
    """Functions of one level and protocol run together, the others at the same time beside them.

    `levels` has one for each function. Where no protocol is asked for by name, and no history, cheap transactions run
    in place and in order, like those of `auto`: every level permits it.
    """

    def __init__(
        self, program: Program, state: State, levels: Sequence[Level], *, history: bool = False, changes: bool = False,
        threads: int | None = None, jit: bool = True, track: bool = False,
    ) -> None:  # fmt: skip
        # The strictest first: where groups meet in a row, this one is what they run at.
        self._levels = sorted(set(levels), key=lambda level: (-LEVELS.index(level.isolation), level.protocol))
        self._near, self._looked = 0.0, -1  # share of transactions with conflicts; batches since the start
        self._group_of = tuple(self._levels.index(level) for level in levels)
        self._in_order = keeping_versions(IN_ORDER) if changes else IN_ORDER
        self._asked = history or changes or any(level.protocol != "auto" for level in levels)
        super().__init__(program, state, threads=threads, jit=jit, track=track)
        if history:
            self.recorder = Recorder(program, self.operations.tables, self.jit)

    def run(self, batch: EventBatch, first_seq: int) -> BatchResult:
        if self.recorder is not None:
            self.recorder.first_seq = first_seq
        return super().run(batch, first_seq)

    def _choose_and_run(self, arrays: dict[str, Any], count: int) -> Ran:
        if not self._asked:
            return super()._choose_and_run(arrays, count)
        return self._parallel(arrays, count, 0)

    def _strategy_ahead(self, count: int) -> tuple[Strategy, str] | None:
        return None if self._asked else super()._strategy_ahead(count)

    def _why_serial(self, count: int) -> str | None:
        why = self._why_not_parallel(count)
        return None if why is None else f"{why}; event order is right at every level"

    def _parallel(self, arrays: dict[str, Any], count: int, first_event: int) -> Ran:
        laid = self.lay_out(arrays, count, first_event)
        if any(level.protocol == "auto" and not level.in_order for level in self._levels):
            self._look(laid.numbered, arrays, laid.first)
        strategy, why = self._strategy()
        ran = self.run_with(strategy, arrays, count, first_event, why, laid)
        self._learn_useful(ran, laid.ahead.transactions + count - laid.first)
        return ran

    def _look(self, numbered: Numbered, arrays: dict[str, Any], first: int) -> None:
        """Counts conflicts, in one batch of some."""
        self._looked += 1
        if self._looked % REPLAN == 0 and len(numbered) > first:
            self._near = self._properties(numbered, arrays, first).near

    def _strategy(self) -> tuple[Strategy, str]:
        chosen = [self._at(level) for level in self._levels]
        reasons = [self._reason(s) for s, level in zip(chosen, self._levels, strict=True) if level.protocol == "auto"]
        why = "; ".join(dict.fromkeys(filter(None, reasons)))
        if len(chosen) == 1:
            return chosen[0], why
        functions = list(zip(self.program.functions, self._group_of, strict=True))
        names = [tuple(f.name for f, group in functions if group == number) for number in range(len(chosen))]
        return Strategy("levels", groups=tuple(zip(names, chosen, strict=True)), group_of=self._group_of), why

    def _at(self, level: Level) -> Strategy:
        if level.in_order:
            return self._in_order
        protocol = level.protocol
        if protocol == "auto":
            protocol = "timestamp" if self._near > MEETING else "lock"
        return Strategy(PROTOCOL_ENGINES[protocol], isolation=level.isolation, record=self.recorder is not None)

    def _reason(self, chosen: Strategy) -> str:
        if chosen is self._in_order:
            return ""
        met = f"{self._near:.0%} of transactions need what one of the few before them makes"
        return f"{met}: {'a retry costs less than waiting' if self._near > MEETING else 'locks cost least'}"
