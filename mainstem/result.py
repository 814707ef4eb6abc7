"""What `app.run` gives back, and the committed state it leaves."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mainstem.engine import BatchStats, Breakdown
from mainstem.engine.history import History
from mainstem.errors import MainstemError
from mainstem.lang.program import EVENT_ORDER, LEVELS
from mainstem.state import digest
from mainstem.why import Log, Why

_COLUMN_TYPES = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}
_FIGURES = re.compile(r"\d[\d.,]*")  # reasons of `auto` that differ in these only are one reason
_PERCENTILES = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}


def percentiles(values: np.ndarray) -> dict[str, float]:
    """`p50`, `p99`, `p999` and `max`; nan when there are no values."""
    if not len(values):
        return dict.fromkeys(_PERCENTILES, float("nan"))
    return dict(zip(_PERCENTILES, np.quantile(values, list(_PERCENTILES.values())).tolist(), strict=True))


class StateView(Mapping[str, pa.Table]):
    """Committed tables by name, as Arrow: key, then the fields, sorted by key."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._tables = dict(tables)

    def __getitem__(self, name: str) -> pa.Table:
        if name not in self._tables:
            known = ", ".join(self._tables) or "none: nothing has run yet"
            raise MainstemError(f"there is no table {name!r} in the state; tables: {known}")
        return self._tables[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    @property
    def digest(self) -> str:
        """16 hex digits of the content: equal states, equal digests."""
        return digest(self._tables)


@dataclass
class Stats:
    """Totals of a run and the statistics of each batch."""

    seconds: float = 0.0
    batches: list[BatchStats] = field(default_factory=list)
    rejected: int = 0

    @property
    def events(self) -> int:
        return sum(b.events for b in self.batches)

    @property
    def committed(self) -> int:
        return sum(b.committed for b in self.batches)

    @property
    def aborted(self) -> int:
        return sum(b.aborted for b in self.batches)

    @property
    def retries(self) -> int:
        """Executions that a protocol repeated because of other transactions."""
        return sum(b.retries for b in self.batches)

    @property
    def engines(self) -> tuple[str, ...]:
        """The strategies that ran, in order of first use."""
        return tuple(dict.fromkeys(b.engine for b in self.batches))

    @property
    def weakest_level(self) -> str | None:
        """The weakest isolation level that a protocol ran a batch at; None when all of them kept event order."""
        ran = [level for level in LEVELS if any(f"{level}(" in engine for engine in self.engines)]
        return ran[0] if ran and ran[0] != EVENT_ORDER else None

    def latency(self, rate: float) -> dict[str, float]:
        """Seconds from an event's arrival to its result if `rate` events had arrived per second: p50, p99, p999, max.

        Replays the measured times of the batches: an event waits until the last one of its batch has arrived, the batch
        waits until the one before is done. With more events than the engine can take, the queue grows to the end.
        Reading and checking events, and making state durable, are not in these times.
        """
        if not rate > 0:
            raise MainstemError(f"rate={rate!r}: pass the number of events that arrive per second")
        sizes = np.array([b.events for b in self.batches if b.events], np.int64)
        seconds = np.array([b.seconds for b in self.batches if b.events])
        arrived = (np.cumsum(sizes) - 1) / rate
        busy = np.cumsum(seconds)
        # Done = all work up to here, begun as late as the latest batch that the engine had to wait for demands.
        done = busy + np.maximum.accumulate(arrived - (busy - seconds))
        return percentiles(np.repeat(done, sizes) - np.arange(sizes.sum()) / rate)

    @property
    def table(self) -> pa.Table:
        """One row per batch: counts, engine and why, seconds per step, thread seconds (null where not measured)."""
        columns = {
            f.name: pa.array([getattr(batch, f.name) for batch in self.batches], _COLUMN_TYPES[str(f.type)])
            for f in fields(BatchStats)
            if f.name != "breakdown"
        }
        for f in fields(Breakdown):
            spent = [getattr(batch.breakdown, f.name, None) for batch in self.batches]
            columns[f"seconds_{f.name}"] = pa.array(spent, pa.float64())
        return pa.table(columns)

    def __str__(self) -> str:
        rate = self.events / self.seconds if self.seconds else 0.0
        retried = f"{self.retries:,} retries, " if self.retries else ""
        return (
            f"{self.events:,} events in {self.seconds:.2f} s ({rate:,.0f}/s), {self.committed:,} committed, "
            f"{self.aborted:,} aborted, {self.rejected:,} rejected, {retried}"
            f"engine {', '.join(self.engines) or 'none'}"
        )

    @property
    def analysis(self) -> str:
        """What ran, strategy by strategy: batches, events, reasons and where the time went."""
        lines = [str(self)]
        for engine in self.engines:
            lines += _strategy_lines(engine, [b for b in self.batches if b.engine == engine])
        return "\n".join(lines)


def _strategy_lines(engine: str, batches: list[BatchStats]) -> Iterator[str]:
    events, seconds = sum(b.events for b in batches), sum(b.seconds for b in batches)
    threads = max(b.threads for b in batches)
    yield (
        f"{engine}: {_count(len(batches), 'batch')}, {events:,} events, {events / seconds if seconds else 0:,.0f}/s, "
        f"{_count(threads, 'thread')}"
    )
    reasons: dict[str, list[str]] = {}
    for batch in batches:
        if batch.why:
            reasons.setdefault(_FIGURES.sub("#", batch.why), []).append(batch.why)
    for texts in reasons.values():
        differ = ", these are the last one's figures" if len(set(texts)) > 1 else ""
        yield f"  because {texts[-1]} ({_count(len(texts), 'batch')}{differ})"
    if "PL" in engine:
        retries, transactions = sum(b.retries for b in batches), sum(b.transactions for b in batches)
        yield f"  retries: {retries:,}, {retries / transactions if transactions else 0:.2g} per transaction"
    steps = {name: sum(getattr(b, f"seconds_{name}") for b in batches) for name in ("keys", "run", "outputs")}
    yield f"  steps: {_shares(steps)}"
    measured = [b.breakdown for b in batches if b.breakdown is not None]
    if measured:
        yield f"  threads: {_shares({f.name: sum(getattr(b, f.name) for b in measured) for f in fields(Breakdown)})}"


def _shares(seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values())
    shares = ", ".join(f"{name} {spent / total if total else 0:.0%}" for name, spent in seconds.items())
    return f"{shares} of {total:.3f} s"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}" + ("" if number == 1 else "es" if what.endswith("ch") else "s")


