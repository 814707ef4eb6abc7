"""k inputs to one order, in batches of one size, with bounded memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np

from mainstem.errors import InputError, ProgramError
from mainstem.gate.assemble import assemble
from mainstem.gate.batch import EventBatch
from mainstem.gate.cuts import Cuts
from mainstem.gate.derive import Derive, with_derived
from mainstem.gate.piece import UNKNOWN
from mainstem.gate.punctuation import PunctuatedMerger
from mainstem.gate.raw import Input, Request
from mainstem.gate.ready import Merger
from mainstem.gate.rejects import Rejects
from mainstem.gate.stream import Stream
from mainstem.gate.validate import OnBad, Unsorted, Validator, check_on_bad, check_unsorted
from mainstem.schema import EventSchema, Field

Skip = int | Sequence[int] | Cuts
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
    unsorted: Unsorted = "error",
) -> Iterator[EventBatch]:
    """The events of all inputs in total order `(ts, input, offset)`, `batch_size` at a time.

    `skip` resumes a run: the number of accepted events to leave out, the rows to leave out per input (as in
    `EventBatch.position`), or the batches to leave out as they were cut. `columns` names per event type the fields in
    use; others are neither read nor checked.

    Inputs must be sorted; with `unsorted="batch"` events may be out of order inside a batch (`punctuation.py` says what
    a batch is then). Which rows are late there depends on how batches are cut. So a number of events to leave out
    stands for batches of `batch_size`, and late rows among rows that are left out by position are not reported.
    """
    check_on_bad(on_bad)
    check_unsorted(unsorted)
    if batch_size < 1:
        raise InputError(f"batch_size is {batch_size}\n  give at least 1")
    if len(schemas) >= UNKNOWN:
        raise ProgramError(f"the app has {len(schemas)} event types", remedy=f"declare at most {UNKNOWN - 1}")
    cuts, rows = _to_leave_out(skip, batch_size, len(inputs))
    fields = used_fields(schemas, columns, {derive.event for derive in derives})
    streams = []
    for number, (source, first) in enumerate(zip(inputs, rows, strict=True)):
        request = Request(tuple(schemas), fields, batch_size, source.event)
        validator = Validator(number, source, request, on_bad, rejects, unsorted)
        streams.append(Stream(source, request, validator, first))
    merger = Merger(streams, batch_size) if unsorted == "error" else PunctuatedMerger(streams, batch_size)
    return _run(merger, schemas, batch_size, tuple(derives), cuts)


def _to_leave_out(skip: Skip, batch_size: int, inputs: int) -> tuple[Cuts, tuple[int, ...]]:
    """Batches to leave out, and rows of each input."""
    if isinstance(skip, Cuts):
        return skip, (0,) * inputs
    events, rows = (int(skip), (0,) * inputs) if isinstance(skip, (int, np.integer)) else (0, tuple(skip))
    if min(events, *rows, 0) < 0:
        raise InputError(f"skip is {skip}\n  give the number of events to leave out, or the rows per input")
    if len(rows) != inputs:
        raise InputError(f"skip names {len(rows)} inputs, but there are {inputs}\n  give the same inputs as before")
    return Cuts.regular(batch_size, events), rows


def used_fields(
    schemas: Sequence[EventSchema], columns: UsedColumns | None, deriving: set[str]
) -> tuple[tuple[Field, ...], ...]:
    """Fields to read per event type. Derive functions see all declared fields."""
    used = []
    for schema in schemas:
        names = None if columns is None or schema.name in deriving else columns.get(schema.name)
        used.append(tuple(f for f in schema.fields if names is None or f.name in names))
    return tuple(used)


def _run(
    merger: Merger, schemas: Sequence[EventSchema], batch_size: int, derives: Sequence[Derive], skip: Cuts
) -> Iterator[EventBatch]:
    try:
        merger.drop(skip)
        while slices := merger.take(batch_size):
            batch = assemble(slices, len(schemas), merger.position)
            yield with_derived(batch, schemas, derives) if derives else batch
    finally:
        merger.close()
