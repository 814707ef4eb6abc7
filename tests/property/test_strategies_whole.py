"""Broad: strategies that run whole transactions, and those that choose, uncompiled, on many generated programs."""

from __future__ import annotations

import pytest
from strategies_support import CHOOSING, SAFE, WHOLE, check_uncompiled

CASES_DEFAULT, CASES_LONG = 300, 30_000
CHUNK = 100  # enough for variety in each of them


def check(start: int) -> None:
    coverage = check_uncompiled((*WHOLE, *CHOOSING), range(start, start + CHUNK))
    coverage.assert_wide()
    assert len(coverage.chosen) == len(SAFE), coverage.chosen


@pytest.mark.parametrize("start", range(0, CASES_DEFAULT, CHUNK))
def test_whole_transactions_agree_with_the_oracle(start: int) -> None:
    check(start)


@pytest.mark.long
@pytest.mark.parametrize("start", range(CASES_DEFAULT, CASES_DEFAULT + CASES_LONG, CHUNK))
def test_whole_transactions_agree_with_the_oracle_long(start: int) -> None:
    check(start)
