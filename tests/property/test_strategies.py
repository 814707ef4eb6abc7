"""Broad: every strategy, uncompiled, on many generated programs, against the oracle."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from strategies_support import EVENTS, EVERY, PARTS, SAFE, check_uncompiled

CASES_DEFAULT, CASES_LONG = 300, 30_000
STREAMS_LONG = 4  # per program: building one takes as long as running ten strategies
EVENTS_LONG = (8, 8, 12, 12, 16, 32)  # threads meet in short streams, too, and more of these fit into an hour
CHUNK_DEFAULT, CHUNK_LONG = 100, 150  # programs: enough for variety in each of them
FOUND, FOUND_EVENTS = (1262,), (64,)  # cases that once showed a mistake which few others do


def check(start: int, count: int, streams: int = 1, events: Sequence[int] = EVENTS) -> None:
    coverage = check_uncompiled(EVERY, range(start, start + count), streams, events)
    coverage.assert_wide()
    assert len(coverage.chosen) == len(SAFE), coverage.chosen
    tally = coverage.tally
    assert tally["rolled_back"] > count and tally["skips"] > count and tally["merged"] > count, tally
    assert tally["steals"] > 0, tally


@pytest.mark.parametrize("start", range(0, CASES_DEFAULT, CHUNK_DEFAULT))
def test_strategies_agree_with_the_oracle(start: int) -> None:
    check(start, CHUNK_DEFAULT)


@pytest.mark.parametrize("shift", range(4))
def test_cases_that_found_mistakes(shift: int) -> None:
    names = tuple(PARTS)[shift:] + tuple(PARTS)[:shift]  # with other numbers of threads each time
    check_uncompiled(names, FOUND, events=FOUND_EVENTS)


@pytest.mark.long
@pytest.mark.parametrize("start", range(CASES_DEFAULT, CASES_DEFAULT + CASES_LONG // STREAMS_LONG, CHUNK_LONG))
def test_strategies_agree_with_the_oracle_long(start: int) -> None:
    check(start, CHUNK_LONG, STREAMS_LONG, EVENTS_LONG)
