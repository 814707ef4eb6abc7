"""Work of a chosen length: always the same result, and as many turns as asked for."""

from __future__ import annotations

import pytest

from mainstem.apps import work
from mainstem.errors import InputError


def test_no_work_leaves_the_value_in_range():
    assert work.burn(5, 0) == 5
    assert work.burn(work.MODULUS + 5, 0) == 5
    assert work.burn(-1, 0) == work.MODULUS - 1


def test_turns_add_up():
    assert work.burn(work.burn(17, 3), 4) == work.burn(17, 7)
    assert len({work.burn(17, turns) for turns in range(1_000)}) == 1_000


def test_compiled_and_plain_agree():
    for value in (0, 1, -7, work.MODULUS, 2**62):
        assert work.compiled_burn(value, 100) == work.burn(value, 100)


def test_turns_are_taken_as_they_are():
    assert work.turns_for(50.0, 3) == 3
    assert work.turns_for(0.0, None) == 0


def test_cost_is_measured_once(monkeypatch):
    speed = work.turns_per_microsecond()
    monkeypatch.setattr(work, "compiled_burn", None)
    assert work.turns_per_microsecond() == speed > 0
    assert work.turns_for(10.0, None) == round(10 * speed)


@pytest.mark.parametrize(("cost", "turns", "named"), [(-1.0, None, "cost=-1"), (0.0, -2, "turns=-2")])
def test_negative_work_is_an_error_that_names_it(cost, turns, named):
    with pytest.raises(InputError, match=named):
        work.turns_for(cost, turns)
