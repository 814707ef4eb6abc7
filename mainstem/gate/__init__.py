"""Inputs to one stream of event batches in total order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from mainstem.errors import InputError
from mainstem.gate.batch import Columns, EventBatch
from mainstem.gate.cuts import Cuts
from mainstem.gate.derive import Derive, with_derived
from mainstem.gate.live import Gate
from mainstem.gate.live.gate import same_events
from mainstem.gate.merge import Skip, UsedColumns, batches
from mainstem.gate.rejects import Rejects
from mainstem.gate.sources import inputs_of
from mainstem.gate.validate import OnBad, Unsorted, check_on_bad
from mainstem.schema import EventSchema

__all__ = [
    "Columns",
    "Cuts",
    "Derive",
    "EventBatch",
    "Gate",
    "Rejects",
    "Unsorted",
    "batches",
    "inputs_of",
    "open_events",
]


def open_events(
    events: Any,
    schemas: Sequence[EventSchema],
    *,
    batch_size: int = 65_536,
    on_bad: OnBad = "raise",
    derives: Sequence[Derive] = (),
    columns: UsedColumns | None = None,
    skip: Skip = 0,
    unsorted: Unsorted = "error",
) -> tuple[Iterator[EventBatch], Rejects]:
    """Batches of `events` (any form that `app.run` takes), and the rows set aside so far, as batches are read.

    Drop or close the iterator to stop early: threads that read ahead end with it.
    """
    check_on_bad(on_bad)
    if isinstance(events, Gate):
        _check_left_to_gate(on_bad, unsorted)
        return _of_gate(events, schemas, batch_size, derives, skip), events.rejects
    rejects = Rejects()
    stream = batches(
        inputs_of(events, schemas),
        schemas,
        batch_size=batch_size,
        on_bad=on_bad,
        rejects=rejects,
        derives=derives,
        skip=skip,
        columns=columns,
        unsorted=unsorted,
    )
    return stream, rejects


def _check_left_to_gate(on_bad: OnBad, unsorted: Unsorted) -> None:
    if on_bad != "raise":
        raise InputError(f"on_bad={on_bad!r}: a gate checks rows as they are inserted\n  give on_bad to ms.Gate")
    if unsorted != "error":
        raise InputError(
            f"unsorted={unsorted!r}: the inputs of a gate are sorted\n  leave it out, or sort before insert"
        )


def _of_gate(
    gate: Gate, schemas: Sequence[EventSchema], batch_size: int, derives: Sequence[Derive], skip: Skip
) -> Iterator[EventBatch]:
    """A gate has checked what came in, and decides by itself what becomes of bad rows."""
    if not same_events(gate, schemas):
        raise InputError(
            f"the gate brings {', '.join(s.name for s in gate.schemas)}, and the app has other events or fields: "
            f"{', '.join(s.name for s in schemas)}\n  make the gate with events=app, after all events are declared"
        )
    if not isinstance(skip, int):
        raise InputError("a gate can't leave out rows by position\n  give inputs as tables or files")
    found = gate.batches(batch_size, skip)
    return (with_derived(batch, schemas, derives) for batch in found) if derives else found
