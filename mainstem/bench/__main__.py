"""`python -m mainstem.bench`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from mainstem.apps.workloads.multiway import QUERIES
from mainstem.bench import bank as bank_bench
from mainstem.bench import (
    bank_options,
    bank_plot,
    bank_report,
    data,
    dynamic_report,
    grid,
    replay_options,
    replay_report,
    schedule_report,
    windows_report,
)
from mainstem.bench import batches as batches_bench
from mainstem.bench import dynamic as dynamic_bench
from mainstem.bench import gate as gate_bench
from mainstem.bench import latency as latency_bench
from mainstem.bench import ledger as ledger_bench
from mainstem.bench import replay as replay_bench
from mainstem.bench import schedule as schedule_bench
from mainstem.bench import windows as windows_bench
from mainstem.bench.engines import AUTO, SERIAL, Way, ways_named
from mainstem.bench.plot import check_plot
from mainstem.errors import MainstemError

WIDTH_MIN = 130  # of the ledger's tables; a narrower terminal or a pipe would cut digests
WIDTH_MIN_WIDE = 170  # of the tables with a column per point

cli = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)

Apps = Annotated[list[str] | None, typer.Option("--app", help="GS, SL, OB or TP; may be repeated (default: all).")]
Strategies = Annotated[
    list[str] | None,
    typer.Option("--strategy", help="tpg, 'chains(nothing)', …; may be repeated."),
]
Threads = Annotated[int, typer.Option(min=1, help="Threads of the parallel strategies.")]
Seed = Annotated[int, typer.Option(help="Another seed makes other events.")]
Json = Annotated[Path | None, typer.Option("--json", help="Write the figures there, too.")]


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
    console = _console(WIDTH_MIN)
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


@cli.command()
def schedule(
    app: Apps = None,
    vary: Annotated[
        list[str] | None, typer.Option(help=f"{', '.join(grid.KNOBS)} or {grid.CROSSED}; may be repeated.")
    ] = None,
    strategy: Strategies = None,
    quick: Annotated[bool, typer.Option("--quick", help="Every fifth point, fewer and shorter runs: minutes.")] = False,
    seconds: Annotated[float, typer.Option(min=0.0, help="Of a run on one core, about.")] = 0.2,
    repeats: Annotated[int, typer.Option(min=1, help="More turns of the best strategies of a point.")] = 4,
    threads: Threads = 2,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Every strategy over a grid of workloads, what auto chose at each point and what that cost.

    Fails (exit code 1) when two safe strategies ended in different states or outputs.
    """
    series = grid.selected(_known("--app", app, grid.APPS), _known("--vary", vary, [*grid.KNOBS, grid.CROSSED]))
    if not series:
        raise typer.BadParameter("no series of these apps varies this knob", param_hint="--vary")
    options = schedule_bench.Options(
        series=grid.thinned(series) if quick else series,
        ways=_ways(strategy, always=(SERIAL, AUTO)),
        seconds=min(seconds, 0.1) if quick else seconds,
        repeats=min(repeats, 2) if quick else repeats,
        threads=threads,
        seed=seed,
    )
    results = schedule_bench.benchmark(options, _progress)
    schedule_report.print_results(results, _console(WIDTH_MIN_WIDE))
    if json is not None:
        schedule_report.write(results, json)
    raise typer.Exit(1 if results.disagreements else 0)


