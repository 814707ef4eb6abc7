"""The commands of `mainstem`. Each is a thin layer over the library: what it does, a program can do too."""

from __future__ import annotations

import tempfile
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from mainstem.cli import doctor as health
from mainstem.cli import serving, stored, tools, view
from mainstem.cli.load import FORMS, load_app, load_generator
from mainstem.cli.view import guarded, out
from mainstem.errors import InputError
from mainstem.store.format import has_commits
from mainstem.store.layout import Layout

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Start with [bold]mainstem doctor[/], then [bold]mainstem demo[/].",
)


class Engine(StrEnum):
    auto = "auto"
    serial = "serial"
    lock = "lock"
    mvlk = "mvlk"
    pat = "pat"
    inflight = "inflight"
    chains = "chains"
    tpg = "tpg"
    components = "components"
    interpreted = "interpreted"
    oracle = "oracle"


class DurabilityMode(StrEnum):
    sync = "sync"
    batch = "batch"
    none = "none"


class Plan(StrEnum):
    auto = "auto"
    fused = "fused"
    one_stage = "one_stage"
    keyed = "keyed"
    mvps = "mvps"


class OnBad(StrEnum):
    stop = "raise"
    reject = "reject"


class Workload(StrEnum):
    ledger = "ledger"
    bank = "bank"
    grep_sum = "grep_sum"
    bidding = "bidding"
    toll = "toll"
    ledger_work = "ledger_work"
    spam = "spam"
    fraud = "fraud"
    meters = "meters"
    comments = "comments"


AppName = Annotated[str, typer.Argument(metavar="APP", help=f"The program: {FORMS}.")]
Events = Annotated[
    list[str],
    typer.Argument(
        metavar="EVENTS",
        help="Parquet, Arrow, CSV or JSON-lines files, folders or globs. Several arguments are merged by timestamp; "
        "files of one folder follow each other by name.",
    ),
]
StateDir = Annotated[Path | None, typer.Option("--state", help="Folder of durable state; continued if it exists.")]
OutDir = Annotated[Path | None, typer.Option("--out", help="Write the outputs there, as Parquet.")]
InitialDir = Annotated[
    Path | None,
    typer.Option("--initial", help="Folder of <Table>.parquet files to start from, unless --state holds commits."),
]
Show = Annotated[int, typer.Option("--show", min=0, help="Print this many output rows.")]
OnBadOption = Annotated[OnBad, typer.Option("--on-bad", help="Stop at a bad row, or set it aside with its reason.")]


@cli.callback()
def top() -> None:
    """Transactional stream processing on Spark: plain Python functions over shared state, as if run in order.

    [bold]A first tour[/], with the built-in ledger:

    $ mainstem generate ledger --events 100000 --out log/
    $ mainstem run ledger log/ --state bank/ --out results/
    $ mainstem query bank/ "select count(*), sum(balance) from Account"
    $ mainstem explain ledger
    $ mainstem replay ledger log/ --out results-spark/
    """


@cli.command()
@guarded
def demo(
    events: Annotated[int, typer.Option("--events", min=1_000, help="Length of the log.")] = 1_000_000,
    folder: Annotated[Path | None, typer.Option("--dir", help="Keep log, state and outputs there.")] = None,
) -> None:
    """Replay, live run and query of a ledger on Spark, each checked against the serial run.

    $ mainstem demo
    $ mainstem demo --events 5000000 --dir /tmp/ledger
    """
    from mainstem.cli.demo import show

    with tempfile.TemporaryDirectory(prefix="mainstem-demo-") as scratch:
        if folder is not None:
            _must_be_free(folder, "--dir")
        passed = show(folder or Path(scratch), events)
    if folder is not None:
        out.print(
            f"\nkept in {folder}; try: mainstem query {folder / 'live' / 'state'} 'select * from Account limit 5'"
        )
    if not passed:
        raise typer.Exit(view.EXIT_FAILED)


