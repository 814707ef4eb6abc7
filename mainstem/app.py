"""`App`: what a user touches. A thin face over `lang`, `engine`, `store` and `spark`."""

from __future__ import annotations

import dataclasses
import textwrap
import typing
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa

from mainstem.declare import (
    derived_fields,
    event_class,
    event_fields,
    fields_of,
    key_types,
    place,
    refuse_key_columns,
    refuse_no_key,
    table_fields,
)
from mainstem.errors import ProgramError
from mainstem.gate import Derive
from mainstem.groups import Groups, check_level
from mainstem.lang import Bound, Dataflow, Program, Spec, Table, build, dataflow, explain
from mainstem.lang.combine import combined
from mainstem.lang.groups import refuse_shared_tables
from mainstem.lang.history import History, history_schema
from mainstem.lang.program import EVENT_ORDER, PROTOCOLS
from mainstem.lang.tables import Failures
from mainstem.options import check_run, names_of, refuse_changes
from mainstem.progress import Tell, following
from mainstem.replay.keys import with_key_columns
from mainstem.replay.predict import SAMPLE, predict
from mainstem.result import Result, StateView, Stats
from mainstem.run import run_embedded, run_oracle
from mainstem.schema import MISSING, EventSchema, TableSchema
from mainstem.store import Durability
from mainstem.why import Log
from mainstem.windowed import Windowed
from mainstem.windows import Window

if TYPE_CHECKING:
    from mainstem.spark.compare import Replays
    from mainstem.spark.types import DataFrame, SparkSession, StreamingQuery

CHECK_MARK = "__mainstem_check__"
BATCH = 65_536  # events: large enough to amortise a kernel call, small enough for the second-level cache