@cli.command()
def latency(
    app: Apps = None,
    strategy: Annotated[str, typer.Option(help="auto, serial, components, 'tpg(ns, op, eager)', …")] = AUTO,
    batch: Annotated[int, typer.Option(min=1, help="Events between two punctuations.")] = 500,
    batches: Annotated[int, typer.Option(min=1, help="Batches per app.")] = 2_000,
    cost: Annotated[float, typer.Option(min=0.0, help="Microseconds of work per written row.")] = 0.0,
    threads: Threads = 2,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """From an event's arrival to its result, at half the largest rate, beside TStream's 0.23 to 0.63 ms.

    Fails (exit code 1) when an app ended in another state than the serial run.
    """
    ways = _ways([strategy])
    if len(ways) != 1:
        raise typer.BadParameter(f"name one of: {'; '.join(way.label for way in ways)}", param_hint="--strategy")
    options = latency_bench.Options(
        apps=_known("--app", app, grid.APPS) or tuple(grid.APPS),
        way=ways[0],
        batch=batch,
        batches=batches,
        cost=cost,
        threads=threads,
        seed=seed,
    )
    results = latency_bench.benchmark(options, _progress)
    latency_bench.print_results(results, _console(WIDTH_MIN_WIDE))
    if json is not None:
        results.write(json)
    raise typer.Exit(1 if results.disagreements else 0)


_DYNAMIC = dynamic_bench.Options  # its defaults are those of the command, too


@cli.command()
def dynamic(
    strategy: Strategies = None,
    events: Annotated[int, typer.Option(min=1, help="Events of each of the four phases.")] = _DYNAMIC.events,
    steps: Annotated[int, typer.Option(min=1, help="Steps of a phase.")] = _DYNAMIC.steps,
    batch: Annotated[int, typer.Option(min=1, help="Events per batch.")] = _DYNAMIC.batch,
    cost: Annotated[float, typer.Option(min=0.0, help="Microseconds of work per written row.")] = _DYNAMIC.cost,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each strategy; the fastest counts.")] = _DYNAMIC.repeats,
    threads: Threads = 2,
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it there: .png, .svg or .pdf (needs mainstem[plot]).")] = None,
    json: Json = None,
) -> None:
    """A ledger whose workload changes in four phases: every fixed strategy and auto, step by step and in total.

    Fails (exit code 1) when two safe strategies ended in different states or outputs.
    """
    _check_plot(plot)
    options = dynamic_bench.Options(
        ways=_ways(strategy, always=(SERIAL, AUTO)),
        events=events,
        steps=steps,
        batch=batch,
        cost=cost,
        repeats=repeats,
        threads=threads,
        seed=seed,
    )
    results = dynamic_bench.benchmark(options, _progress)
    dynamic_report.print_results(results, _console(WIDTH_MIN_WIDE))
    if plot is not None:
        dynamic_report.plot(results, plot)
    if json is not None:
        dynamic_report.write(results, json)
    raise typer.Exit(1 if results.disagreements else 0)


@cli.command()
def replay(
    events: Annotated[str, typer.Option(help="Events of the log that all contenders replay.")] = "10M",
    cores: Annotated[int, typer.Option(min=1, help="Cores of the Spark contenders; Mainstem also runs on 1.")] = 2,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each contender.")] = 2,
    alternatives: Annotated[
        bool, typer.Option(help="--no-alternatives leaves out Spark without Mainstem, the slow part.")
    ] = True,
    variants: Annotated[int, typer.Option(min=0, help="Versions of the rule in one replay; 0 for none.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="500k events, one turn, other parts smaller still.")] = False,
    alpha: Annotated[str, typer.Option(help="Exponents of the power law, for critical paths.")] = "1.25,1.5,2,2.5,3",
    alpha_events: Annotated[str | None, typer.Option(help="Events of each of their logs [default: 2M].")] = None,
    memory_events: Annotated[
        str | None, typer.Option(help="Sizes of logs that must take equal memory; '' for none [default: 10M to 50M].")
    ] = None,
    hot_shares: Annotated[
        str, typer.Option(help="Shares of messages that one sender and IP address have; '' for none.")
    ] = "0,0.3,0.6,0.9",
    hot_events: Annotated[str | None, typer.Option(help="Events of each of their logs [default: 4M].")] = None,
    micro_batches: Annotated[
        str, typer.Option(help="Sizes of micro-batches whose error is measured; '' for none.")
    ] = "12.5k,25k,50k,100k,200k",
    error_events: Annotated[str | None, typer.Option(help="Events of the log for that [default: 1M].")] = None,
    seed: Seed = 0,
    dir: Annotated[Path | None, typer.Option(help="Where generated logs are kept [default: the user's cache].")] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw events/s over cores and over c / b there (needs mainstem[plot]).")
    ] = None,
    json: Json = None,
) -> None:
    """The spam log: staged replay, one thread, and Spark without Mainstem; critical paths; memory.

    Numbers of events may be written 500k or 10M, several with commas. Fails (exit code 1) when two exact contenders
    found different verdicts.
    """
    _check_plot(plot)
    try:
        options = replay_options.options_of(
            quick=quick, events=events, cores=cores, repeats=repeats, alternatives=alternatives, variants=variants,
            alpha=alpha, alpha_events=alpha_events, memory_events=memory_events, hot_shares=hot_shares,
            hot_events=hot_events, micro_batches=micro_batches, error_events=error_events, seed=seed,
            folder=dir or data.default_dir(),
        )  # fmt: skip
    except MainstemError as error:
        raise typer.BadParameter(str(error)) from error
    if plot is not None and not options.alphas:
        raise typer.BadParameter("the plot shows events/s over α: give some --alpha", param_hint="--plot")
    results = replay_bench.benchmark(options, _progress)
    replay_report.print_results(results, _console(WIDTH_MIN_WIDE))
    if plot is not None:
        replay_report.plot(results, plot)
    if json is not None:
        replay_report.write(results, json)
    raise typer.Exit(1 if results.disagreements else 0)


@cli.command()
def batches(
    strategy: Strategies = None,
    app: Annotated[str, typer.Option(help="GS, SL, OB or TP.")] = "GS",
    batches: Annotated[int, typer.Option(min=1, help="Batches through one executor.")] = 1_000,
    batch: Annotated[int, typer.Option(min=1, help="Events per batch.")] = 10_240,
    every: Annotated[int, typer.Option(min=1, help="Batches between two looks at the memory.")] = 100,
    threads: Threads = 2,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Resident memory while one executor runs batch after batch: it must not grow once it is warm."""
    options = batches_bench.Options(
        ways=_ways(strategy or batches_bench.DEFAULT_WAYS),
        app=_known("--app", [app], grid.APPS)[0],
        batches=batches,
        batch=batch,
        every=every,
        threads=threads,
        seed=seed,
    )
    results = batches_bench.benchmark(options)
    batches_bench.print_results(results, _console(WIDTH_MIN))
    if json is not None:
        results.write(json)


@cli.command()
def bank(
    only: Annotated[list[str] | None, typer.Option(help=f"{', '.join(bank_options.PARTS)}; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Both ends of each range, short runs: minutes.")] = False,
    threads: Threads = 2,
    seed: Seed = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw it there: .png, .svg or .pdf (needs mainstem[plot]).")] = None,
    json: Json = None,
) -> None:
    """Transfers between accounts: isolation levels, queries, durability, recovery; PostgreSQL, Redis and SQLite.

    Table 1 and figures 7 to 15 of TSpoon's evaluation at this machine's size. Fails (exit code 1) when a run did not
    end in the balances that its transfers add up to.
    """
    _check_plot(plot)
    try:
        options = bank_options.options_of(quick=quick, only=only or (), threads=threads, seed=seed)
    except MainstemError as error:
        raise typer.BadParameter(str(error), param_hint="--only") from error
    results = bank_bench.benchmark(options, _progress)
    bank_report.print_results(results, _console(WIDTH_MIN_WIDE))
    if plot is not None:
        bank_plot.draw(results, plot)
    if json is not None:
        bank_report.write(results, json)
    raise typer.Exit(1 if results.disagreements else 0)


@cli.command()
def windows(
    query: Annotated[list[str] | None, typer.Option(help="k-OS, W-OI, …; may be repeated (default: all).")] = None,
    inputs: Annotated[list[int] | None, typer.Option(min=1, help="May be repeated (default: 5, 10, 15, 20).")] = None,
    events: Annotated[int, typer.Option(min=1_000, help="Events of a run.")] = 1_000_000,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each operator; the best counts.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="5 and 20 inputs, 100k events, one run: minutes.")] = False,
    threads: Threads = 2,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """Window operators on the twelve queries of multiway aggregation: throughput and latency by number of inputs.

    Fails (exit code 1) when two operators gave different windows.
    """
    options = windows_bench.Options(
        queries=_known("--query", query, list(QUERIES)) or tuple(QUERIES),
        inputs=tuple(inputs or (5, 10, 15, 20)), events=events, repeats=repeats, threads=threads, seed=seed,
    )  # fmt: skip
    results = windows_bench.benchmark(options.quick if quick else options, _progress)
    windows_report.print_results(results, _console(WIDTH_MIN))
    if json is not None:
        windows_report.write(results, json)
    raise typer.Exit(1 if results.disagreements else 0)


@cli.command()
def gate(
    inputs: Annotated[list[int] | None, typer.Option(min=1, help="May be repeated [default: 5, 10, 15, 20].")] = None,
    events: Annotated[int, typer.Option(min=1_000, help="Events of each run.")] = 1_000_000,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each structure.")] = 3,
    feeders: Annotated[int, typer.Option(min=1, help="Threads that bring events, each for several inputs.")] = 1,
    seed: Seed = 0,
    json: Json = None,
) -> None:
    """The live gate: T-Gate against a plain lock-free skip list and locked queues; blocks from insert to ready.

    Fails (exit code 1) when two of them gave different orders.
    """
    options = gate_bench.Options(
        inputs=tuple(inputs or gate_bench.Options.inputs), events=events, repeats=repeats, threads=feeders, seed=seed
    )
    results = gate_bench.benchmark(options, _progress)
    gate_bench.print_results(results, _console(WIDTH_MIN))
    if json is not None:
        results.write(json)
    raise typer.Exit(1 if results.disagreements else 0)


def _console(width_min: int) -> Console:
    console = Console()
    console.width = max(console.width, width_min)
    return console


def _check_plot(plot: Path | None) -> None:
    if plot is not None:
        try:
            check_plot(plot)
        except MainstemError as error:
            raise typer.BadParameter(str(error), param_hint="--plot") from error


def _progress(line: str) -> None:
    """On standard error, so that tables can be piped."""
    print(line, file=sys.stderr, flush=True)


def _ways(names: Sequence[str] | None, always: Sequence[str] = ()) -> list[Way]:
    try:
        return ways_named(names or (), always)
    except MainstemError as error:
        raise typer.BadParameter(str(error), param_hint="--strategy") from error


def _known(option: str, given: Sequence[str] | None, known: Sequence[str] | dict[str, str]) -> Sequence[str]:
    for name in given or ():
        if name not in known:
            raise typer.BadParameter(f"{name!r} is none of {', '.join(known)}", param_hint=option)
    return given or ()


if __name__ == "__main__":
    cli()
