"""A stage task: the items of one shard, range by range, through the programs of its stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.engine import Executor, make_executor
from mainstem.engine.result import RawResult
from mainstem.lang.dataflow import RARE_CODES
from mainstem.replay import kept
from mainstem.replay.blocks import Part, parts
from mainstem.replay.columns import numbers
from mainstem.replay.exchange import ExchangeFile, ExchangeWriter
from mainstem.replay.given import Arrivals
from mainstem.replay.handing import Sender
from mainstem.replay.items import Block
from mainstem.replay.jobs import Clock, Rare, WaveJob, WaveReport
from mainstem.replay.routing import ROWS, Routing, number_column
from mainstem.replay.split import HotRows, Key, SplitStage, key_arrays, owners
from mainstem.replay.states import TaskState, write_state
from mainstem.state import State

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Piece, Stage
    from mainstem.replay.split import Rows


def run_wave(job: WaveJob) -> WaveReport:
    """One task of one wave over all ranges of an epoch, in order."""
    clock, routing = Clock(), Routing(job.flow, job.shards)
    with clock.part("load"):
        state = _start(job)
        arrivals = Arrivals(routing, [ExchangeFile(path) for path in job.carries])
    writer = ExchangeWriter(job.carry_to)
    with ExitStack() as cleanup:
        cleanup.callback(writer.discard)
        with clock.part("load"):
            busy = [n for n in job.task.stages if job.flow.stages[n].pieces]
            make = partial(_StageRun, job, routing, arrivals, writer, clock)
            stages = [make(n, job.task.shard, state.of_stage[n], _left_to_others(job, n)) for n in busy]
            guests = _Guests(job, make)
        rare = _run(job, stages, range(len(job.ranges))) or guests.run()
        if rare is not None or guests.why:
            return _report(job, stages, guests, clock, rare)
        with clock.part("write"):
            size = writer.close()
        with clock.part("state"):
            guests.settle(state)
            watched = _watched(job, state)
            tables = state.rows()
            write_state(job.state_to, tables)
        cleanup.pop_all()
    if job.keep:
        kept.keep(job.state_to, job.state, state)
    report = _report(job, stages, guests, clock, None)
    rows = {name: table.num_rows for name, table in tables.items()}
    return replace(report, carry_bytes=size, state_rows=rows, watched=watched, state_bytes=kept.size_of(state))


def _start(job: WaveJob) -> TaskState:
    if job.state is None:
        return TaskState(job.flow, job.task)
    found = kept.take(job.state) if job.keep else None
    if found is None:
        found = TaskState(job.flow, job.task)
        found.load(job.state)
    return found


def _run(job: WaveJob, stages: list[_StageRun], ranges: range) -> Rare | None:
    for number in ranges:
        file = ExchangeFile(job.ranges[number])
        for stage in stages:
            rare = stage.run(number, file)
            if rare is not None:
                return rare
    return None


def _report(job: WaveJob, stages: list[_StageRun], guests: _Guests, clock: Clock, rare: Rare | None) -> WaveReport:
    items, hot = sum(s.items for s in stages), sum(s.items for s in guests.runs)
    aborted = sum(s.aborted for s in (*stages, *guests.runs))
    return WaveReport(job.task, items, aborted, rare, 0, {}, clock.seconds, hot, not_split=guests.why)


def _left_to_others(job: WaveJob, stage: int) -> _Picked | None:
    """Keys of this task's shard that it must leave out."""
    for split in job.split.stages if job.split is not None else ():
        keys = owned(job, split.stage, split.keys) if split.stage == stage else ()
        if keys:
            return _Picked(tuple(split.keys[n] for n in keys), False)
    return None


def owned(job: WaveJob, stage: int, keys: Sequence[Key]) -> list[int]:
    """Which of some keys are this task's."""
    found = owners(job.flow, stage, keys, job.shards)
    return [n for n, shard in enumerate(found) if shard == job.task.shard]


def _watched(job: WaveJob, state: TaskState) -> dict[int, dict[Key, Rows]]:
    """The rows, by stage and key, of keys that may be hot in the next epoch."""
    found: dict[int, dict[Key, Rows]] = {}
    for stage, keys in job.watch.items():
        own = [keys[n] for n in owned(job, stage, keys)] if stage in job.task.stages else []
        if own:
            names = [job.flow.program.tables[table].name for table in job.flow.stages[stage].tables]
            tables = [state.of_stage[stage].tables[name] for name in names]
            rows = [table.delta(table.resolve(key_arrays(own, table.schema))) for table in tables]
            found[stage] = {
                key: {name: some.slice(n, 1) for name, some in zip(names, rows, strict=True)}
                for n, key in enumerate(own)
            }
    return found


@dataclass(frozen=True)
class _Picked:
    keys: tuple[Key, ...]
    inside: bool