def check(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function of a table class as an integrity constraint: a row that breaks it aborts the transaction."""
    setattr(function, CHECK_MARK, True)
    return function


class App(Groups, Windowed):
    """A program: events, tables, functions, and ways to run them.

    `isolation` ("PL1" to "PL4") and `protocol` ("lock", "timestamp" or "auto") say how its transactions are kept apart
    when they run at the same time; the default is event order (docs/isolation.md).
    """

    def __init__(self, name: str, *, isolation: str = EVENT_ORDER, protocol: str = PROTOCOLS[0]) -> None:
        check_level(isolation, protocol)
        self.name, self.isolation, self.protocol = name, isolation, protocol
        self._events: dict[str, EventSchema] = {}
        self._tables: dict[str, Table] = {}
        self._functions: list[Bound] = []
        self._derives: list[Derive] = []
        self._windows: dict[str, Window] = {}
        self._atomic: str | None = None  # the event type of the group that is being declared
        self._program: Program | None = None
        self._last_run: Stats | None = None
        self.state = StateView({})

    # -- declarations -------------------------------------------------------------------------------------------

    def event(self, cls: type) -> Any:
        """Declares an event type: annotated fields, like a dataclass. `ts` is added."""
        fields = event_fields(cls)
        self._declare(cls.__name__, self._events, EventSchema(cls.__name__, fields))
        return event_class(cls, fields)

    def table(self, key: Any = MISSING) -> Callable[[type], Any]:
        """Declares a table: `@app.table(key=int)` or `key=(int, str)`."""
        refuse_no_key(key)

        def declare(cls: type) -> Table:
            types, scalar = key_types(key, cls)
            checks = tuple(f for f in vars(cls).values() if getattr(f, CHECK_MARK, False))
            schema = TableSchema(cls.__name__, types, scalar, table_fields(cls), tuple(f.__name__ for f in checks))
            refuse_key_columns(schema)
            handle = Table(schema, checks)
            self._declare(cls.__name__, self._tables, handle)
            return handle

        return declare

    def history(self, key: Any, *, keep: int) -> Callable[[type], Any]:
        """Declares a table whose rows keep their newest `keep` entries: `@app.history(key=int, keep=64)`.

        Functions add entries with `T[key].append(field=value, …)` and ask about windows that end with the event:
        `T[key].count(last=3600)`, and `sum`, `mean`, `min`, `max`, `distinct`, `top` and `last` of a field.
        """

        def declare(cls: type) -> History:
            fields = fields_of(cls, "history")
            checks = [f.__name__ for f in vars(cls).values() if getattr(f, CHECK_MARK, False)]
            try:
                schema = history_schema(cls.__name__, *key_types(key, cls), fields, checks, keep)
            except ProgramError as error:
                raise ProgramError(error.what, **place(), remedy=error.remedy) from None
            refuse_key_columns(schema)
            handle = History(schema)
            self._declare(cls.__name__, self._tables, handle)
            return handle

        return declare

    def on(self, event: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Binds a function to an event type: one transaction for every such event."""
        name = self._event_name(event, "@app.on")

        def bind(function: Callable[..., Any]) -> Callable[..., Any]:
            if any(b.event == name and b.name == function.__name__ for b in self._functions):
                raise ProgramError(
                    f"function {function.__name__} is bound to {name} twice", **place(), remedy="rename one of them"
                )
            if any(b.event == name and b.group == function.__name__ for b in self._functions):
                raise ProgramError(
                    f"{name} has a transaction group {function.__name__!r} already",
                    **place(),
                    remedy="rename the function, or give the group another name=",
                )
            if self._atomic is not None and self._atomic != name:
                raise ProgramError(
                    f"function {function.__name__} is bound to {name} inside app.atomic({self._atomic})",
                    **place(),
                    remedy="a transaction group has one event type: bind it outside",
                )
            self._functions.append(Bound(name, function.__name__, function, self.isolation, self.protocol))
            self._program = None
            return function

        return bind

    def derive(self, event: Any, **columns: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Binds a vectorised function that adds columns: `@app.derive(Message, words=int)`.

        It takes an Arrow record batch of the event's declared fields and gives a mapping of the new columns.
        """
        name = self._event_name(event, "@app.derive")
        self._refuse_window(name, "@app.derive")
        if not columns:
            raise ProgramError("@app.derive names no column", remedy="write @app.derive(Event, column=type, …)")

        def bind(function: Callable[..., Any]) -> Callable[..., Any]:
            schema = self._events[name]
            added = derived_fields(schema, columns)
            self._events[name] = dataclasses.replace(schema, derived=schema.derived + added)
            self._derives.append(Derive(name, added, function))
            self._program = None
            return function

        return bind

    def _declare(self, name: str, into: dict[str, Any], value: Any) -> None:
        if name in self._events or name in self._tables:
            raise ProgramError(f"{name} is declared twice in app {self.name}", **place(), remedy="choose another name")
        into[name] = value
        self._program = None

    def _event_name(self, event: Any, where: str) -> str:
        name = event if isinstance(event, str) else getattr(event, "__mainstem_event__", None)
        if name not in self._events:
            known = ", ".join(self._events) or "none yet"
            raise ProgramError(
                f"{where}({getattr(event, '__name__', event)}) names no event of app {self.name}",
                **place(),
                remedy=f"declare it with @app.event before; declared are: {known}",
            )
        return str(name)

    def _own_functions(self) -> list[Callable[..., Any]]:
        checks = [check for table in self._tables.values() for check in table.checks]
        return [*(b.function for b in self._functions), *checks, *(d.function for d in self._derives)]

    def _varied(
        self, name: str, function: Callable[[Callable[..., Any]], Callable[..., Any]], table: Callable[[Table], Table]
    ) -> App:
        """The same app with other functions and tables in place of its own."""
        other = App(name, isolation=self.isolation, protocol=self.protocol)
        other._events, other._windows = dict(self._events), dict(self._windows)
        other._tables = {key: table(handle) for key, handle in self._tables.items()}
        other._functions = [dataclasses.replace(b, function=function(b.function)) for b in self._functions]
        other._derives = [dataclasses.replace(d, function=function(d.function)) for d in self._derives]
        return other

    @property
    def _in_order(self) -> App:
        """The same app in event order, which every isolation level permits."""
        if all(b.isolation == EVENT_ORDER and b.protocol == PROTOCOLS[0] for b in self._functions):
            return self
        other = self._varied(self.name, lambda function: function, lambda table: table)
        other._functions = [
            dataclasses.replace(b, isolation=EVENT_ORDER, protocol=PROTOCOLS[0]) for b in self._functions
        ]
        return other

    # -- the program --------------------------------------------------------------------------------------------

    @property
    def spec(self) -> Spec:
        """The declarations."""
        windows = tuple(self._windows.values())
        inputs = [event for name, event in self._events.items() if name not in self._windows]
        return Spec(
            self.name, (*inputs, *(w.closed for w in windows)), tuple(self._tables.values()), tuple(self._functions),
            tuple(self._derives), windows,
        )  # fmt: skip

    @property
    def program(self) -> Program:
        """The program, parsed, checked and translated; errors in functions show here."""
        if self._program is None:
            self._program = build(self.spec)
        return self._program

    @property
    def _interpretable(self) -> Program:
        """The program as the interpreter runs it, whether or not it can be compiled."""
        if not self.program.compiled:
            return self.program
        return dataclasses.replace(self.program, spec=self.spec, why_interpreted=("engine='interpreted' says so",))

    def explain(
        self, format: Literal["text", "mermaid", "svg"] = "text", *, analyze: bool = False,
        what_if: Mapping[str, int] | None = None, log: Any = None, sample: int = SAMPLE,
        initial: Mapping[str, pa.Table] | None = None,
    ) -> str:  # fmt: skip
        """Tables, functions, what they depend on, the execution and why; with `analyze`, also what the last run did.

        "mermaid" and "svg" draw the stages of a replay. `what_if={"hosts": 32}` predicts how fast a staged replay of
        `log` would be on up to so many hosts and what would limit it, from its first `sample` events, which it runs
        (starting from `initial`); "cores" of a host, events of a "batch" and "network_mb" per second may be given, too.
        """
        refuse_shared_tables(self.program)
        flow = dataflow(self.spec) if self.program.compiled else None
        text = explain(self.program, flow, format)
        if format != "text" and (analyze or what_if is not None):
            asked = "analyze=True" if analyze else "what_if=…"
            raise ProgramError(f"explain({asked}) can't write {format!r}", remedy="use format='text'")
        if analyze:
            text += f"\nwhat ran last\n{textwrap.indent(self._analysis(), '  ')}\n"
        if what_if is not None:
            self._refuse_windows("explain(what_if=…)")
            if log is None:
                raise ProgramError("explain(what_if=…) measures with events", remedy="pass log=, what app.run takes")
            text += "\n" + predict(_flows_of([self]), log, what_if, sample=sample, initial=initial).text
        return text

    def _analysis(self) -> str:
        if self._last_run is None:
            raise ProgramError(
                f"explain(analyze=True) shows what ran, and app {self.name} has not run in this process",
                remedy="call app.run(events) first",
            )
        return self._last_run.analysis

    # -- running ------------------------------------------------------------------------------------------------

    def run(
        self,
        events: Any,
        *,
        state: str | Path | None = None,
        durability: Durability = "sync",
        keep: int = 2,
        initial: Mapping[str, pa.Table] | None = None,
        batch: int = BATCH,
        on_bad: Literal["raise", "reject"] = "raise",
        unsorted: Literal["error", "batch"] = "error",
        complete: bool | None = None,
        out: str | Path | None = None,
        engine: str = "auto",
        resume: bool = False,
        jit: bool | None = None,
        progress: Tell | Literal["auto"] | None = "auto",
        threads: int | None = None,
        isolation: str | None = None,
        protocol: str | None = None,
        history: bool = False,
        changes: bool = False,
        **strategy: Any,
    ) -> Result:
        """Runs all events in this process and gives outputs, rejects and statistics; `app.state` is the state after.

        `events`: Arrow data, event objects, a path, or a list or dict of these. `state`: a directory that keeps the
        state (each batch is committed before its outputs are visible). `durability`: "sync" syncs every batch,
        "batch" those that wait together while the next ones run, "none" leaves it to the system; `keep`: snapshots that
        stay in that directory (docs/durability.md). `initial`: tables to start from when it is empty. `out`: a
        directory for outputs as Parquet files. `resume`: the events are the same log again, what is committed of it is
        skipped. `engine`: auto, serial, a parallel strategy (inflight, lock, mvlk, pat, chains, tpg, components or
        nolock; docs/engines.md tells them apart and their options: explore, unit, abort, sharing, partitions), nested
        (with groups), interpreted or oracle. `threads`: all cores when left out. `jit=False` runs kernels uncompiled.
        `unsorted`: with "batch", events may be out of order inside a batch of `batch` events; one that comes after a
        batch with larger timestamps is late, and `on_bad` decides about it. `complete`: whether windows that are open
        at the end of the events close there; left out, they do unless `state` keeps them for later events.
        `progress`: "auto" shows a bar on a terminal when the run takes longer than a moment; a function is called with
        the number of events of each finished batch. `isolation`, `protocol`: for this run, instead of those of the app
        and its groups; `history=True` records what a protocol does, as `result.history`. `changes=True` adds the column
        `changes` to the outputs: the rows that each transaction installed (docs/transactions.md).
        """
        reading: dict[str, Any] = {"batch": batch, "on_bad": on_bad, "unsorted": unsorted}
        reading["complete"] = state is None if complete is None else complete
        how: dict[str, Any] = {"engine": engine, "jit": jit, "threads": threads, **strategy}
        how |= {"isolation": isolation, "protocol": protocol, "history": history, "changes": changes}
        kept: dict[str, Any] = {"durability": durability, "keep": keep}
        check_run(self._functions, how, strategy, reading, kept, state=state, out=out, resume=resume)
        refuse_shared_tables(self.program, isolation)
        with following(progress, events) as told:
            options: dict[str, Any] = {"initial": initial, "progress": told, **reading}
            if engine == "oracle":
                result, tables = run_oracle(self.spec, self.program, events, **options, changes=changes)
            else:
                program = self._interpretable if engine == "interpreted" else self.program
                result, tables = run_embedded(
                    program, events, **options, state=state, out=out, resume=resume, how=how, kept=kept
                )
        self.state, self._last_run = StateView(tables), result.stats
        result._log = Log.of(
            self.spec, self.program, events, initial, reading, False if engine == "oracle" else jit, state is not None,
            result.stats.weakest_level,
        )  # fmt: skip
        return result

    @typing.overload
    def replay(
        self, spark: SparkSession, events: Any, *, variants: None = None, progress: Tell | Literal["auto"] | None = ...,
        **options: Any,
    ) -> DataFrame: ...  # fmt: skip

    @typing.overload
    def replay(
        self, spark: SparkSession, events: Any, *, variants: Sequence[App],
        progress: Tell | Literal["auto"] | None = ..., **options: Any,
    ) -> Replays: ...  # fmt: skip

    def replay(
        self, spark: SparkSession, events: Any, *, variants: Sequence[App] | None = None,
        progress: Tell | Literal["auto"] | None = "auto", **options: Any,
    ) -> DataFrame | Replays:  # fmt: skip
        """Replays a stored log on Spark; see `mainstem.spark.replay` for the options. `progress`: as in `run`.

        `variants`: apps that differ in their rules (`ms.variants(app, LIMIT=[1, 2])`, or any list). All of them replay
        instead of this one, in one go, and the result has the outputs of each by its name, and tells what changed.
        """
        refuse_changes("replay", options)
        from mainstem.spark import replay, replay_one_by_one, replay_variants

        with following(progress, events) as told:
            if variants is not None:
                names = names_of(variants)
                if any(app._windows for app in variants):
                    programs = {app.name: app._in_order.program for app in variants}
                    return replay_one_by_one(programs, spark, events, progress=told, **options)
                return replay_variants(names, _flows_of(variants), spark, events, progress=told, **options)
            flows = _flows_of([self]) if self.program.compiled else None
            return replay(self._in_order.program, spark, events, flows=flows, progress=told, **options)

    def stream(self, spark: SparkSession, events: Any, **options: Any) -> StreamingQuery:
        """Runs live on Structured Streaming with durable state; see `mainstem.spark.stream` for events and options."""
        refuse_changes("stream", options)
        refuse_shared_tables(self.program)
        from mainstem.spark import stream

        return stream(self.program, spark, events, **options)


def _flows_of(apps: Sequence[App]) -> Callable[[Failures], Dataflow]:
    """The dataflow of some apps together; built once, and only when somebody asks."""

    @lru_cache
    def flow(failures: Failures) -> Dataflow:
        return with_key_columns(combined([dataflow(app._in_order.spec, failures) for app in apps]))

    return flow
