"""The embedded run: one process, no Spark; events in, outputs and state out."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.engine import (
    BatchResult,
    BatchStats,
    InferredOutputs,
    Interpreter,
    make_executor,
    outputs_to_arrow,
    rows_of_arrow,
)
from mainstem.engine.changes import CHANGES_FIELD, with_changes
from mainstem.engine.interpret import interpreted_changes
from mainstem.engine.pipeline import one_by_one
from mainstem.errors import InputError
from mainstem.gate import Cuts, EventBatch, Rejects, Unsorted
from mainstem.gate.sources import at_hand
from mainstem.lang import Program, Spec
from mainstem.progress import Tell
from mainstem.result import OutputFiles, Result, Stats
from mainstem.state import State, digest
from mainstem.store import DurableRun
from mainstem.store.carried import Carried, discard_carried, refuse_waiting, waiting
from mainstem.store.outputs import hold_folder
from mainstem.store.parquet import write_outputs
from mainstem.windows import WINDOWS, Operators, PlainOperators, open_windowed

Tables = dict[str, pa.Table]
Also = Callable[[BatchResult], dict[str, Any]]
"""What else a commit keeps, given the result of its batch."""
CUTS = "cuts"
"""Key of a commit's meta: how a log that was not sorted was cut into batches so far (`Cuts.as_lists`)."""


def run_embedded(
    program: Program,
    events: Any,
    *,
    initial: Mapping[str, pa.Table] | None,
    batch: int,
    on_bad: Any,
    unsorted: Unsorted,
    complete: bool,
    progress: Tell | None,
    state: str | Path | None,
    out: str | Path | None,
    resume: bool,
    kept: Mapping[str, Any],
    how: Mapping[str, Any],
) -> tuple[Result, Tables]:
    """Runs batch by batch, `how` says with which engine (see `make_executor`); durable when `state` is a directory,
    `kept` says how (`durability`, `keep`)."""
    check_initial(program, initial)
    reading = _Reading(batch, on_bad, unsorted, complete)
    if state is None:
        memory = State({t.name: t for t in program.tables})
        memory.load(initial or {})
        with closing(_MemoryRun(program, memory, how, out)) as run:
            return _run(program, events, reading, progress, out, run, Operators(program.windows))
    told = getattr(progress, "recovering", None)
    with DurableRun(program, state, initial=initial, out=out, how=how, told=told, **kept) as durable:
        operators = Operators.of(program.windows, durable.store.meta)
        reading = replace(reading, before=_waiting(durable, program, finish=complete and not resume))
        skip: int | Cuts = operators.events if resume else 0
        runner: DurableRun | _CuttingRun = durable
        if unsorted == "batch" or CUTS in durable.store.meta:
            runner = cutting = _CuttingRun(durable, batch if unsorted == "batch" else 1, operators)
            skip = cutting.resumed(unsorted) if resume else 0
        done = _run(program, events, reading, progress, out, _kept(runner, operators), operators, skip)
        discard_carried(state, durable.store.meta)
        return done


def _waiting(durable: DurableRun, program: Program, finish: bool) -> list[EventBatch]:
    """Events that live inputs have left waiting for each other, if this run says that nothing more comes from them.

    They are one batch: the commit that runs them is the one that no longer names them.
    """
    store = durable.store
    if not finish:
        refuse_waiting(store.path, store.meta, "this run")
    if not waiting(store.meta):
        return []
    batch = Carried.load(store.path, program, store.meta).take_all()
    return [] if batch is None else [batch]


@dataclass(frozen=True)
class _Reading:
    """How events are read, as `app.run` takes it."""

    batch: int
    on_bad: Any
    unsorted: Unsorted
    complete: bool
    before: Sequence[EventBatch] = ()  # events that come before them


