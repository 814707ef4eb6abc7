"""Rows of several inputs that wait for each other from one micro-batch to the next.

The rule is that of the gate; what differs is that rows come all at once, and that what waits can be put away: rows that
came together stand on one *sheet*, and how far each input is stands beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from mainstem.gate.assemble import Slice, assemble
from mainstem.gate.batch import EventBatch, frozen
from mainstem.gate.live.order import Mark, the_end
from mainstem.gate.piece import Chunk, Part
from mainstem.schema import INT64_MAX, INT64_MIN

Shower = Literal["row", "heartbeat", "silence"]


@dataclass
class Reached:
    """How far an input is: nothing before `clock` will come from it, because of a row, a heartbeat or its silence."""

    clock: int = INT64_MIN  # which says nothing
    by: Shower = "row"
    rows: int = 0  # that came in, good or bad: the offset of the next one

    def show(self, ts: int, by: Shower) -> None:
        if ts > self.clock:
            self.clock, self.by = ts, by


@dataclass
class Sheet:
    """Rows that came together: of each input one sorted chunk, and how many of its rows were taken."""

    chunks: Mapping[int, Chunk]
    taken: dict[int, int] = field(default_factory=dict)

    @property
    def left(self) -> int:
        return sum(len(chunk) - self.taken.get(number, 0) for number, chunk in self.chunks.items())

    def rest(self, number: int) -> Slice | None:
        """The rows of an input that wait."""
        chunk, start = self.chunks.get(number), self.taken.get(number, 0)
        return None if chunk is None or start == len(chunk) else Slice(chunk, start, len(chunk))


def frontier(reached: Sequence[Reached]) -> Mark | None:
    """The first place at which something may still come; None when an input may bring anything."""
    first = min(Mark(input.clock, number) for number, input in enumerate(reached))
    return None if first.ts == INT64_MIN else first


def take(sheets: Sequence[Sheet], upto: Mark, inputs: int, kinds: int) -> EventBatch | None:
    """The waiting rows up to a place, in total order. Earlier sheets hold earlier rows of an input."""
    taken: list[list[Slice]] = [[] for _ in range(inputs)]
    for sheet in sheets:
        for number in sheet.chunks:
            rest = sheet.rest(number)
            if rest is None:
                continue
            count = int(np.searchsorted(rest.ts, upto.ts, side="right" if number <= upto.input else "left"))
            if count:
                taken[number].append(Slice(rest.chunk, rest.start, rest.start + count))
                sheet.taken[number] = rest.start + count
    found = [slices for slices in taken if slices]
    return assemble(found, kinds, ()) if found else None


def take_all(sheets: Sequence[Sheet], inputs: int, kinds: int) -> EventBatch | None:
    """All waiting rows: nothing more will come."""
    return take(sheets, the_end(inputs), inputs, kinds)


def joined(sheets: Sequence[Sheet], inputs: int, kinds: int) -> Sheet:
    """What is left of some sheets that follow each other, on one sheet, without what was taken."""
    chunks = {}
    for number in range(inputs):
        slices = [rest for sheet in sheets if (rest := sheet.rest(number)) is not None]
        if slices:
            chunks[number] = chunk_of(assemble([slices], kinds, ()))
    return Sheet(chunks)


def chunk_of(batch: EventBatch, used: Sequence[Collection[str]] | None = None) -> Chunk:
    """The rows of a batch as rows of one input; of columns only those in use, if they are given per event type."""
    parts = []
    for kind, columns in enumerate(batch.columns):
        if columns is None:
            continue
        names = [name for name in columns.arrays if used is None or name in used[kind]]
        arrays = {name: columns.arrays[name] for name in names}
        if not columns.dense:
            arrays = {name: array.take(columns.pos) for name, array in arrays.items()}
        parts.append(Part(kind, frozen(np.flatnonzero(batch.kind == kind)), None, arrays))
    if len(parts) == 1:
        only = parts[0]
        return Chunk(batch.ts, only.kind, 0, [Part(only.kind, None, None, only.arrays)])
    return Chunk(batch.ts, batch.kind, 0, parts)


def pass_silent(reached: Sequence[Reached], silent: Collection[int]) -> None:
    """Lets silent inputs promise what the others have reached, so that they no longer hold them up."""
    others = [Mark(input.clock, number) for number, input in enumerate(reached) if number not in silent]
    if not others:
        return
    first = min(others)
    for number in silent:
        if first.ts > INT64_MIN:
            reached[number].show(min(first.ts + (number < first.input), INT64_MAX), "silence")
