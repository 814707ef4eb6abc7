"""Which plan runs a program on Spark, and why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mainstem.errors import ProgramError, SparkError
from mainstem.lang import Program
from mainstem.spark.sources import Source

PLANS = ("auto", "fused", "one_stage", "keyed")


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


def choose(program: Program, sources: Sequence[Source], asked: str, partitions: int) -> Choice:
    """The plan of a replay. Asking for one that is not possible is an error that says why."""
    if asked not in PLANS:
        raise SparkError(f"there is no plan {asked!r}\n  use one of {', '.join(PLANS)}")
    frames = [source.index for source in sources if source.df is not None]
    keyed = why_not_keyed(program)
    if asked == "fused" and frames:
        raise SparkError(
            f"plan='fused' reads files inside one task, but input {frames[0]} is a DataFrame\n"
            "  pass its path, or use plan='one_stage'"
        )
    if asked == "keyed" and keyed:
        raise SparkError(f"plan='keyed' is not possible: {keyed}\n  use plan='one_stage'")
    if asked != "auto":
        return Choice(asked, "asked for")
    if not frames and not program.derives:
        return Choice(
            "fused",
            "the inputs are files and there are no derive functions: moving events costs more than running them",
        )
    if program.derives and not keyed and partitions > 1:
        return Choice("keyed", "derive functions run in parallel, and every event touches one key")
    why = "derive functions run in parallel" if program.derives else f"input {frames[0]} is a DataFrame"
    return Choice("one_stage", f"{why}; {keyed or 'one state task keeps up with the tasks that feed it'}")


def why_not_keyed(program: Program) -> str:
    """Empty when the keyed plan is legal."""
    if program.keyed is None:
        return "some event touches more than one key, or a key that is not a plain column of the event"
    return ""
