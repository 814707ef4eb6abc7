"""What a strategy gets: the arrays of a batch, entry points to run transactions, threads, clocks."""

from __future__ import annotations

import copy
from dataclasses import fields
from typing import Any

import numpy as np

from mainstem.engine.buffers import Scratch
from mainstem.engine.entry import Bound, EntryPoint
from mainstem.engine.kernels.control import CLOCKS, CONTROL_WORDS
from mainstem.engine.layout import Batch, Graph, Layout, Numbered, Versions
from mainstem.engine.options import Strategy
from mainstem.engine.tasks import task_of
from mainstem.engine.weights import Weights
from mainstem.team import Task

_OF_BATCH = {field.name for field in fields(Batch)}


class Work:
    """Some transactions of a batch (`todo`, ascending) to be run by one strategy.

    Arrays of `Batch`, `Versions` and `Graph` are attributes, too, under the names of docs/design/engine.md.
    """

    def __init__(
        self, numbered: Numbered, todo: np.ndarray, arrays: dict[str, Any], layout: Layout, scratch: Scratch,
        direct: EntryPoint, versioned: EntryPoint, threads: int, weights: Weights, strategy: Strategy,
    ) -> None:  # fmt: skip
        self.numbered, self.todo, self.arrays, self.layout, self.scratch = numbered, todo, arrays, layout, scratch
        self.code, self.jit, self.weights, self.strategy = arrays["code"], layout.jit, weights, strategy
        self.name = ""  # of its scratch arrays: works that run at the same time share none
        self.versions: Versions | None = None
        self.graph: Graph | None = None
        self.retries = 0  # executions that a protocol repeated
        self.accesses: Any = None  # what a protocol left (`kernels/rows.py`): who read and installed which version
        self._direct, self._versioned = direct, versioned
        self._named: dict[str, Any] = {"fn": numbered.fn, "ev": numbered.ev}
        self._staff(threads)

    def _staff(self, threads: int) -> None:
        self.threads = threads
        self.control = np.zeros(CONTROL_WORDS, np.int64)
        self.clock = np.zeros((threads, CLOCKS), np.int64)

    def __getattr__(self, name: str) -> Any:
        named = self.__dict__.get("_named", {})
        if name not in named and name in _OF_BATCH:
            named = self._name_operations()
        try:
            return named[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def batch(self) -> Batch:
        return self.numbered.batch

    def _name_operations(self) -> dict[str, Any]:
        """Only now: some strategies do without operations."""
        self._named = {**vars(self.batch), **self._named}
        return self._named

    def narrowed(self, todo: np.ndarray, strategy: Strategy | None = None, name: str = "") -> Work:
        """The same batch with fewer transactions, perhaps for another strategy."""
        work = copy.copy(self)
        work.todo, work.strategy, work.name = todo, strategy or self.strategy, name
        work._staff(self.threads)
        work._named = dict(self._named)
        return work

    def staffed(self, first: int, threads: int) -> None:
        """Gives it workers of its own: those from `first` on of the batch's."""
        self._staff(threads)
        own = {n: a[first : first + threads] for n, a in self.arrays.items() if n[0] in "UV" and n[1:].isdigit()}
        self.arrays = {**self.arrays, **own}

    def room(self, name: str, count: int) -> np.ndarray:
        """A reusable int64 array of undefined content."""
        return self.scratch.array(f"{self.strategy.engine} {self.name} {name}", count, np.int64)

    def own(self, name: str, count: int) -> np.ndarray:
        """An array of the batch or of its versions, of its own from here on."""
        self._named[name] = array = self.room(name, count)
        return array

    def zeros(self, name: str, count: int) -> np.ndarray:
        array = self.room(name, count)
        array[:] = 0
        return array

    def direct(self) -> Bound:
        """The entry point that runs whole transactions in place."""
        return self._direct.bind({**self.arrays, **self._named})

    def task(self, module: str, kernel: str, bound: Bound, *arguments: Any) -> Task:
        """A kernel that runs transactions by an entry point, for all workers to call."""
        return task_of(module, kernel, self.jit, bound, *arguments)

    def on_versions(self, versions: Versions, *, parts: bool, name: str) -> None:
        """Builds its vertices. Records of versions follow when all works of the batch have theirs."""
        if parts:
            graph = self.layout.parts(self.batch, versions, self.arrays, self.todo, self.scratch, name)
        else:
            graph = self.layout.whole(self.batch, versions, self.todo, self.scratch, name)
        self.versions, self.graph = versions, graph
        self._named = {**self._name_operations(), **vars(versions), **vars(graph)}

    def versioned(self) -> Bound:
        """The entry point that runs vertices of the graph."""
        assert self.versions is not None
        records = {f"W{i}": array for i, array in enumerate(self.versions.records)}
        return self._versioned.bind({**self.arrays, **self._named, **records})


def operations_of(work: Work) -> np.ndarray:
    """The operations of its transactions, in order."""
    first, end = work.batch.txn_lo[work.todo], work.batch.txn_lo[work.todo + 1]
    sizes = end - first
    return np.repeat(first - np.cumsum(sizes) + sizes, sizes) + np.arange(sizes.sum())
