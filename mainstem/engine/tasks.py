"""Kernels with their arguments, as tasks for the threads of a team.

A compiled kernel becomes a function of one context, like generated entry points: threads that look out for their next
batch call it without Python (`mainstem/waiting.py`), and nobody has to take a dozen arrays apart for each call.
"""

from __future__ import annotations

import functools
from array import array
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mainstem.engine.entry import Bound
from mainstem.engine.kernels import load as load_kernels
from mainstem.engine.load import compiling, load
from mainstem.team import Task

_HEAD = """\
from mainstem.engine.native import word
from mainstem.engine.kernels.{module} import {kernel}

INT32 = np.dtype("i4")
INT64 = np.dtype("i8")


@entry
def task(context, item, worker):
    {kernel}(
{arguments}
        worker,
    )
    return 0
"""
_WORD = "word(context, {0})"
_TYPES = {np.dtype(np.int32): "INT32", np.dtype(np.int64): "INT64"}


class CompiledTask:
    """A call of a compiled kernel, but for the number of the worker."""

    def __init__(self, function: int, bound: Bound, arguments: Sequence[Any]) -> None:
        self.function = function
        words = [bound.function, 0, bound.context, 0]
        for argument in arguments:
            words += _words(argument)
        # An address is good only as long as its array lives.
        self._kept = (array("q", words), bound, arguments)
        self.context = self._kept[0].buffer_info()[0]
        self._call = load_kernels("verdicts", True).call

    def __call__(self, worker: int) -> None:
        self._call(self.function, self.context, 0, worker)


def task_of(module: str, kernel: str, jit: bool, bound: Bound, *arguments: Any) -> Task:
    """A kernel of `engine/kernels` that runs an entry point, to be called with these arguments and the number of the
    worker. Compiled, arguments are integers, and arrays of them with one or two dimensions."""
    if jit:
        function = _address(module, kernel, tuple(map(_taken, arguments)))
        return CompiledTask(function, bound, arguments)
    run = getattr(load_kernels(module, False), kernel)
    return lambda worker: run(bound.function, bound.context, *arguments, worker)


@functools.cache
def _address(module: str, kernel: str, takes: tuple[str, ...]) -> int:
    lines, place = [], 0
    for take in (_WORD, _WORD, *takes):
        lines.append("        " + take.format(place, place + 1) + ",")
        place += 2 if "{1}" in take else 1
    source = _HEAD.format(module=module, kernel=kernel, arguments="\n".join(lines))
    with compiling(source):
        return int(load(source, True)["task"].address)


def _taken(argument: Any) -> str:
    """How a kernel's argument comes out of the context, from place {0} on."""
    if not isinstance(argument, np.ndarray):
        return _WORD
    if argument.ndim == 1:
        return f"take(context, {{0}}, {_TYPES[argument.dtype]})"
    return f"take_matrix(context, {{0}}, {_TYPES[argument.dtype]}, word(context, {{1}}))"


def _words(argument: Any) -> tuple[int, ...]:
    """The same in the context: two words for each place."""
    if not isinstance(argument, np.ndarray):
        return (int(argument), 0)
    address = pa.py_buffer(argument).address  # as in `EntryPoint.bind`
    if argument.ndim == 1:
        return (address, len(argument))
    return (address, argument.shape[0], argument.shape[1], 0)
