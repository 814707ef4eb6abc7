"""What the commands print: errors, tables, progress and the summary of a run."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pyarrow as pa
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from mainstem.cli.interrupts import interrupts_kept
from mainstem.errors import MainstemError
from mainstem.query import open_db
from mainstem.query.values import plain_columns
from mainstem.result import Result
from mainstem.state import digest

if TYPE_CHECKING:
    from mainstem.spark import ReplayInfo

CELL_WIDTH_MAX = 60
REJECTS_SHOWN = 5
EXIT_FAILED, EXIT_INTERRUPTED = 1, 130

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command that ends in one clear message instead of a traceback, and takes `--debug`."""

    @functools.wraps(command)
    def run(*, debug: bool = False, **arguments: Any) -> None:
        try:
            with interrupts_kept():
                command(**arguments)
        except KeyboardInterrupt:
            err.print("interrupted")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except (MainstemError, OSError) as error:
            if debug:
                raise
            err.print(f"[bold red]error:[/] {escape(in_options(str(error)))}", soft_wrap=True)
            raise typer.Exit(EXIT_FAILED) from None

    extra = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    signature = inspect.signature(command, eval_str=True)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), extra])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "debug": Debug}
    return run


_NAMES = "state|out|initial|batch|keep|timeout|durability|engine|threads|plan|since"
# What messages call arguments, in the words of the command line.
_ARGUMENTS = (
    (r"as_of takes a batch or a ts\n.*", "two versions are asked for\n  give --as-of-batch or --as-of-ts, not both"),
    (r"resume=True", "--resume"),
    (r'on_bad="(\w+)"', r"--on-bad \1"),
    (rf"(?<![\w/.])({_NAMES})= ?\b", r"--\1 "),
    (rf"(?<![\w/.])({_NAMES})=(['\"])(.*?)\2", r"--\1 \3"),
    (rf"(?<![\w/.])({_NAMES})=(?=\W|$)", r"--\1"),
)


def in_options(message: str) -> str:
    """A message of the library with the options of a command instead of the arguments of a function."""
    for argument, option in _ARGUMENTS:
        message = re.sub(argument, option, message)
    return message


Tick = Callable[[int], None]
"""Is told how many events were done since it was last told."""


class Bar:
    """A progress bar: told how many more are done, or how many in all."""

    def __init__(self, bar: Progress, task: TaskID) -> None:
        self._bar, self._task = bar, task

    def add(self, count: int) -> None:
        self._bar.advance(self._task, count)

    def at(self, count: int, total: int | None = None) -> None:
        self._bar.update(self._task, completed=count, total=total)  # a total of None changes nothing


@contextmanager
def progress(label: str, total: int | None, unit: str = "events") -> Iterator[Bar]:
    """A bar over `total` events, or whatever is counted; prints nothing when the output is not a terminal."""
    columns = (
        TextColumn("{task.description:<24}"),
        BarColumn(),
        TextColumn(f"{{task.completed:>11,}} {unit}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        yield Bar(bar, bar.add_task(label, total=total))


def arrow_table(table: pa.Table, rows_max: int, title: str | None = None) -> Table:
    """An Arrow table for the eye; says how many rows are left out."""
    caption = f"… {table.num_rows - rows_max:,} more rows" if table.num_rows > rows_max else None
    view = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        view.add_column(field.name, justify="right" if number else "left", overflow="ellipsis")
    for row in zip(*plain_columns(table.slice(0, rows_max)), strict=True):
        view.add_row(*map(_cell, row))
    return view


Outcome = tuple[str, str | None, int]
"""Status, reason, and how many transactions ended so."""


def outcomes(outputs: pa.Table) -> list[Outcome]:
    """How often each outcome occurred: committed first, then the reasons of the aborted, most frequent first."""
    plain = pa.table({name: outputs[name].cast(pa.string()) for name in ("status", "reason")})
    counts = plain.group_by(["status", "reason"]).aggregate([([], "count_all")])
    return in_order([(row["status"], row["reason"], row["count_all"]) for row in counts.to_pylist()])


def in_order(counts: list[Outcome]) -> list[Outcome]:
    return sorted(counts, key=lambda row: (row[0] != "committed", -row[2], row[1] or ""))


def print_outcomes(counts: list[Outcome]) -> None:
    for status, reason, count in counts:
        out.print(f"{count:>12,}  {status}" + (f": {reason}" if reason else ""), markup=False)


def print_result(result: Result, *, state: Path | None, out_dir: Path | None, show: int) -> None:
    """What `mainstem run` says: outcomes, rejects, speed, the state's digest and the first rows."""
    stats = result.stats
    if out_dir is None:
        print_outcomes(outcomes(result.outputs))
    else:  # outputs may be larger than memory: they are not read back
        print_outcomes([("committed", None, stats.committed), ("aborted", None, stats.aborted)])
    if stats.rejected:
        out.print(f"{stats.rejected:>12,}  rejected")
        out.print(arrow_table(result.rejects, REJECTS_SHOWN, title="rejects"))
    rate = f" ({stats.events / stats.seconds:,.0f} events/s)" if stats.seconds else ""
    out.print(f"{stats.events:,} events in {stats.seconds:.2f} s{rate}, engine {', '.join(stats.engines) or 'none'}")
    out.print(f"state digest {result.digest}" + (f", kept in {state}" if state else ""), markup=False, soft_wrap=True)
    if out_dir is not None:
        out.print(f"outputs in {out_dir}", markup=False, soft_wrap=True)
    elif show:
        out.print(arrow_table(result.outputs, show))


def print_replay(info: ReplayInfo, seconds: float, state: Path | None) -> None:
    """What `mainstem replay` says below the outcomes."""
    if info.rejected:
        out.print(f"{info.rejected:>12,}  rejected")
    events = info.events or 0
    out.print(f"{events:,} events in {seconds:.2f} s ({events / seconds:,.0f} events/s, Spark's start excluded)")
    out.print(f"plan {info.plan}: {info.reason}", markup=False, soft_wrap=True)
    if state is not None:
        with open_db(state) as db:
            found = digest({name: db.table(name) for name in db.tables})
        out.print(f"state digest {found}, kept in {state}", markup=False, soft_wrap=True)


def _cell(value: Any) -> str:
    if value is None:
        return "[dim]null[/]"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= CELL_WIDTH_MAX else text[: CELL_WIDTH_MAX - 1] + "…")
