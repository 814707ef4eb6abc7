"""A fold task: what one part of an epoch does to the rows of hot keys, found without knowing what they hold."""

from __future__ import annotations

from collections.abc import Iterator

from mainstem.engine import Executor, make_executor
from mainstem.gate import EventBatch
from mainstem.replay.blocks import parts
from mainstem.replay.exchange import ExchangeFile
from mainstem.replay.given import Arrivals
from mainstem.replay.items import Block
from mainstem.replay.jobs import FoldJob
from mainstem.replay.routing import Routing
from mainstem.replay.split import Cells, HotRows, SplitStage, TableTotal, Total, owners


def fold_part(job: FoldJob) -> Total:
    """The totals of a part of a split."""
    return {split.stage: _Fold(job, split).total() for split in job.split.stages}


class _Fold:
    """One stage."""

    def __init__(self, job: FoldJob, split: SplitStage) -> None:
        self.job, self.split = job, split
        self.stage = job.flow.stages[split.stage]
        self.routing = Routing(job.flow, job.shards)
        self.arrivals = Arrivals(self.routing, [ExchangeFile(path) for path in job.carries])
        self.rows = HotRows(self.stage, job.flow, split.keys)
        executor = make_executor(self.stage.program, self.rows.state, "serial", jit=job.jit)
        assert isinstance(executor, Executor), "stages are compiled"
        self.executor = executor

    def total(self) -> dict[str, TableTotal]:
        self.rows.start(self.split.start, ())
        start = self.rows.cells()
        self._run(start, marks=True)
        found = self.rows.total(start)
        # A field that holds its mark in a row that was written may have been overwritten with it.
        if any((total.alive & ~flag).any() for total in found.values() for flag in total.written.values()):
            self._run(start, marks=False)
            for name, fields in self.rows.cells().items():
                for field, flag in found[name].written.items():
                    flag |= fields[field] != start[name][field]
        return found

    def _run(self, start: Cells, marks: bool) -> None:
        self.rows.mark(start, marks)
        for batch in self._batches():
            self.executor.run_raw(batch)

    def _batches(self) -> Iterator[EventBatch]:
        job, part = self.job, self.job.split.parts[self.job.part]
        shards = owners(job.flow, self.split.stage, self.split.keys, job.shards)
        for number in range(part.first, part.end):
            file = ExchangeFile(job.ranges[number])
            for shard in sorted(set(shards)):
                block = Block(self.stage, self.routing, file, shard)
                if block.count:
                    block.give(self.arrivals, number)
                    keys = [key for key, owner in zip(self.split.keys, shards, strict=True) if owner == shard]
                    block.pick(keys, True)
                    yield from (some.batch for some in parts(block.kind, block.ts, block.columns))