class _MemoryRun:
    """A run whose state lives and dies with the process."""

    def __init__(self, program: Program, state: State, how: Mapping[str, Any], out: str | Path | None) -> None:
        self.state = state
        self.executor = make_executor(program, state, **how)
        self.out = Path(out) if out is not None else None
        self._folder = hold_folder(self.out) if self.out is not None else None

    def run_all(self, batches: Iterable[EventBatch], overlapping: bool) -> Iterator[BatchResult]:
        """Nobody sees the state before the end, so batches may overlap."""
        seq, run = 0, self.executor.run_all if overlapping else partial(one_by_one, self.executor.run)
        for result in run(batches, seq):
            if self.out is not None:
                final = self.out / f"part-{seq:020d}.parquet"
                hidden = final.with_name(f".{final.name}")
                write_outputs(result.outputs, hidden)
                hidden.rename(final)
            seq += result.stats.events
            yield result

    def flush(self) -> None:
        """Nothing is on its way to a disk."""

    def close(self) -> None:
        if self._folder is not None:
            self._folder.release()


class _CuttingRun:
    """A durable run that keeps how batches were cut: which rows of an unsorted log were late follows from it.

    A run over a sorted log cuts nothing. It stands here as batches of one event, which let no row go back in time.
    """

    def __init__(self, durable: DurableRun, size: int, operators: Operators) -> None:
        self._durable, self._size, self._operators = durable, size, operators
        self.state, self.executor = durable.state, durable.executor
        kept = durable.store.meta.get(CUTS)
        self._cuts = Cuts.regular(1, operators.events) if kept is None else Cuts.of(kept)

    def resumed(self, unsorted: Unsorted) -> Cuts:
        """What to leave out of the same log: all that is committed."""
        if unsorted == "error":
            raise InputError(
                f"{self._durable.store.path} holds events of a log that was not sorted\n"
                '  pass unsorted="batch" and the same batch= as before, or drop resume=True and give later events only'
            )
        return self._cuts

    def run(self, batch: EventBatch, also: Also = lambda result: {}) -> Any:
        came = self._operators.events - self._cuts.events if self._operators.windows else len(batch)
        if came:
            self._cuts = self._cuts.followed_by(self._size, came)
        return self._durable.run(batch, lambda result: {CUTS: self._cuts.as_lists(), **also(result)})

    def flush(self) -> None:
        self._durable.flush()


class _WindowedRun:
    """A durable run that keeps open windows with every commit."""

    def __init__(self, runner: DurableRun | _CuttingRun, operators: Operators) -> None:
        self._runner, self._operators = runner, operators
        self.state, self.executor = runner.state, runner.executor

    def run(self, batch: EventBatch) -> Any:
        return self._runner.run(batch, lambda _: {WINDOWS: self._operators.kept()})

    def flush(self) -> None:
        self._runner.flush()


def _kept(runner: DurableRun | _CuttingRun, operators: Operators) -> DurableRun | _CuttingRun | _WindowedRun:
    return _WindowedRun(runner, operators) if operators.windows else runner


def _run(
    program: Program,
    events: Any,
    reading: _Reading,
    progress: Tell | None,
    out: str | Path | None,
    runner: Any,
    operators: Operators,
    skip: int | Cuts = 0,
) -> tuple[Result, Tables]:
    stream, rejects = _open(program, events, reading, operators, skip)
    stats, start = Stats(), time.perf_counter()
    tell = _teller(progress, rejects, len(program.inputs))
    outputs: list[pa.RecordBatch] = []
    for piece, done in _results(runner, stream, at_hand(events)):
        stats.batches.append(done.stats)
        if out is None:
            outputs.append(done.outputs)
        tell(piece)
    runner.flush()
    stats.seconds, stats.rejected = time.perf_counter() - start, rejects.count
    tables = runner.state.export()
    result = Result(rejects.table, stats, digest(tables))
    recorder = getattr(runner.executor, "recorder", None)
    result._history = recorder.history() if recorder is not None else None
    if out is None:
        result._outputs = _table(outputs, program, runner.executor.output_schema)
    else:
        result._files = OutputFiles(Path(out), runner.executor.output_schema, program.compiled)
    return result, tables


def _results(runner: Any, stream: Iterable[EventBatch], overlapping: bool) -> Iterator[tuple[EventBatch, BatchResult]]:
    """Every batch with its result, in order. What a commit keeps belongs to one batch, so only runs in memory read on
    before a batch has ended; and who hands over events one by one may wait for the results of the last ones."""
    if not isinstance(runner, _MemoryRun):
        for piece in stream:
            yield piece, runner.run(piece)
        return
    read: deque[EventBatch] = deque()

    def reading() -> Iterator[EventBatch]:
        for piece in stream:
            read.append(piece)
            yield piece

    for done in runner.run_all(reading(), overlapping):
        yield read.popleft(), done


