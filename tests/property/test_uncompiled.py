"""Broad: many generated programs, their kernels run uncompiled, against the oracle on outputs and state."""

from __future__ import annotations

import pytest

from mainstem.testing import generate_case

PROGRAMS_DEFAULT, PROGRAMS_LONG = 1_000, 100_000
CHUNK = 50  # programs per test: pytest's own cost per test stays small, a failure still points close
BATCHES = (1, 3, 10, 1_000)


def check(seed: int) -> bool:
    """Compares one program; tells whether it has kernels (what has none runs interpreted, by another path)."""
    case = generate_case(seed)
    expected = case.run(engine="oracle", objects=seed % 5 == 0)
    compiled = case.module.app.program.compiled
    options = {"engine": "serial", "jit": False} if compiled else {"engine": "auto"}
    case.check(expected, **options, chunks=1 + seed % 3, batch=BATCHES[seed % len(BATCHES)])
    return compiled


def check_range(start: int, count: int) -> None:
    compiled = sum(check(seed) for seed in range(start, start + count))
    assert compiled >= 0.8 * count, f"only {compiled} of {count} programs have kernels"


@pytest.mark.parametrize("start", range(0, PROGRAMS_DEFAULT, CHUNK))
def test_kernels_agree_with_the_oracle(start: int) -> None:
    check_range(start, CHUNK)


@pytest.mark.long
@pytest.mark.parametrize("start", range(PROGRAMS_DEFAULT, PROGRAMS_DEFAULT + PROGRAMS_LONG, 10 * CHUNK))
def test_kernels_agree_with_the_oracle_long(start: int) -> None:
    check_range(start, 10 * CHUNK)
