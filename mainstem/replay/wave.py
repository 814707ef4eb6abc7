"""A stage task: the items of one shard, range by range, through the programs of its stages."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.engine import Executor, make_executor
from mainstem.engine.result import RawResult
from mainstem.gate.batch import constant_kind, frozen
from mainstem.lang.dataflow import RARE_CODES
from mainstem.replay import kept
from mainstem.replay.blocks import Part, parts
from mainstem.replay.columns import numbers, words
from mainstem.replay.exchange import ExchangeFile, ExchangeWriter
from mainstem.replay.given import Arrivals
from mainstem.replay.handing import Sender
from mainstem.replay.jobs import Clock, Rare, WaveJob, WaveReport
from mainstem.replay.routing import ROWS, Routing, number_column, order_block, route_block, takes_ts
from mainstem.replay.states import TaskState, write_state
from mainstem.state import State

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Piece, Stage


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
            stages = [_StageRun(job, routing, n, state.of_stage[n], arrivals, writer, clock) for n in busy]
        rare = _run(job, stages)
        if rare is not None:
            return _report(job, stages, clock, rare)
        with clock.part("write"):
            size = writer.close()
        with clock.part("state"):
            tables = state.rows()
            write_state(job.state_to, tables)
        cleanup.pop_all()
    if job.keep:
        kept.keep(job.state_to, job.state, state)
    return _report(job, stages, clock, None, size, {name: table.num_rows for name, table in tables.items()})


def _start(job: WaveJob) -> TaskState:
    if job.state is None:
        return TaskState(job.flow, job.task)
    found = kept.take(job.state) if job.keep else None
    if found is None:
        found = TaskState(job.flow, job.task)
        found.load(job.state)
    return found


def _run(job: WaveJob, stages: list[_StageRun]) -> Rare | None:
    for number, path in enumerate(job.ranges):
        file = ExchangeFile(path)
        for stage in stages:
            rare = stage.run(number, file)
            if rare is not None:
                return rare
    return None


def _report(
    job: WaveJob, stages: list[_StageRun], clock: Clock, rare: Rare | None, size: int = 0,
    rows: dict[str, int] | None = None,
) -> WaveReport:  # fmt: skip
    items, aborted = sum(s.items for s in stages), sum(s.aborted for s in stages)
    return WaveReport(job.task, items, aborted, rare, size, rows or {}, clock.seconds)


class _StageRun:
    """One stage in one shard."""

    def __init__(
        self, job: WaveJob, routing: Routing, number: int, state: State, arrivals: Arrivals, writer: ExchangeWriter,
        clock: Clock,
    ) -> None:  # fmt: skip
        self.stage: Stage = job.flow.stages[number]
        self.routing, self.arrivals, self.clock = routing, arrivals, clock
        self.shard = job.task.shard
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
            block = _Block(self.stage, self.routing, file, self.shard)
        if not block.count:
            return None
        with self.clock.part("put"):
            block.give(self.arrivals, number)
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

    def _send(self, number: int, block: _Block, part: Part, raw: RawResult) -> None:
        single = int(np.count_nonzero(part.counts)) == 1
        for piece in self.stage.pieces:
            count, first = int(part.counts[piece.local]), int(part.first_of[piece.local])
            if count and self.routing.edges_from[piece.number]:
                rows = None if single else np.flatnonzero(part.batch.kind == piece.local)
                items = block.items[piece.local]
                self._sender.send(number, piece, raw, rows, None if items is None else items.slice(first, count))

    def _aborts(self, number: int, file: ExchangeFile, block: _Block, part: Part, raw: RawResult) -> Rare | None:
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


class _Block:
    """The items of a stage's shard in one range."""

    def __init__(self, stage: Stage, routing: Routing, file: ExchangeFile, shard: int) -> None:
        self.stage, self.shard = stage, shard
        self.items: list[pa.RecordBatch | None] = []
        self.columns: list[dict[str, pa.Array]] = []
        self.counts = np.zeros(len(stage.pieces), np.int64)
        for piece in stage.pieces:
            name = route_block(routing.route_of[piece.number])
            self.counts[piece.local] = file.count(name, shard)
            items = next(iter(file.rows(name, shard)), None)
            self.items.append(items)
            self.columns.append({} if items is None else {n: items.column(n) for n in piece.fields if n != "ts"})
        self.count = int(self.counts.sum())
        self.kind = self._kinds(file)
        self.ts = self._times()

    def give(self, arrivals: Arrivals, number: int) -> None:
        for piece, columns in zip(self.stage.pieces, self.columns, strict=True):
            event, count = self.stage.program.events[piece.local], int(self.counts[piece.local])
            columns.update(arrivals.columns(piece.number, event, number, self.shard, count))

    def _kinds(self, file: ExchangeFile) -> np.ndarray:
        present = np.flatnonzero(self.counts)
        if len(present) == 1:
            return constant_kind(int(present[0]), self.count)
        found = file.rows(order_block(self.stage.number), self.shard)
        return numbers(found[0].column("kind")) if found else np.zeros(0, np.uint8)

    def _times(self) -> np.ndarray:
        """The timestamps of the items of pieces that ask for them; zeros for others."""
        ts = np.zeros(self.count, np.int64)
        for piece, items in zip(self.stage.pieces, self.items, strict=True):
            if items is not None and takes_ts(self.stage, piece):
                own = words(items.column("ts"))
                if len(own) == self.count:
                    return own
                ts[self.kind == piece.local] = own
        return frozen(ts)
