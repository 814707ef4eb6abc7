"""One batch of transactions: strategies behind one interface, outputs as Arrow columns."""

from __future__ import annotations

from mainstem.engine.executor import Executor
from mainstem.engine.interpret import Interpreter, inferred_schema, outputs_to_arrow, rows_of_arrow
from mainstem.engine.interpreted import InterpretedExecutor
from mainstem.engine.result import BatchResult, BatchStats
from mainstem.errors import ProgramError
from mainstem.lang import Program
from mainstem.state import JIT_ENABLED, State

# What `app.run(engine=…)` takes; the oracle runs outside batches and is listed for the error message.
ENGINES = ("auto", "serial", "interpreted", "oracle")

__all__ = [
    "ENGINES",
    "BatchResult",
    "BatchStats",
    "Executor",
    "InterpretedExecutor",
    "Interpreter",
    "inferred_schema",
    "make_executor",
    "outputs_to_arrow",
    "rows_of_arrow",
]


def make_executor(
    program: Program, state: State, engine: str = "auto", *, jit: bool | None = None, track: bool = False
) -> Executor | InterpretedExecutor:
    """The executor of that name. `auto` compiles when it can; `track` keeps note of changed rows."""
    if engine not in ENGINES:
        raise ProgramError(f"there is no engine {engine!r}", remedy=f"use one of {', '.join(ENGINES)}")
    if engine == "interpreted" or (engine == "auto" and not program.compiled):
        return InterpretedExecutor(program, state)
    if not program.compiled:
        raise ProgramError(
            f"app {program.name} can't run compiled: {program.why_interpreted[0]}",
            remedy="use engine='auto' to run it interpreted, or move that work to @app.derive",
        )
    return Executor(program, state, jit=JIT_ENABLED if jit is None else jit, track=track)
