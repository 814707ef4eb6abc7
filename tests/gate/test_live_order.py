"""Whatever the timing of the threads that insert, a gate hands on what sorting everything first would give."""

from __future__ import annotations

import pytest
from gate_live_support import run_case

from mainstem.gate.live.gate import ORDERS

CASES = 520
CASES_LONG, TOGETHER = 50_000, 2_500


@pytest.mark.parametrize("kind", list(ORDERS))
@pytest.mark.parametrize("first", range(0, CASES, 40))
def test_the_order_is_that_of_sorting_everything_first(kind: str, first: int) -> None:
    for seed in range(first, first + 40):
        found, right = run_case(kind, seed)
        assert found == right, f"{kind}, seed {seed}"


@pytest.mark.long
@pytest.mark.parametrize("kind", list(ORDERS))
@pytest.mark.parametrize("first", range(CASES, CASES + CASES_LONG, TOGETHER))
def test_the_order_is_that_of_sorting_everything_first_in_many_cases(kind: str, first: int) -> None:
    for seed in range(first, first + TOGETHER):
        found, right = run_case(kind, seed)
        assert found == right, f"{kind}, seed {seed}"
