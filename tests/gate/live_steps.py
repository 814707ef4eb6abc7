"""Kernels as generators that stop before every atomic step, and all ways in which threads can take these steps.

The source of a kernel module is rewritten: an atomic operation becomes a `yield` of what it would do, a call of a
function that has such operations a `yield from`. The explorer then decides who does the next step. Two ways that lead
to the same shared words, the same places in the code with the same local variables, and the same history are one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import mainstem.gate.live.kernels as kernels

ATOMIC = ("atomic_load", "atomic_store", "atomic_release", "atomic_change")
Steps = Generator[tuple[str, np.ndarray, tuple[int, ...]], Any, Any]
Operation = tuple[str, tuple[Any, ...]]
Event = tuple[str, int, int, Any]  # "call" or "end", thread, number of its operation, result


class _Stepping(ast.NodeTransformer):
    def __init__(self, stepping: set[str]) -> None:
        self.stepping = stepping

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.func, ast.Name):
            return node
        if node.func.id == "keep_loads_apart":  # steps are taken one after the other
            return ast.Constant(None)
        if node.func.id in ATOMIC:
            array, *rest = node.args
            what = ast.Tuple([ast.Constant(node.func.id), array, ast.Tuple(rest, ast.Load())], ast.Load())
            return ast.Yield(what)
        return ast.YieldFrom(node) if node.func.id in self.stepping else node


def stepping_kernels(name: str, change: Callable[[str], str] = lambda text: text) -> ModuleType:
    """A module of kernels, uncompiled, with functions that step; `change` may alter its source before."""
    text = change((Path(kernels.__file__).parent / f"{name}.py").read_text())
    tree = ast.parse(text)
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    stepping = {
        name
        for name, node in functions.items()
        if any(isinstance(n, ast.Name) and n.id in ATOMIC for n in ast.walk(node))
    }
    while more := {
        name
        for name, node in functions.items()
        if name not in stepping and any(isinstance(n, ast.Name) and n.id in stepping for n in ast.walk(node))
    }:
        stepping |= more
    for node in functions.values():
        node.decorator_list = []
    module = ModuleType(f"stepping_{name}")
    module.__package__ = kernels.__name__
    exec(compile(ast.fix_missing_locations(_Stepping(stepping).visit(tree)), name, "exec"), vars(module))
    return module


def perform(step: tuple[str, np.ndarray, tuple[int, ...]]) -> Any:
    what, array, arguments = step
    if what == "atomic_load":
        return int(array[arguments[0]])
    if what in ("atomic_store", "atomic_release"):
        array[arguments[0]] = arguments[1]
        return None
    at, before, after = arguments
    if array[at] != before:
        return False
    array[at] = after
    return True


def run_alone(steps: Steps) -> Any:
    """All steps of a call, one after the other."""
    answer = None
    while True:
        try:
            answer = perform(steps.send(answer))
        except StopIteration as end:
            return end.value


class Run:
    """Some threads on their way; each does its operations one after the other."""

    def __init__(self, start: Callable[[], Any], call: Callable[[Any, Operation], Steps], plan: list[list[Operation]]):
        self.shared, self._call, self._plan = start(), call, plan
        self.history: list[Event] = []
        self._at = [-1] * len(plan)
        self._steps: list[Steps | None] = [None] * len(plan)
        self._pending: list[Any] = [None] * len(plan)
        for thread in range(len(plan)):
            self._begin(thread)

    def _begin(self, thread: int) -> None:
        self._at[thread] += 1
        if self._at[thread] == len(self._plan[thread]):
            self._steps[thread] = None
            return
        self._steps[thread] = self._call(self.shared, self._plan[thread][self._at[thread]])
        self._pending[thread] = None  # what it does first is not looked at before its turn: it may depend on others

    def ready(self) -> list[int]:
        return [thread for thread, steps in enumerate(self._steps) if steps is not None]

    def step(self, thread: int) -> None:
        """A thread does its next atomic step, and all that follows up to the one behind."""
        steps = self._steps[thread]
        assert steps is not None
        try:
            if self._pending[thread] is None:
                self.history.append(("call", thread, self._at[thread], None))
                self._pending[thread] = next(steps)
            else:
                self._pending[thread] = steps.send(perform(self._pending[thread]))
        except StopIteration as end:
            self.history.append(("end", thread, self._at[thread], end.value))
            self._begin(thread)

    def state(self) -> Any:
        words = tuple(part.tobytes() if isinstance(part, np.ndarray) else part for part in self.shared)
        return words, tuple(self._at), tuple(map(_place, self._steps)), tuple(self.history)


def _place(steps: Any) -> Any:
    """Where a call stands: lines and local variables of it and all calls inside."""
    found = []
    while steps is not None and steps.gi_frame is not None:
        frame = steps.gi_frame
        local = tuple((n, v) for n, v in frame.f_locals.items() if not isinstance(v, (np.ndarray, tuple, list)))
        found.append((frame.f_code.co_name, frame.f_lasti, local))
        steps = steps.gi_yieldfrom
    return tuple(found)


def all_histories(make: Callable[[], Run]) -> Iterator[tuple[list[Event], Any]]:
    """Every history that some way of taking turns leads to, with the shared state at its end."""
    seen: set[int] = set()
    stack: list[tuple[int, ...]] = [()]
    while stack:
        path = stack.pop()
        run = make()
        for thread in path:
            run.step(thread)
        while True:
            state = hash(run.state())
            if state in seen:
                break
            seen.add(state)
            choices = run.ready()
            if not choices:
                yield run.history, run.shared
                break
            stack.extend((*path, thread) for thread in choices[1:])
            path = (*path, choices[0])
            run.step(choices[0])
