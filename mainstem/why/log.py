"""`result.why(seq)`: the log is run again up to one event, and that event is watched."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.engine import Executor, InterpretedExecutor, make_executor
from mainstem.engine.returned import Record
from mainstem.errors import MainstemError
from mainstem.gate import EventBatch, Unsorted
from mainstem.lang import Program, Spec
from mainstem.state import State
from mainstem.why.history import LOOK_BACKS, Observed, Reach, Writer, linked, part_of
from mainstem.why.observe import Observation, Observer, RowName
from mainstem.why.report import (
    ABORTED,
    NOT_REACHED,
    OVERWRITES,
    READS,
    UNCHANGED,
    Dependency,
    Outcome,
    Why,
)
from mainstem.windows import Operators, open_windowed

Wrote = dict[tuple[int, str], frozenset[RowName]]
"""By position in the batch and function: what a transaction wrote."""


def can_be_read_again(events: Any) -> bool:
    """Whether a second reading gives the same events: not so for generators, iterators and Arrow readers."""
    if isinstance(events, Mapping):
        return all(can_be_read_again(value) for value in events.values())
    if isinstance(events, list | tuple) and events and not hasattr(events[0], "__mainstem_event__"):
        return all(can_be_read_again(value) for value in events)
    return not isinstance(events, Iterator | pa.RecordBatchReader)


@dataclass(frozen=True)
class Log:
    """What a run needs to be repeated. `obstacle` says why it can't be; then nothing else of it is kept."""

    spec: Spec
    program: Program
    events: Any = field(repr=False)
    initial: Mapping[str, pa.Table]
    reading: Mapping[str, Any]  # batch, on_bad, unsorted, complete: as `app.run` takes them
    jit: bool | None
    obstacle: str = ""

    @classmethod
    def of(
        cls, spec: Spec, program: Program, events: Any, initial: Mapping[str, pa.Table] | None,
        reading: Mapping[str, Any], jit: bool | None, durable: bool, unordered: str | None = None,
    ) -> Log:  # fmt: skip
        """`unordered`: the isolation level of a run that did not keep event order."""
        obstacle = ""
        if unordered is not None:
            obstacle = (
                f"the run was at isolation {unordered}, and a second one may go another way"
                "\n  run the same log with isolation='PL4', and ask that result"
            )
        elif durable:
            obstacle = (
                "the run had state=, and what the folder held before is gone"
                "\n  run the same log without state=, with initial= for what it started from, and ask that result"
            )
        elif not can_be_read_again(events):
            obstacle = (
                "its events came from an iterator, which can be read once"
                "\n  run with a list, an Arrow table or a path, and ask that result"
            )
        if obstacle:
            return cls(spec, program, None, {}, reading, jit, obstacle)
        return cls(spec, program, events, dict(initial or {}), reading, jit)

    @cached_property
    def observer(self) -> Observer:
        """Made once: it reads and rewrites the source of every function."""
        return Observer(self.spec)

    def why(self, seq: int, outputs: pa.Table, events: int) -> Why:
        """`outputs` and the number of `events` are those of the run."""
        wanted = operator.index(seq)
        if self.obstacle:
            raise MainstemError(f"why({wanted}) can't run the log again: {self.obstacle}")
        if not 0 <= wanted < events:
            span = f"events 0 to {events - 1}" if events else "no events"
            raise MainstemError(f"there is no event {wanted}: the run had {span}\n  see column seq of the outputs")
        decisions = _Decisions(outputs)
        for look_back in LOOK_BACKS:
            found, complete = _Replay(self, decisions).why(wanted, look_back)
            if complete:
                break
        return found


class _Decisions:
    """What the run decided, by transaction."""

    def __init__(self, outputs: pa.Table) -> None:
        self._outputs, self._seq = outputs, outputs["seq"].to_numpy()

    def _between(self, first: int, stop: int) -> pa.Table:
        lo, hi = np.searchsorted(self._seq, [first, stop])
        return self._outputs.slice(lo, hi - lo).select(["status", "reason"])

    def committed(self, first: int, stop: int) -> np.ndarray:
        status = self._between(first, stop)["status"].cast(pa.string())
        return pc.equal(status, "committed").to_numpy()

    def confirm(self, seq: int, done: list[Record]) -> None:
        """The second run of an event must end as the first."""
        was = [(row["status"], row["reason"]) for row in self._between(seq, seq + 1).to_pylist()]
        now = [(row["status"], row["reason"]) for row in done]
        if was != now:
            raise MainstemError(
                f"event {seq} does something else when it is run again: it was {_told(was)}, now it is {_told(now)}\n"
                "  the log was changed after the run, a function depends on more than events and tables, or the run "
                "had the unsafe engine='nolock'; run the log again and ask that result"
            )


def _told(decisions: list[tuple[str, str | None]]) -> str:
    return ", ".join(status + (f" ({reason})" if reason else "") for status, reason in decisions) or "nothing"


