"""Keys that a function computes from its event: its key slice runs before the batch does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from mainstem.engine.buffers import Scratch
from mainstem.engine.columns import frozen
from mainstem.engine.prepared import ListedPlan, SlicePlan
from mainstem.lang.key_source import FACTS, FOUND, MOST
from mainstem.state.table import TableState

_SPARE = 1.25  # batches need a little more or less from one to the next
_NOTHING = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Listed:
    """Keys of dynamic sites: those of event j stand before `ends[j]`, after those of event j - 1. The arrays may be
    longer."""

    ends: np.ndarray
    rows: np.ndarray
    sites: np.ndarray
    turns: np.ndarray  # which turn of the function's key loop; -1 outside


class KeySlice:
    """The key slice of one function, with memory for its keys that lives from batch to batch."""

    def __init__(self, plan: SlicePlan, tables: list[TableState], scratch: Scratch) -> None:
        self._plan, self._tables, self._scratch = plan, tables, scratch
        self._own: list[Any] = [_NOTHING] * plan.arguments  # what the batch gives is left out: it must not live on
        self._facts = np.zeros(max(1, len(plan.listed) * FACTS), np.int64)

    def resolve(self, arrays: dict[str, Any], before_new: Callable[[], None] = lambda: None) -> dict[int, int]:
        """Adds the rows of all computed keys; gives the largest number of dynamic keys of one event, per table.

        `before_new` is called before rows are added for keys that have none.
        """
        plan, pos = self._plan, arrays[self._plan.pos]
        ends = [self._scratch.array(keys.ends, len(pos), np.int64) for keys in plan.listed]
        arguments = self._run(pos, ends, arrays)
        for single in plan.singles:
            parts = [arguments[place] for place in single.parts]
            rows = self._scratch.array(single.target, len(pos), np.int64)
            rows = self._tables[single.table].index.resolve(parts, arguments[single.ok], rows, before_new)
            arrays[single.target] = frozen(rows)
        for place, name in plan.turns:
            arrays[name] = arguments[place]
        most = {}
        for n, (keys, end) in enumerate(zip(plan.listed, ends, strict=True)):
            arrays[keys.target] = self._listed(n, keys, end, arguments, before_new)
            most[keys.table] = int(self._facts[n * FACTS + MOST])
        return most

    def values(self, arrays: dict[str, Any]) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
        """The computed keys themselves and where there is one, by the name of the site's rows."""
        plan, pos = self._plan, arrays[self._plan.pos]
        ends = [self._scratch.array(keys.ends, len(pos), np.int64) for keys in plan.listed]
        arguments = self._run(pos, ends, arrays)
        return {s.target: ([arguments[place] for place in s.parts], arguments[s.ok]) for s in plan.singles}

    def _run(self, pos: np.ndarray, ends: list[np.ndarray], arrays: dict[str, Any]) -> list[Any]:
        """The arguments of the kernel, filled. Where there are more dynamic keys than ever before, it counts them all,
        and runs once more when there is room."""
        plan, arguments = self._plan, self._own.copy()
        for place, name in plan.given:
            arguments[place] = arrays[name]
        for place, name, dtype in plan.per_event:
            arguments[place] = own = self._scratch.array(name, len(pos), dtype)
            own.fill(0)  # the slice leaves out the keys of a branch that it does not take
        for keys in plan.listed:
            index = self._tables[keys.table].index
            for place, name in keys.index:
                arguments[place] = getattr(index, name)
        plan.kernel(pos, self._facts, *ends, *arguments)
        if len(pos) and self._make_room(ends, arguments):
            plan.kernel(pos, self._facts, *ends, *arguments)
        return arguments

    def _make_room(self, ends: list[np.ndarray], arguments: list[Any]) -> bool:
        """Whether some dynamic keys did not fit; now they will."""
        grown = False
        for keys, end in zip(self._plan.listed, ends, strict=True):
            if len(self._own[keys.site]) < end[-1]:
                grown = True
                for place in keys.places:
                    arguments[place] = self._own[place] = np.empty(int(end[-1] * _SPARE), np.int64)
        return grown

    def _listed(
        self, number: int, keys: ListedPlan, ends: np.ndarray, arguments: list[Any], before_new: Callable[[], None]
    ) -> Listed:
        rows = arguments[keys.row]
        if self._facts[number * FACTS + FOUND] < 0:
            parts = [arguments[place][: ends[-1]] for place in keys.parts]
            self._tables[keys.table].index.resolve(parts, None, rows[: ends[-1]], before_new)
        return Listed(ends, rows, arguments[keys.site], arguments[keys.turn])
