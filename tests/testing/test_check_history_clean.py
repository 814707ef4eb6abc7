"""The checker finds nothing in histories that satisfy a level; what weaker levels allow really occurs in them."""

from __future__ import annotations

import pytest

from mainstem.testing import check_history
from mainstem.testing.histories import LEVELS, scheduled_history, serial_history

HISTORIES = 2_500  # per level
ALLOWED = {"PL1": {"G1a", "G1b", "G1c", "G2", "ORDER"}, "PL2": {"G2", "ORDER"}, "PL3": {"ORDER"}, "PL4": set()}


@pytest.mark.parametrize("level", LEVELS)
def test_nothing_forbidden_is_found_in_clean_histories(level: str) -> None:
    seen: set[str] = set()
    for seed in range(HISTORIES):
        report = check_history(scheduled_history(level, seed), level, aborted=level in ("PL3", "PL4"))
        assert report.ok, f"seed {seed}: {report}"
        seen |= report.kinds
    assert seen == ALLOWED[level]


@pytest.mark.parametrize("level", LEVELS)
def test_clean_histories_with_many_transactions(level: str) -> None:
    for seed in range(10):
        history = scheduled_history(level, seed, transactions=200, rows=8, concurrent=12)
        report = check_history(history, level, aborted=level in ("PL3", "PL4"))
        assert report.ok, f"seed {seed}: {report}"


@pytest.mark.parametrize(("shuffled", "strongest"), [(False, "PL4"), (True, "PL3")])
def test_large_serial_histories(shuffled: bool, strongest: str) -> None:
    report = check_history(serial_history(50_000, 1_000, seed=5, shuffled=shuffled))
    assert report.strongest == strongest


@pytest.mark.long
@pytest.mark.parametrize("rows", [1_000, 1_000_000])
@pytest.mark.parametrize(("shuffled", "strongest"), [(False, "PL4"), (True, "PL3")])
def test_a_million_transactions(rows: int, shuffled: bool, strongest: str) -> None:
    report = check_history(serial_history(1_000_000, rows, seed=7, shuffled=shuffled))
    assert report.strongest == strongest


@pytest.mark.long
@pytest.mark.parametrize("level", LEVELS)
def test_a_hundred_thousand_clean_histories(level: str) -> None:
    for seed in range(10_000, 35_000):
        report = check_history(scheduled_history(level, seed), level, aborted=level in ("PL3", "PL4"))
        assert report.ok, f"seed {seed}: {report}"