@dataclass(frozen=True)
class OutputFiles:
    """Outputs that a run has left in a folder. Interpreted programs find columns as they run: files differ in them."""

    folder: Path
    schema: pa.Schema
    declared: bool  # whether `schema` has all columns

    def read(self) -> pa.Table:
        files = sorted(self.folder.glob("part-*.parquet"))  # named by seq, so this is their order
        return ds.dataset(files, self.schema if self.declared else self._found(files), format="parquet").to_table()

    def _found(self, files: Sequence[Path]) -> pa.Schema:
        schemas = [self.schema, *(pq.read_schema(file).remove_metadata() for file in files)]
        try:
            return pa.unify_schemas(schemas, promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise MainstemError(
                f"a column has one type in some files of {self.folder} and another one in others: {error}\n"
                "  read the files one by one, and return values of one type in that column"
            ) from error


@dataclass
class Result:
    """Outputs in order, rejected rows, statistics, and the digest of the state after the run."""

    rejects: pa.Table
    stats: Stats
    digest: str
    _outputs: pa.Table | None = None
    _files: OutputFiles | None = None
    _history: History | None = field(default=None, repr=False, compare=False)
    _log: Log | None = field(default=None, repr=False, compare=False)

    @property
    def outputs(self) -> pa.Table:
        """One row per transaction, in order; read from the output directory when `out=` was given."""
        if self._outputs is None:
            assert self._files is not None
            self._outputs = self._files.read()
        return self._outputs

    @property
    def history(self) -> History:
        """What transactions read, made and installed: for `mainstem.testing.check_history`."""
        if self._history is None:
            raise MainstemError(
                "this run has no history\n  run with a protocol and history=True: app.run(events, protocol='lock', "
                "history=True)"
            )
        return self._history

    def why(self, seq: int) -> Why:
        """Why event `seq` (column `seq` of the outputs) committed or aborted, and what it depended on in its batch.

        Runs the log again up to that event, on one thread: the events are read a second time.
        """
        if self._log is None:
            raise MainstemError("this result does not know its log\n  ask the result that app.run returned")
        return self._log.why(seq, self.outputs, self.stats.events)

    def __getstate__(self) -> dict[str, Any]:
        """Outputs and statistics can be sent to another process; the log, with its functions, can't."""
        return {**vars(self), "_log": None}
