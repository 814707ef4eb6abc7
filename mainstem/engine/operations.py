"""A batch as arrays, once: columns, keys resolved to rows, room for undo. Every strategy reads the same arrays."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mainstem.engine.buffers import Scratch
from mainstem.engine.columns import FieldPlan, InPlace, frozen, kernel_arrays
from mainstem.engine.keyslice import KeySlice, Listed
from mainstem.engine.prepared import KindPlan, PlainPlan, TablePlan, function_plans, kind_plans
from mainstem.gate import Columns, EventBatch
from mainstem.gate.spans import Span
from mainstem.lang import Program
from mainstem.state import State

__all__ = ["Listed", "Operations"]


class Operations:
    """Builds the kernel parameters of a batch by name (see `lang/emit.py` for the names)."""

    def __init__(self, program: Program, state: State, functions: dict[str, Any]) -> None:
        self.program, self.state, self.functions = program, state, functions
        self.tables = [state.tables[t.name] for t in program.tables]
        self.strings = frozen(np.array([self._code(s) for s in program.strings], np.int64))
        self.scratch = Scratch()
        self.undo = [np.zeros(0, t.row_dtype) for t in program.tables]
        self.undo_rows = [np.zeros(0, np.int64) for _ in program.tables]
        self._kinds = kind_plans(program, state)
        self._functions = function_plans(program, functions)
        fixed = [plan.fixed_room for plan in self._functions]
        self._fixed_room = [max((room[i] for room in fixed), default=0) for i in range(len(self.tables))]
        self.room = self._fixed_room  # records of each table that one transaction may have to save
        self._slices = [
            None if f.slice is None else KeySlice(f.slice, self.tables, self.scratch) for f in self._functions
        ]
        self._waiting: list[int] = []  # functions whose keys are not listed yet
        self.listing = 0.0  # seconds that listing keys took, since the batch was built
        self._in_place = [InPlace(plan.fields, self.scratch) for plan in self._kinds]
        self._tables = [TablePlan.of(number) for number in range(len(self.tables))]
        self._constant = {"S": self.strings} | {f"Z{i}": table.default_row for i, table in enumerate(self.tables)}

    def _code(self, value: str | bytes) -> int:
        pool = self.state.strings if isinstance(value, str) else self.state.binaries
        return pool.intern_one(value)

    def build(self, batch: EventBatch, before_new: Callable[[], None] = lambda: None) -> dict[str, Any]:
        """All that the serial kernel needs, most of the time: keys that vary in loops it looks up by itself, and asks
        for `list_keys` where one is new. So do batches of strategies that need no operations; others have all listed.

        `before_new` is called before tables and their indices change: others may be reading them until then.
        """
        arrays: dict[str, Any] = self._constant.copy()
        arrays["kind"] = frozen(batch.kind)
        for plan in self._kinds:
            found = batch.columns[plan.kind]
            if found is None:
                arrays.update(plan.empty)
            else:
                self._columns(batch, plan, found, arrays)
        self.listing = 0.0
        self._resolve(batch, arrays, before_new)
        self._add_tables(arrays)
        return arrays

    def list_keys(self, arrays: dict[str, Any], before_new: Callable[[], None] = lambda: None) -> bool:
        """Adds the rows of keys that vary in loops, of all events of the batch; False when it was done before.

        `before_new` as in `build`.
        """
        if not self._waiting:
            return False
        start = time.perf_counter()
        for function in self._waiting:
            self._run_slice(function, arrays, before_new)
        self._waiting = []
        self._add_tables(arrays)
        self.listing += time.perf_counter() - start
        return True

    def make_room(self, most: Sequence[int]) -> None:
        """`most` has the largest number of keys in loops of one event, per table."""
        needed = [fixed + more for fixed, more in zip(self._fixed_room, most, strict=True)]
        self.room = [max(room, least) for room, least in zip(self.room, needed, strict=True)]

    def _add_tables(self, arrays: dict[str, Any]) -> None:
        """The arrays of tables, with room for all rows that are known."""
        for i, (table, names) in enumerate(zip(self.tables, self._tables, strict=True)):
            table.reserve()
            self._reserve_undo(i, self.room[i])
            arrays[names.rows] = table.rows
            index = table.index
            arrays[names.direct], arrays[names.slots], arrays[names.keys] = index.direct, index.slots, index.keys
            arrays[names.undo], arrays[names.undo_rows] = self.undo[i], self.undo_rows[i]

    def outgrown(self, arrays: dict[str, Any]) -> bool:
        """Whether tables or indices have got other arrays since these were built."""
        return any(
            arrays[names.rows] is not table.rows
            or arrays[names.slots] is not table.index.slots
            or arrays[names.direct] is not table.index.direct
            for table, names in zip(self.tables, self._tables, strict=True)
        )

    def key_values(self, batch: EventBatch, function: int) -> dict[str, tuple[list[np.ndarray], np.ndarray]]:
        """Computed keys of a function's static sites, as codes and numbers: by `R{function}_{site}`, part by part, and
        where there is a key at all."""
        arrays: dict[str, Any] = self._constant.copy()
        plan, slice_ = self._kinds[self.program.functions[function].kind], self._slices[function]
        found = batch.columns[plan.kind]
        if slice_ is None or found is None:
            return {}
        self._columns(batch, plan, found, arrays)
        return slice_.values(arrays)

    def _columns(self, batch: EventBatch, plan: KindPlan, found: Columns, arrays: dict[str, Any]) -> None:
        arrays[plan.pos] = frozen(found.pos)
        if plan.ts is not None:
            arrays[plan.ts] = frozen(self._timestamps(batch, plan.kind))
        fields: Sequence[FieldPlan] = plan.fields
        if isinstance(found.arrays, Span):
            fields = self._in_place[plan.kind].read(found.arrays, arrays)
        for field in fields:
            for role, array in kernel_arrays(field.type, found.arrays[field.name], self.state).items():
                arrays[field.names[role]] = array

    def _timestamps(self, batch: EventBatch, kind: int) -> np.ndarray:
        return batch.ts if len(self.program.events) == 1 else batch.ts[batch.kind == kind]

    def _resolve(self, batch: EventBatch, arrays: dict[str, Any], before_new: Callable[[], None]) -> None:
        """Row numbers of every site, but for those of functions whose keys vary in loops."""
        self.room = self._fixed_room.copy()
        self._waiting = []
        dense = [found is None or found.dense for found in batch.columns]
        for number, function in enumerate(self._functions):
            if function.slice is not None and function.slice.can_wait:
                self._waiting.append(number)
            elif function.slice is not None:
                self._run_slice(number, arrays, before_new)
            for plan in function.plain:
                rows = self._plain_rows(plan, dense[plan.kind], arrays, before_new)
                for target in plan.targets:
                    arrays[target] = rows

    def _run_slice(self, function: int, arrays: dict[str, Any], before_new: Callable[[], None]) -> None:
        slice_, fixed = self._slices[function], self._functions[function].fixed_room
        assert slice_ is not None
        for table, most in slice_.resolve(arrays, before_new).items():
            self.room[table] = max(self.room[table], fixed[table] + most)

    def _plain_rows(
        self, plan: PlainPlan, dense: bool, arrays: dict[str, Any], before_new: Callable[[], None]
    ) -> np.ndarray:
        pos = arrays[plan.pos]
        index = self.tables[plan.table].index
        parts = [arrays[name] for name in plan.columns]
        out = self.scratch.array(plan.targets[0], len(pos), np.int64)
        if dense:
            index.resolve(parts, None, out, before_new)
        elif not plan.timed:
            index.resolve_at(parts, pos, out, before_new)
        else:
            columns = zip(plan.columns, parts, strict=True)
            parts = [values if name in plan.timed else values[pos] for name, values in columns]
            index.resolve(parts, None, out, before_new)
        return frozen(out)

    def _reserve_undo(self, table: int, room: int) -> None:
        if len(self.undo[table]) < room:
            self.undo[table] = np.zeros(2 * room, self.program.tables[table].row_dtype)
            self.undo_rows[table] = np.zeros(2 * room, np.int64)
