"""What the user hands over, as a list of inputs."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import pyarrow as pa

from mainstem.errors import InputError
from mainstem.gate.files import FileInput
from mainstem.gate.flaws import shown
from mainstem.gate.objects import event_name
from mainstem.gate.raw import Input, Raw, RawBatch, RawRows, Request
from mainstem.schema import EventSchema

_FORMS = (
    "give an Arrow table, record batch or reader, an iterable of event objects, a path, "
    "a list of these, or a dict {EventType: input}"
)


class TableInput(Input):
    """Arrow data in memory."""

    def __init__(self, batches: Sequence[pa.RecordBatch], what: str, event: str | None) -> None:
        self._batches, self.what, self.event = batches, what, event

    def read(self, request: Request) -> Iterator[Raw]:
        for batch in self._batches:
            yield RawBatch(batch)


class ReaderInput(Input):
    """Arrow data that arrives batch by batch; it can be read once."""

    def __init__(self, reader: pa.RecordBatchReader, what: str, event: str | None) -> None:
        self._reader, self.what, self.event = reader, what, event

    def read(self, request: Request) -> Iterator[Raw]:
        for batch in self._reader:
            yield RawBatch(batch)


class ObjectInput(Input):
    """Event objects; gathered into chunks of at most a batch."""

    what = "event objects"

    def __init__(self, objects: Iterable[Any], event: str | None) -> None:
        self._objects, self.event = objects, event

    def read(self, request: Request) -> Iterator[Raw]:
        objects = iter(self._objects)
        while rows := list(islice(objects, request.batch_size)):
            yield RawRows(rows)


def inputs_of(events: Any, schemas: Sequence[EventSchema]) -> list[Input]:
    """The inputs in their order, which decides ties of `ts`."""
    if not isinstance(events, Mapping):
        return _several(events, None)
    return [source for key, value in events.items() for source in _several(value, _event_of(key, schemas))]


def at_hand(events: Any) -> bool:
    """Whether all events are there already, in memory or in files: reading them waits for nobody."""
    if isinstance(events, Mapping):
        return all(at_hand(value) for value in events.values())
    if isinstance(events, (list, tuple)):
        return all(event_name(item) is not None or at_hand(item) for item in events)
    if isinstance(events, pa.RecordBatchReader):
        return False
    return isinstance(events, (pa.Table, pa.RecordBatch, str, os.PathLike)) or hasattr(events, "__arrow_c_stream__")


def _event_of(key: Any, schemas: Sequence[EventSchema]) -> str:
    name = getattr(key, "__mainstem_event__", key)
    known = [schema.name for schema in schemas]
    if name not in known:
        raise InputError(
            f"the dict of inputs has the key {shown(key)}, which is no event type of this app\n"
            f"  use an event class or its name: {', '.join(known)}"
        )
    return str(name)


def _several(value: Any, event: str | None) -> list[Input]:
    """A list of event objects is one input; a list of anything else is one input per item."""
    if not isinstance(value, (list, tuple)) or not value or event_name(value[0]) is not None:
        return [_one(value, event)]
    return [_one(item, event) for item in value]


def _one(value: Any, event: str | None) -> Input:
    if isinstance(value, pa.Table):
        return TableInput(value.to_batches(), "Arrow table", event)
    if isinstance(value, pa.RecordBatch):
        return TableInput([value], "Arrow record batch", event)
    if isinstance(value, pa.RecordBatchReader):
        return ReaderInput(value, "Arrow reader", event)
    if isinstance(value, (str, os.PathLike)):
        return FileInput(value, event)
    if hasattr(value, "__arrow_c_stream__"):
        return ReaderInput(pa.RecordBatchReader.from_stream(value), type(value).__name__, event)
    if event_name(value) is not None:
        raise InputError(
            f"a single event object was given: {shown(value)}\n  put it in a list: [{event_name(value)}(…)]"
        )
    if isinstance(value, (Mapping, bytes)) or not isinstance(value, Iterable):
        raise InputError(f"events can't be read from {shown(value)} ({type(value).__name__})\n  {_FORMS}")
    return ObjectInput(value, event)
