"""Window operators on the twelve queries of multiway aggregation: throughput and latency over the number of inputs.

Throughput: all events are there at the beginning. Every operator starts from the same Arrow tables, one per input, and
ends with the same Arrow table of windows in order, so reading columns, checking that inputs are sorted, coding keys and
putting results into order count for all of them; operators of the literature and `panes` share the code for keys.
`threads` bring events; operators of the literature have one more, which closes windows. `panes` has no more than these.

Latency: events come at half the rate that the operator can take, and a window's latency is the time from its last event
to its closing. Operators of the literature take events one by one from their arrays; `panes` as an app runs it, in
merged batches of `PANES_BATCH`, on one thread.

The conditions of the queries with a function (`f-…`, `F-…`) are columns here: the search in the texts is the same for
all operators, once per event, and is measured on its own.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mainstem.apps.workloads import comments, meters
from mainstem.apps.workloads.multiway import QUERIES, Query
from mainstem.bench.measure import Stopwatch, load_note, stopwatch
from mainstem.gate import EventBatch, open_events
from mainstem.schema import EventSchema, Field, Type
from mainstem.windows import aggregates
from mainstem.windows.operators import OPERATORS, PANES, Timing, aggregate, prepare, run_threads
from mainstem.windows.operators.prepare import Prepared, refusal
from mainstem.windows.panes import Panes
from mainstem.windows.window import Window, window_of

LOAD = 0.5  # of the largest rate, for latencies
PANES_BATCH = 2_048  # events, for latencies
RATIOS = (1, 2, 5, 10, 20, 50, 100)  # size / advance

_DATASETS = {
    "meters": (meters, EventSchema("Reading", tuple(Field(n, Type("int")) for n in ("meter", "wh")))),
    "comments": (
        comments,
        EventSchema(
            "Comment",
            tuple(Field(n, Type("int")) for n in ("user", "song"))
            + tuple(Field(n, Type("bool")) for n in ("has_email", "has_address")),
        ),
    ),
}
_AGGREGATES: dict[str, Callable[..., aggregates.Aggregate]] = {
    "count": aggregates.count, "first": aggregates.first, "avg": aggregates.avg,
}  # fmt: skip


Run = tuple[Stopwatch, pa.Table]
"""The time of a run, and its windows."""


@dataclass(frozen=True)
class Options:
    queries: Sequence[str] = tuple(QUERIES)
    inputs: Sequence[int] = (5, 10, 15, 20)
    events: int = 1_000_000
    latency_events: int = 200_000
    repeats: int = 3
    threads: int = 2
    ratios: Sequence[int] = RATIOS
    seed: int = 0

    @property
    def quick(self) -> Options:
        """Both ends of the range, few events."""
        ends = (self.inputs[0], self.inputs[-1])
        ratios = tuple(r for r in self.ratios if r in (1, 10, 100))
        return replace(self, inputs=ends, events=100_000, latency_events=50_000, repeats=1, ratios=ratios)


@dataclass(frozen=True)
class Figure:
    query: str
    inputs: int
    operator: str
    events: int
    rate: float  # events per second, of the best run
    cpu_ns: float  # per event, of all threads, waiting included; of the best run
    latency_ms: float  # mean
    latency_ms_p99: float
    windows: int
    digest: str


@dataclass(frozen=True)
class Ratio:
    """What an event costs at some size / advance, in CPU time."""

    ratio: int
    operator: str
    ns_per_event: float


@dataclass
class Results:
    options: Options
    figures: list[Figure] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)
    scans: float = 0.0  # texts per second that are searched for addresses
    load: str = field(default_factory=load_note)

    @property
    def disagreements(self) -> list[str]:
        found = []
        for figure in self.figures:
            first = next(f for f in self.figures if (f.query, f.inputs) == (figure.query, figure.inputs))
            if figure.digest != first.digest:
                found.append(
                    f"{figure.query} over {figure.inputs} inputs: {figure.operator} gave {figure.digest}, but "
                    f"{first.operator} {first.digest}"
                )
        return found


def benchmark(options: Options, progress: Callable[[str], None]) -> Results:
    found = Results(options)
    for name in options.queries:
        for inputs in options.inputs:
            found.figures += _compare(QUERIES[name], inputs, options, progress)
    found.ratios = _ratios(options, progress)
    found.scans = _scans()
    return found


def window_for(query: Query) -> Window:
    """The query as a window over events that have its condition as a column."""
    given = {"value": _AGGREGATES[query.aggregate](*([query.of] if query.of else []))}
    schema = _DATASETS[query.dataset][1]
    return window_of(schema, 0, "result", query.size, query.advance, query.by, "time", query.where, given)


@cache
def inputs_for(dataset: str, inputs: int, events: int, seed: int) -> list[pa.Table]:
    """The data set by so many inputs: only the columns and the event that the queries need."""
    module, schema = _DATASETS[dataset]
    table = module.generate(events, seed=seed)
    table = table.filter(pc.equal(table["event"].cast(pa.string()), schema.name))
    if dataset == "comments":
        table = table.append_column("has_address", pc.or_(table["has_email"], table["has_ip"]))
    return [part.select(["ts", *(f.name for f in schema.fields)]) for part in module.inputs(table, inputs, seed=seed)]


def digest(table: pa.Table) -> str:
    content = hashlib.blake2b(digest_size=8)
    for name in table.column_names:
        content.update(name.encode() + table[name].to_numpy().tobytes())
    return content.hexdigest()


def _compare(query: Query, inputs: int, options: Options, progress: Callable[[str], None]) -> Iterator[Figure]:
    window = window_for(query)
    tables = inputs_for(query.dataset, inputs, options.events, options.seed)
    short = inputs_for(query.dataset, inputs, options.latency_events, options.seed)
    prepared, events = prepare(window, short), sum(table.num_rows for table in tables)
    usable = [name for name, operator in OPERATORS.items() if not refusal(window, in_order=operator.in_order)]
    for name in (*usable, PANES):
        progress(f"{query.name}, {inputs} inputs: {name}")
        _timed(window, short, name, options.threads)  # compiles
        runs = [_timed(window, tables, name, options.threads) for _ in range(options.repeats)]
        if name == PANES:
            late = _panes_latencies(window, short, prepared)
        else:
            rate = events / min(taken.seconds for taken, _ in runs)
            late = _latencies(prepared, name, options.threads, LOAD * rate)
        yield _figure(query, inputs, name, events, runs, late)


def _figure(query: Query, inputs: int, name: str, events: int, runs: list[Run], late: np.ndarray) -> Figure:
    ms = late * 1e3
    seconds, cpu_seconds = (min(getattr(taken, of) for taken, _ in runs) for of in ("seconds", "cpu_seconds"))
    mean, p99 = (float(ms.mean()), float(np.percentile(ms, 99))) if len(ms) else (0.0, 0.0)
    table = runs[-1][1]
    rate, cpu_ns = events / seconds, cpu_seconds / events * 1e9
    return Figure(query.name, inputs, name, events, rate, cpu_ns, mean, p99, table.num_rows, digest(table))


def _timed(window: Window, tables: list[pa.Table], name: str, threads: int) -> Run:
    with stopwatch() as watch:
        found = aggregate(window, tables, name, threads=threads)
    return watch, found


def _arrivals(prepared: Prepared, rate: float) -> tuple[np.ndarray, np.ndarray]:
    """(seconds per row, sorted ts): events come one after the other in their order, at a constant rate."""
    order = np.argsort(prepared.events.ts, kind="stable")
    due = np.empty(len(order))
    due[order] = np.arange(len(order)) / rate
    return due, prepared.events.ts[order]


def _late(window: Window, start: np.ndarray, closed: np.ndarray, ts: np.ndarray, rate: float) -> np.ndarray:
    """Seconds from the last event of a window to its closing; without those that the end of the log closed."""
    by_time = start + window.size <= ts[-1]
    last = np.searchsorted(ts, start[by_time] + window.size) - 1
    return closed[by_time] - last / rate


def _latencies(prepared: Prepared, name: str, threads: int, rate: float) -> np.ndarray:
    due, ts = _arrivals(prepared, rate)
    timing = Timing((due * ticks_per_second()).astype(np.int64))
    run_threads(prepared, name, threads=threads, timing=timing)
    start = timing.number * prepared.window.advance
    return _late(prepared.window, start, timing.closed / ticks_per_second(), ts, rate)


def _panes_latencies(window: Window, tables: list[pa.Table], prepared: Prepared) -> np.ndarray:
    """A batch starts when its last event has come."""
    batches = list(open_events(tables, [window.event], batch_size=PANES_BATCH)[0])
    events = sum(map(len, batches))
    seconds = _pushed(window, batches, 0.0)[-1][1]
    rate = LOAD * events / seconds
    _, ts = _arrivals(prepared, rate)
    found = _pushed(window, batches, 1 / rate)
    start = np.concatenate([starts for starts, _ in found])
    return _late(window, start, np.repeat([t for _, t in found], [len(s) for s, _ in found]), ts, rate)


def _pushed(window: Window, batches: Sequence[EventBatch], pause: float) -> list[tuple[np.ndarray, float]]:
    """Per batch the windows that it closed, and when; `pause` seconds lie between two events."""
    panes, found, seen = Panes(window), [], 0
    begin = time.perf_counter()
    for batch in batches:
        seen += len(batch)
        time.sleep(max(0.0, begin + seen * pause - time.perf_counter()))
        closed = panes.push(batch).columns["start"].to_numpy()
        found.append((np.unique(closed), time.perf_counter() - begin))
    return found


@cache
def ticks_per_second() -> float:
    from mainstem.windows.operators.kernels.clock import now

    now()  # compiles
    begin, ticks = time.perf_counter(), now()
    time.sleep(0.1)
    return (now() - ticks) / (time.perf_counter() - begin)


def _ratios(options: Options, progress: Callable[[str], None]) -> list[Ratio]:
    """One advance, so equally many windows; longer and longer ones."""
    found = []
    for ratio in options.ratios:
        query = replace(QUERIES["w-OI"], size=2 * ratio)
        progress(f"size / advance = {ratio}")
        window, tables = window_for(query), inputs_for(query.dataset, options.inputs[0], options.events, options.seed)
        events = sum(table.num_rows for table in tables)
        for name in (PANES, "wiml"):
            repeats = max(3, options.repeats) if name == PANES else 1
            taken = min(_timed(window, tables, name, options.threads)[0].cpu_seconds for _ in range(repeats))
            found.append(Ratio(ratio, name, taken / events * 1e9))
    return found


def _scans() -> float:
    from mainstem.apps.comments import has_ip
    from mainstem.apps.spam import has_email

    text: Any = comments.generate(1 << 16)["text"].combine_chunks()
    with stopwatch() as watch:
        has_email(text)
        has_ip(text)
    return len(text) / watch.seconds
