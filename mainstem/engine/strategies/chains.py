"""TStream's operation chains: one per row, walked in rounds; nothing shared between threads, or everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from mainstem.engine.kernels.control import LINE
from mainstem.engine.strategies.precedence import Precedence, Tally, build, group_vertices
from mainstem.engine.work import Work
from mainstem.team import Crew


def run_chains(work: Work, team: Crew) -> Tally:
    """Runs the vertices of `work`; then `op_ver` and the failures in `v_code` are those of the serial run."""
    if len(work.todo) == 0:
        return Tally()
    graph = build(work, team.threads)
    of, group_row = group_vertices(graph)
    chains = _chains(graph, of, group_row, 1 if work.strategy.sharing == "everything" else team.threads)
    repair = graph.repair(of, chains.done)
    run, bound = graph.kernels("chains").chains_run, work.versioned()
    team.run(
        lambda w: run(
            bound.function, bound.context, graph.plan, chains, graph.progress, repair,
            work.control, work.clock, team.threads, w,
        ),
        work.control,
    )  # fmt: skip
    return graph.tally(units=len(group_row))


def _chains(graph: Precedence, of: np.ndarray, group_row: np.ndarray, rings: int) -> Any:
    """Chains at their beginnings, each in its ring."""
    kernels, edges, room, count = graph.kernels("chains"), graph.kernels("edges"), graph.work.room, len(group_row)
    lo, vertex = room("chain_lo", count + 1), room("chain_vertex", graph.vertices)
    edges.bucket(of, lo, vertex)
    ring_of, ring_lo, by_ring = room("ring_of", count), room("ring_lo", rings + 1), room("by_ring", count)
    kernels.deal(group_row, rings, ring_of)
    edges.bucket(ring_of, ring_lo, by_ring)
    chains = kernels.Chains(
        lo, vertex, room("chain_place", graph.vertices), room("chain_at", count), room("done", count),
        ring_of, ring_lo, room("ring", count), room("ring_turns", count),
        room("ring_heads", rings * LINE), room("ring_tails", rings * LINE),
    )  # fmt: skip
    kernels.fill_rings(chains, by_ring)
    return chains
