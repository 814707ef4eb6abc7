"""k sorted inputs to one order, in batches of one size, with bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from mainstem.errors import InputError, ProgramError
from mainstem.gate.assemble import Slice, assemble
from mainstem.gate.batch import EventBatch
from mainstem.gate.derive import Derive, with_derived
from mainstem.gate.kernels import first_rows
from mainstem.gate.piece import UNKNOWN, Chunk
from mainstem.gate.raw import Input, Raw, Request
from mainstem.gate.rejects import Rejects
from mainstem.gate.validate import OnBad, Validator, check_on_bad
from mainstem.schema import EventSchema, Field

Skip = int | Sequence[int]
UsedColumns = Mapping[str, Collection[str]]


def batches(
    inputs: Sequence[Input],
    schemas: Sequence[EventSchema],
    *,
    batch_size: int,
    on_bad: OnBad,
    rejects: Rejects,
    derives: Sequence[Derive] = (),
    skip: Skip = 0,
    columns: UsedColumns | None = None,
) -> Iterator[EventBatch]:
    """The events of all inputs in total order `(ts, input, offset)`, `batch_size` at a time.

    `skip` resumes a run: the number of accepted events to leave out, or the rows to leave out per input (as in
    `EventBatch.position`). `columns` names per event type the fields in use; others are neither read nor checked.
    """
    check_on_bad(on_bad)
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}\n  give at least 1")
    if len(schemas) >= UNKNOWN:
        raise ProgramError(f"the app has {len(schemas)} event types", remedy=f"declare at most {UNKNOWN - 1}")
    events, rows = (int(skip), (0,) * len(inputs)) if isinstance(skip, (int, np.integer)) else (0, tuple(skip))
    if min(events, *rows, 0) < 0:
        raise InputError(f"skip is {skip}\n  give the number of events to leave out, or the rows per input")
    if len(rows) != len(inputs):
        raise InputError(
            f"skip names {len(rows)} inputs, but there are {len(inputs)}\n  give the same inputs as before"
        )
    fields = _used_fields(schemas, columns, {derive.event for derive in derives})
    streams = []
    for number, (source, first) in enumerate(zip(inputs, rows, strict=True)):
        request = Request(tuple(schemas), fields, batch_size, source.event)
        streams.append(Stream(source, request, Validator(number, source, request, on_bad, rejects), first))
    return _run(Merger(streams, batch_size), schemas, batch_size, tuple(derives), events)


def _used_fields(
    schemas: Sequence[EventSchema], columns: UsedColumns | None, deriving: set[str]
) -> tuple[tuple[Field, ...], ...]:
    """Fields to read per event type. Derive functions see all declared fields."""
    used = []
    for schema in schemas:
        names = None if columns is None or schema.name in deriving else columns.get(schema.name)
        used.append(tuple(f for f in schema.fields if names is None or f.name in names))
    return tuple(used)


def _run(
    merger: Merger, schemas: Sequence[EventSchema], batch_size: int, derives: Sequence[Derive], skip: int
) -> Iterator[EventBatch]:
    try:
        merger.drop(skip)
        while slices := merger.take(batch_size):
            batch = assemble(slices, len(schemas), merger.position)
            yield with_derived(batch, schemas, derives) if derives else batch
    finally:
        merger.close()


class Stream:
    """The accepted rows of one input: `head` holds rows that are checked but not taken yet."""

    def __init__(self, source: Input, request: Request, validator: Validator, skip: int) -> None:
        self._validator, self._skip = validator, skip
        self._reader = source.read(request)
        self._raw: Raw | None = None
        self._cursor = 0
        self._head: Chunk | None = None
        self._at = 0
        self.finished = False
        self.consumed = skip

    @property
    def ts(self) -> np.ndarray:
        """Times of the rows at hand."""
        return self._head.ts[self._at :] if self._head is not None else np.empty(0, dtype=np.int64)

    def fill(self, limit: int) -> bool:
        """Have at least one row at hand, reading at most `limit` rows at once; False when the input is finished."""
        while self._head is None or self._at >= len(self._head):
            raw = self._next_raw(limit)
            if raw is None:
                return False
            self._head = self._validator.accept(raw)
            self._at = self._skipped(self._head)
        return True

    def take(self, count: int) -> Slice:
        assert self._head is not None
        start, self._at = self._at, self._at + count
        self.consumed = self._head.consumed(self._at)
        return Slice(self._head, start, self._at)

    def close(self) -> None:
        close = getattr(self._reader, "close", None)
        if close is not None:
            close()

    def _next_raw(self, limit: int) -> Raw | None:
        while self._raw is None or self._cursor >= len(self._raw):
            if self.finished:
                return None
            self._raw, self._cursor = next(self._reader, None), 0
            if self._raw is None:
                self._finish()
        part = self._raw.slice(self._cursor, limit)
        self._cursor += len(part)
        return part

    def _finish(self) -> None:
        self.finished, self._head = True, None
        if self._validator.offset < self._skip:
            raise InputError(
                f"{self._validator.label} has {self._validator.offset} rows, but {self._skip} of its rows were "
                "already processed\n  give the same inputs as before"
            )

    def _skipped(self, chunk: Chunk) -> int:
        """Rows of the chunk that an earlier run has processed."""
        if isinstance(chunk.offsets, int):
            return min(max(self._skip - chunk.offsets, 0), len(chunk))
        return int(np.searchsorted(chunk.offsets, self._skip))


class Merger:
    """Takes ready events: those that no other input can still precede."""

    def __init__(self, streams: Sequence[Stream], batch_size: int) -> None:
        self._streams, self._batch_size = streams, batch_size

    @property
    def position(self) -> tuple[int, ...]:
        return tuple(stream.consumed for stream in self._streams)

    def close(self) -> None:
        for stream in self._streams:
            stream.close()

    def drop(self, count: int) -> None:
        """Leave out the first `count` events."""
        left = count
        while left:
            taken = sum(len(part) for parts in self.take(min(left, self._batch_size)) for part in parts)
            if not taken:
                raise InputError(
                    f"the inputs hold {count - left} good events, but {count} were already processed\n"
                    "  give the same inputs as before"
                )
            left -= taken

    def take(self, count: int) -> list[list[Slice]]:
        """The next `count` events (fewer at the end), as rows in order per input; inputs without rows are left out."""
        taken: list[list[Slice]] = [[] for _ in self._streams]
        left = count
        while left:
            limit = left if len(self._streams) == 1 else self._batch_size
            live = [number for number, stream in enumerate(self._streams) if stream.fill(limit)]
            if not live:
                break
            ready = self._ready(live, left)
            for number, rows in zip(live, ready, strict=True):
                if rows:
                    taken[number].append(self._streams[number].take(rows))
            left -= sum(ready)
        return [slices for slices in taken if slices]

    def _ready(self, live: list[int], limit: int) -> list[int]:
        """How many rows of each live input come next, `limit` in all at most.

        The input whose last row at hand is smallest decides: any input may still deliver rows with the `ts` of its
        last row, and they precede equal ones of inputs that come later in the list.
        """
        times = [self._streams[number].ts for number in live]
        if len(live) == 1:
            return [min(len(times[0]), limit)]
        slowest = min(range(len(live)), key=lambda at: (times[at][-1], at))
        bound = times[slowest][-1]
        ready = [
            len(ts) if at == slowest else int(np.searchsorted(ts, bound, side="right" if at < slowest else "left"))
            for at, ts in enumerate(times)
        ]
        if sum(ready) <= limit:
            return ready
        return first_rows([ts[:rows] for ts, rows in zip(times, ready, strict=True)], limit)