class _Guests:
    """A task's part of the items of hot keys, whoever owns them."""

    def __init__(self, job: WaveJob, make: Callable[..., _StageRun]) -> None:
        self.job = job
        self.runs: list[_StageRun] = []
        self.why = ""
        self._hot: list[tuple[SplitStage, HotRows, bytes]] = []
        parts = () if job.split is None else job.split.parts
        self._number = next((n for n, part in enumerate(parts) if job.task.keyed and part.shard == job.task.shard), -1)
        if job.split is not None and self._number >= 0:
            for split in job.split.stages:
                self._add(split, make)

    def _add(self, split: SplitStage, make: Callable[..., _StageRun]) -> None:
        job = self.job
        rows, after = self._rows(split, self._number), self._rows(split, self._number + 1)
        self._hot.append((split, rows, after.content()))
        shards = owners(job.flow, split.stage, split.keys, job.shards)
        for shard in sorted(set(shards)):
            keys = tuple(key for key, owner in zip(split.keys, shards, strict=True) if owner == shard)
            self.runs.append(make(split.stage, shard, rows.state, _Picked(keys, True)))

    def _rows(self, split: SplitStage, parts: int) -> HotRows:
        """After so many parts."""
        rows = HotRows(self.job.flow.stages[split.stage], self.job.flow, split.keys)
        rows.start(split.start, (total[split.stage] for total in self.job.totals[:parts]))
        return rows

    def run(self) -> Rare | None:
        """Leaves in `why` what is wrong when the part did not end where the next one began."""
        if not self.runs or self.job.split is None:
            return None
        part = self.job.split.parts[self._number]
        rare = _run(self.job, self.runs, range(part.first, part.end))
        for split, rows, expected in self._hot:
            if rows.content() != expected:
                flow = self.job.flow
                tables = ", ".join(flow.program.tables[table].name for table in flow.stages[split.stage].tables)
                self.why = f"what part {self._number} does to hot keys of {tables} depends on their rows"
        return rare

    def settle(self, state: TaskState) -> None:
        """Gives the task's own keys the rows that the last part ends with."""
        if self.job.split is None:
            return
        for split in self.job.split.stages:
            own = owned(self.job, split.stage, split.keys) if split.stage in self.job.task.stages else []
            if own:
                end = self._rows(split, len(self.job.split.parts))
                for name, rows in end.rows(own).items():
                    state.of_stage[split.stage].tables[name].apply(rows)


class _StageRun:
    """One stage in one shard: all its items, or some keys."""

    def __init__(
        self, job: WaveJob, routing: Routing, arrivals: Arrivals, writer: ExchangeWriter, clock: Clock, number: int,
        shard: int, state: State, picked: _Picked | None,
    ) -> None:  # fmt: skip
        self.stage: Stage = job.flow.stages[number]
        self.routing, self.arrivals, self.clock = routing, arrivals, clock
        self.shard, self.picked = shard, picked
        self.items = self.aborted = 0
        self._rare = np.array(sorted(RARE_CODES), np.int16) if job.flow.overflow == "rare" else None
        # Pieces of functions that write elsewhere, too: there nobody knows of an abort that is rare.
        self._late = np.array([not piece.exact for piece in self.stage.pieces])
        self._sender = Sender(routing, self.stage, self.shard, state, writer)
        engine = "serial" if self.stage.keyed else "auto"
        threads = 1 if self.stage.keyed else None
        executor = make_executor(self.stage.program, state, engine, jit=job.jit, threads=threads)
        assert isinstance(executor, Executor), "stages are compiled"
        self.executor = executor

    def run(self, number: int, file: ExchangeFile) -> Rare | None:
        """The stage's block of a range; gives the first rare abort, if there is one."""
        with self.clock.part("read"):
            block = Block(self.stage, self.routing, file, self.shard)
        if not block.count:
            return None
        with self.clock.part("put"):
            block.give(self.arrivals, number)
            if self.picked is not None:
                block.pick(self.picked.keys, self.picked.inside)
        for part in parts(block.kind, block.ts, block.columns):
            with self.clock.part("run"):
                raw = self.executor.run_raw(part.batch)
                rare = self._aborts(number, file, block, part, raw)
            if rare is not None:
                return rare
            with self.clock.part("write"):
                self._send(number, block, part, raw)
        self.items += block.count
        return None

    def _send(self, number: int, block: Block, part: Part, raw: RawResult) -> None:
        single = int(np.count_nonzero(part.counts)) == 1
        for piece in self.stage.pieces:
            count, first = int(part.counts[piece.local]), int(part.first_of[piece.local])
            if count and self.routing.edges_from[piece.number]:
                rows = None if single else np.flatnonzero(part.batch.kind == piece.local)
                items = block.items[piece.local]
                self._sender.send(number, piece, raw, rows, None if items is None else items.slice(first, count))

    def _aborts(self, number: int, file: ExchangeFile, block: Block, part: Part, raw: RawResult) -> Rare | None:
        self.aborted += raw.aborted
        if self._rare is None or not raw.aborted:
            return None
        rare = np.flatnonzero(np.isin(raw.code, self._rare))
        rare = rare[self._late[part.batch.kind[rare]]]
        if not len(rare):
            return None
        item = int(rare[0])
        piece = self.stage.pieces[part.batch.kind[item]]
        before = int(part.first_of[piece.local] + np.count_nonzero(part.batch.kind[:item] == piece.local))
        row = self._row(file, piece, block.items[piece.local], before)
        return Rare(number, row, piece.function, int(raw.code[item]))

    def _row(self, file: ExchangeFile, piece: Piece, items: pa.RecordBatch | None, item: int) -> int | None:
        """The row in its range of an item of a piece, if the piece knows a place where all events stand in order."""
        event: int | None = None
        if not self.routing.spreads(self.routing.route_of[piece.number]):
            event = item
        for edge in self.routing.edges_from[piece.number]:
            if not edge.dense and not edge.spread and items is not None:
                event = int(numbers(items.column(number_column(edge.target)))[item])
        if event is None:
            return None
        kind = numbers(file.rows(ROWS, 0)[0].column("kind"))
        return int(np.flatnonzero(kind == piece.kind)[event])
