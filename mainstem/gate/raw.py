"""Rows as an input delivers them, before any check."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import pyarrow as pa

from mainstem.schema import EventSchema, Field

# How an input's values came to be: text formats carry no types, so numbers may be read from strings there.
Format = Literal["typed", "csv", "json"]


@dataclass(frozen=True)
class Place:
    """The file that rows come from, and the row in it where they start; the name is empty outside of files."""

    file: str = ""
    row: int = 0

    def after(self, rows: int) -> Place:
        return Place(self.file, self.row + rows)


_NOWHERE = Place()


@dataclass(frozen=True)
class Malformed:
    """A line of a file that is no row at all."""

    reason: str
    text: str


@dataclass
class RawBatch:
    """Rows as Arrow columns: `count` rows of a record batch from `start` on.

    `all_names` are the columns of the input where only some were read.
    """

    source: pa.RecordBatch
    format: Format = "typed"
    all_names: Sequence[str] | None = None
    place: Place = _NOWHERE
    start: int = 0
    count: int = -1  # all of them

    def __post_init__(self) -> None:
        if self.count < 0:
            self.count = int(self.source.num_rows)

    def __len__(self) -> int:
        return self.count

    @cached_property
    def batch(self) -> pa.RecordBatch:
        """Just these rows. Cut out when they are asked for: rows that need no conversion are read from the source."""
        if self.count == self.source.num_rows:
            return self.source
        return self.source.slice(self.start, self.count)

    def slice(self, start: int, count: int) -> RawBatch:
        if start == 0 and count >= self.count:
            return self
        count = min(count, self.count - start)
        place = self.place.after(start) if self.place.file else self.place
        return RawBatch(self.source, self.format, self.all_names, place, self.start + start, count)


@dataclass
class RawRows:
    """Rows as Python values: event objects, dicts (from JSON), or `Malformed` lines."""

    rows: list[Any]
    format: Format = "typed"
    place: Place = _NOWHERE

    def __len__(self) -> int:
        return len(self.rows)

    def slice(self, start: int, count: int) -> RawRows:
        if start == 0 and count >= len(self):
            return self
        return replace(self, rows=self.rows[start : start + count], place=self.place.after(start))


Raw = RawBatch | RawRows


@dataclass(frozen=True)
class Request:
    """What a reader needs to know: the app's event types, the fields that it uses, and how much to read at once."""

    schemas: tuple[EventSchema, ...]
    fields: tuple[tuple[Field, ...], ...]  # per event type
    batch_size: int
    event: str | None = None  # the only event type of the input, where the user named it

    @cached_property
    def kinds(self) -> tuple[int, ...]:
        """The event types that may appear in the input."""
        return tuple(k for k, schema in enumerate(self.schemas) if self.event in (None, schema.name))

    @cached_property
    def by_column(self) -> bool:
        """Whether a column `event` names each row's type; the only event type may have a field of that name."""
        return self.event is None and (len(self.schemas) > 1 or self.schemas[0].field("event") is None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns worth reading, each once."""
        names = ["ts", "event"] if self.by_column else ["ts"]
        names.extend(field.name for kind in self.kinds for field in self.fields[kind])
        return tuple(dict.fromkeys(names))


class Input(ABC):
    """One input stream: `read` gives its rows in order, in pieces of any size."""

    event: str | None = None
    what: str
    first_row: int = 0
    """The row of the input that `read` starts at, when it was called: a task may read a part of an input."""

    @abstractmethod
    def read(self, request: Request) -> Iterator[Raw]: ...

    @property
    def label(self) -> str:
        return f"{self.event}, {self.what}" if self.event else self.what
