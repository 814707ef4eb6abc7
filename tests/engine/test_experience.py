"""What `auto` remembers: noise is told from news, and kinds of batches are told apart."""

from __future__ import annotations

from dataclasses import replace

import pytest

from mainstem.engine.experience import CONFIRMED, SURPRISE, Memory
from mainstem.engine.model import Properties

BATCH = Properties(
    transactions=2_000, operations=6_000, cost=10e-6, aborts=0.0, split=1.0, dependent=0.2, near=0.0,
    path_versions=0.01, path_locks=0.01, path_parts=0.01, strata=10, heaviest=0.01,
)  # fmt: skip


def memory_of(cost: float) -> Memory:
    memory = Memory()
    memory.learn_cost(cost)
    return memory


def test_a_cost_that_jumps_up_once_is_noise() -> None:
    memory = memory_of(60e-9)
    for _ in range(20):
        memory.learn_cost(8e-6)  # the batch was interrupted
        memory.learn_cost(60e-9)
    assert memory.cost == pytest.approx(60e-9)


def test_a_cost_that_stays_up_is_believed_at_its_lowest() -> None:
    memory = memory_of(60e-9)
    for n in range(CONFIRMED):
        memory.learn_cost(8e-6 + n * 1e-6)
    assert memory.cost == pytest.approx(8e-6)


def test_a_lower_cost_is_believed_sooner_than_a_higher_one() -> None:
    lower, higher = memory_of(10e-6), memory_of(10e-6)
    lower.learn_cost(8e-6)
    higher.learn_cost(12e-6)
    assert lower.cost is not None and higher.cost is not None
    assert 10e-6 - lower.cost > higher.cost - 10e-6 > 0


def test_a_new_run_starts_from_its_own_sample() -> None:
    memory = memory_of(10e-6)
    memory.begin_run(10e-6 * (1 + SURPRISE / 2))
    assert memory.cost == 10e-6
    memory.begin_run(100e-6)
    assert memory.cost == 100e-6


def test_the_better_of_two_tries_counts() -> None:
    memory = Memory()
    memory.begin_plan(BATCH)
    memory.learn_time("lock", 3.0)
    memory.learn_time("lock", 1.1)
    assert (memory.factor("lock"), memory.tries("lock")) == (1.1, 2)
    memory.learn_time("lock", 2.1)  # from now on worse news count a little
    assert 1.1 < memory.factor("lock") < 1.4


def test_the_first_figure_of_a_new_kind_of_batch_counts_half_if_it_is_worse_than_elsewhere() -> None:
    memory = Memory()
    memory.begin_plan(BATCH)
    for _ in range(3):
        for label in ("lock", "pat", "mvlk"):
            memory.learn_time(label, 1.0)
    memory.begin_plan(replace(BATCH, dependent=0.9))
    assert (memory.factor("lock"), memory.tries("lock")) == (1.0, 0)
    memory.learn_time("lock", 4.0)
    memory.learn_time("pat", 0.5)
    assert memory.factor("lock") == pytest.approx(2.0)
    assert memory.factor("pat") == 0.5


def test_a_strategy_that_never_ran_is_expected_to_be_off_like_the_others() -> None:
    memory = Memory()
    memory.begin_plan(BATCH)
    memory.learn_time("lock", 9.0)
    assert memory.factor("components") == 1.0  # one that is far off says little about the others
    for label, factor in (("lock", 1.2), ("mvlk", 1.3), ("pat", 1.4)):
        memory.learn_time(label, factor)
    assert memory.factor("components") == 1.2
    assert memory.factor("serial") == 1.0


def test_a_kind_of_batch_that_comes_back_is_known() -> None:
    memory = Memory()
    memory.begin_plan(BATCH)
    for label, factor in (("lock", 1.0), ("pat", 1.1), ("mvlk", 4.4)):
        memory.learn_time(label, factor)
    memory.begin_plan(replace(BATCH, aborts=0.8))
    assert memory.tries("mvlk") == 0
    assert memory.factor("lock") < memory.factor("pat") == 1.0
    assert 1.1 < memory.factor("mvlk") < 4.4  # half believed
    memory.learn_time("mvlk", 0.9)
    memory.begin_plan(BATCH)
    assert (memory.factor("mvlk"), memory.tries("mvlk")) == (4.4, 1)


def test_what_many_kinds_of_batches_agree_on_is_believed_in_new_ones() -> None:
    memory, offs = Memory(), []
    for kind in range(6):
        memory.begin_plan(replace(BATCH, transactions=8**kind, aborts=kind / 10))
        offs.append(memory.factor("mvlk") / memory.factor("lock"))
        for label, factor in (("lock", 1.0), ("pat", 1.0), ("mvlk", 1.2)):
            memory.learn_time(label, factor * (1 + kind))  # the machine gets slower: no strategy's fault
    assert offs == sorted(offs) and offs[0] == 1.0 and 1.15 < offs[-1] < 1.2


def test_what_did_not_run_for_long_gets_another_chance() -> None:
    """All were slow while the machine was busy: nothing parallel would ever run again."""
    memory = Memory()
    for _ in range(2):
        memory.begin_plan(BATCH)
    for label in ("lock", "pat"):
        memory.learn_time(label, 3.0)
    for _ in range(20):
        memory.begin_plan(BATCH)
    assert 1.0 < memory.factor("lock") < 1.3