@cli.command()
@guarded
def run(
    name: AppName,
    events: Events,
    state: StateDir = None,
    out_dir: OutDir = None,
    initial: InitialDir = None,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Events per batch: one commit each.")] = 65_536,
    on_bad: OnBadOption = OnBad.stop,
    engine: Annotated[
        Engine, typer.Option(help="How batches run. All give the same result; oracle: plain Python, event by event.")
    ] = Engine.auto,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, help="Threads of a batch; all cores unless given.")
    ] = None,
    durability: Annotated[
        DurabilityMode, typer.Option(help="When batches of --state are synced: each, those that wait together, never.")
    ] = DurabilityMode.sync,
    keep: Annotated[int, typer.Option("--keep", min=1, help="Snapshots of --state that stay, with the log since.")] = 2,
    resume: Annotated[bool, typer.Option("--resume", help="The same log again: skip what --state has seen.")] = False,
    show: Show = 5,
) -> None:
    """Run a program over stored events in this process, without Spark.

    $ mainstem run ledger log/
    $ mainstem run shop.py orders.parquet payments.csv --state shop/ --out results/
    $ mainstem run shop.py:app orders.parquet --engine oracle --batch 1000

    With the same --state and new events, the state goes on. After a crash, run the same command with --resume.
    """
    loaded = load_app(name)
    goes_on = _holds_commits(state)
    result = loaded.app.run(
        events if len(events) > 1 else events[0],
        state=state,
        initial=loaded.initial(initial),
        batch=batch,
        on_bad=on_bad.value,
        out=out_dir,
        engine=engine.value,
        threads=threads,
        durability=durability.value,
        keep=keep,
        resume=resume,
    )
    _tell_unused(initial, goes_on, state)
    view.print_result(result, state=state, out_dir=out_dir, show=show)


@cli.command()
@guarded
def replay(
    name: AppName,
    events: Events,
    state: StateDir = None,
    out_dir: OutDir = None,
    initial: InitialDir = None,
    master: Annotated[str, typer.Option(help="Spark master, e.g. local[4] or spark://host:7077.")] = "local[*]",
    plan: Annotated[Plan, typer.Option(help="Force a plan; auto follows from the program and its inputs.")] = Plan.auto,
    on_bad: OnBadOption = OnBad.stop,
    show: Show = 5,
) -> None:
    """Replay stored events through a program on Spark.

    $ mainstem replay ledger log/
    $ mainstem replay shop.py:app 'orders/*.parquet' --out results/ --master spark://host:7077
    """
    from mainstem.cli.sparked import quiet_session
    from mainstem.spark import replay_info

    loaded = load_app(name)
    goes_on = _holds_commits(state)
    with quiet_session(master) as spark, tempfile.TemporaryDirectory() as scratch:
        started = time.perf_counter()
        outputs = loaded.app.replay(
            spark,
            events if len(events) > 1 else events[0],
            state=state,
            initial=loaded.initial(initial),
            out=out_dir or (None if state else scratch),
            plan=plan.value,
            on_bad=on_bad.value,
        )
        seconds = time.perf_counter() - started
        counts = outputs.groupBy("status", "reason").count().toArrow()
        first = outputs.orderBy("seq").limit(show).toArrow()
        info = replay_info(outputs)
    _tell_unused(initial, goes_on, state)
    view.print_outcomes(view.in_order([(row["status"], row["reason"], row["count"]) for row in counts.to_pylist()]))
    view.print_replay(info, seconds, state)
    if show:
        out.print(view.arrow_table(first, show))


