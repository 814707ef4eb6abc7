"""Generated programs, cut into stages, equal the oracle on any number of shards and with any ranges."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from replay_support import replayed

from mainstem.lang.dataflow import Dataflow
from mainstem.replay import RareAbort, kept, staged
from mainstem.testing import Case, assert_same, generate_case

PROGRAMS_DEFAULT, PROGRAMS_LONG, TOGETHER = 200, 20_000, 20
# A failure before a failing check, twice; a function without tables; a piece that has lost a return.
ONCE_WRONG = (4251, 8322, 10847, 17234)


@pytest.fixture(autouse=True)
def no_sync(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing here survives a loss of power, and thousands of small files would wait for the disk."""
    monkeypatch.setattr("mainstem.store.tablefile.sync", lambda fd: None)
    monkeypatch.setattr("mainstem.replay.states.sync_directory", lambda path: None)
    yield
    kept.forget()


def case_of(seed: int) -> Case:
    """Two of three programs are made to fall apart into stages, others are as they come; some have groups."""
    small = {"statements": (2, 4), "refs": (1, 6)} if seed % 2 else {}
    layered = {"layered": 0.9, "tables": (2, 4), "extremes": 0.005} if seed % 3 else {}
    grouped = {"groups": 0.6} if seed % 5 == 2 else {}
    return generate_case(f"replay {seed}", n=40, **small, **layered, **grouped)


def check(seed: int, folder: Path, tally: Counter[str]) -> None:
    case, draw = case_of(seed), random.Random(seed)
    expected = case.run(engine="oracle")
    for overflow in ("rare", "tied"):
        flow = staged(case.module.app.spec, overflow, jit=False)
        cut = {
            "shards": draw.choice((1, 2, 4, 8)),
            "size": draw.choice((1, 3, 7, 20, 100)),
            "epoch": draw.choice((1, 2, 5)),
            "batches_per_range": draw.choice((1, 2)),
            "keep": draw.random() < 0.5,
        }
        try:
            actual = replayed(flow, case.stream.tables(), folder / f"{seed}-{overflow}", jit=False, **cut)
        except RareAbort:
            tally[f"rare, {overflow}"] += 1
            continue
        note(flow, tally)
        assert_same(expected, actual, context=case.describe(f"{overflow}, {cut}"))
        if seed % 4:
            return


def note(flow: Dataflow, tally: Counter[str]) -> None:
    tally["replays"] += 1
    tally["several waves"] += len(flow.waves) > 1
    tally["computed keys"] += len(flow.computed)
    tally["groups"] += sum(f.group for f in flow.program.functions)
    tally["whole"] += sum(piece.exact for piece in flow.pieces)
    tally["keyed"] += sum(stage.keyed for stage in flow.stages)
    tally["not keyed"] += sum(not stage.keyed for stage in flow.stages)
    for piece in flow.pieces:
        tally["handed to a stage" if piece.stage >= 0 else "handed home"] += len(piece.given)
        tally["codes"] += piece.emits_code is not None
        tally["returns"] += piece.emits_return is not None


@pytest.mark.parametrize("first", range(0, PROGRAMS_DEFAULT, TOGETHER))
def test_generated_programs_agree_with_the_oracle(first: int, tmp_path: Path) -> None:
    tally: Counter[str] = Counter()
    for seed in range(first, first + TOGETHER):
        check(seed, tmp_path, tally)
    # What the programs are made of: a suite that lost its variety would still pass.
    kinds = ("several waves", "keyed", "not keyed", "handed to a stage", "handed home", "codes", "returns",
             "computed keys", "whole", "groups", "rare, rare")  # fmt: skip
    assert all(tally[kind] > 0 for kind in kinds) and not tally["rare, tied"], tally


@pytest.mark.parametrize("seed", ONCE_WRONG)
def test_programs_that_were_once_wrong(seed: int, tmp_path: Path) -> None:
    check(seed, tmp_path, Counter())


@pytest.mark.long
@pytest.mark.parametrize("first", range(PROGRAMS_DEFAULT, PROGRAMS_DEFAULT + PROGRAMS_LONG, TOGETHER))
def test_generated_programs_agree_with_the_oracle_long(first: int, tmp_path: Path) -> None:
    for seed in range(first, first + TOGETHER):
        check(seed, tmp_path, Counter())


def test_compiled_stages_agree_with_the_oracle(tmp_path: Path) -> None:
    """Compiling takes seconds, so few and small programs; the kernels of routing run compiled in all tests."""
    compiled = 0
    for seed in itertools.count(1):
        case = generate_case(
            f"compiled replay {seed}", n=60, layered=1.0, tables=(2, 3), events=(1, 1), functions=(1, 1),
            statements=(2, 3), depth=2, nesting=1, helpers=(0, 0), extremes=0.0,
        )  # fmt: skip
        flow = staged(case.module.app.spec)
        if len(flow.waves) < 2:
            continue
        try:
            actual = replayed(flow, case.stream.tables(), tmp_path / str(seed), shards=3, size=20, epoch=2)
        except RareAbort:
            continue
        assert_same(case.run(engine="oracle"), actual, context=case.describe())
        compiled += 1
        if compiled == 3:
            return
