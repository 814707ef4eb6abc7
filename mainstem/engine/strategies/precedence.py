"""The task precedence graph of a batch: vertices, what they depend on, and what has happened to them so far."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from mainstem.engine.kernels import load
from mainstem.engine.kernels import vertex as slots
from mainstem.engine.work import Work


class Tally(NamedTuple):
    """Counts of one run."""

    vertices: int = 0
    dependencies: int = 0
    units: int = 0  # vertices, groups or chains
    merged: int = 0  # groups that went into others because of cycles
    strata: int = 0  # 0 when the strategy needs none
    runs: int = 0  # of vertices, again or for the first time
    reruns: int = 0  # of these: again, after a rollback
    skips: int = 0  # vertices that did not run because their transaction was known to abort
    failures: int = 0  # runs that gave an abort code
    settles: int = 0  # times that the graph was repaired
    rolled_back: int = 0
    rounds: int = 0  # strata opened (bfs) or walks of a chain (chains)
    steals: int = 0  # units taken from another thread (ns)


_COUNTED = {
    "runs": slots.RUNS,
    "reruns": slots.RERUNS,
    "skips": slots.SKIPS,
    "failures": slots.FAILURES,
    "settles": slots.SETTLES,
    "rolled_back": slots.ROLLED_BACK,
    "rounds": slots.ROUNDS,
    "steals": slots.STEALS,
}


@dataclass(frozen=True)
class Precedence:
    """Dependencies of vertices (`dep`) and dependents (`out`), the kernels' view of the batch, and a fresh progress."""

    work: Work
    threads: int
    dep_lo: np.ndarray
    dep: np.ndarray
    out_lo: np.ndarray
    out: np.ndarray
    plan: Any
    progress: Any

    @property
    def vertices(self) -> int:
        return len(self.dep_lo) - 1

    def kernels(self, name: str) -> ModuleType:
        return load(name, self.work.jit)

    def repair(self, unit_of: np.ndarray, done: np.ndarray) -> Any:
        """What settling needs; `done` says which units are."""
        work, settle, transactions = self.work, self.kernels("settle"), len(self.work.todo)
        return settle.Repair(
            self.dep_lo, self.dep, self.out_lo, self.out, unit_of, done,
            work.room("heap", transactions), work.zeros("listed", transactions),
            work.room("stale", self.vertices), work.room("reopened", len(done)), work.zeros("counts", settle.COUNTS),
        )  # fmt: skip

    def tally(self, **known: int) -> Tally:
        lanes = self.progress.tally.reshape(self.threads, slots.LANE).sum(axis=0)
        counted = {name: int(lanes[slot]) for name, slot in _COUNTED.items()}
        return Tally(vertices=self.vertices, dependencies=len(self.dep), **known, **counted)


def build(work: Work, threads: int) -> Precedence:
    """Finds the dependencies between the vertices of `work`; its codes begin with zeros."""
    edges, vertices = load("edges", work.jit), len(work.v_lo) - 1
    dep_lo, out_lo = work.room("dep_lo", vertices + 1), work.room("out_lo", vertices + 1)
    dep = work.room("dep", len(work.ref_op))
    count = edges.find_dependencies(
        work.v_lo, work.ref_op, work.op_prev, work.op_owner, work.room("stamp", vertices), dep_lo, dep
    )
    dep, out = dep[:count], work.room("out", count)
    edges.transpose(dep_lo, dep, out_lo, out)
    return Precedence(work, threads, dep_lo, dep, out_lo, out, _plan(work, vertices), _progress(work, dep_lo, threads))


def _plan(work: Work, vertices: int) -> Any:
    index = work.room("index", vertices)
    load("edges", work.jit).index_vertices(work.t_lo, index)
    return load("vertex", work.jit).Plan(
        index, work.t_lo, work.v_lo, work.ref_op, work.ref_mode, work.op_row, work.op_prev, work.op_slot,
        work.op_src, work.op_ver, work.row_base,
    )  # fmt: skip


def _progress(work: Work, dep_lo: np.ndarray, threads: int) -> Any:
    vertices = len(dep_lo) - 1
    state = work.room("state", vertices)
    np.equal(dep_lo[1:], dep_lo[:-1], out=state, casting="unsafe")  # RDY is 1 and BLK is 0
    work.v_code[:] = 0
    return load("vertex", work.jit).Progress(
        state, work.zeros("ran", vertices), work.v_code, work.zeros("aborted", len(work.todo)),
        work.room("failed", vertices), work.zeros("tally", threads * slots.LANE),
    )  # fmt: skip


def group_vertices(graph: Precedence) -> tuple[np.ndarray, np.ndarray]:
    """The group of each vertex, by row; and the local row of each group, -1 for a vertex that needs none."""
    work, vertices = graph.work, graph.vertices
    of, group_row = work.room("group_of", vertices), work.room("group_row", vertices)
    count = graph.kernels("groups").group_by_row(
        work.v_lo, work.ref_op, work.ref_mode, work.op_row, work.room("row_group", len(work.row_base)), of, group_row
    )
    return of, group_row[:count]