class _Replay:
    """One thread runs all batches before the one that holds the event, then that one in pieces."""

    def __init__(self, log: Log, decisions: _Decisions) -> None:
        self.log, self.decisions = log, decisions
        self.state = State({t.name: t for t in log.program.tables})
        self.state.load(log.initial)
        engine = "serial" if log.program.compiled else "interpreted"
        self.executor = make_executor(log.program, self.state, engine, jit=log.jit)
        self.observer = log.observer

    def why(self, seq: int, look_back: int) -> tuple[Why, bool]:
        """The answer, and whether it knows the writer of every row: if not, looking back further may help."""
        number, first, batch = self._batch_of(seq)
        at = seq - first
        if isinstance(self.executor, InterpretedExecutor):
            done, reaches, wrote = self._observe_all(batch, first, at)
        else:
            done, reaches, wrote = self._observe_some(self.executor, batch, first, at, look_back)
        self.decisions.confirm(seq, done)
        outcomes = tuple(_outcome(row, found, first, wrote) for row, found in zip(done, reaches, strict=True))
        event = self.log.program.events[int(batch.kind[at])].name
        values = done[0]["seen"].values if done else {}
        complete = all(_source(r, wrote) or len(r.committed) < look_back for found in reaches for r in found)
        return Why(seq, event, int(batch.ts[at]), values, number, first, outcomes), complete

    def _batch_of(self, seq: int) -> tuple[int, int, EventBatch]:
        """Runs the batches before; gives the number of the batch, its first event and itself."""
        first = 0
        for number, batch in enumerate(self._batches()):
            if seq < first + len(batch):
                return number, first, batch
            self.executor.run(batch, first)
            first += len(batch)
        raise MainstemError(
            f"event {seq} is gone: the log had more events when it ran, now it has {first}\n"
            "  run the log as it is now and ask that result"
        )

    def _batches(self) -> Iterator[EventBatch]:
        program, reading = self.log.program, self.log.reading
        unsorted: Unsorted = reading["unsorted"]
        stream, _ = open_windowed(
            self.log.events, program.inputs, Operators(program.windows), complete=reading["complete"],
            batch_size=reading["batch"], on_bad=reading["on_bad"], derives=program.derives,
            columns=program.used_columns, unsorted=unsorted,
        )  # fmt: skip
        return stream

    def _observe_some(
        self, executor: Executor, batch: EventBatch, first: int, at: int, look_back: int
    ) -> tuple[list[Record], list[list[Reach]], Wrote]:
        """Keys tell which earlier events may matter: only these are watched, all others just run."""
        committed = self.decisions.committed(first, first + at + 1)
        reaches = linked(executor, part_of(batch, 0, at + 1), committed, look_back)
        suspects = {w.at for found in reaches for reach in found for w in reach.committed if w.at < at}
        wrote: Wrote = {}
        done: list[Record] = []
        ran = 0
        for stop in [*sorted(suspects), at]:
            executor.run(part_of(batch, ran, stop), first + ran)
            self.observer.watch(self.state)
            done = self.observer.run(part_of(batch, stop, stop + 1), first + stop)
            wrote |= {(stop, row["function"]): row["seen"].writes for row in done if row["status"] == "committed"}
            ran = stop
        return done, reaches, wrote

    def _observe_all(self, batch: EventBatch, first: int, at: int) -> tuple[list[Record], list[list[Reach]], Wrote]:
        history = Observed()
        self.observer.watch(self.state)
        self.observer.details = False
        history.follow(self.observer.run(part_of(batch, 0, at), first), first)
        self.observer.details = True
        done = self.observer.run(part_of(batch, at, at + 1), first + at)
        reaches = history.follow(done, first)
        found = [(writer, reach.row) for group in reaches for reach in group for writer in reach.writers]
        wrote: Wrote = {}
        for writer, row in found:
            wrote[writer.at, writer.function] = wrote.get((writer.at, writer.function), frozenset()) | {row}
        return done, reaches, wrote


def _outcome(row: Record, reaches: list[Reach], first: int, wrote: Wrote) -> Outcome:
    seen: Observation = row["seen"]
    found = [d for reach in reaches for d in _dependencies(seen, reach, first, wrote)]
    ordered = tuple(sorted(found, key=lambda d: d.seq))
    return Outcome(row["function"], row["status"], row["reason"], seen.condition, seen.reads, ordered)


def _source(reach: Reach, wrote: Wrote) -> Writer | None:
    """The last transaction that really wrote the row."""
    return next((w for w in reach.committed if reach.row in wrote.get((w.at, w.function), ())), None)


def _dependencies(seen: Observation, reach: Reach, first: int, wrote: Wrote) -> Iterator[Dependency]:
    """The transaction whose value stood in the row, and the one that had to be waited for when that is another."""

    def one(writer: Writer, how: str) -> Dependency:
        return Dependency(first + writer.at, writer.function, *reach.row, how, writer.committed)

    source = _source(reach, wrote)
    if source is not None:
        how = READS if reach.row in seen.rows_read else OVERWRITES if reach.row in seen.writes else NOT_REACHED
        yield one(source, how)
    if reach.writers and reach.writers[0] is not source:
        yield one(reach.writers[0], UNCHANGED if reach.writers[0].committed else ABORTED)
