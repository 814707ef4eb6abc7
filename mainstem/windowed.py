"""Windows of an app: declared once, a window is an event type, a table, and the function that keeps the table."""

from __future__ import annotations

import hashlib
import linecache
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Literal

import pyarrow as pa

from mainstem.declare import place
from mainstem.errors import ProgramError
from mainstem.lang import Bound, Table
from mainstem.lang.program import Program
from mainstem.schema import EventSchema
from mainstem.windows import Aggregate, Window, window_of
from mainstem.windows.choice import AUTO, check_streaming
from mainstem.windows.window import KEPT


class WindowTable(Table):
    """What `app.window` gives: in functions the last closed window of every key; `@app.on(it)` runs at each closing."""

    window: Window | None = None  # where it was declared; not in Spark's workers

    def aggregate(self, inputs: Sequence[pa.Table], operator: str = AUTO, *, threads: int | None = None) -> pa.Table:
        """All windows of these events alone, without the app: the `by` columns, `start`, `end` and the aggregates.

        `inputs`: Arrow tables, each sorted by `ts`, with the columns that the window reads. The result is that of all
        events in one order, `(ts, input, offset)`, whatever the `operator` and the number of `threads`.
        """
        from mainstem.windows.operators import aggregate  # threads and queues, which apps don't need

        assert self.window is not None, f"{self!r} is a copy; aggregate with what app.window gave"
        return aggregate(self.window, list(inputs), operator, threads=threads)

    def operator(self, operator: str = AUTO) -> tuple[str, str]:
        """The operator that `aggregate` would take, and why."""
        from mainstem.windows.operators import choice

        assert self.window is not None, f"{self!r} is a copy; ask what app.window gave"
        return choice(self.window, operator)

    @property
    def __mainstem_event__(self) -> str:
        return self.schema.name

    def __repr__(self) -> str:
        return f"<window {self.schema.name}>"


class Windowed(ABC):
    """The part of `App` that declares windows."""

    name: str
    isolation: str
    protocol: str
    _events: dict[str, EventSchema]
    _tables: dict[str, Table]
    _functions: list[Bound]
    _windows: dict[str, Window]
    _atomic: str | None  # the event type of the group that is being declared
    _program: Program | None

    @abstractmethod
    def _event_name(self, event: Any, where: str) -> str:
        """The name of an event type that the app knows; `where` is for the error when it does not."""

    def window(
        self, event: Any, *, size: int, advance: int | None = None, by: str | Sequence[str] | None = None, name: str,
        unit: Literal["time", "events"] = "time", where: str | None = None, operator: str = AUTO,
        **aggregates: Aggregate,
    ) -> WindowTable:  # fmt: skip
        """Declares a window: `app.window(Reading, size=30, advance=3, by="meter", name="usage", n=ms.count())`.

        A window takes the events with `start <= ts < start + size`, for each `start` that is a multiple of `advance`
        (left out: of `size`), apart for each value of the column or columns `by`. With `unit="events"` it takes `size`
        events of a key, and the next one begins `advance` events later. `where`: a bool column; events without it don't
        count. A closed window is an event of type `name`, and the row of its key in the table `name` (docs/windows.md).
        `operator`: `"panes"`, which `"auto"` takes; `WindowTable.aggregate` knows others.
        """
        if self._atomic is not None:
            raise ProgramError(
                f"app.window inside app.atomic({self._atomic})", **place(),
                remedy="declare it outside: a window keeps its table in a transaction of its own",
            )  # fmt: skip
        source = self._event_name(event, "app.window")
        self._refuse_window(source, "app.window")
        inputs = [known for known in self._events if known not in self._windows]
        try:
            check_streaming(name, operator)
            window = window_of(
                self._events[source], inputs.index(source), name, size, advance, by, unit, where, aggregates
            )
        except ProgramError as error:
            raise ProgramError(error.what, **place(), remedy=error.remedy) from None
        if name in self._events or name in self._tables:
            raise ProgramError(f"{name} is declared twice in app {self.name}", **place(), remedy="choose another name")
        handle = WindowTable(window.table)
        handle.window = window
        self._events[name], self._tables[name], self._windows[name] = window.closed, handle, window
        self._functions.append(Bound(name, name, _keeper(window, handle), self.isolation, self.protocol))
        self._program = None
        return handle

    def _refuse_window(self, event: str, where: str) -> None:
        if event in self._windows:
            raise ProgramError(
                f"{where}({event}) names a window, whose events are Mainstem's own", **place(),
                remedy="name one of the app's own event types; @app.on takes windows",
            )  # fmt: skip

    def _refuse_windows(self, where: str) -> None:
        if self._windows:
            raise ProgramError(
                f"{where} can't run app {self.name}: it has windows ({', '.join(self._windows)})",
                remedy="use app.run(events)",
            )


def _keeper(window: Window, handle: WindowTable) -> Callable[..., Any]:
    """The function bound to closed windows. Its source is where Python's tools look for it, as the compiler does."""
    file = f"<window {window.name} {hashlib.blake2b(window.source.encode(), digest_size=4).hexdigest()}>"
    linecache.cache[file] = (len(window.source), None, window.source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {KEPT: handle, "__name__": __name__}
    exec(compile(window.source, file, "exec"), scope)
    keeper: Callable[..., Any] = scope[window.name]
    return keeper
