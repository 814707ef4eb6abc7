"""Generated programs with transaction groups agree with the oracle: all engines, and stages of a replay."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from mainstem.engine.options import SAFE
from mainstem.testing import Case, generate_case

PROGRAMS_DEFAULT, PROGRAMS_LONG, CHUNK = 40, 12_000, 20
# Bodies are written small: a group has several, and every engine runs all of them uncompiled.
_SHAPES = (
    {"statements": (1, 4), "refs": (1, 5), "key_loops": 0.4},
    {"statements": (2, 6), "extremes": 0.0},
    {"statements": (1, 3), "refs": (2, 4), "refusals": 0.3, "extremes": 0.0},
)


def case_of(seed: int) -> Case:
    return generate_case(f"groups {seed}", n=30, groups=0.8, events=(1, 2), **_SHAPES[seed % len(_SHAPES)])


def check(seed: int, tally: Counter[str]) -> None:
    case, draw = case_of(seed), random.Random(seed)
    expected = case.run(engine="oracle")
    program = case.module.app.program
    groups = [f for f in program.functions if f.group]
    tally["groups"] += len(groups)
    tally["parts"] += sum(bool(f.parts) for f in groups)
    tally["dynamic keys"] += sum(any(s.dynamic for s in f.sites) for f in groups)
    tally["early returns"] += sum("done" in line for line in program.source.splitlines())
    tally.update(expected.outputs["status"].to_pylist())
    if not program.compiled:
        tally["interpreted"] += 1
        case.check(expected)
        return
    case.check(expected, engine="serial", jit=False, batch=draw.choice((1, 4, 100)))
    for strategy in draw.sample(SAFE, 4):
        named = {"tpg": ("explore", "unit", "abort"), "chains": ("sharing",)}.get(strategy.engine, ())
        how = {name: getattr(strategy, name) for name in named}
        case.check(expected, engine=strategy.engine, jit=False, threads=draw.choice((1, 2, 4)), **how)


@pytest.mark.parametrize("first", range(0, PROGRAMS_DEFAULT, CHUNK))
def test_groups_agree_with_the_oracle(first: int) -> None:
    tally: Counter[str] = Counter()
    for seed in range(first, first + CHUNK):
        check(seed, tally)
    kinds = ("groups", "parts", "dynamic keys", "early returns", "committed", "aborted")
    assert all(tally[kind] > 0 for kind in kinds) and tally["interpreted"] <= CHUNK / 5, tally


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS_DEFAULT, PROGRAMS_DEFAULT + PROGRAMS_LONG, CHUNK))
def test_groups_agree_with_the_oracle_long(first: int) -> None:
    for seed in range(first, first + CHUNK):
        check(seed, Counter())


def test_compiled_groups_agree_with_the_oracle() -> None:
    """Compiling takes seconds, so few and small programs."""
    for seed, engine in enumerate(("serial", "tpg")):
        case = generate_case(
            f"compiled groups {seed}", n=200, groups=1.0, events=(1, 1), functions=(0, 0), tables=(1, 2),
            helpers=(0, 0), statements=(1, 3), nesting=1, depth=1, refs=(2, 3), extremes=0.0,
        )  # fmt: skip
        assert case.module.app.program.functions[0].group
        case.check(case.run(engine="oracle"), engine=engine, jit=True, batch=50)
