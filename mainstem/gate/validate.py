"""Raw rows of one input to accepted rows: exact types, no forbidden nulls, sorted, known event types.

A clean batch costs one look at each column's type and null count and one pass over `ts`; nothing is copied.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from mainstem.errors import InputError
from mainstem.gate import flaws as flaw
from mainstem.gate.batch import frozen
from mainstem.gate.columns import piece_of_batch
from mainstem.gate.objects import piece_of_rows
from mainstem.gate.piece import UNKNOWN, Chunk, Piece, narrowed
from mainstem.gate.raw import Input, Place, Raw, RawBatch, Request
from mainstem.gate.rejects import Rejects
from mainstem.schema import INT64_MIN

OnBad = Literal["raise", "reject"]
_ON_BAD = ("raise", "reject")


def check_on_bad(on_bad: str) -> None:
    if on_bad not in _ON_BAD:
        raise InputError(
            f'on_bad is {on_bad!r}\n  use "raise" to stop at the first bad row, "reject" to set bad rows aside'
        )


class Validator:
    """Checks the rows of one input, piece after piece."""

    def __init__(self, number: int, source: Input, request: Request, on_bad: OnBad, rejects: Rejects) -> None:
        self.number, self.source, self.request = number, source, request
        self.on_bad, self.rejects = on_bad, rejects
        self.offset = 0
        self.last_ts = INT64_MIN

    @property
    def label(self) -> str:
        return f"input {self.number} ({self.source.label})"

    def accept(self, raw: Raw) -> Chunk:
        """The good rows of the next rows of the input."""
        if isinstance(raw, RawBatch):
            piece = piece_of_batch(raw, self.request, self.label)
        else:
            piece = piece_of_rows(raw, self.request, self.label)
        chunk = self._clean(piece)
        if chunk is None:
            chunk = self._cleaned(piece, raw.place)
        self.offset += piece.length
        if len(chunk):
            self.last_ts = int(chunk.ts[-1])
        return chunk

    def _clean(self, piece: Piece) -> Chunk | None:
        """The whole piece when nothing is wrong with it."""
        if piece.flaws or piece.ts.null_count:
            return None
        ts = frozen(piece.ts.to_numpy())
        if len(ts) and (ts[0] < self.last_ts or not (ts[1:] >= ts[:-1]).all()):
            return None
        return Chunk(ts, piece.kind, self.offset, piece.parts)

    def _cleaned(self, piece: Piece, place: Place) -> Chunk:
        ts = np.asarray(piece.ts.fill_null(0))
        keep = np.ones(piece.length, dtype=bool)
        if piece.ts.null_count:
            for row in np.flatnonzero(piece.ts.is_null().to_numpy(zero_copy_only=False)).tolist():
                piece.flaws.add(row, flaw.null_ts())
        keep[piece.flaws.rows()] = False
        self._find_unsorted(piece, ts, keep)
        self._report(piece, place)
        return narrowed(piece, ts, keep, self.offset)

    def _find_unsorted(self, piece: Piece, ts: np.ndarray, keep: np.ndarray) -> None:
        """A row below its predecessor is bad; the predecessor is the nearest earlier row that is accepted."""
        rows = np.flatnonzero(keep)
        reached = np.maximum.accumulate(np.concatenate(([self.last_ts], ts[rows])))[:-1]
        for at in np.flatnonzero(ts[rows] < reached).tolist():
            piece.flaws.add(int(rows[at]), flaw.unsorted(int(ts[rows[at]]), int(reached[at])))
            keep[rows[at]] = False

    def _report(self, piece: Piece, place: Place) -> None:
        bad = piece.flaws.rows()
        if not len(bad):
            return
        if self.on_bad == "raise":
            first = piece.flaws.by_row[int(bad[0])]
            raise InputError(f"{self._where(int(bad[0]), place)}: {first.reason}\n  {first.remedy}")
        names = [None if kind == UNKNOWN else self.request.schemas[kind].name for kind in piece.kinds_at(bad).tolist()]
        reasons = [piece.flaws.by_row[row].reason for row in bad.tolist()]
        self.rejects.add(self.number, bad + self.offset, names, reasons, piece.as_json(bad))

    def _where(self, row: int, place: Place) -> str:
        inside = f" (row {place.row + row} of {place.file})" if place.file else ""
        return f"{self.label}, row {self.offset + row}{inside}"
