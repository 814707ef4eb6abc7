"""Protocols that are broken on purpose are caught by their history or the oracle; unbroken, they pass the same run."""

from __future__ import annotations

import functools
from collections import Counter

import pytest
from broken_protocols import BROKEN, ENDLESS, Broken
from contended import broken_rule, executed, work
from lockstep import StuckError, in_lockstep, source_of

from mainstem.testing import check_history

SEEDS = 150
SEEN = {"PL1": {"G1a", "G1b", "G1c", "G2"}, "PL2": {"G2"}, "PL3": {"ORDER"}, "PL4": set()}
"""What each level allows, and shows in a few runs: so transactions really overlap."""


def changed(broken: Broken) -> dict[str, str]:
    source = source_of(broken.file)
    assert source.count(broken.text) == 1, f"{broken.file}.py has changed: say in broken_protocols.py what to break"
    return {broken.file: source.replace(broken.text, broken.instead)}


@functools.cache
def passes(protocol: str, level: str, seed: int) -> bool:
    """Whether the protocol, as it is, passes a run."""
    with in_lockstep(seed):
        return broken_rule(work(seed), level, protocol) == ""


def name_of(broken: Broken) -> str:
    return f"{broken.protocol} {broken.level}: {broken.name}"


@pytest.mark.parametrize("broken", BROKEN, ids=name_of)
def test_what_is_broken_is_caught(broken: Broken) -> None:
    sources = changed(broken)
    for seed in (broken.first_seed, *range(SEEDS)):
        try:
            with in_lockstep(seed, **sources):
                wrong = broken_rule(work(seed), broken.level, broken.protocol)
        except StuckError:
            continue  # another seed shows what comes of it
        if wrong:
            assert passes(broken.protocol, broken.level, seed)
            return
    pytest.fail(f"{SEEDS} runs, and nothing was wrong with any")


@pytest.mark.parametrize("broken", ENDLESS, ids=name_of)
def test_what_hangs_is_noticed(broken: Broken) -> None:
    def run_some() -> None:
        for seed in range(5):
            with in_lockstep(seed, **changed(broken)):
                broken_rule(work(seed), broken.level, broken.protocol)

    with pytest.raises(StuckError):
        run_some()


@pytest.mark.parametrize("level", SEEN)
@pytest.mark.parametrize("protocol", ["lock", "timestamp"])
def test_protocols_as_they_are_pass(protocol: str, level: str) -> None:
    assert all(passes(protocol, level, seed) for seed in range(4))


@pytest.mark.parametrize("level", SEEN)
@pytest.mark.parametrize("protocol", ["lock", "timestamp"])
def test_what_a_level_allows_is_seen(protocol: str, level: str) -> None:
    kinds: set[str] = set()
    for seed in range(12):
        with in_lockstep(seed):
            _, history = executed(work(seed), level, protocol)
        kinds |= check_history(history, level).kinds
        if kinds >= SEEN[level] and seed >= 2:
            break
    assert kinds >= SEEN[level]


@pytest.mark.long
@pytest.mark.parametrize("level", SEEN)
@pytest.mark.parametrize("protocol", ["lock", "timestamp"])
def test_protocols_as_they_are_pass_many_runs(protocol: str, level: str) -> None:
    for seed in range(1_000, 1_100):
        with in_lockstep(seed):
            assert broken_rule(work(seed), level, protocol) == "", seed


def test_both_protocols_and_all_levels_are_broken() -> None:
    ways = Counter((broken.protocol, broken.level) for broken in BROKEN)
    assert len(ways) == 8 and len(BROKEN) >= 20
