"""One batch of transactions: strategies behind one interface, outputs as Arrow columns."""

from __future__ import annotations

from typing import Any

from mainstem.engine.auto import AutoExecutor
from mainstem.engine.executor import Executor
from mainstem.engine.interpret import Interpreter, inferred_schema, outputs_to_arrow, rows_of_arrow
from mainstem.engine.interpreted import InterpretedExecutor
from mainstem.engine.options import ENGINES, PARALLEL, check_functions, strategy_of
from mainstem.engine.parallel import ParallelExecutor
from mainstem.engine.result import BatchResult, BatchStats, Breakdown
from mainstem.errors import ProgramError
from mainstem.lang import Program
from mainstem.state import JIT_ENABLED, State

__all__ = [
    "ENGINES",
    "BatchResult",
    "BatchStats",
    "Breakdown",
    "Executor",
    "InterpretedExecutor",
    "Interpreter",
    "ParallelExecutor",
    "inferred_schema",
    "make_executor",
    "outputs_to_arrow",
    "rows_of_arrow",
]


def make_executor(
    program: Program, state: State, engine: str = "auto", *, jit: bool | None = None, track: bool = False,
    threads: int | None = None, **options: Any,
) -> Executor | InterpretedExecutor:  # fmt: skip
    """The executor of that name. `auto` compiles when it can; `track` keeps note of changed rows.

    `threads` (default: the usable cores) and `options` (`explore`, `unit`, …) are for parallel strategies.
    """
    strategy = strategy_of(engine, **options)
    check_functions(strategy, [f.name for f in program.functions])
    if threads is not None and (not isinstance(threads, int) or threads < 1):
        raise ProgramError(f"threads={threads!r}", remedy="pass a positive number, or leave it out to use all cores")
    if engine == "interpreted" or (engine == "auto" and not program.compiled):
        return InterpretedExecutor(program, state)
    if not program.compiled:
        raise ProgramError(
            f"app {program.name} can't run compiled: {program.why_interpreted[0]}",
            remedy="use engine='auto' to run it interpreted, or move that work to @app.derive",
        )
    compiled = JIT_ENABLED if jit is None else jit
    if engine in PARALLEL:
        return ParallelExecutor(program, state, strategy, threads=threads, jit=compiled, track=track)
    if engine == "auto":
        return AutoExecutor(program, state, threads=threads, jit=compiled, track=track)
    return Executor(program, state, jit=compiled, track=track)
