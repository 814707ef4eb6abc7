"""Commands that look after a folder of durable state: check it, look into it, copy it out and bring it back."""

from __future__ import annotations

import json
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from mainstem import tools
from mainstem.cli import view
from mainstem.cli.stored import AsOfBatch, AsOfTs, StoreDir
from mainstem.cli.view import guarded, out


class Form(StrEnum):
    parquet = "parquet"
    csv = "csv"


AsJson = Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")]


@guarded
def verify(folder: StoreDir) -> None:
    """Check a folder: read every byte, rebuild the state from every kept snapshot, compare. Exit code 1 if damaged.

    $ mainstem verify bank/

    Also beside a running program, which does not notice. For each damage: the file and the byte, what is lost, and
    what to do about it.
    """
    with view.progress("verifying", None, "bytes") as bar:
        report = tools.verify(folder, progress=bar.at)
    out.print(escape(str(report)), soft_wrap=True)
    if not report.ok:
        out.print(f"[bold red]damaged:[/] {len(report.damages)} found")
        raise typer.Exit(view.EXIT_FAILED)
    out.print(f"[green]sound[/], state digest {report.digest}")


@guarded
def inspect(
    folder: StoreDir,
    epoch: Annotated[int | None, typer.Option("--epoch", min=1, help="One commit: its meta and changed rows.")] = None,
    as_json: AsJson = False,
) -> None:
    """Show what is in a folder: tables, versions, files, live queries, and who writes to it.

    $ mainstem inspect bank/
    $ mainstem inspect bank/ --epoch 120
    $ mainstem inspect bank/ --json
    """
    found: Any = tools.inspect(folder) if epoch is None else tools.inspect_commit(folder, epoch)
    if as_json:
        typer.echo(json.dumps(found.as_dict(), ensure_ascii=False))
    elif epoch is None:
        _print_inspection(found)
    else:
        _print_commit(found)


@guarded
def export(
    folder: StoreDir,
    target: Annotated[Path, typer.Argument(metavar="OUT", help="A new folder for the files.")],
    table: Annotated[list[str] | None, typer.Option("--table", help="Only this table; may be given again.")] = None,
    as_of_batch: AsOfBatch = None,
    as_of_ts: AsOfTs = None,
    form: Annotated[Form, typer.Option("--format", help="What other programs read.")] = Form.parquet,
) -> None:
    """Write the tables of a folder, all of one version, as Parquet or CSV files with a manifest.

    $ mainstem export bank/ saved/
    $ mainstem export bank/ saved/ --table Account --as-of-batch 120 --format csv

    The files appear when all of them are complete. `mainstem restore saved/ bank2/` makes a folder of state from them.
    """
    with view.progress("exporting", None, "rows") as bar:
        made = tools.export(
            folder, target, tables=table, as_of_batch=as_of_batch, as_of_ts=as_of_ts, format=form.value,
            progress=bar.add,
        )  # fmt: skip
    for name, rows in made.rows.items():
        out.print(f"{rows:>12,}  {name}.{made.format}", markup=False)
    out.print(
        f"in {target}: epoch {made.epoch}, {made.seq:,} events, ts {made.ts}, digest {made.digest}",
        markup=False, soft_wrap=True,
    )  # fmt: skip


@guarded
def restore(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="An export, or a folder of durable state.")],
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A new folder of durable state.")],
    as_of_batch: AsOfBatch = None,
    as_of_ts: AsOfTs = None,
) -> None:
    """Make a new folder of durable state from an export, or from an earlier version of another folder.

    $ mainstem restore saved/ bank2/
    $ mainstem restore bank/ bank2/ --as-of-batch 120

    A program goes on from it as if nothing had happened since: mainstem run app.py:app log/ --state bank2/ --resume
    """
    made = tools.restore(source, target, as_of_batch=as_of_batch, as_of_ts=as_of_ts)
    out.print(
        f"{sum(made.rows.values()):,} rows of epoch {made.epoch} in {target}: {made.seq:,} events, ts {made.ts}, "
        f"state digest {made.digest}",
        markup=False, soft_wrap=True,
    )  # fmt: skip


def _print_inspection(found: tools.Inspection) -> None:
    facts = {
        "state": f"epoch {found.epoch}, {found.seq:,} events, last ts {found.ts}",
        "versions": f"epochs {found.oldest} to {found.epoch} can be asked for",
        "rows": f"in {found.shards} shards, {found.shard_files} files" if found.shards else "in one piece",
        "writer": _writer_text(found),
        "queries": ", ".join(f"{name}: batch {batch}" for name, batch in found.queries.items()) or "no live query",
        **({"waiting": f"{found.waiting:,} events of live inputs wait for other inputs"} if found.waiting else {}),
        "format": f"{found.format}, store {found.store}",
        "size": f"{found.bytes:,} bytes, {found.log_bytes:,} of them log",
    }
    for name, text in facts.items():
        out.print(f"[bold]{name:<10}[/] {escape(text)}", soft_wrap=True)
    out.print(_table(["table", "rows", "key", "fields"], [_table_row(name, t) for name, t in found.tables.items()]))
    out.print(_table(["file", "epochs", "bytes"], [_file_row(file) for file in found.files]))
    for warning in found.warnings:
        out.print(f"[yellow]warning:[/] {escape(warning)}", soft_wrap=True)


def _writer_text(found: tools.Inspection) -> str:
    if found.writer is None:
        return "none"
    since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(found.writer.since)) if found.writer.since else "unknown"
    return f"process {found.writer.pid}, since {since}"


def _table_row(name: str, table: tools.TableInfo) -> list[str]:
    fields = ", ".join(f"{field}: {kind}" for field, kind in table.fields.items() if not field.startswith("_"))
    return [name, f"{table.rows:,}", table.key, f"{fields} (keeps {table.keep})" if table.keep else fields]


def _file_row(file: tools.FileInfo) -> list[str]:
    last = "" if file.last is None else str(file.last)
    epochs = last if file.kind == "snapshot" else f"{file.first} to {last}" if last else f"from {file.first}"
    return [file.kind, epochs, f"{file.bytes:,}"]


def _print_commit(found: tools.CommitInfo) -> None:
    out.print(f"commit {found.epoch}: {found.bytes:,} bytes, {found.shard_files} shard files")
    rows = [[name, f"{count:,}", f"{found.deleted[name]:,}"] for name, count in found.changed.items()]
    out.print(_table(["table", "changed", "deleted"], rows))
    out.print(json.dumps(found.meta, indent=2, ensure_ascii=False), markup=False, soft_wrap=True)


def _table(columns: list[str], rows: list[list[str]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for name in columns:
        table.add_column(name, justify="right" if name in ("rows", "bytes", "changed", "deleted") else "left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


COMMANDS = (verify, inspect, export, restore)
"""In the order in which the help lists them."""
