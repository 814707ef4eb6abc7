"""`python -m mainstem.bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mainstem.bench import data
from mainstem.bench import ledger as ledger_bench

WIDTH_MIN = 130  # of the widest table; a narrower terminal or a pipe would cut digests

cli = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


@cli.callback()
def about() -> None:
    """Benchmarks of Mainstem; each figure is printed with digests of what it computed."""


@cli.command()
def ledger(
    events: Annotated[int, typer.Option(min=1, help="Events of the embedded runs.")] = 4_000_000,
    oracle_events: Annotated[int, typer.Option(min=1, help="Events of the oracle, a prefix of the others.")] = 50_000,
    replay_events: Annotated[int, typer.Option(min=4, help="Events of the Spark runs.")] = 10_000_000,
    cores: Annotated[int, typer.Option(min=1, help="Cores of the local Spark session.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each embedded contender.")] = 7,
    spark_repeats: Annotated[int, typer.Option(min=1, help="Turns of each Spark contender.")] = 3,
    seed: Annotated[int, typer.Option(help="Another seed makes another log.")] = 0,
    spark: Annotated[bool, typer.Option(help="--no-spark measures the embedded runs only.")] = True,
    dir: Annotated[Path | None, typer.Option(help="Where generated logs are kept [default: the user's cache].")] = None,
    json: Annotated[Path | None, typer.Option(help="Write the figures there, too.")] = None,
) -> None:
    """Streaming Ledger: the oracle, the limit, app.run, app.replay and plain PySpark on the same events.

    Fails (exit code 1) when two runs over the same events ended in different states or outputs.
    """
    console = Console()
    console.width = max(console.width, WIDTH_MIN)
    options = ledger_bench.Options(
        events=events,
        oracle_events=oracle_events,
        replay_events=replay_events,
        cores=cores,
        repeats=repeats,
        spark_repeats=spark_repeats,
        seed=seed,
        spark=spark,
        folder=dir or data.default_dir(),
    )
    report = ledger_bench.benchmark(options, console)
    report.print(console)
    if json is not None:
        report.write(json)
    raise typer.Exit(1 if report.disagreements else 0)


if __name__ == "__main__":
    cli()
