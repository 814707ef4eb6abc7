"""What `result.why(seq)` gives back: plain data, and its text for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

READS = "reads what it wrote"
OVERWRITES = "overwrites what it wrote"
NOT_REACHED = "could have needed what it wrote, but did not"
UNCHANGED = "it could have written the row, but did not"
ABORTED = "it could have written the row, but aborted"


@dataclass(frozen=True)
class Condition:
    """Where a transaction aborted: what is written there, and what its operands were at that moment.

    `kind` says how to read `text`: a `require` or a `check` had to hold, an `abort` was reached because it held, and in
    a `statement` a computation failed.
    """

    kind: Literal["require", "check", "abort", "statement"]
    text: str
    file: str
    line: int
    values: dict[str, Any]


@dataclass(frozen=True)
class Read:
    """A row that a transaction looked at: the fields that it read, as they were before it (defaults without a row)."""

    table: str
    key: Any
    exists: bool
    fields: dict[str, Any]


@dataclass(frozen=True)
class Dependency:
    """An earlier transaction of the same batch that had to be decided first, because of one row."""

    seq: int
    function: str
    table: str
    key: Any
    how: str
    committed: bool


@dataclass(frozen=True)
class Outcome:
    """One function of the event: what it did and what decided that."""

    function: str
    status: Literal["committed", "aborted"]
    reason: str | None
    condition: Condition | None
    reads: tuple[Read, ...]
    depends_on: tuple[Dependency, ...]


@dataclass(frozen=True)
class Why:
    """Why an event did what it did. `values` are the fields that functions read; event `first` begins its batch."""

    seq: int
    event: str
    ts: int
    values: dict[str, Any]
    batch: int
    first: int
    functions: tuple[Outcome, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        values = ", ".join(f"{name}={value!r}" for name, value in {"ts": self.ts, **self.values}.items())
        yield f"event {self.seq}: {self.event}({values})"
        yield f"in batch {self.batch}, which begins with event {self.first}"
        for outcome in self.functions:
            yield ""
            yield from _outcome(outcome)
        if not self.functions:
            yield "no function is bound to it"


def _outcome(outcome: Outcome) -> Iterator[str]:
    yield f"{outcome.function} {outcome.status}" + (f": {outcome.reason}" if outcome.reason else "")
    if outcome.condition is not None:
        yield from _condition(outcome.condition)
    if outcome.reads:
        yield "  before it"
        yield from (f"    {_read(read)}" for read in outcome.reads)
    if outcome.depends_on:
        yield "  depends on, in its batch"
        for d in outcome.depends_on:
            status = "committed" if d.committed else "aborted"
            yield f"    event {d.seq}, {d.function}, {status}: {_row(d.table, d.key)}, {d.how}"
    else:
        yield "  depends on nothing in its batch"


_LEADS: Mapping[str, str] = {
    "require": "required",
    "check": "must hold",
    "abort": "aborts when",
    "statement": "failed at",
}


def _condition(condition: Condition) -> Iterator[str]:
    yield f"  {_LEADS[condition.kind]} {condition.text}"
    yield f"    {_place(condition.file)}:{condition.line}"
    yield from (f"    {operand} was {value!r}" for operand, value in condition.values.items())


def _place(file: str) -> str:
    """Below the working folder as a relative path, which is what editors and terminals show."""
    here = Path.cwd()
    return str(Path(file).relative_to(here)) if Path(file).is_relative_to(here) else file


def _read(read: Read) -> str:
    fields = ", ".join(f"{name} = {value!r}" for name, value in read.fields.items())
    presence = "" if read.exists and fields else "there" if read.exists else "not there"
    defaults = ", so " if presence and fields else ""
    return f"{_row(read.table, read.key)}: {presence}{defaults}{fields}"


def _row(table: str, key: Any) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return f"{table}[{', '.join(map(repr, parts))}]"
