"""One transaction under observation: the interpreter, with a note of every row that is read and written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from mainstem.engine.interpret import Interpreter, Load, Transaction, abort_reason
from mainstem.engine.returned import Record
from mainstem.lang import Spec
from mainstem.lang.history import TS, unpack
from mainstem.lang.runtime import Row, plain, running
from mainstem.state import State
from mainstem.why.conditions import CheckFailed, condition_of
from mainstem.why.report import Condition, Read

RowName = tuple[str, Any]
"""A table and a key."""


@dataclass(frozen=True)
class Observation:
    """What a transaction read and wrote (also when it aborted later), and the condition that aborted it."""

    values: dict[str, Any]  # of the event
    reads: tuple[Read, ...]
    writes: frozenset[RowName]
    condition: Condition | None

    @property
    def rows_read(self) -> frozenset[RowName]:
        return frozenset((read.table, read.key) for read in self.reads)


class Observer(Interpreter):
    """Runs batches as the interpreter does; each row of `run` has an `Observation` under `seen`.

    `details` off leaves out the conditions of aborts, which cost a look at the source.
    """

    def __init__(self, spec: Spec) -> None:
        super().__init__(spec, None)
        self.details = True

    def watch(self, state: State) -> None:
        """Rows come from this state as it is now: what was known of another, or before, is forgotten."""
        self.load = _loader(state)
        for rows in self.rows.values():
            rows.clear()

    def transaction(self, name: str, function: Callable[..., Any], event: SimpleNamespace) -> Record:
        inner = Transaction(self.rows, self.load, self.defaults)
        recorder = _Recorder(inner)
        values = {n: plain(v) for n, v in vars(event).items() if n != "ts"}
        try:
            with running(recorder, event.ts):
                function(event)
            self._check(inner)
        except Exception as error:
            reason = abort_reason(error, name, values)
            condition = condition_of(error, inner) if self.details else None
            return {
                "status": "aborted",
                "reason": reason,
                "values": {},
                "seen": recorder.observation(values, condition),
            }
        inner.commit()
        return {"status": "committed", "reason": None, "values": {}, "seen": recorder.observation(values)}

    def _check(self, transaction: Transaction) -> None:
        for table in self.spec.tables:
            name = table.schema.name
            originals = {check.__name__: check for check in table.checks}
            for key, record in transaction.writes[name].items():
                for check_name, check in self.checks[name] if record is not None else ():
                    watch = _Watch(transaction)
                    with running(watch):
                        holds = check(Row(table.schema, key))
                    if not holds:
                        reason = f"check {name}.{check_name} failed"
                        raise CheckFailed(reason, originals[check_name], watch.values)


class _Recorder:
    """Passes everything on; notes the fields that come from before the transaction."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner
        self._own: set[tuple[str, Any, str | None]] = set()  # fields written so far; None: the whole row
        self._found: dict[RowName, tuple[bool, dict[str, Any]]] = {}

    def observation(self, values: dict[str, Any], condition: Condition | None = None) -> Observation:
        found = self._found.items()
        reads = tuple(Read(table, key, there, _readable(fields)) for (table, key), (there, fields) in found)
        written = frozenset((table, key) for table, changes in self._inner.writes.items() for key in changes)
        return Observation(values, reads, written, condition)

    def _note(self, table: str, key: Any) -> dict[str, Any]:
        if (table, key) not in self._found:
            self._inner.exists(table, key)  # loads the row
            self._found[table, key] = (self._inner.rows[table].get(key) is not None, {})
        return self._found[table, key][1]

    def read(self, table: str, key: Any, field: str) -> Any:
        value = self._inner.read(table, key, field)
        if (table, key, None) not in self._own and (table, key, field) not in self._own:
            self._note(table, key)[field] = value
        return value

    def exists(self, table: str, key: Any) -> bool:
        if key not in self._inner.writes[table]:
            self._note(table, key)
        return self._inner.exists(table, key)

    def write(self, table: str, key: Any, field: str, value: Any) -> None:
        self._own.add((table, key, field))
        self._inner.write(table, key, field, value)

    def delete(self, table: str, key: Any) -> None:
        self._own.add((table, key, None))
        self._inner.delete(table, key)


def _readable(fields: dict[str, Any]) -> dict[str, Any]:
    """The row of a history as lists in order of time; any other as it is."""
    if TS not in fields:
        return fields
    entries = unpack(fields)
    return {name: [e[name] for e in entries] for name in ("ts", *(f for f in fields if not f.startswith("_")))}


class _Watch:
    """What a check reads of its row, as the transaction leaves it."""

    def __init__(self, inner: Transaction) -> None:
        self._inner = inner
        self.values: dict[str, Any] = {}
        self.exists, self.write, self.delete = inner.exists, inner.write, inner.delete

    def read(self, table: str, key: Any, field: str) -> Any:
        self.values[field] = self._inner.read(table, key, field)
        return self.values[field]


def _loader(state: State) -> Load:
    """Rows of a columnar state as functions see them."""

    def load(table: str, key: Any) -> Record | None:
        return state.tables[table].seen(key)

    return load
