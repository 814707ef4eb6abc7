"""Strata: units by the length of the longest path that leads to them. Units of one stratum are independent."""

from __future__ import annotations

from typing import Any

from .base import kernel


@kernel
def rank_units(dep_lo: Any, dep: Any, rank: Any) -> int:
    """Ranks from 0; gives the number of strata. A unit depends only on units with smaller numbers."""
    strata = 0
    for u in range(len(rank)):
        highest = -1
        for k in range(dep_lo[u], dep_lo[u + 1]):
            highest = max(highest, rank[dep[k]])
        rank[u] = highest + 1
        strata = max(strata, highest + 2)
    return strata


@kernel
def lowest_rank(units: Any, count: int, rank: Any) -> int:
    """The outermost stratum with one of the first `count` units of a list."""
    lowest = rank[units[0]]
    for k in range(1, count):
        lowest = min(lowest, rank[units[k]])
    return lowest
