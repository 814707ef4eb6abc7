"""Strategies on parts of transactions, on toy batches: every result is that of the serial run."""

from __future__ import annotations

import functools
import itertools
import random
from types import FunctionType
from typing import Any

import numpy as np
import pytest
from numba import njit

from mainstem.engine import native
from mainstem.engine.buffers import Scratch
from mainstem.engine.entry import Bound
from mainstem.engine.kernels import base_plain, load
from mainstem.engine.kernels.base import rest
from mainstem.engine.kernels.control import ABORT, ABT, CLOCKS, CONTROL_WORDS, EXE, OWN, PRIVATE, READ, USEFUL
from mainstem.engine.native import take
from mainstem.engine.options import Strategy
from mainstem.engine.strategies import RUNNERS
from mainstem.engine.strategies.precedence import Tally, build
from mainstem.engine.strategies.tpg import _grouped
from mainstem.engine.team import Team, team

TPG = [
    Strategy("tpg", explore=explore, unit=unit, abort=abort)
    for explore, unit, abort in itertools.product(("bfs", "dfs", "ns"), ("op", "group"), ("eager", "lazy"))
]
STRATEGIES = TPG + [Strategy("chains", sharing=sharing) for sharing in ("nothing", "everything")]
THREADS = (1, 2, 4, 8)
every_strategy = pytest.mark.parametrize("strategy", STRATEGIES, ids=lambda s: s.label)

YIELD = 200  # a turn of `rest` that gives the core away
CONTEXT = ("v_lo", "ref_op", "ref_mode", "op_row", "op_prev", "op_slot", "op_src", "op_ver", "row_base", "versions",
           "salt", "chance", "delay")  # fmt: skip


@njit
def mix(a: int, b: int) -> int:
    """Neither commutes nor forgets: another order of updates gives another number."""
    return ((a ^ b) * 40503 + 12345) % 2147483647


def vertex(context: Any, v: int, worker: int) -> int:
    """Mixes all values that the vertex reads into each value that it owns; they also decide whether it fails."""
    v_lo = take(context, 0, np.int64)
    ref_op = take(context, 1, np.int64)
    ref_mode = take(context, 2, np.int64)
    op_row = take(context, 3, np.int64)
    op_prev = take(context, 4, np.int64)
    op_slot = take(context, 5, np.int64)
    op_src = take(context, 6, np.int64)
    op_ver = take(context, 7, np.int64)
    row_base = take(context, 8, np.int64)
    versions = take(context, 9, np.int64)
    salt = take(context, 10, np.int64)
    chance = take(context, 11, np.int64)
    delay = take(context, 12, np.int64)
    value = salt[v]
    for k in range(v_lo[v], v_lo[v + 1]):
        o = ref_op[k]
        if o >= 0:
            source = op_ver[op_prev[o]] if op_prev[o] >= 0 else row_base[op_row[o]]
            if ref_mode[k] == 1:
                op_src[o] = source
            value = mix(value, versions[source])
    for _ in range(delay[v]):
        rest(YIELD)
    for k in range(v_lo[v], v_lo[v + 1]):
        o = ref_op[k]
        if o >= 0 and ref_mode[k] == 1:
            versions[op_slot[o]] = mix(value, versions[op_src[o]] + 1)
    return 1 + v % 3 if mix(value, 99) % 100 < chance[v] else 0


COMPILED = native.entry(vertex)
PLAIN = FunctionType(
    vertex.__code__, {"np": np, "take": native.plain_take, "rest": base_plain.rest, "mix": mix.py_func, "YIELD": YIELD}
)


