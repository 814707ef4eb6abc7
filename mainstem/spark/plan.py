"""Which plan runs a program on Spark, and why."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mainstem.errors import ProgramError, SparkError
from mainstem.lang import Program
from mainstem.lang.dataflow import Dataflow
from mainstem.replay.spool import why_not_spooled
from mainstem.spark.sources import Source

PLANS = ("auto", "fused", "one_stage", "keyed", "mvps")

MANY_PARTITIONS = 4
"""From here on `auto` cuts a program without derive functions into stages, if it has several: fewer cores run compiled
transactions no faster than one task that reads, runs and writes."""

RUN_NS, MOVE_NS = 150, 500
"""What an event costs one core, roughly: its transactions and output, and being handed from task to task."""


@dataclass(frozen=True)
class Choice:
    plan: str
    reason: str


def check_program(program: Program) -> None:
    """Spark needs to know the output columns before the first event, and workers have no user source."""
    if not program.compiled:
        raise ProgramError(
            f"app {program.name} can't run on Spark, because it can't be compiled: {program.why_interpreted[0]}",
            remedy="move that work to @app.derive, or use app.run, which interprets it",
        )


def choose(
    program: Program, sources: Sequence[Source], asked: str, partitions: int, flow: Dataflow | None = None,
    needs: Sequence[str] = (), now: bool = True, derive_ns: Callable[[], float] = lambda: 0.0,
) -> Choice:  # fmt: skip
    """The plan of a replay. Asking for one that is not possible is an error that says why.

    `needs`: options that were given and that only staged replays have. `now`: the replay runs at once; a lazy one is
    not staged unless it is asked for. `derive_ns` measures what derive functions take per event.
    """
    if asked not in PLANS:
        raise SparkError(f"there is no plan {asked!r}\n  use one of {', '.join(PLANS)}")
    staged = why_not_staged(program, sources, flow)
    if asked == "mvps" or (needs and asked == "auto"):
        if staged:
            given = "plan='mvps'" if asked == "mvps" else f"{needs[0]}= is for plan='mvps', which"
            why = f"{given} is not possible for app {program.name}: {staged}"
            raise SparkError(f"{why}\n  use plan='auto', 'fused' or 'one_stage'")
        return Choice("mvps", "asked for" if asked == "mvps" else f"{needs[0]}= was given")
    if needs:
        raise SparkError(f"{needs[0]}= is for plan='mvps', not for plan={asked!r}\n  leave out one of them")
    frames = [source.index for source in sources if source.df is not None]
    keyed = why_not_keyed(program)
    if asked == "fused" and frames:
        raise SparkError(
            f"plan='fused' reads files inside one task, but input {frames[0]} is a DataFrame\n"
            "  pass its path, or use plan='one_stage'"
        )
    if asked == "keyed" and keyed:
        raise SparkError(f"plan='keyed' is not possible for app {program.name}: {keyed}\n  use plan='one_stage'")
    if asked != "auto":
        return Choice(asked, "asked for")
    alone = "" if frames else why_one_task(program, partitions, derive_ns)
    windows = f"; {why_one_order(program)}" if program.windows else ""
    if alone:
        return Choice("fused", alone + windows)
    pays = "" if staged or flow is None or not now else why_staged_pays(program, flow, partitions)
    if pays and keyed:
        return Choice("mvps", pays)
    if not frames and not program.derives:
        return Choice(
            "fused",
            "the inputs are files and there are no derive functions: moving events costs more than running them"
            + windows,
        )
    if program.derives and not keyed and partitions > 1:
        return Choice("keyed", "derive functions run in parallel, and every event touches one key")
    why = "derive functions run in parallel" if program.derives else f"input {frames[0]} is a DataFrame"
    return Choice("one_stage", f"{why}; {keyed or 'one state task keeps up with the tasks that feed it'}")


def why_one_order(program: Program) -> str:
    """Why neither shards nor stages, which see some of the events only; empty when there are no windows."""
    if not program.windows:
        return ""
    names = ", ".join(window.name for window in program.windows)
    return f"it has windows ({names}), which close between events of one order, in one task"


def why_not_keyed(program: Program) -> str:
    """Empty when the keyed plan is legal."""
    if program.windows:
        return why_one_order(program)
    if program.keyed is None:
        return "some event touches more than one key, or a key that is not a plain column of the event"
    return ""


def why_not_staged(program: Program, sources: Sequence[Source], flow: Dataflow | None) -> str:
    """Empty when a staged replay is legal."""
    if program.windows:
        return why_one_order(program)
    if flow is None:
        return "the stages of a program are found from its functions, so only app.replay knows them"
    why = why_not_spooled(program)
    if why and any(source.df is not None and source.event is None for source in sources):
        return f"rows of a DataFrame are kept as Parquet, and {why}"
    return ""


def why_staged_pays(program: Program, flow: Dataflow, partitions: int) -> str:
    """Why stages should be faster; empty when they should not.

    Some stage must run in several shards. Then it pays when derive functions have work for all cores, or when there
    are several stages to run on many of them.
    """
    keyed = [stage for stage in flow.stages if stage.keyed]
    if not keyed or partitions < 2:
        return ""
    stages = f"{len(keyed)} of {len(flow.stages)} stages run in {partitions} shards"
    if program.derives:
        return f"derive functions run in parallel, and {stages}"
    if len(flow.waves) > 1 and partitions >= MANY_PARTITIONS:
        return stages
    return ""


def why_one_task(program: Program, partitions: int, derive_ns: Callable[[], float]) -> str:
    """Why derive functions need no other cores than those of one task; empty when they do, or there are none.

    One task derives in one thread and runs transactions in another, so the slower of both counts.
    """
    if not program.derives:
        return ""
    cost = derive_ns()
    if max(cost, RUN_NS) * partitions > cost + MOVE_NS:
        return ""
    return (
        f"derive functions take {cost:,.0f} ns per event of a sample, which one task does beside the transactions: "
        f"moving events to {partitions} cores would take longer"
    )


def describe_stages(flow: Dataflow) -> tuple[str, ...]:
    """One line per stage: its wave, its tables, whether it is cut by key, and why if not."""
    lines = []
    for stage in flow.stages:
        tables = ", ".join(flow.program.tables[table].name for table in stage.tables)
        why = f" ({stage.why})" if stage.why else ""
        lines.append(f"wave {stage.wave}: {tables}, {'by key' if stage.keyed else 'one task'}{why}")
    return tuple(lines)
