"""Generated windows over generated streams: the columnar operator gives what the definition gives, to the bit."""

from __future__ import annotations

import random

import pytest
from windows_support import pane_rows, plain_rows, random_events, random_window, table_of

CASES, CASES_LONG = 120, 5_000
SIZES = (1, 7, 100, 10_000)


def check(seed: int) -> None:
    draw = random.Random(seed)
    windows = [random_window(draw, number) for number in range(draw.randint(1, 3))]
    table = table_of(random_events(draw, draw.choice((1, 30, 200, 400))))
    complete = draw.random() < 0.8
    wanted = plain_rows(windows, table, complete)
    size, garbage = draw.choice(SIZES), draw.choice((None, 1, 20))
    restarts = draw if draw.random() < 0.5 else None
    assert pane_rows(windows, table, size, complete=complete, garbage=garbage, restarts=restarts) == wanted, windows


@pytest.mark.parametrize("seed", range(CASES))
def test_panes_are_the_definition(seed: int) -> None:
    check(seed)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(CASES, CASES_LONG, 100))
def test_panes_are_the_definition_many(seed: int) -> None:
    for number in range(seed, seed + 100):
        check(number)