def _teller(progress: Tell | None, rejects: Rejects, inputs: int) -> Callable[[EventBatch], None]:
    """Tells `progress` what a finished batch has to tell; timestamps and rejects only if it asks for them.

    Event types from `inputs` on are those of windows, which no input has and nobody waits for.
    """
    if progress is None:
        return lambda piece: None
    at, rejected = getattr(progress, "at", None), getattr(progress, "rejected", None)

    def tell(piece: EventBatch) -> None:
        if at is not None and len(piece):
            at(int(piece.ts[0]))
            at(int(piece.ts[-1]))
        if rejected is not None:
            rejected(rejects.count)
        progress(int(np.count_nonzero(piece.kind < inputs)) if inputs < len(piece.columns) else len(piece))

    return tell


def _table(outputs: list[pa.RecordBatch], program: Program, schema: pa.Schema) -> pa.Table:
    if program.compiled or not outputs:
        return pa.Table.from_batches(outputs, schema)
    # Interpreted programs find their columns as they run: later batches may know more of them.
    return pa.concat_tables([pa.Table.from_batches([b]) for b in outputs], promote_options="permissive")


def _open(
    program: Program,
    events: Any,
    reading: _Reading,
    operators: Operators | PlainOperators,
    skip: int | Cuts = 0,
) -> tuple[Iterator[EventBatch], Rejects]:
    return open_windowed(
        events,
        program.inputs,
        operators,
        complete=reading.complete,
        before=reading.before,
        batch_size=reading.batch,
        on_bad=reading.on_bad,
        derives=program.derives,
        columns=program.used_columns,
        skip=skip,
        unsorted=reading.unsorted,
    )


def run_oracle(
    spec: Spec,
    program: Program,
    events: Any,
    *,
    initial: Mapping[str, pa.Table] | None,
    batch: int,
    on_bad: Any,
    unsorted: Unsorted,
    complete: bool,
    progress: Tell | None,
    changes: bool,
) -> tuple[Result, Tables]:
    """The serial run that defines right: uncompiled functions, plain dicts, one event at a time."""
    check_initial(program, initial)
    reading = _Reading(batch, on_bad, unsorted, complete)
    stream, rejects = _open(program, events, reading, PlainOperators(program.windows))
    oracle = Interpreter(spec, dict(program.outputs) or None)
    oracle.keeps_changes = changes
    loaded = State({t.name: t for t in program.tables})
    loaded.load(initial or {})  # checks the columns, and the last row of a key wins
    for table in program.tables:
        oracle.rows[table.name].update(rows_of_arrow(table, loaded.tables[table.name].export()))
    start, seq, rows = time.perf_counter(), 0, []
    tell = _teller(progress, rejects, len(program.inputs))
    for piece in stream:
        rows += oracle.run(piece, seq)
        seq += len(piece)
        tell(piece)
    declared = program.compiled
    batches = [outputs_to_arrow(rows, program.output_schema) if declared else InferredOutputs(program).batch(rows)]
    outputs = pa.Table.from_batches(batches)
    if changes:
        with_changes(program)
        outputs = outputs.append_column(CHANGES_FIELD, interpreted_changes(program, rows))
    tables = oracle.export()
    aborted = sum(r["status"] == "aborted" for r in rows)
    batch_stats = BatchStats(
        seq, len(rows), len(rows) - aborted, aborted, "oracle", 0.0, time.perf_counter() - start, 0.0
    )
    stats = Stats(time.perf_counter() - start, [batch_stats], rejects.count)
    return Result(rejects.table, stats, digest(tables), outputs), tables


def check_initial(program: Program, initial: Mapping[str, pa.Table] | None) -> None:
    """Names and shapes of the tables to start from."""
    known = {t.name for t in program.tables}
    for name, table in (initial or {}).items():
        if name not in known:
            raise InputError(
                f"initial= names no table {name!r}\n  tables of app {program.name}: {', '.join(sorted(known))}"
            )
        if not isinstance(table, pa.Table):
            raise InputError(
                f"initial[{name!r}] is {type(table).__name__}\n  pass Arrow tables with the key and the fields"
            )