class Batch:
    """Random transactions, cut into random parts, with the arrays of docs/design/engine.md."""

    def __init__(
        self, seed: int, transactions: int, rows: int, *, most: int = 5, parts: int = 5, abort: float = 0.0,
        skew: float = 0.0, delay: float = 0.0,
    ) -> None:  # fmt: skip
        self.rng, self.rows, self.transactions = random.Random(seed), rows, transactions
        names = ("v_lo", "ref_op", "ref_mode", "op_row", "op_prev", "op_slot", "op_owner", "t_lo", *CONTEXT[-3:])
        self.lists: dict[str, list[int]] = {name: [] for name in names}
        self.slots, self.last = rows, [-1] * rows
        weights = [1 / (row + 1) ** skew for row in range(rows)]
        for _ in range(transactions):
            self._transaction(weights, most, self.rng.randint(1, parts), abort, delay)
        self.lists["t_lo"].append(len(self.lists["v_lo"]))
        self.lists["v_lo"].append(len(self.lists["ref_op"]))
        self.start = [self.rng.randrange(1 << 30) for _ in range(rows)]

    def _transaction(self, weights: list[float], most: int, parts: int, abort: float, delay: float) -> None:
        rng, lists = self.rng, self.lists
        count = rng.randint(0, most)
        rows = list(dict.fromkeys(rng.choices(range(self.rows), weights, k=count)))
        first, writes = len(lists["op_row"]), [rng.random() < 0.6 for _ in rows]
        owners = [rng.randrange(parts) for _ in rows]
        for row, writes_it in zip(rows, writes, strict=True):
            lists["op_row"].append(row)
            lists["op_prev"].append(self.last[row])
            lists["op_slot"].append(self.slots if writes_it else -1)
            lists["op_owner"].append(-1)
            self.slots += writes_it
        lists["t_lo"].append(len(lists["v_lo"]))
        for part in range(parts):
            v = len(lists["v_lo"])
            lists["v_lo"].append(len(lists["ref_op"]))
            for k, writes_it in enumerate(writes):
                if writes_it and owners[k] == part:
                    lists["op_owner"][first + k] = v
                    self._ref(first + k, OWN)
                elif rng.random() < 0.4:
                    self._ref(*rng.choice([(first + k, READ), (first + k, PRIVATE), (-1, READ), (-1, OWN)]))
            lists["salt"].append(rng.randrange(1 << 30))
            lists["chance"].append(round(100 * (1 - (1 - abort) ** (1 / parts))))
            lists["delay"].append(rng.randint(1, 4) if rng.random() < delay else 0)
        for k, row in enumerate(rows):
            if writes[k]:
                self.last[row] = first + k

    def _ref(self, op: int, mode: int) -> None:
        self.lists["ref_op"].append(op)
        self.lists["ref_mode"].append(mode)

    @functools.cached_property
    def serial(self) -> tuple[list[int], list[bool]]:
        """Final values and aborted transactions, one transaction after the other."""
        state, aborted, lists, blend = list(self.start), [], self.lists, mix.py_func
        for t in range(self.transactions):
            new, fails = {}, False
            for v in range(lists["t_lo"][t], lists["t_lo"][t + 1]):
                span = slice(lists["v_lo"][v], lists["v_lo"][v + 1])
                refs = [r for r in zip(lists["ref_op"][span], lists["ref_mode"][span], strict=True) if r[0] >= 0]
                value = lists["salt"][v]
                for o, _ in refs:
                    value = blend(value, state[lists["op_row"][o]])
                for o, mode in refs:
                    if mode == OWN:
                        new[lists["op_row"][o]] = blend(value, state[lists["op_row"][o]] + 1)
                fails = fails or blend(value, 99) % 100 < lists["chance"][v]
            state = state if fails else [new.get(row, old) for row, old in enumerate(state)]
            aborted.append(fails)
        return state, aborted


class ToyWork:
    """What `mainstem.engine.work.Work` is for real programs."""

    def __init__(self, batch: Batch, strategy: Strategy, threads: int, jit: bool) -> None:
        self.batch, self.strategy, self.jit, self.scratch = batch, strategy, jit, Scratch()
        for name, values in batch.lists.items():
            setattr(self, name, np.array(values, np.int64))
        self.op_src, self.op_ver = (np.full(len(batch.lists["op_row"]), -1) for _ in range(2))
        self.row_base, self.todo = np.arange(batch.rows), np.arange(batch.transactions)
        self.versions = np.zeros(batch.slots, np.int64)
        self.versions[: batch.rows] = batch.start
        self.v_code = np.full(len(batch.lists["v_lo"]) - 1, -1)
        self.control, self.clock = np.zeros(CONTROL_WORDS, np.int64), np.zeros((threads, CLOCKS), np.int64)

    def room(self, name: str, count: int) -> np.ndarray:
        array = self.scratch.array(name, count, np.int64)
        array[:] = -(10**9)  # nobody may rely on what was there
        return array

    def zeros(self, name: str, count: int) -> np.ndarray:
        array = self.room(name, count)
        array[:] = 0
        return array

    def versioned(self) -> Bound:
        arrays = tuple(getattr(self, name) for name in CONTEXT)
        if not self.jit:
            return Bound(PLAIN, arrays, arrays)
        context = np.array([(array.ctypes.data, len(array)) for array in arrays], np.int64)
        return Bound(COMPILED.address, context.ctypes.data, (context, *arrays))

    def result(self) -> tuple[list[int], list[bool]]:
        last = [self.op_ver[o] if o >= 0 else row for row, o in enumerate(self.batch.last)]
        failed = np.add.reduceat(self.v_code != 0, self.t_lo[:-1]) if len(self.todo) else []
        return self.versions[last].tolist(), [bool(count) for count in failed]


def run(batch: Batch, strategy: Strategy, threads: int, jit: bool) -> tuple[ToyWork, Tally]:
    work: Any = ToyWork(batch, strategy, threads, jit)
    tally: Any = RUNNERS[strategy.engine](work, team(threads))
    return work, tally


@functools.lru_cache(maxsize=200)  # all strategies run the same batches
def random_batch(seed: int, sizes: tuple[int, ...]) -> Batch:
    rng = random.Random(seed)
    return Batch(
        seed, rng.choice(sizes), rng.choice([1, 3, 10, 50]), most=rng.choice([1, 3, 8]), parts=rng.choice([1, 3, 5]),
        abort=rng.choice([0, 0.1, 0.4, 0.8]), skew=rng.choice([0, 1, 1.5]), delay=rng.choice([0, 0.3]),
    )  # fmt: skip


