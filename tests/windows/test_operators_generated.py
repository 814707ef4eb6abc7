"""Generated inputs, 1 to 20 at a time, with ties, bursts, silent inputs and random timing: always the definition."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from operators_support import agree, agree_in_slices, agree_in_sums

UNCOMPILED_SEEDS = 6
PORTION = 125
MANY = 2_500


@pytest.mark.parametrize("first", range(0, 500, PORTION))
def test_every_operator_gives_the_definition(first: int):
    for seed in range(first, first + PORTION):
        agree(seed, rows=300 if seed % 25 == 0 else 40)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1_000, 51_000, MANY))
def test_every_operator_gives_the_definition_50_000_times(first: int):
    for seed in range(first, first + MANY):
        agree(seed, rows=300 if seed % 25 == 0 else 40)


def test_slices_are_the_definition():
    for seed in range(40):
        agree_in_slices(seed)


def test_sums_are_the_definition():
    for seed in range(60):
        agree_in_sums(seed)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1_000, 3_000, 500))
def test_many_more_slices(first: int):
    for seed in range(first, first + 500):
        agree_in_slices(seed, rows=300)
        agree_in_sums(seed, rows=300)


def test_uncompiled_kernels_mean_the_same():
    """In a process of its own: whether kernels are compiled is decided when they are imported."""
    code = f"""
from operators_support import agree, agree_in_slices, agree_in_sums
for seed in range({UNCOMPILED_SEEDS}):
    agree(seed, rows=40)
    agree_in_slices(seed, rows=40)
    agree_in_sums(seed, rows=40)
print("agreed")
"""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    environment = {**os.environ, "MAINSTEM_JIT": "0", "PYTHONPATH": path}
    assert subprocess.check_output([sys.executable, "-c", code], env=environment, text=True) == "agreed\n"
