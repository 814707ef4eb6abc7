"""Commands on a folder of durable state: what a program has written, without the program."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
import typer

import mainstem as ms
from mainstem.cli import view
from mainstem.cli.view import guarded, out
from mainstem.errors import InputError
from mainstem.query.values import plain_rows, to_json

StoreDir = Annotated[Path, typer.Argument(metavar="DIR", help="A folder of durable state.")]
AsOfBatch = Annotated[int | None, typer.Option("--as-of-batch", help="The state after this commit.")]
AsOfTs = Annotated[int | None, typer.Option("--as-of-ts", help="The state after the last commit up to this timestamp.")]


@guarded
def query(
    folder: StoreDir,
    sql: Annotated[str, typer.Argument(metavar="SQL", help="A DuckDB query; every table of the program is a table.")],
    as_of_batch: AsOfBatch = None,
    as_of_ts: AsOfTs = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
    arrow: Annotated[Path | None, typer.Option("--arrow", help="Write the result to this Arrow file.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=1, help="Print at most this many rows.")] = 50,
    timeout: Annotated[float | None, typer.Option("--timeout", min=0.001, help="Stop after this many seconds.")] = None,
) -> None:
    """Ask the last committed state, or an earlier one, also while a program writes to it.

    $ mainstem query bank/ "select * from Account order by balance desc limit 10"
    $ mainstem query bank/ "select sum(balance) from Account" --json
    $ mainstem query bank/ "select * from Account where key = 7" --as-of-batch 120
    """
    earlier = as_of_batch is not None or as_of_ts is not None
    with ms.open(folder) as db, db.as_of(batch=as_of_batch, ts=as_of_ts) if earlier else db as asked:
        table = asked.sql(sql, timeout=timeout)
    if arrow is not None:
        _write_arrow(table, arrow)
        out.print(f"{table.num_rows:,} rows written to {arrow}")
    elif as_json:
        for row in plain_rows(table):
            print_json(row)
    else:
        out.print(view.arrow_table(table, rows))


@guarded
def watch(
    folder: StoreDir,
    table: Annotated[str | None, typer.Argument(metavar="TABLE", help="Only changes of this table.")] = None,
    since: Annotated[int | None, typer.Option("--since", min=0, help="Also the commits after this one.")] = None,
    timeout: Annotated[
        float | None, typer.Option("--timeout", min=0, help="End when nothing was committed for so many seconds.")
    ] = None,
) -> None:
    """Print every changed row as a program commits it: one JSON object per line, until Ctrl-C.

    $ mainstem watch bank/
    $ mainstem watch bank/ Account --since 120 --timeout 5
    """
    with ms.open(folder) as db:
        for change in db.watch(table, since=since, timeout=timeout):
            for name, rows in change.tables.items():
                for row in plain_rows(rows):
                    print_json({"epoch": change.epoch, "ts": change.ts, "table": name, **row})
            sys.stdout.flush()


def print_json(row: dict[str, Any]) -> None:
    """One line of JSON, as it is: the console would wrap and colour it."""
    typer.echo(to_json(row))


def _write_arrow(table: pa.Table, path: Path) -> None:
    if not path.parent.is_dir():
        raise InputError(f"can't write {path}: there is no folder {path.parent}\n  make it first, or choose another")
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


COMMANDS = (query, watch)
"""In the order in which the help lists them."""
