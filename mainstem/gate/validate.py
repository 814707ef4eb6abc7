"""Raw rows of one input to accepted rows: exact types, no forbidden nulls, known event types, sorted if they must be.

A clean batch costs one look at each column's type and null count and one pass over `ts`; nothing is copied.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from mainstem.errors import InputError
from mainstem.gate import flaws as flaw
from mainstem.gate.batch import frozen
from mainstem.gate.clean import CleanReader
from mainstem.gate.columns import piece_of_batch
from mainstem.gate.kernels import ascending
from mainstem.gate.objects import piece_of_rows
from mainstem.gate.piece import UNKNOWN, Chunk, Disorder, Origin, Piece
from mainstem.gate.raw import Input, Place, Raw, RawBatch, Request
from mainstem.gate.rejects import Rejects
from mainstem.schema import INT64_MIN

OnBad = Literal["raise", "reject"]
Unsorted = Literal["error", "batch"]
_ON_BAD = ("raise", "reject")
_UNSORTED = ("error", "batch")


def check_on_bad(on_bad: str) -> None:
    if on_bad not in _ON_BAD:
        raise InputError(
            f'on_bad is {on_bad!r}\n  use "raise" to stop at the first bad row, "reject" to set bad rows aside'
        )


def check_unsorted(unsorted: str) -> None:
    if unsorted not in _UNSORTED:
        raise InputError(
            f"unsorted is {unsorted!r}\n"
            '  use "error" to refuse a ts that goes back, "batch" to put the events of each batch in order'
        )


class Validator:
    """Checks the rows of one input, piece after piece. `clock` is the largest ts so far."""

    def __init__(
        self,
        number: int,
        source: Input,
        request: Request,
        on_bad: OnBad,
        rejects: Rejects,
        unsorted: Unsorted,
    ) -> None:
        self.number, self.source, self.request = number, source, request
        self.on_bad, self.rejects, self.unsorted = on_bad, rejects, unsorted
        self._reader = CleanReader(request)
        self.offset = 0
        self.clock = INT64_MIN

    @property
    def label(self) -> str:
        return f"input {self.number} ({self.source.label})"

    def accept(self, raw: Raw) -> Chunk:
        """The good rows of the next rows of the input."""
        if isinstance(raw, RawBatch):
            clean = self._reader.read(raw, self.clock)
            if clean is not None:
                return self._accepted(Chunk(clean.ts, clean.kind, self.offset, clean.parts), len(raw))
            piece = piece_of_batch(raw, self.request, self.label)
        else:
            piece = piece_of_rows(raw, self.request, self.label)
        origin = Origin(piece, raw.place, self.offset)
        chunk = self._clean(origin)
        if chunk is None:
            chunk = self._cleaned(origin)
        return self._accepted(chunk, piece.length)

    def _accepted(self, chunk: Chunk, read: int) -> Chunk:
        """`chunk` is what was good of the `read` rows that follow."""
        self.offset += read
        if len(chunk):
            self.clock = int(chunk.clock[-1])
        return chunk

    def report_late(self, chunk: Chunk, rows: np.ndarray, released: np.ndarray) -> None:
        """Name rows of a chunk that turned out to be late, each with the largest ts released before it."""
        assert chunk.disorder is not None
        origin, flaws = chunk.disorder.origin, flaw.Flaws()
        inside = chunk.offsets_of(rows) - origin.offset
        for row, ts, bound in zip(inside.tolist(), chunk.ts[rows].tolist(), released.tolist(), strict=True):
            flaws.add(row, flaw.late(ts, bound))
        self._report(origin, flaws)

    def _clean(self, origin: Origin) -> Chunk | None:
        """The whole piece when nothing is wrong with it."""
        piece = origin.piece
        if piece.flaws or piece.ts.null_count:
            return None
        ts = frozen(piece.ts.to_numpy())
        ascending = self._ascending(ts)
        if not ascending and self.unsorted == "error":
            return None
        chunk = Chunk(ts, piece.kind, origin.offset, piece.parts)
        return chunk if ascending else self._in_disorder(chunk, origin)

    def _cleaned(self, origin: Origin) -> Chunk:
        piece = origin.piece
        ts = np.asarray(piece.ts.fill_null(0))
        keep = np.ones(piece.length, dtype=bool)
        if piece.ts.null_count:
            for row in np.flatnonzero(piece.ts.is_null().to_numpy(zero_copy_only=False)).tolist():
                piece.flaws.add(row, flaw.null_ts())
        keep[piece.flaws.rows()] = False
        if self.unsorted == "error":
            self._find_unsorted(piece, ts, keep)
        self._report(origin, piece.flaws)
        chunk = Chunk(ts, piece.kind, origin.offset, piece.parts).where(keep)
        return chunk if self._ascending(chunk.ts) else self._in_disorder(chunk, origin)

    def _ascending(self, ts: np.ndarray) -> bool:
        return bool(ascending(frozen(ts), self.clock))

    def _in_disorder(self, chunk: Chunk, origin: Origin) -> Chunk:
        clock = np.maximum.accumulate(chunk.ts)
        return replace(chunk, disorder=Disorder(np.maximum(clock, self.clock, out=clock), origin))

    def _find_unsorted(self, piece: Piece, ts: np.ndarray, keep: np.ndarray) -> None:
        """A row below its predecessor is bad; the predecessor is the nearest earlier row that is accepted."""
        rows = np.flatnonzero(keep)
        reached = np.maximum.accumulate(np.concatenate(([self.clock], ts[rows])))[:-1]
        for at in np.flatnonzero(ts[rows] < reached).tolist():
            piece.flaws.add(int(rows[at]), self._goes_back(int(ts[rows[at]]), int(reached[at])))
            keep[rows[at]] = False

    def _goes_back(self, ts: int, reached: int) -> flaw.Flaw:
        return flaw.unsorted(ts, reached)

    def _report(self, origin: Origin, flaws: flaw.Flaws) -> None:
        piece, bad = origin.piece, flaws.rows()
        if not len(bad):
            return
        if self.on_bad == "raise":
            row = int(bad[0])
            first = flaws.by_row[row]
            raise InputError(f"{self._where(origin.offset, row, origin.place)}: {first.reason}\n  {first.remedy}")
        names = [None if kind == UNKNOWN else self.request.schemas[kind].name for kind in piece.kinds_at(bad).tolist()]
        reasons = [flaws.by_row[row].reason for row in bad.tolist()]
        self.rejects.add(self.number, bad + origin.offset, names, reasons, piece.as_json(bad))

    def _where(self, offset: int, row: int, place: Place) -> str:
        inside = f" (row {place.row + row} of {place.file})" if place.file else ""
        return f"{self.label}, row {offset + row}{inside}"
