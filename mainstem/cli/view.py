"""What the commands print: errors, tables, progress and the summary of a run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import pyarrow as pa
import pyarrow.compute as pc
import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from mainstem.errors import MainstemError

CELL_WIDTH_MAX = 60
EXIT_FAILED, EXIT_INTERRUPTED = 1, 130

out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]
Tick = Callable[[int], None]


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """A command that ends in one clear message instead of a traceback, and takes `--debug`."""

    @functools.wraps(command)
    def run(*, debug: bool = False, **arguments: Any) -> None:
        try:
            command(**arguments)
        except KeyboardInterrupt:
            err.print("interrupted")
            raise typer.Exit(EXIT_INTERRUPTED) from None
        except (MainstemError, OSError) as error:
            if debug:
                raise
            err.print(f"[bold red]error:[/] {escape(str(error))}", soft_wrap=True)
            raise typer.Exit(EXIT_FAILED) from None

    extra = inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    signature = inspect.signature(command, eval_str=True)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), extra])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, "debug": Debug}
    return run


@contextmanager
def progress(label: str, total: int | None, unit: str = "events") -> Iterator[Tick]:
    """A bar that is told how many are done; prints nothing when the output is not a terminal."""
    columns = (TextColumn("{task.description:<24}"), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeElapsedColumn())
    with Progress(*columns, console=out, transient=True, disable=not out.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda done: bar.update(task, completed=done)


def arrow_table(table: pa.Table, rows_max: int, title: str | None = None) -> Table:
    """An Arrow table for the eye; says how many rows are left out."""
    caption = f"… {table.num_rows - rows_max:,} more rows" if table.num_rows > rows_max else None
    view = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, title_justify="left", caption_justify="left")
    for field in table.schema:
        number = pa.types.is_integer(field.type) or pa.types.is_floating(field.type) or pa.types.is_decimal(field.type)
        view.add_column(field.name, justify="right" if number else "left", overflow="ellipsis")
    for row in table.slice(0, rows_max).to_pylist():
        view.add_row(*(_cell(row[name]) for name in table.column_names))
    return view


def outcomes(outputs: pa.Table) -> list[tuple[str, int]]:
    """How often each outcome occurred: committed first, then the reasons of the aborted, most frequent first."""
    counts = outputs.select(["status", "reason"]).group_by(["status", "reason"]).aggregate([([], "count_all")])
    rows = [(r["status"], r["reason"], r["count_all"]) for r in counts.to_pylist()]
    rows.sort(key=lambda row: (row[0] != "committed", -row[2], row[1] or ""))
    return [(status if reason is None else f"{status}: {reason}", count) for status, reason, count in rows]


def per_second(events: int, seconds: float) -> str:
    return f"{events / seconds:,.0f} events/s" if seconds > 0 else "-"


def facts(rows: list[tuple[str, str]]) -> Table:
    """Two columns: what, and how much."""
    view = Table.grid(padding=(0, 2))
    view.add_column(style="dim")
    view.add_column()
    for name, value in rows:
        view.add_row(name, value)
    return view


def _cell(value: Any) -> str:
    if value is None:
        return "[dim]null[/]"
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= CELL_WIDTH_MAX else text[: CELL_WIDTH_MAX - 1] + "…")


def committed(outputs: pa.Table) -> int:
    return pc.sum(pc.equal(outputs["status"].cast(pa.string()), "committed")).as_py() or 0
