"""Strategies on parts of transactions, on toy batches: every result is that of the serial run."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from toy_parts import PLAIN, Batch, ToyWork, late_verdicts, random_batch, run, varied_batch

from mainstem.engine.entry import Bound
from mainstem.engine.kernels import load
from mainstem.engine.kernels.control import ABORT, ABT, EXE, USEFUL
from mainstem.engine.kernels.explore import PATIENCE
from mainstem.engine.options import Strategy
from mainstem.engine.strategies import RUNNERS
from mainstem.engine.strategies.precedence import Tally, build
from mainstem.engine.strategies.tpg import _grouped
from mainstem.team import Team, team

TPG = [
    Strategy("tpg", explore=explore, unit=unit, abort=abort)
    for explore, unit, abort in itertools.product(("bfs", "dfs", "ns"), ("op", "group"), ("eager", "lazy"))
]
STRATEGIES = TPG + [Strategy("chains", sharing=sharing) for sharing in ("nothing", "everything")]
THREADS = (1, 2, 4, 8)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.label)


# -- equal to the serial run ---------------------------------------------------------------------------------------


@every_strategy
@pytest.mark.parametrize(("jit", "cases", "sizes"), [(False, 20, (1, 6, 30)), (True, 60, (1, 20, 250))])
def test_equals_serial(strategy: Strategy, jit: bool, cases: int, sizes: tuple[int, ...]) -> None:
    for seed in range(cases):
        batch = varied_batch(seed, sizes)
        work, _ = run(batch, strategy, THREADS[seed % 4], jit)
        assert work.result() == batch.serial, f"seed {seed}, {THREADS[seed % 4]} threads"


@pytest.mark.long
@every_strategy
def test_equals_serial_long(strategy: Strategy) -> None:
    for seed in range(1000, 31_000):
        batch = varied_batch(seed, (1, 5, 40, 200, 600))
        work, _ = run(batch, strategy, THREADS[seed % 4], True)
        assert work.result() == batch.serial, f"seed {seed}, {THREADS[seed % 4]} threads"


@every_strategy
def test_contended_batch_has_one_result(strategy: Strategy) -> None:
    batch = random_batch(5, 80, 4, abort=0.3, skew=1.0, delay=0.1)
    want = batch.serial
    for turn in range(60):
        work, _ = run(batch, strategy, THREADS[1 + turn % 3], True)
        assert work.result() == want, f"turn {turn}"


@every_strategy
def test_no_transactions(strategy: Strategy) -> None:
    assert run(random_batch(1, 0, 3), strategy, 2, True)[1] == Tally()


@every_strategy
def test_verdicts_that_come_late(strategy: Strategy) -> None:
    """Eager handling alone would run more than a million vertices again."""
    batch = late_verdicts(36)
    work, tally = run(batch, strategy, 2, True)
    assert work.result() == batch.serial
    assert tally.reruns <= (PATIENCE + 1) * tally.vertices


# -- threads -------------------------------------------------------------------------------------------------------


@every_strategy
def test_vertex_that_raises_ends_all(strategy: Strategy) -> None:
    batch = random_batch(8, 40, 3, abort=0.3)
    work: Any = ToyWork(batch, strategy, 4, False)
    bound, bad = work.versioned(), len(work.v_code) // 2

    def raises(context: Any, v: int, worker: int) -> int:
        if v == bad:
            raise ZeroDivisionError
        return PLAIN(context, v, worker)

    work.versioned = lambda: Bound(raises, bound.context, bound.kept)
    with pytest.raises(ZeroDivisionError):
        RUNNERS[strategy.engine](work, team(4))


@every_strategy
def test_stops_before_it_begins(strategy: Strategy) -> None:
    """A thread that failed early has set STOP before the others look for work."""

    class FailingTeam(Team):
        def run(self, task: Any, control: np.ndarray | None = None) -> None:
            def failing(worker: int) -> None:
                if worker == 0:
                    raise KeyboardInterrupt
                task(worker)

            super().run(failing, control)

    work: Any = ToyWork(random_batch(8, 40, 3, abort=0.3), strategy, 3, True)
    failing_team = FailingTeam(3)
    with pytest.raises(KeyboardInterrupt):
        RUNNERS[strategy.engine](work, failing_team)
    failing_team.close()


# -- counts and clocks ---------------------------------------------------------------------------------------------


@every_strategy
def test_without_aborts_every_vertex_runs_once(strategy: Strategy) -> None:
    work, tally = run(random_batch(2, 100, 5), strategy, 2, True)
    assert tally.runs == tally.vertices == len(work.v_code)
    assert (tally.reruns, tally.skips, tally.failures, tally.settles, tally.rolled_back) == (0, 0, 0, 0, 0)
    assert work.clock[:, USEFUL].sum() > 0 and work.clock[:, ABORT].sum() == 0


@every_strategy
def test_single_vertices_need_no_settling(strategy: Strategy) -> None:
    work, tally = run(random_batch(2, 200, 5, parts=1, abort=0.5), strategy, 2, True)
    assert tally.failures == sum(work.batch.serial[1]) > 50
    assert (tally.settles, tally.reruns, tally.runs) == (0, 0, tally.vertices)
    assert work.clock[:, ABORT].sum() > 0


@every_strategy
def test_counts_of_aborts_agree(strategy: Strategy) -> None:
    batch = random_batch(2, 200, 5, abort=0.4)
    work, tally = run(batch, strategy, 2, True)
    assert work.result() == batch.serial
    assert tally.settles > 0
    assert tally.reruns <= tally.rolled_back
    assert tally.runs + tally.skips == tally.vertices + tally.rolled_back


def test_one_thread_that_explores_in_order_runs_nothing_in_vain() -> None:
    _, tally = run(random_batch(2, 200, 3, abort=0.5), Strategy("tpg", explore="ns", unit="op", abort="eager"), 1, True)
    assert tally.skips > 0
    assert tally.reruns == 0


# -- the graph -----------------------------------------------------------------------------------------------------


def dependencies(batch: Batch) -> list[set[int]]:
    lists = batch.lists
    found = []
    for v in range(lists["t_lo"][-1]):
        ops = [o for o in lists["ref_op"][lists["v_lo"][v] : lists["v_lo"][v + 1]] if o >= 0]
        found.append({lists["op_owner"][lists["op_prev"][o]] for o in ops if lists["op_prev"][o] >= 0})
    return found


def lists_of(lo: np.ndarray, items: np.ndarray) -> list[list[int]]:
    return [items[lo[x] : lo[x + 1]].tolist() for x in range(len(lo) - 1)]


@pytest.mark.parametrize("jit", [False, True])
def test_dependencies_both_ways(jit: bool) -> None:
    for seed in range(20):
        batch = varied_batch(seed, (1, 6, 30))
        want = dependencies(batch)
        work: Any = ToyWork(batch, TPG[0], 1, jit)
        graph = build(work, 1)
        found = lists_of(graph.dep_lo, graph.dep)
        assert [set(deps) for deps in found] == want and all(len(set(deps)) == len(deps) for deps in found)
        back = [[v for v, deps in enumerate(want) if d in deps] for d in range(len(want))]
        assert lists_of(graph.out_lo, graph.out) == back


@pytest.mark.parametrize("jit", [False, True])
def test_groups_are_rows_and_cycles_are_one(jit: bool) -> None:
    for seed in range(20):
        batch = varied_batch(seed, (1, 6, 30))
        work: Any = ToyWork(batch, TPG[0], 1, jit)
        of, units, _ = _grouped(build(work, 1))
        below = dependencies(batch)
        assert lists_of(units.lo, units.vertex) == [np.flatnonzero(of == u).tolist() for u in range(len(units.done))]
        between = {(of[d], of[v]) for v, deps in enumerate(below) for d in deps if of[d] != of[v]}
        assert {(d, u) for u, deps in enumerate(lists_of(units.dep_lo, units.dep)) for d in deps} == between
        assert all(d < u for d, u in between)  # so no cycle is left


@pytest.mark.parametrize("jit", [False, True])
def test_groups_that_are_in_no_cycle_stay_apart(jit: bool) -> None:
    """Rows 0 and 1 read each other, row 2 reads row 1: two units."""
    groups = load("groups", jit)
    dep_lo, dep = np.array([0, 1, 2, 3]), np.array([1, 0, 1])
    component = np.zeros(3, np.int64)
    assert groups.merge_cycles(dep_lo, dep, *(np.zeros(3, np.int64) for _ in range(5)), component) == 2
    assert component.tolist() == [0, 0, 1]


@pytest.mark.parametrize("jit", [False, True])
def test_rank_is_the_longest_path(jit: bool) -> None:
    batch = random_batch(4, 60, 6)
    work: Any = ToyWork(batch, TPG[0], 1, jit)
    graph = build(work, 1)
    rank = np.zeros(graph.vertices, np.int64)
    strata = load("strata", jit).rank_units(graph.dep_lo, graph.dep, rank)
    for v, deps in enumerate(dependencies(batch)):
        assert rank[v] == max((rank[d] + 1 for d in deps), default=0)
    assert strata == rank.max() + 1


@every_strategy
def test_all_vertices_end_as_executed_or_aborted(strategy: Strategy) -> None:
    batch = random_batch(6, 60, 4, abort=0.4)
    work, _ = run(batch, strategy, 2, True)
    state = work.scratch.array("state", len(work.v_code), np.int64)
    want = np.repeat([ABT if aborted else EXE for aborted in batch.serial[1]], np.diff(work.t_lo))
    assert state.tolist() == want.tolist()
