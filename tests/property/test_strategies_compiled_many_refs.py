"""Deep: every strategy, compiled, on real threads; programs of many refs per function, each on many streams."""

from __future__ import annotations

import pytest
from strategies_support import check_compiled

REFS = (5, 7, 11, 16)
PROGRAMS_LONG = 100


@pytest.mark.parametrize("refs", REFS)
def test_strategies_agree_with_the_oracle(refs: int) -> None:
    check_compiled(refs, refs)


@pytest.mark.long
@pytest.mark.parametrize("number", range(1_000, 1_000 + PROGRAMS_LONG))
def test_strategies_agree_with_the_oracle_long(number: int) -> None:
    check_compiled(number, REFS[number % len(REFS)])
