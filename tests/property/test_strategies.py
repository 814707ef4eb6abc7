"""Broad: every strategy, uncompiled, on many generated programs, against the oracle."""

from __future__ import annotations

import pytest
from strategies_support import EVERY, PARTS, SAFE, check_uncompiled

CASES_DEFAULT, CASES_LONG = 300, 30_000
STREAMS_LONG = 4  # per program: building one takes as long as running ten strategies
CHUNK_DEFAULT, CHUNK_LONG = 100, 150  # programs: enough for variety in each of them
FOUND = (1262,)  # cases that once showed a mistake which few others do


def check(start: int, count: int, streams: int = 1) -> None:
    coverage = check_uncompiled(EVERY, range(start, start + count), streams)
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
    check_uncompiled(tuple(PARTS)[shift:] + tuple(PARTS)[:shift], FOUND)  # with other numbers of threads each time


@pytest.mark.long
@pytest.mark.parametrize("start", range(CASES_DEFAULT, CASES_DEFAULT + CASES_LONG // STREAMS_LONG, CHUNK_LONG))
def test_strategies_agree_with_the_oracle_long(start: int) -> None:
    check(start, CHUNK_LONG, STREAMS_LONG)
