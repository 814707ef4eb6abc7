"""A home task: one range's events meet what became of them, and give output rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from mainstem.engine import make_executor
from mainstem.lang.dataflow import RARE_CODES
from mainstem.replay.blocks import parts, tallied
from mainstem.replay.columns import numbers, words
from mainstem.replay.exchange import ExchangeFile
from mainstem.replay.given import Arrivals
from mainstem.replay.jobs import HomeJob, Rare, RareAbort
from mainstem.replay.routing import ROWS, Routing, route_block
from mainstem.state import State

if TYPE_CHECKING:
    from mainstem.lang.dataflow import Dataflow, Piece, Stage


def run_home(job: HomeJob) -> Iterator[pa.RecordBatch]:
    """Output rows of a range, in order, with the original program's schema and their final `seq`.

    Raises `RareAbort` when a function that has written fails only here.
    """
    file = ExchangeFile(job.range)
    rows = file.rows(ROWS, 0)
    if not rows:
        return
    kind, ts = numbers(rows[0].column("kind")), words(rows[0].column("ts"))
    program = job.flow.homes[job.home].program
    executor = make_executor(program, State({t.name: t for t in program.tables}), "serial", jit=job.jit)
    watch = _Watch(job.flow, job.home) if job.flow.overflow == "rare" else None
    for part in parts(kind, ts, _columns(job, file, kind)):
        outputs = executor.run(part.batch, job.first_seq + part.first).outputs
        if watch is not None:
            watch.check(outputs, job.number, part.first, part.batch.kind)
        yield outputs


def _columns(job: HomeJob, file: ExchangeFile, kind: np.ndarray) -> list[dict[str, pa.Array]]:
    """Per event type: what its functions take, from the events and from stages."""
    home, routing = job.flow.homes[job.home], Routing(job.flow, job.shards)
    counts = tallied(kind, len(home.program.events))
    arrivals = Arrivals(routing, [ExchangeFile(path) for path in job.carries])
    columns: list[dict[str, pa.Array]] = [{} for _ in home.program.events]
    for piece in home.pieces:
        own, count = columns[piece.kind], int(counts[piece.kind])
        if count:
            block = file.rows(route_block(routing.route_of[piece.number]), 0)[0]
            own.update({name: block.column(name) for name in piece.fields if name != "ts"})
            event = home.program.events[piece.kind]
            own.update(arrivals.columns(piece.number, event, job.number, 0, count))
    return columns


def _writes(stage: Stage, piece: Piece) -> bool:
    return any(site.writes for site in stage.program.functions[piece.local].sites)


class _Watch:
    """Looks for rare aborts of functions that write: their stages did not know of them.

    A function that ran whole in one stage may abort with any code: home only repeats it.
    """

    def __init__(self, flow: Dataflow, home: int) -> None:
        self._codes = np.array(sorted(RARE_CODES), np.int16)
        self._per_kind = flow.homes[home].program.per_kind
        writing = {p.function for stage in flow.stages for p in stage.pieces if _writes(stage, p)}
        whole = {piece.number for piece in flow.pieces if piece.exact}
        self._late = np.array([
            piece.function in writing and not any(carry.producer in whole for carry in piece.given)
            for piece in flow.homes[home].pieces
        ])  # fmt: skip

    def check(self, outputs: pa.RecordBatch, number: int, first: int, kind: np.ndarray) -> None:
        """`first`: row in the range of the first event."""
        reasons = outputs.column("reason")
        if reasons.null_count == len(reasons):
            return
        codes = np.where(reasons.is_valid(), numbers(reasons.indices), 0)
        rare = np.flatnonzero(np.isin(codes, self._codes))
        if not len(rare):
            return
        event, function = self._sources(rare, kind)
        guilty = np.flatnonzero(self._late[function])
        if len(guilty):
            at = guilty[0]
            raise RareAbort(Rare(number, first + int(event[at]), int(function[at]), int(codes[rare[at]])))

    def _sources(self, rows: np.ndarray, kind: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The events (from 0) and functions that output rows come from."""
        counts = np.array([len(functions) for functions in self._per_kind])[kind]
        ends = np.cumsum(counts)
        event = np.searchsorted(ends, rows, side="right")
        turn = rows - (ends[event] - counts[event])
        return event, np.array([self._per_kind[k][t] for k, t in zip(kind[event], turn, strict=True)])
