"""Programs that kernels can't express: the interpreter over the same columnar state, batch by batch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from mainstem.engine.changes import CHANGES_FIELD, with_changes
from mainstem.engine.interpret import Interpreter, interpreted_changes, records_to_arrow
from mainstem.engine.pipeline import one_by_one
from mainstem.engine.result import BatchResult, BatchStats
from mainstem.engine.returned import InferredOutputs, Record, outputs_to_arrow
from mainstem.gate import EventBatch
from mainstem.lang import Program
from mainstem.state import DELETED, State


class InterpretedExecutor:
    """Has the interface of `Executor`; its state is the same, its speed is Python's."""

    engine = "interpreted"

    def __init__(self, program: Program, state: State, *, changes: bool = False) -> None:
        assert program.spec is not None
        self.program, self.state = program, state
        self.interpreter = Interpreter(program.spec, dict(program.outputs) or None, self._load)
        self.interpreter.keeps_changes = changes
        self._inferred = InferredOutputs(program)

    @property
    def output_schema(self) -> pa.Schema:
        return with_changes(self.program) if self.interpreter.keeps_changes else self.program.output_schema

    def _load(self, table: str, key: Any) -> Record | None:
        return self.state.tables[table].seen(key)

    def run(self, batch: EventBatch, first_seq: int) -> BatchResult:
        start = time.perf_counter()
        rows = self.interpreter.run(batch, first_seq)
        deltas = self._flush()
        ran = time.perf_counter()
        declared = bool(self.program.outputs)
        outputs = outputs_to_arrow(rows, self.program.output_schema) if declared else self._inferred.batch(rows)
        if self.interpreter.keeps_changes:
            outputs = outputs.append_column(CHANGES_FIELD, interpreted_changes(self.program, rows))
        aborted = sum(r["status"] == "aborted" for r in rows)
        seconds = (0.0, ran - start, time.perf_counter() - ran)
        stats = BatchStats(len(batch), len(rows), len(rows) - aborted, aborted, self.engine, *seconds)
        return BatchResult(outputs, stats, lambda: deltas)

    def run_all(self, batches: Iterable[EventBatch], first_seq: int = 0) -> Iterator[BatchResult]:
        return one_by_one(self.run, batches, first_seq)

    def _flush(self) -> dict[str, pa.Table]:
        """The batch's changes go to the columnar state; the interpreter forgets what it had read."""
        deltas = {}
        for table in self.program.tables:
            rows = self.interpreter.rows[table.name]
            changed = {k: rows[k] for k in self.interpreter.changed[table.name]}
            if changed:
                default = self.interpreter.defaults[table.name]
                marked = {k: {**(r or default), DELETED: r is None} for k, r in changed.items()}
                deltas[table.name] = records_to_arrow(table, marked, (DELETED,))
                self.state.apply(table.name, deltas[table.name])
            rows.clear()
            self.interpreter.changed[table.name].clear()
        return deltas
