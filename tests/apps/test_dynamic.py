"""The workload that changes: one stream, four phases, each with its own trend."""

from __future__ import annotations

import textwrap

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from mainstem.apps import ledger_work
from mainstem.apps.workloads import dynamic
from mainstem.errors import InputError

STEPS = 3


@pytest.fixture(scope="module")
def steps() -> list[tuple[int, int, pa.Table]]:
    return list(dynamic.phases(10_000, STEPS, turns=1))


def share_of_transfers(table: pa.Table) -> float:
    return pc.mean(pc.equal(table["event"].cast(pa.string()), "Transfer").cast(pa.int8())).as_py()


def most_popular(table: pa.Table) -> int:
    return int(np.bincount(table["account"].to_numpy()).max())


def test_four_phases_in_steps_that_take_the_same_time(steps):
    assert [(phase, step) for phase, step, _ in steps] == [(p, s) for p in (1, 2, 3, 4) for s in range(STEPS)]
    rows = {key[:2]: key[2].num_rows for key in steps}
    assert [rows[1, s] for s in range(STEPS)] == [3, 104, 3_334]
    assert {rows[p, s] for p in (2, 3, 4) for s in range(STEPS)} == {3_333, 3_334}
    assert sum(rows[p, s] for p in (2, 3, 4) for s in range(STEPS)) == 30_000


def test_a_single_step_has_the_full_rate():
    assert dynamic.knobs(1, 0, 1)["rate"] == 1.0
    assert [table.num_rows for _, _, table in dynamic.phases(100, 1, turns=1)] == [100] * 4


def test_the_steps_are_one_stream(steps):
    ts = pa.concat_tables([table for _, _, table in steps])["ts"].to_numpy()
    assert np.diff(ts).min() >= 0
    assert np.diff(ts).max() <= 2


def test_skew_and_transfers_follow_the_phase(steps):
    popular = {key[:2]: most_popular(key[2]) for key in steps}
    transfers = {key[:2]: share_of_transfers(key[2]) for key in steps}
    assert popular[2, 0] < popular[2, 1] < popular[2, 2]
    assert popular[1, 2] < popular[2, 1]
    assert popular[2, 0] < popular[3, 2] < popular[2, 2] and popular[2, 1] < popular[4, 2]
    assert [transfers[p, s] for p in (1, 2) for s in range(STEPS)] == [0.0] * 2 * STEPS
    assert [transfers[3, s] for s in range(STEPS)] == pytest.approx([1 / 3, 2 / 3, 1.0], abs=0.03)
    assert [transfers[4, s] for s in range(STEPS)] == pytest.approx([0.5] * STEPS, abs=0.03)


def test_aborts_rise_in_the_last_phase_only_and_everything_adds_up(steps):
    state, aborted = ledger_work.initial(), {}
    for phase, step, table in steps:
        result = ledger_work.app.run(table, initial=state)
        after = dict(ledger_work.app.state)
        assert ledger_work.conserved(state, table, result.outputs, after)
        state = after
        aborted[phase, step] = result.stats.aborted / table.num_rows
    assert [aborted[p, s] for p in (1, 2, 3) for s in range(STEPS)] == [0.0] * 3 * STEPS
    wanted = [dynamic.knobs(4, s, STEPS)["abort"] for s in range(STEPS)]
    assert [aborted[4, s] for s in range(STEPS)] == pytest.approx(wanted, abs=0.03)


def test_a_seed_decides_everything():
    first, again, other = (list(dynamic.phases(100, 1, turns=1, seed=seed)) for seed in (1, 1, 2))
    assert [table for _, _, table in first] == [table for _, _, table in again]
    assert all(a[2] != b[2] for a, b in zip(first, other, strict=True))


def test_the_use_shown_in_the_docstring_runs():
    shown = [line for line in dynamic.__doc__.splitlines() if line.startswith(("    from", "    for", "        "))]
    exec(textwrap.dedent("\n".join(shown)), scope := {})
    assert (scope["phase"], scope["step"]) == (4, 4)
    assert scope["knobs"]["abort"] == dynamic.ABORT_MAX


def test_no_steps_is_an_error():
    with pytest.raises(InputError, match="steps=0"):
        next(dynamic.phases(100, 0))