# -- equal to the serial run ---------------------------------------------------------------------------------------


@every_strategy
@pytest.mark.parametrize(("jit", "cases", "sizes"), [(False, 20, (1, 6, 30)), (True, 60, (1, 20, 250))])
def test_equals_serial(strategy: Strategy, jit: bool, cases: int, sizes: tuple[int, ...]) -> None:
    for seed in range(cases):
        batch = random_batch(seed, sizes)
        work, _ = run(batch, strategy, THREADS[seed % 4], jit)
        assert work.result() == batch.serial, f"seed {seed}, {THREADS[seed % 4]} threads"


@pytest.mark.long
@every_strategy
def test_equals_serial_long(strategy: Strategy) -> None:
    for seed in range(1000, 31_000):
        batch = random_batch(seed, (1, 5, 40, 200, 600))
        work, _ = run(batch, strategy, THREADS[seed % 4], True)
        assert work.result() == batch.serial, f"seed {seed}, {THREADS[seed % 4]} threads"


@every_strategy
def test_contended_batch_has_one_result(strategy: Strategy) -> None:
    batch = Batch(5, 80, 4, abort=0.3, skew=1.0, delay=0.1)
    want = batch.serial
    for turn in range(200):
        work, _ = run(batch, strategy, THREADS[1 + turn % 3], True)
        assert work.result() == want, f"turn {turn}"


@every_strategy
def test_no_transactions(strategy: Strategy) -> None:
    assert run(Batch(1, 0, 3), strategy, 2, True)[1] == Tally()


@every_strategy
@pytest.mark.parametrize("jit", [False, True])
def test_verdicts_that_depend_on_each_other(strategy: Strategy, jit: bool) -> None:
    """Every transaction reads and writes the one row, and each abort turns later ones: eager handling alone explodes."""
    batch = Batch(3, 60 if jit else 25, 1, most=1, abort=0.7)
    work, tally = run(batch, strategy, 2, jit)
    assert work.result() == batch.serial
    assert tally.runs <= 100 * tally.vertices


# -- threads -------------------------------------------------------------------------------------------------------


@every_strategy
def test_vertex_that_raises_ends_all(strategy: Strategy) -> None:
    batch = Batch(8, 40, 3, abort=0.3)
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

    work: Any = ToyWork(Batch(8, 40, 3, abort=0.3), strategy, 3, True)
    failing_team = FailingTeam(3)
    with pytest.raises(KeyboardInterrupt):
        RUNNERS[strategy.engine](work, failing_team)
    failing_team.close()


# -- counts and clocks ---------------------------------------------------------------------------------------------


@every_strategy
def test_without_aborts_every_vertex_runs_once(strategy: Strategy) -> None:
    work, tally = run(Batch(2, 100, 5), strategy, 2, True)
    assert tally.runs == tally.vertices == len(work.v_code)
    assert tally[6:11] == (0, 0, 0, 0, 0)  # reruns, skips, failures, settles, rolled back
    assert work.clock[:, USEFUL].sum() > 0 and work.clock[:, ABORT].sum() == 0


@every_strategy
def test_single_vertices_need_no_settling(strategy: Strategy) -> None:
    work, tally = run(Batch(2, 200, 5, parts=1, abort=0.5), strategy, 2, True)
    assert tally.failures == sum(work.batch.serial[1]) > 50
    assert (tally.settles, tally.reruns, tally.runs) == (0, 0, tally.vertices)
    assert work.clock[:, ABORT].sum() > 0


@every_strategy
def test_counts_of_aborts_agree(strategy: Strategy) -> None:
    _, tally = run(Batch(2, 200, 5, abort=0.4), strategy, 2, True)
    assert tally.settles > 0
    assert tally.reruns <= tally.rolled_back
    assert tally.runs + tally.skips == tally.vertices + tally.rolled_back


def test_one_thread_that_explores_in_order_runs_nothing_in_vain() -> None:
    _, tally = run(Batch(2, 200, 3, abort=0.5), Strategy("tpg", explore="ns", unit="op", abort="eager"), 1, True)
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
        batch = random_batch(seed, (1, 6, 30))
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
        batch = random_batch(seed, (1, 6, 30))
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
    batch = Batch(4, 60, 6)
    work: Any = ToyWork(batch, TPG[0], 1, jit)
    graph = build(work, 1)
    rank = np.zeros(graph.vertices, np.int64)
    strata = load("strata", jit).rank_units(graph.dep_lo, graph.dep, rank)
    for v, deps in enumerate(dependencies(batch)):
        assert rank[v] == max((rank[d] + 1 for d in deps), default=0)
    assert strata == rank.max() + 1


@every_strategy
def test_all_vertices_end_as_executed_or_aborted(strategy: Strategy) -> None:
    batch = Batch(6, 60, 4, abort=0.4)
    work, _ = run(batch, strategy, 2, True)
    state = work.scratch.array("state", len(work.v_code), np.int64)
    want = np.repeat([ABT if aborted else EXE for aborted in batch.serial[1]], np.diff(work.t_lo))
    assert state.tolist() == want.tolist()
