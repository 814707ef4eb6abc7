"""Serial batches that overlap, or not: both ways are measured, and the faster one is taken."""

from __future__ import annotations

import pytest

from mainstem.engine.overlap import BLOCK, FIRST_BLOCKS, LOOK_AGAIN, Overlap


def ran(overlap: Overlap, batches: int, overlapped: float, alone: float) -> list[bool]:
    """The ways that so many batches went, with the seconds that each takes."""
    ways = []
    for _ in range(batches):
        ways.append(overlap.next())
        overlap.learn(ways[-1], overlapped if ways[-1] else alone, 1)
    return ways


@pytest.mark.parametrize(("overlapped", "alone"), [(1.0, 1.2), (1.2, 1.0)])
def test_the_faster_way_is_taken_and_the_other_looked_at_again(overlapped: float, alone: float) -> None:
    overlap, faster = Overlap(), overlapped < alone
    assert ran(overlap, FIRST_BLOCKS * BLOCK, overlapped, alone) == ([True] * BLOCK + [False] * BLOCK) * 2
    later = ran(overlap, LOOK_AGAIN * BLOCK, overlapped, alone)
    assert later.count(faster) == (LOOK_AGAIN - 1) * BLOCK
    assert overlap.pays == faster
    ran(overlap, 2 * LOOK_AGAIN * BLOCK, alone, overlapped)  # now it is the other one
    assert overlap.pays != faster


def test_a_batch_that_turned_from_one_way_to_the_other_is_no_measure() -> None:
    overlap = Overlap()
    for _ in range(10):
        for overlapped in (True, False):
            overlap.learn(overlapped, 5.0 if overlapped else 1.0, 1)
    assert overlap.pays  # nothing is known
    for overlapped in (True, True, False, False):
        overlap.learn(overlapped, 5.0 if overlapped else 1.0, 1)
    assert not overlap.pays