@cli.command()
@guarded
def explain(
    name: AppName,
    mermaid: Annotated[bool, typer.Option("--mermaid", help="The stages of a replay as Mermaid text.")] = False,
    what_if: Annotated[
        list[str] | None,
        typer.Option("--what-if", metavar="NAME=NUMBER", help="hosts=32, and maybe cores=, batch=, network_mb=."),
    ] = None,
    log: Annotated[
        list[str] | None, typer.Option("--log", metavar="EVENTS", help="The log to measure with, for --what-if.")
    ] = None,
    sample: Annotated[int, typer.Option("--sample", min=4, help="Events of the log that --what-if runs.")] = 200_000,
    initial: InitialDir = None,
) -> None:
    """Tables, functions, what each reads and writes, and how it will run and why.

    $ mainstem explain ledger
    $ mainstem explain shop.py:app --mermaid > graph.mmd
    $ mainstem explain spam --what-if hosts=32 --log log/

    With --what-if: how fast a replay of the log would be on 1, 2, 4 … hosts, and what would limit it. A prediction.
    """
    loaded = load_app(name)
    if not what_if:
        if log:
            raise InputError("--log is what --what-if measures with\n  add --what-if hosts=32, or drop --log")
        out.print(loaded.app.explain(format="mermaid" if mermaid else "text"), markup=False, soft_wrap=True)
        return
    if not log:
        raise InputError("--what-if measures with events\n  add --log and the files of a log")
    text = loaded.app.explain(
        format="mermaid" if mermaid else "text",
        what_if=dict(_number(option) for option in what_if),
        log=log if len(log) > 1 else log[0],
        sample=sample,
        initial=loaded.initial(initial),
    )
    out.print(text, markup=False, soft_wrap=True)


for command in (*stored.COMMANDS, *tools.COMMANDS, serving.serve):
    cli.command()(command)


@cli.command()
@guarded
def doctor() -> None:
    """Check this machine: Python, packages, Java, Spark, cores, disk; says what to do about what is missing.

    $ mainstem doctor
    """
    checks = []
    for check in health.examine():
        checks.append(check)
        mark = "[green]ok[/]  " if check.ok else "[red]fix[/] "
        out.print(f"{mark}[bold]{check.name:<14}[/] {check.found}", soft_wrap=True)
        if not check.ok:
            out.print(f"    {'':<14} → {check.remedy}", markup=False, soft_wrap=True)
    if not all(check.ok for check in checks):
        raise typer.Exit(view.EXIT_FAILED)
    out.print("All is well. Next: [bold]mainstem demo[/]")


@cli.command()
@guarded
def generate(
    workload: Annotated[Workload, typer.Argument(help="Which built-in app to make events for.")],
    path: Annotated[Path, typer.Option("--out", help="A .parquet file, or a folder for several files.")],
    events: Annotated[int, typer.Option("--events", min=1, help="How many.")] = 1_000_000,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed gives the same events.")] = 0,
    files: Annotated[int, typer.Option("--files", min=1, help="Files to cut a folder into.")] = 4,
) -> None:
    """Write a log of generated events.

    $ mainstem generate ledger --events 1000000 --out log/
    $ mainstem generate bank --events 5000 --seed 7 --out requests.parquet
    """
    _must_be_free(path, "--out")
    write_log = load_generator(workload.value)
    with view.progress("generating", events) as bar:
        if path.suffix == ".parquet":
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=path.resolve().parent) as scratch:
                (part,) = write_log(scratch, events, seed=seed, files=1, progress=bar.at)
                part.replace(path)
        else:
            write_log(path, events, seed=seed, files=files, progress=bar.at)
    out.print(f"{events:,} {workload.value} events in {path}")


def _holds_commits(state: Path | None) -> bool:
    return state is not None and state.is_dir() and has_commits(Layout(state))


def _tell_unused(initial: Path | None, goes_on: bool, state: Path | None) -> None:
    if initial is not None and goes_on:
        out.print(f"--initial was not used: {state} holds commits, and goes on from them", markup=False, soft_wrap=True)


def _number(option: str) -> tuple[str, int]:
    """("hosts", 32) of "hosts=32"."""
    name, _, value = option.partition("=")
    try:
        return name, int(value)
    except ValueError:
        raise InputError(f"--what-if {option}\n  write a name and a whole number, e.g. hosts=32") from None


def _must_be_free(path: Path, option: str) -> None:
    if path.is_file() or (path.is_dir() and any(path.iterdir())):
        raise InputError(f"{path} exists: choose another {option}, or delete it first")
