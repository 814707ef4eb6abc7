"""MorphStream's task precedence graph: three ways to explore it, two units of work, two ways to handle aborts."""

from __future__ import annotations

from typing import Any

import numpy as np

from mainstem.engine.kernels.control import LINE
from mainstem.engine.strategies.precedence import Precedence, Tally, build, group_vertices
from mainstem.engine.work import Work
from mainstem.team import Crew


def run_tpg(work: Work, team: Crew) -> Tally:
    """Runs the vertices of `work`; then `op_ver` and the failures in `v_code` are those of the serial run."""
    if len(work.todo) == 0:
        return Tally()
    explore, eager = work.strategy.explore, int(work.strategy.abort == "eager")
    graph = build(work, team.threads)
    of, units, groups = _single(graph) if work.strategy.unit == "op" else _grouped(graph)
    units = units if explore == "ns" else _stratified(graph, units)
    cursor = {"bfs": _level, "dfs": _restart, "ns": _queues}[explore](graph, units)
    repair = graph.repair(of, units.done)
    run = getattr(graph.kernels(explore), f"{explore}_run")
    bound = work.versioned()
    team.run(
        lambda w: run(
            bound.function, bound.context, graph.plan, units, graph.progress, repair, cursor,
            work.control, work.clock, eager, team.threads, w,
        ),
        work.control,
    )  # fmt: skip
    count = len(units.done)
    return graph.tally(units=count, merged=groups - count, strata=len(units.stratum_lo) - 1)


def _single(graph: Precedence) -> tuple[np.ndarray, Any, int]:
    """Every vertex is a unit. Gives the unit of each vertex, the units, and how many there were before merging."""
    identity = graph.work.room("identity", graph.vertices + 1)
    identity[:] = np.arange(graph.vertices + 1)
    of = identity[:-1]
    units = _units(graph, identity, of, graph.dep_lo, graph.dep, graph.out_lo, graph.out)
    return of, units, graph.vertices


def _grouped(graph: Precedence) -> tuple[np.ndarray, Any, int]:
    """The vertices of one row are a unit; rows that depend on each other in a cycle are one."""
    edges, groups, room = graph.kernels("edges"), graph.kernels("groups"), graph.work.room
    of, group_row = group_vertices(graph)
    rows, vertex, dep = len(group_row), room("unit_vertex", graph.vertices), room("unit_dep", len(graph.dep))
    lo, dep_lo, component = room("unit_lo", rows + 1), room("unit_dep_lo", rows + 1), room("component", rows)
    edges.bucket(of, lo, vertex)
    groups.unit_dependencies(of, lo, vertex, graph.dep_lo, graph.dep, room("unit_stamp", rows), dep_lo, dep)
    scratch = [room(f"cycles {name}", rows) for name in ("index", "low", "at", "path", "open")]
    count = groups.merge_cycles(dep_lo, dep, *scratch, component)
    groups.relabel(of, component)
    lo, dep_lo, out_lo = lo[: count + 1], dep_lo[: count + 1], room("unit_out_lo", count + 1)
    edges.bucket(of, lo, vertex)
    found = groups.unit_dependencies(of, lo, vertex, graph.dep_lo, graph.dep, room("unit_stamp", count), dep_lo, dep)
    dep, out = dep[:found], room("unit_out", found)
    edges.transpose(dep_lo, dep, out_lo, out)
    return of, _units(graph, lo, vertex, dep_lo, dep, out_lo, out), rows


def _units(
    graph: Precedence, lo: np.ndarray, vertex: np.ndarray,
    dep_lo: np.ndarray, dep: np.ndarray, out_lo: np.ndarray, out: np.ndarray,
) -> Any:  # fmt: skip
    """Units without strata."""
    none, done = graph.work.zeros("none", 1), graph.work.zeros("done", len(lo) - 1)
    return graph.kernels("explore").Units(lo, vertex, dep_lo, dep, out_lo, out, none, none, none, done)


def _stratified(graph: Precedence, units: Any) -> Any:
    count = len(units.done)
    rank, order = graph.work.room("rank", count), graph.work.room("order", count)
    strata = graph.kernels("strata").rank_units(units.dep_lo, units.dep, rank)
    stratum_lo = graph.work.room("stratum_lo", strata + 1)
    graph.kernels("edges").bucket(rank, stratum_lo, order)
    return units._replace(rank=rank, stratum_lo=stratum_lo, order=order)


def _level(graph: Precedence, units: Any) -> Any:
    left = graph.work.room("left", len(units.stratum_lo) - 1)
    np.subtract(units.stratum_lo[1:], units.stratum_lo[:-1], out=left)
    return graph.kernels("bfs").Level(graph.work.zeros("stratum", 1), left)


def _restart(graph: Precedence, units: Any) -> Any:
    return graph.work.zeros("restart", 1)


def _queues(graph: Precedence, units: Any) -> Any:
    work, count = graph.work, len(units.done)
    pending, roots = work.room("pending", count), work.room("roots", count)
    found = graph.kernels("ns").find_roots(units.dep_lo, pending, roots)
    return graph.kernels("queues").Queues(
        roots[:found], pending, work.room("queue left", count), work.room("queue right", count),
        work.zeros("heads", graph.threads * LINE),
    )  # fmt: skip
