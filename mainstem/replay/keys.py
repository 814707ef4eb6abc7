"""Computed keys as columns of the log: `T[e.a % 10]` is routed like `T[e.a]`.

The key slice of a function runs when the log is read, as if a derive function had added its keys to the events. Where
a function does not get to a key, the column holds 0 or "": the piece that is routed by it meets a row that nobody looks
at.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from mainstem.engine import Executor
from mainstem.gate import Columns, Derive, EventBatch
from mainstem.gate.batch import frozen, identity
from mainstem.jit import JIT_ENABLED
from mainstem.lang import Dataflow, Program, Spec, dataflow
from mainstem.lang.dataflow import ComputedKey
from mainstem.lang.tables import Failures
from mainstem.schema import EventSchema, Field
from mainstem.state import State


def staged(spec: Spec, overflow: Failures = "rare", *, jit: bool = JIT_ENABLED) -> Dataflow:
    """The dataflow of an app, ready to run: computed keys are columns of its events. `jit`: of the code for these."""
    return with_key_columns(dataflow(spec, overflow), jit)


def with_key_columns(flow: Dataflow, jit: bool = JIT_ENABLED) -> Dataflow:
    if not flow.computed:
        return flow
    program = flow.program
    kinds = sorted({program.functions[key.function].kind for key in flow.computed})
    derives = []
    for kind in kinds:
        keys = tuple(key for key in flow.computed if program.functions[key.function].kind == kind)
        derives.append(_derive(KeyColumns(program, kind, keys, jit)))
    events = tuple(_extended(event, derives) for event in program.events)
    return replace(flow, program=replace(program, events=events, derives=(*program.derives, *derives)))


def _derive(columns: KeyColumns) -> Derive:
    named = [zip(key.names, key.types, strict=True) for key in columns.keys]
    fields = tuple(Field(name, type_) for pairs in named for name, type_ in pairs)
    return Derive(columns.program.events[columns.kind].name, fields, columns)


def _extended(event: EventSchema, derives: Iterable[Derive]) -> EventSchema:
    added = tuple(field for derive in derives if derive.event == event.name for field in derive.fields)
    return replace(event, derived=(*event.derived, *added))


@dataclass(frozen=True)
class KeyColumns:
    """A derive function: rows of one event type to the columns of its computed keys."""

    program: Program
    kind: int
    keys: tuple[ComputedKey, ...]
    jit: bool

    def __call__(self, rows: pa.RecordBatch) -> dict[str, pa.Array]:
        # Compiled code neither warns nor raises about float overflow; NumPy's scalars would.
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            return self._columns(self._batch(rows))

    def _columns(self, batch: EventBatch) -> dict[str, pa.Array]:
        executor = _executor(self.program, self.jit)
        found: dict[str, pa.Array] = {}
        for function in dict.fromkeys(key.function for key in self.keys):
            values = executor.operations.key_values(batch, function)
            for key in (key for key in self.keys if key.function == function):
                parts = _first_known([values[f"R{function}_{site}"] for site in key.sites])
                for name, type_, part in zip(key.names, key.types, parts, strict=True):
                    found[name] = _column(part, type_.base, executor.state)
        return found

    def _batch(self, rows: pa.RecordBatch) -> EventBatch:
        columns: list[Columns | None] = [None] * len(self.program.events)
        arrays = {name: rows.column(name) for name in rows.schema.names if name != "ts"}
        columns[self.kind] = Columns(identity(rows.num_rows), arrays)
        kind = frozen(np.full(rows.num_rows, self.kind, np.uint8))
        return EventBatch(kind, frozen(rows.column("ts").to_numpy()), columns, ())


def _first_known(sites: list[tuple[list[np.ndarray], np.ndarray]]) -> list[np.ndarray]:
    """The key of the first site that a function gets to; all of them are computed alike."""
    parts, known = [part.copy() for part in sites[0][0]], sites[0][1] != 0
    for others, ok in sites[1:]:
        missing = ~known & (ok != 0)
        for part, other in zip(parts, others, strict=True):
            part[missing] = other[missing]
        known |= missing
    return parts


def _column(values: np.ndarray, base: str, state: State) -> pa.Array:
    if base in ("str", "bytes"):
        return (state.strings if base == "str" else state.binaries).decode(np.maximum(values, 0))
    return pa.array(values)


_EXECUTORS_MAX = 4
_executors: OrderedDict[tuple[str, bool], Executor] = OrderedDict()


def _executor(program: Program, jit: bool) -> Executor:
    """Kept by content: a task may call for thousands of batches, and each brings the program anew."""
    made = _executors.pop((program.source, jit), None)
    if made is None:
        made = Executor(program, State({table.name: table for table in program.tables}), jit=jit)
    _executors[program.source, jit] = made
    if len(_executors) > _EXECUTORS_MAX:
        _executors.popitem(last=False)
    return made
