"""A batch as arrays, once: columns, keys resolved to rows, room for undo. Every strategy reads the same arrays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from mainstem.engine.buffers import Scratch
from mainstem.engine.columns import frozen, kernel_arrays
from mainstem.gate import EventBatch
from mainstem.lang import Function, Program
from mainstem.lang.ir import Site
from mainstem.state import State

_NO_POSITIONS = frozen(np.zeros(0, np.int64))


@dataclass(frozen=True)
class Listed:
    """Keys of dynamic sites: those of event j stand before `ends[j]`, after those of event j - 1."""

    ends: np.ndarray
    rows: np.ndarray
    sites: np.ndarray
    turns: np.ndarray  # which turn of the function's key loop; -1 outside


class Operations:
    """Builds the kernel parameters of a batch by name (see `lang/emit.py` for the names)."""

    def __init__(self, program: Program, state: State, functions: dict[str, Any]) -> None:
        self.program, self.state, self.functions = program, state, functions
        self.tables = [state.tables[t.name] for t in program.tables]
        self.strings = frozen(np.array([self._code(s) for s in program.strings], np.int64))
        self.scratch = Scratch()
        self.undo = [np.zeros(0, t.row_dtype) for t in program.tables]
        self.undo_rows = [np.zeros(0, np.int64) for _ in program.tables]
        self.room = [0] * len(program.tables)  # records of each table that one transaction may have to save

    def _code(self, value: str | bytes) -> int:
        pool = self.state.strings if isinstance(value, str) else self.state.binaries
        return pool.intern_one(value)

    def build(self, batch: EventBatch) -> dict[str, Any]:
        arrays: dict[str, Any] = {"S": self.strings, "kind": frozen(batch.kind)}
        for kind in range(len(self.program.events)):
            self._columns(batch, kind, arrays)
        self.room = room = self._resolve(arrays)
        for i, table in enumerate(self.tables):
            table.reserve()
            self._reserve_undo(i, room[i])
            arrays |= {
                f"T{i}": table.rows,
                f"U{i}": self.undo[i],
                f"V{i}": self.undo_rows[i],
                f"Z{i}": table.default_row,
            }
            arrays |= {f"H{i}": table.index.slots, f"K{i}": table.index.keys}
        return arrays

    def _columns(self, batch: EventBatch, kind: int, arrays: dict[str, Any]) -> None:
        found = batch.columns[kind]
        arrays[f"pos{kind}"] = _NO_POSITIONS if found is None else frozen(found.pos)
        arrays[f"dense{kind}"] = found is None or found.dense
        fields = {n: t for f in self.program.functions if f.kind == kind for n, t in f.fields.items()}
        for name, type_ in fields.items():
            if name == "ts":
                arrays[f"x{kind}_ts"] = frozen(self._timestamps(batch, kind))
            else:
                column = None if found is None else found.arrays[name]
                found_arrays = kernel_arrays(type_, column, self.state)
                arrays |= {f"{role}{kind}_{name}": array for role, array in found_arrays.items()}

    def _timestamps(self, batch: EventBatch, kind: int) -> np.ndarray:
        return batch.ts if len(self.program.events) == 1 else batch.ts[batch.kind == kind]

    def _resolve(self, arrays: dict[str, Any]) -> list[int]:
        """Row numbers of every site; how many records one transaction may have to save per table."""
        room = [0] * len(self.tables)
        shared: dict[Any, np.ndarray] = {}
        for function in self.program.functions:
            dynamic = self._computed_keys(function, arrays) if function.key_parameters is not None else {}
            for site in function.sites:
                if site.columns is not None:
                    key = (function.kind, site.table, site.columns)
                    if key not in shared:
                        shared[key] = self._plain_rows(function, site, arrays)
                    arrays[f"R{function.index}_{site.index}"] = shared[key]
            for i in range(len(room)):
                fixed = sum(s.writes and not s.dynamic for s in function.sites if s.table == i)
                room[i] = max(room[i], fixed + dynamic.get(i, 0))
        return room

    def _plain_rows(self, function: Function, site: Site, arrays: dict[str, Any]) -> np.ndarray:
        pos = arrays[f"pos{function.kind}"]
        index = self.tables[site.table].index
        parts = [arrays[f"x{function.kind}_{column}"] for column in site.columns or ()]
        if "ts" in (site.columns or ()):
            # Timestamps are stored per event of the kind, in order; other columns by position.
            columns = zip(site.columns or (), parts, strict=True)
            return frozen(index.resolve([values if name == "ts" else values[pos] for name, values in columns]))
        out = self.scratch.array(f"R{function.index}_{site.index}", len(pos), np.int64)
        if arrays[f"dense{function.kind}"]:
            return frozen(index.resolve(parts, out=out))
        return frozen(index.resolve_at(parts, pos, out))

    def _computed_keys(self, function: Function, arrays: dict[str, Any]) -> dict[int, int]:
        """Runs the key slice; gives the largest number of dynamic keys of one event, per table."""
        assert function.key_parameters is not None
        pos = arrays[f"pos{function.kind}"]
        kernel = self.functions[f"keys_{function.index}"]
        tables = sorted({s.table for s in function.sites if s.dynamic})
        ends = {i: np.zeros(len(pos), np.int64) for i in tables}
        own = self._key_arrays(function, len(pos), dict.fromkeys(tables, 0), arrays)
        kernel(pos, False, *ends.values(), *own.values())
        if tables and any(e.size and e[-1] for e in ends.values()):
            own = self._key_arrays(function, len(pos), {i: int(e[-1]) for i, e in ends.items()}, arrays)
            kernel(pos, True, *ends.values(), *own.values())
        for site in function.sites:
            if site.columns is None and not site.dynamic:
                arity = len(self.program.tables[site.table].key)
                parts = [own[f"k{site.index}_{c}"] for c in range(arity)]
                rows = self.tables[site.table].index.resolve(parts, own[f"k{site.index}_ok"])
                arrays[f"R{function.index}_{site.index}"] = frozen(rows)
        for i in tables:
            keys = [own[f"q{i}_{c}"] for c in range(len(self.program.tables[i].key))]
            listed = Listed(ends[i], self.tables[i].index.resolve(keys), own[f"q{i}_site"], own[f"q{i}_turn"])
            arrays[f"listed{function.index}_{i}"] = listed
        arrays |= {f"{name}_{function.index}": array for name, array in own.items() if name.startswith("tn_")}
        return {i: int(np.diff(e, prepend=0).max(initial=0)) for i, e in ends.items()}

    def _key_arrays(
        self, function: Function, events: int, dynamic: dict[int, int], arrays: dict[str, Any]
    ) -> dict[str, Any]:
        own: dict[str, Any] = {}
        for name in function.key_parameters or ():
            role, _, rest = name.partition("_")
            if role == "S":
                own[name] = self.strings
            elif role in ("x", "ok", "off"):
                own[name] = arrays[f"{role}{function.kind}_{rest}"]
            elif role[0] == "k" or role == "tn":
                own[name] = np.zeros(events, np.uint8 if rest == "ok" and role != "tn" else np.int64)
            else:
                own[name] = np.zeros(dynamic[int(role[1:])], np.int64)
        return own

    def _reserve_undo(self, table: int, room: int) -> None:
        if len(self.undo[table]) < room:
            self.undo[table] = np.zeros(2 * room, self.program.tables[table].row_dtype)
            self.undo_rows[table] = np.zeros(2 * room, np.int64)
