"""Toy batches for strategies on parts of transactions, their serial meaning, and the work that strategies get."""

from __future__ import annotations

import functools
import itertools
import random
from types import FunctionType
from typing import Any

import numpy as np
from numba import njit

from mainstem.engine import native
from mainstem.engine.buffers import Scratch
from mainstem.engine.entry import Bound
from mainstem.engine.kernels import base_plain
from mainstem.engine.kernels.base import rest
from mainstem.engine.kernels.control import CLOCKS, CONTROL_WORDS, OWN, PRIVATE, READ
from mainstem.engine.native import take
from mainstem.engine.options import Strategy
from mainstem.engine.strategies import RUNNERS
from mainstem.engine.strategies.precedence import Tally
from mainstem.team import team

Ref = tuple[int, int]  # which of the transaction's rows (-1: a site that is not reached), and its mode

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
    """Transactions in parts, as the arrays of docs/design/engine.md."""

    def __init__(self, rows: int, start: list[int]) -> None:
        self.rows, self.start, self.slots, self.last = rows, start, rows, [-1] * rows
        names = ("v_lo", "ref_op", "ref_mode", "op_row", "op_prev", "op_slot", "op_owner", "t_lo", *CONTEXT[-3:])
        self.lists: dict[str, list[int]] = {name: [] for name in names}
        self.lists["v_lo"], self.lists["t_lo"] = [0], [0]

    @property
    def transactions(self) -> int:
        return len(self.lists["t_lo"]) - 1

    def add(self, rows: list[int], parts: list[list[Ref]], salts: list[int], chance: int, delays: list[int]) -> None:
        """A transaction; a row that some part owns is written. Each part fails in `chance` of 100 cases."""
        lists, first = self.lists, len(self.lists["op_row"])
        written = {k for refs in parts for k, mode in refs if mode == OWN and k >= 0}
        for k, row in enumerate(rows):
            lists["op_row"].append(row)
            lists["op_prev"].append(self.last[row])
            lists["op_slot"].append(self.slots if k in written else -1)
            lists["op_owner"].append(-1)
            self.slots += k in written
        for refs in parts:
            for k, mode in refs:
                lists["ref_op"].append(first + k if k >= 0 else -1)
                lists["ref_mode"].append(mode)
                if mode == OWN and k >= 0:
                    lists["op_owner"][first + k] = len(lists["v_lo"]) - 1
            lists["v_lo"].append(len(lists["ref_op"]))
        lists["salt"] += salts
        lists["chance"] += [chance] * len(parts)
        lists["delay"] += delays
        lists["t_lo"].append(len(lists["v_lo"]) - 1)
        for k in written:
            self.last[rows[k]] = first + k

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


def random_batch(
    seed: int, transactions: int, rows: int, *, most: int = 5, parts: int = 5, abort: float = 0.0, skew: float = 0.0,
    delay: float = 0.0,
) -> Batch:  # fmt: skip
    """Transactions over up to `most` rows, in up to `parts` parts that read and own any of them."""
    rng = random.Random(seed)
    batch = Batch(rows, [rng.randrange(1 << 30) for _ in range(rows)])
    weights = [1 / (row + 1) ** skew for row in range(rows)]
    for _ in range(transactions):
        touched = list(dict.fromkeys(rng.choices(range(rows), weights, k=rng.randint(0, most))))
        count = rng.randint(1, parts)
        owners = [rng.randrange(count) if rng.random() < 0.6 else -1 for _ in touched]
        cut: list[list[Ref]] = [[] for _ in range(count)]
        for part, (k, owner) in itertools.product(range(count), enumerate(owners)):
            if owner == part:
                cut[part].append((k, OWN))
            elif rng.random() < 0.4:
                cut[part].append(rng.choice([(k, READ), (k, PRIVATE), (-1, READ), (-1, OWN)]))
        salts = [rng.randrange(1 << 30) for _ in cut]
        delays = [rng.randint(1, 4) if rng.random() < delay else 0 for _ in cut]
        batch.add(touched, cut, salts, round(100 * (1 - (1 - abort) ** (1 / count))), delays)
    return batch


@functools.lru_cache(maxsize=200)  # all strategies run the same batches
def varied_batch(seed: int, sizes: tuple[int, ...]) -> Batch:
    rng = random.Random(seed)
    return random_batch(
        seed, rng.choice(sizes), rng.choice([1, 3, 10, 50]), most=rng.choice([1, 3, 8]), parts=rng.choice([1, 3, 5]),
        abort=rng.choice([0, 0.1, 0.4, 0.8]), skew=rng.choice([0, 1, 1.5]), delay=rng.choice([0, 0.3]),
    )  # fmt: skip


def late_verdicts(count: int) -> Batch:
    """Transactions that all write row 0, each judged by a part that can run only after those of later ones.

    Every change of a verdict changes what later transactions read, so it may change all their verdicts, which are
    already there: handled one by one, that is twice the work with each transaction. Delays are chains of writes to
    other rows.
    """
    rng = random.Random(count)
    batch = Batch(count + 1, [rng.randrange(1 << 30) for _ in range(count + 1)])
    for j in range(count):
        for _ in range(2 * count - j):
            batch.add([j + 1], [[(0, OWN)]], [rng.randrange(1 << 30)], 0, [0])
    for j in range(count):
        salts = [rng.randrange(1 << 30) for _ in range(2)]
        batch.add([0, j + 1], [[(0, OWN)], [(0, READ), (1, READ)]], salts, 0, [0, 0])
        batch.lists["chance"][-1] = 50
    return batch


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
