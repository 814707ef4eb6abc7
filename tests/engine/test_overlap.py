"""Batches of cheap transactions run in several ways: all are measured, and the fastest is taken."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from mainstem.engine.overlap import BLOCK, FIRST_TURNS, LOOK_AGAIN, Way, Ways

OVERLAPPING, ALONE, SHARED = Way
SERIAL = (OVERLAPPING, ALONE)


def ran(ways: Ways, batches: int, seconds: Mapping[Way, float]) -> list[Way]:
    """The ways that so many batches went, with the seconds that each takes."""
    went = []
    for _ in range(batches):
        went.append(ways.next(tuple(seconds)))
        ways.learn(went[-1], seconds[went[-1]], 1)
    return went


@pytest.mark.parametrize("fastest", SERIAL)
def test_the_faster_way_is_taken_and_the_other_looked_at_again(fastest: Way) -> None:
    ways, seconds = Ways(), {way: 1.0 if way is fastest else 1.2 for way in SERIAL}
    assert ran(ways, 2 * FIRST_TURNS * BLOCK, seconds) == ([OVERLAPPING] * BLOCK + [ALONE] * BLOCK) * FIRST_TURNS
    later = ran(ways, LOOK_AGAIN * BLOCK, seconds)
    assert later.count(fastest) == (LOOK_AGAIN - 1) * BLOCK
    assert ways.best(SERIAL) is fastest
    other = {way: 2.2 - each for way, each in seconds.items()}
    ran(ways, 2 * LOOK_AGAIN * BLOCK, other)  # now it is the other one
    assert ways.best(SERIAL) is not fastest


def test_a_way_that_is_open_later_gets_its_turns() -> None:
    ways, seconds = Ways(), {OVERLAPPING: 1.0, ALONE: 1.3}
    ran(ways, 3 * LOOK_AGAIN * BLOCK, seconds)
    assert ran(ways, FIRST_TURNS * BLOCK, seconds | {SHARED: 0.8}) == [SHARED] * FIRST_TURNS * BLOCK
    assert set(ran(ways, 8 * BLOCK, seconds | {SHARED: 0.8})) == {SHARED}
    assert ways.next(SERIAL) is OVERLAPPING  # in the middle of a block, too
    later = ran(ways, 4 * LOOK_AGAIN * BLOCK, seconds | {SHARED: 0.8})
    assert all(later.count(way) >= BLOCK for way in Way)


def test_a_batch_that_turned_from_one_way_to_the_other_is_no_measure() -> None:
    ways, seconds = Ways(), {OVERLAPPING: 5.0, ALONE: 1.0}
    for _ in range(10):
        for way in SERIAL:
            ways.learn(way, seconds[way], 1)
    assert ways.best(SERIAL) is OVERLAPPING  # nothing is known
    for way in SERIAL:
        for _ in range(BLOCK):
            ways.learn(way, seconds[way], 1)
    assert ways.best(SERIAL) is ALONE


def test_batches_that_were_interrupted_do_not_count() -> None:
    ways = Ways()
    for way, laps in ((OVERLAPPING, (9.0, 1.0, 70.0, 80.0)), (ALONE, (1.5, 1.5, 1.5, 1.5))):
        for seconds in laps:
            ways.learn(way, seconds, 1)
    assert ways.best(SERIAL) is OVERLAPPING
