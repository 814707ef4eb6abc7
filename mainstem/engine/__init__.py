"""One batch of transactions: strategies behind one interface, outputs as Arrow columns."""

from __future__ import annotations

from typing import Any

from mainstem.engine.auto import AutoExecutor
from mainstem.engine.changes import Changes, with_changes
from mainstem.engine.executor import Executor
from mainstem.engine.interpret import Interpreter, rows_of_arrow
from mainstem.engine.interpreted import InterpretedExecutor
from mainstem.engine.isolated import IsolatedExecutor
from mainstem.engine.options import ENGINES, PARALLEL, Level, Strategy, check_functions, check_threads, strategy_of
from mainstem.engine.parallel import ParallelExecutor
from mainstem.engine.result import BatchResult, BatchStats, Breakdown
from mainstem.engine.returned import InferredOutputs, outputs_to_arrow
from mainstem.engine.strategies import keeping_versions
from mainstem.errors import ProgramError
from mainstem.jit import JIT_ENABLED
from mainstem.lang import Program
from mainstem.state import State

__all__ = [
    "ENGINES",
    "BatchResult",
    "BatchStats",
    "Breakdown",
    "Executor",
    "InferredOutputs",
    "InterpretedExecutor",
    "Interpreter",
    "ParallelExecutor",
    "make_executor",
    "outputs_to_arrow",
    "rows_of_arrow",
]


def make_executor(
    program: Program, state: State, engine: str = "auto", *, jit: bool | None = None, track: bool = False,
    threads: int | None = None, isolation: str | None = None, protocol: str | None = None, history: bool = False,
    changes: bool = False, **options: Any,
) -> Executor | InterpretedExecutor:  # fmt: skip
    """The executor of that name. `auto` compiles when it can; `track` keeps note of changed rows.

    `threads` (default: the usable cores) and `options` (`explore`, `unit`, …) are for parallel strategies. `isolation`
    and `protocol` (default: those of each function) count when `engine` is `auto`; `history` records what they do.
    `changes` adds what each transaction changed to the outputs: strategies that work in place give way to `mvlk`, which
    keeps versions of rows.
    """
    strategy = strategy_of(engine, **options)
    check_functions(strategy, [f.name for f in program.functions])
    check_threads(threads)
    levels = [Level(isolation or f.isolation, protocol or f.protocol) for f in program.functions]
    if history:
        _check_history(program, levels)
    if engine == "interpreted" or (engine == "auto" and not program.compiled and protocol in (None, "auto")):
        return InterpretedExecutor(program, state, changes=changes)
    if not program.compiled:
        instead = "use engine='auto'" if engine != "auto" else "drop protocol="
        raise ProgramError(
            f"app {program.name} can't run compiled: {program.why_interpreted[0]}",
            remedy=f"{instead} to run it interpreted, or move that work to @app.derive",
        )
    compiled = JIT_ENABLED if jit is None else jit
    if changes:
        return _changing(program, state, strategy, levels, history, threads, compiled, track)
    if engine in PARALLEL:
        return ParallelExecutor(program, state, strategy, threads=threads, jit=compiled, track=track)
    if engine == "auto" and not all(level.in_order for level in levels):
        return IsolatedExecutor(program, state, levels, history=history, threads=threads, jit=compiled, track=track)
    if engine == "auto":
        return AutoExecutor(program, state, threads=threads, jit=compiled, track=track)
    return Executor(program, state, jit=compiled, track=track)


def _changing(
    program: Program, state: State, strategy: Strategy, levels: list[Level], history: bool, threads: int | None,
    jit: bool, track: bool,
) -> Executor:  # fmt: skip
    """An executor that collects what each transaction changes."""
    with_changes(program)
    how: dict[str, Any] = {"threads": 1 if strategy.engine == "serial" else threads, "jit": jit, "track": track}
    made: ParallelExecutor
    if strategy.engine == "auto" and not all(level.in_order for level in levels):
        made = IsolatedExecutor(program, state, levels, history=history, changes=True, **how)
    else:
        made = ParallelExecutor(program, state, keeping_versions(strategy), **how)
    made.changes = Changes(made.operations.tables)
    return made


def _check_history(program: Program, levels: list[Level]) -> None:
    """A history is what a protocol did: there must be one."""
    if not program.compiled:
        raise ProgramError(
            f"history=True, but app {program.name} runs interpreted: {program.why_interpreted[0]}",
            remedy="drop history=True, or move that work to @app.derive",
        )
    for function, level in zip(program.functions, levels, strict=True):
        if level.in_order:
            raise ProgramError(
                f"history=True, but {function.name} runs in event order without a protocol: nothing happens at a time",
                remedy="pass protocol='lock' or protocol='timestamp'",
            )
