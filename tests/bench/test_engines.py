"""Ways to run a batch, and runners that start from the same state again and again."""

from __future__ import annotations

import pytest

from mainstem.apps import toll
from mainstem.bench.engines import WAYS, Runner, batches_of, ways_named
from mainstem.errors import ProgramError


def test_every_strategy_is_there_once():
    engines = [way.engine for way in WAYS.values()]
    assert len(WAYS) == 22
    assert {name: engines.count(name) for name in engines} == {
        **dict.fromkeys(["serial", "inflight", "lock", "pat", "mvlk", "nolock", "components", "auto"], 1),
        "chains": 2,
        "tpg": 12,
    }
    assert [label for label, way in WAYS.items() if not way.safe] == ["nolock"]


def test_ways_are_named_by_engine_or_label():
    assert [way.label for way in ways_named(["chains", "tpg(ns,op,lazy)"], always=["serial"])] == [
        "serial",
        "chains(nothing)",
        "chains(everything)",
        "tpg(ns, op, lazy)",
    ]
    assert len(ways_named([], always=["serial"])) == len(WAYS)
    with pytest.raises(ProgramError, match="there is no strategy 'tgp'"):
        ways_named(["tgp"])


@pytest.mark.usefixtures("uncompiled")
def test_a_runner_starts_from_the_same_state_each_time():
    """Toll makes new rows as it runs: they must be missing again at the next start."""
    events = toll.generate(300, segments=5, vehicles=20, seed=3)
    batches = list(batches_of(toll.app.program, events, 100))
    runner, right = Runner(toll, WAYS["components"], threads=2), Runner(toll, WAYS["serial"], threads=1)
    first, second = runner.run(batches), runner.run(batches)
    assert first.ending == second.ending == right.run(batches).ending
    assert [stats.engine for stats in second.stats] == ["components"] * 3
    assert runner.run(batches[:1]).ending == right.run(batches[:1]).ending != first.ending
    expected = toll.app.run(events, initial=toll.initial(), engine="serial", jit=False, batch=100)
    assert second.ending.state == expected.digest
    given_up = runner.run(batches, limit=0.0)
    assert len(given_up.stats) == 1
    assert runner.run(batches).ending == first.ending
