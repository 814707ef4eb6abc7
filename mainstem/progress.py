"""How far a run is: a bar on terminals and in notebooks, nothing anywhere else.

A run calls the object with the number of events newly done. Where it knows more, it also tells the timestamp that it
has reached (`at`), how many rows were set aside so far (`rejected`), and how much of a stored state it has read before
it can begin (`recovering`). A call only notes numbers: a thread draws.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Literal, TextIO

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.errors import InputError
from mainstem.gate.files import files_of

if TYPE_CHECKING:
    from rich.live import Live
    from rich.table import Table

Tell = Callable[[int], None]
"""Is told how many events were done since it was last told."""

TsUnit = Literal["s", "ms", "us", "ns"]

SECONDS_SILENT = 0.5
"""A run that ends before shows no bar."""

_DRAWS_PER_SECOND = 5
_BAR_WIDTH = 28
_FOOTERS_MAX = 256  # reading more would take longer than a bar is worth
_PER_SECOND: dict[TsUnit, float] = {"s": 1, "ms": 1e3, "us": 1e6, "ns": 1e9}
# Times since 1970 are below the first number until the year 5138, whatever the unit.
_UNITS: tuple[tuple[float, TsUnit], ...] = ((1e11, "s"), (1e14, "ms"), (1e17, "us"))


class Progress:
    """A bar with events per second, time left, the multiple of real time and the number of rejected rows.

    `total`: events of the log; `span`: its first and last timestamp. What is not known is not shown. The multiple of
    real time compares timestamps with the clock on the wall. `ts_unit` says what timestamps count; left out, they are
    taken as times since 1970 in the unit that fits their size: below 1e11 seconds, below 1e14 milliseconds, below 1e17
    microseconds, else nanoseconds. So numbers that count from 0 are seconds.

    Draws from `with` to the end of the block, when that takes longer than half a second and `stream` is a terminal (or
    a notebook that can show a bar).
    """

    def __init__(
        self,
        total: int | None = None,
        span: tuple[int, int] | None = None,
        stream: TextIO | None = None,
        *,
        ts_unit: TsUnit | None = None,
    ) -> None:
        if ts_unit is not None and ts_unit not in _PER_SECOND:
            raise InputError(f"ts_unit={ts_unit!r}\n  pass one of: {', '.join(_PER_SECOND)}")
        self.total, self.span, self.ts_unit = total, span, ts_unit
        self.done = self.rejects = 0
        self._recovered: tuple[int, int] | None = None
        self._stream = sys.stderr if stream is None else stream
        self._low: int | None = None
        self._high: int | None = None
        self._start = self._told = time.monotonic()
        self._live: Live | None = None
        self._timer: threading.Timer | None = None
        self._lock = threading.Lock()

    # -- what a run tells ---------------------------------------------------------------------------------------

    def __call__(self, events: int) -> None:
        self.done += events
        self._recovered = None
        self._told = time.monotonic()

    def at(self, ts: int) -> None:
        """Events up to this timestamp are done."""
        self._low = ts if self._low is None else min(self._low, ts)
        self._high = ts if self._high is None else max(self._high, ts)

    def rejected(self, count: int) -> None:
        """So many rows were set aside, in all."""
        self.rejects = count

    def recovering(self, done: int, total: int) -> None:
        """So many bytes of a stored state were read, of about so many. Rates count from when this is over."""
        self._recovered = (done, total)
        self._start = self._told = time.monotonic()

    # -- what it shows ------------------------------------------------------------------------------------------

    def line(self, seconds: float, since: float = 0.0) -> str:
        """What was known after so many seconds, which was `since` seconds ago."""
        if self._recovered is not None:
            return "recovering: {:,.1f} of {:,.1f} MB".format(*(size / 1e6 for size in self._recovered))
        rate = self.done / seconds if seconds > 0 else 0.0
        parts = [f"{self.done:,} events" if self.total is None else f"{self.done:,} of {self.total:,} events"]
        if rate:
            parts.append(f"{rate:,.0f}/s")
        if rate and self.total is not None and self.total > self.done:
            parts.append(f"{_clock(max((self.total - self.done) / rate - since, 0.0))} left")
        multiple = self.multiple(seconds)
        if multiple is not None:
            parts.append(f"{multiple:,.1f} × real time" if multiple < 10 else f"{multiple:,.0f} × real time")
        if self.rejects:
            parts.append(f"{self.rejects:,} rejected")
        return ", ".join(parts)

    def multiple(self, seconds: float) -> float | None:
        """How many seconds of the log passed per second; None as long as timestamps are not known."""
        if self._low is not None and self._high is not None:
            passed = float(self._high - self._low)
            last = self._high
        elif self.span is not None and self.total:
            passed = (self.span[1] - self.span[0]) * min(self.done / self.total, 1.0)
            last = self.span[1]
        else:
            return None
        if passed <= 0 or seconds <= 0:
            return None
        return passed / _PER_SECOND[self.ts_unit or unit_of(last)] / seconds

    # -- drawing ------------------------------------------------------------------------------------------------

    def __enter__(self) -> Progress:
        self._start = self._told = time.monotonic()
        if can_draw(self._stream):
            self._timer = threading.Timer(SECONDS_SILENT, self._show)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is None:
            return
        self._timer.cancel()
        with self._lock:
            self._timer = None
            if self._live is not None:
                self._live.stop()
                self._live = None

    def _show(self) -> None:
        from rich.console import Console
        from rich.live import Live

        with self._lock:
            if self._timer is not None:  # else the run has ended meanwhile
                # What the program prints stays where it goes: standard output may be piped elsewhere.
                self._live = Live(
                    get_renderable=self._drawn, console=Console(file=self._stream, highlight=False), transient=True,
                    refresh_per_second=_DRAWS_PER_SECOND, redirect_stdout=False, redirect_stderr=False,
                )  # fmt: skip
                self._live.start()

    def _drawn(self) -> Table:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        told = self._told  # rates do not sink between two calls, and time left goes by
        done, total = self._recovered or (self.done, self.total)
        bar = ProgressBar(total, min(done, total or done), _BAR_WIDTH, pulse=total is None)
        grid = Table.grid(padding=(0, 1))
        grid.add_row(bar, self.line(told - self._start, time.monotonic() - told))
        return grid


@contextmanager
def following(progress: Tell | Literal["auto"] | None, events: Any = None) -> Iterator[Tell | None]:
    """What a run should tell while the block runs: "auto" is a bar where one can be seen, a `Progress` draws itself.

    `events` is what the run reads: footers of Parquet files tell how much that is.
    """
    if progress == "auto":
        if can_draw(sys.stderr):
            with Progress(*size_of(events)) as bar:
                yield bar
        else:
            yield None
    elif isinstance(progress, Progress):
        with progress:
            yield progress
    elif progress is None or callable(progress):
        yield progress
    else:
        raise InputError(
            f'progress={progress!r}\n  pass "auto", None, or a function that takes the number of events newly done'
        )


@contextmanager
def recovery_bar() -> Iterator[Callable[[int, int], None] | None]:
    """Whom to tell how much of a stored state was read (`Progress.recovering`), where a bar can be seen."""
    if not can_draw(sys.stderr):
        yield None
        return
    with Progress() as bar:
        yield bar.recovering


def can_draw(stream: TextIO) -> bool:
    """Whether a bar on this stream would be seen as one."""
    if "ipykernel" in sys.modules:
        return find_spec("ipywidgets") is not None  # without it rich can't change what it has written
    try:
        return stream.isatty()
    except (AttributeError, ValueError):  # not a file, or closed
        return False


def unit_of(ts: int) -> TsUnit:
    """The unit in which a timestamp of this size is a time since 1970."""
    return next((unit for limit, unit in _UNITS if abs(ts) < limit), "ns")


def size_of(events: Any) -> tuple[int | None, tuple[int, int] | None]:
    """Rows, first and last timestamp of what a run reads, where that can be told without reading it."""
    if isinstance(events, pa.Table):
        return events.num_rows, None
    files = _parquet_files(events)
    if files is None or not 0 < len(files) <= _FOOTERS_MAX:
        return None, None
    try:
        footers = [pq.read_metadata(file) for file in files]
    except (pa.ArrowException, OSError):
        return None, None  # the run will say what is wrong
    spans = [_span(footer) for footer in footers if footer.num_rows]
    return sum(footer.num_rows for footer in footers), _around(spans)


def _around(spans: list[tuple[int, int] | None]) -> tuple[int, int] | None:
    known = [span for span in spans if span is not None]
    if not known or len(known) < len(spans):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _parquet_files(events: Any) -> list[str] | None:
    """The files of a path, or of a list or dict of paths; None when there is something else among them."""
    if isinstance(events, dict):
        return _parquet_files(list(events.values()))
    if isinstance(events, list | tuple):
        several = [_parquet_files(item) for item in events]
        return None if any(found is None for found in several) else [file for found in several for file in found or ()]
    if not isinstance(events, str | PathLike):
        return None
    try:
        files = [str(file) for file in files_of(fspath(events))]
    except InputError:
        return None
    return files if all(file.lower().endswith(".parquet") for file in files) else None


def _span(footer: pq.FileMetaData) -> tuple[int, int] | None:
    """First and last ts of a file that keeps them as plain integers."""
    column = next((i for i in range(footer.num_columns) if footer.schema.column(i).path == "ts"), None)
    if column is None or not pa.types.is_integer(footer.schema.to_arrow_schema().field("ts").type):
        return None
    found = [footer.row_group(n).column(column).statistics for n in range(footer.num_row_groups)]
    if not found or any(statistics is None or not statistics.has_min_max for statistics in found):
        return None
    return min(statistics.min for statistics in found), max(statistics.max for statistics in found)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
