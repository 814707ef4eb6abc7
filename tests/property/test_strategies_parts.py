"""Broad: strategies that run transactions in parts, uncompiled, on many generated programs, against the oracle."""

from __future__ import annotations

import pytest
from strategies_support import PARTS, check_uncompiled

CASES_DEFAULT, CASES_LONG = 300, 30_000
CHUNK = 100  # enough for variety in each of them
FOUND = (1262,)  # cases that once showed a mistake which few others do


def check(start: int) -> None:
    coverage = check_uncompiled(tuple(PARTS), range(start, start + CHUNK))
    coverage.assert_wide()
    counted = coverage.tally
    assert counted["rolled_back"] > CHUNK and counted["skips"] > CHUNK and counted["merged"] > CHUNK, counted
    assert counted["steals"] > 0, counted


@pytest.mark.parametrize("start", range(0, CASES_DEFAULT, CHUNK))
def test_parts_agree_with_the_oracle(start: int) -> None:
    check(start)


@pytest.mark.parametrize("shift", range(4))
def test_cases_that_found_mistakes(shift: int) -> None:
    check_uncompiled(tuple(PARTS)[shift:] + tuple(PARTS)[:shift], FOUND)  # with other numbers of threads each time


@pytest.mark.long
@pytest.mark.parametrize("start", range(CASES_DEFAULT, CASES_DEFAULT + CASES_LONG, CHUNK))
def test_parts_agree_with_the_oracle_long(start: int) -> None:
    check(start)
