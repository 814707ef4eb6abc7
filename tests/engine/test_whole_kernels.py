"""Kernels that run whole transactions, against the serial run: updates that do not commute, aborts, 1 to 8 threads.

The toy program lives in one int64 array, its *memory*: first where each section begins, then the sections. Its
functions index that array, so they are the same uncompiled and as native code behind a pointer.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from itertools import chain
from typing import Any

import numba
import numpy as np
import pytest

from mainstem.engine.kernels import load
from mainstem.engine.kernels.control import CLOCKS, CONTROL_WORDS, LINE, NEXT, USEFUL
from mainstem.engine.kernels.inflight import OPEN, PLACE_WORDS
from mainstem.engine.kernels.locks import LOCK_WORDS
from mainstem.lang import asked as asking
from mainstem.lang.direct import STRETCH_BITS
from mainstem.team import team

SECTIONS = ("txn_lo", "op_row", "op_write", "todo", "op_prev", "op_slot", "op_src", "op_ver", "values", "code")
TXN_LO, OP_ROW, OP_WRITE, PENDING, OP_PREV, OP_SLOT, OP_SRC, OP_VER, VALUES, CODE = range(len(SECTIONS))
PRIME = 1_000_003
WORK = 100  # keeps a transaction between its reads and its writes for a while, so that a missing wait shows
sched_yield = numba.types.ExternalFunction("sched_yield", numba.types.int32())


def direct(memory: Any, t: int, worker: int) -> int:
    """Reads all rows, aborts one time in four, writes in place."""
    mixed = t + 1
    for o in range(memory[memory[TXN_LO] + t], memory[memory[TXN_LO] + t + 1]):
        mixed = (mixed * 31 + memory[memory[VALUES] + memory[memory[OP_ROW] + o]]) % PRIME
    for _ in range(WORK):
        mixed = mixed * 7 % PRIME
    if mixed % 4 == 0:
        return 1 + mixed % 3
    for o in range(memory[memory[TXN_LO] + t], memory[memory[TXN_LO] + t + 1]):
        if memory[memory[OP_WRITE] + o] != 0:
            at = memory[VALUES] + memory[memory[OP_ROW] + o]
            memory[at] = (memory[at] * 5 + mixed) % PRIME
    return 0


def versioned(memory: Any, vertex: int, worker: int) -> int:
    """The same on versions; what it leaves in the slots of an aborted transaction is wrong on purpose."""
    t = memory[memory[PENDING] + vertex]
    mixed = t + 1
    for o in range(memory[memory[TXN_LO] + t], memory[memory[TXN_LO] + t + 1]):
        source, before = memory[memory[OP_ROW] + o], memory[memory[OP_PREV] + o]
        if before >= 0:
            source = memory[memory[OP_VER] + before]
        memory[memory[OP_SRC] + o] = source
        mixed = (mixed * 31 + memory[memory[VALUES] + source]) % PRIME
    for _ in range(WORK):
        mixed = mixed * 7 % PRIME
    for o in range(memory[memory[TXN_LO] + t], memory[memory[TXN_LO] + t + 1]):
        if memory[memory[OP_WRITE] + o] != 0:
            value = memory[memory[VALUES] + memory[memory[OP_SRC] + o]]
            memory[memory[VALUES] + memory[memory[OP_SLOT] + o]] = (value * 5 + mixed) % PRIME
    return 1 + mixed % 3 if mixed % 4 == 0 else 0


@functools.cache
def in_stretches(function: Callable[..., int], jit: bool) -> Callable[..., int]:
    """What kernels call to run some transactions in place: each by `function`, and its code noted."""
    one = numba.njit(function) if jit else function

    def run(memory: Any, item: int, worker: int) -> int:
        first = item >> STRETCH_BITS
        for t in range(first, first + (item & 2**STRETCH_BITS - 1) + 1):
            memory[memory[CODE] + t] = one(memory, t, worker)
        return 0

    return run


@functools.cache
def native(function: Callable[..., int]) -> Any:
    word = numba.types.int64
    return numba.cfunc(word(numba.types.CPointer(word), word, word))(function)


class Batch:
    """Random transactions over few rows; `share` of them are to be run."""

    def __init__(self, seed: int, count: int, rows: int, share: float = 1.0) -> None:
        random = np.random.default_rng(seed)
        self.rows, self.count = rows, count
        reach = [random.permutation(rows)[: random.integers(0, min(rows, 5) + 1)] for _ in range(count)]
        self.txn_lo = np.cumsum([0] + [len(r) for r in reach])
        self.op_row = np.concatenate(reach)
        self.op_write = (random.random(len(self.op_row)) < random.random()).astype(np.int64)
        self.todo = np.flatnonzero(random.random(count) < share)
        self.values = random.integers(0, PRIME, rows)
        self.fn, self.cost = random.integers(0, 3, count), np.array([1, 10, 100])
        self._order()

    def _order(self) -> None:
        ops, last = len(self.op_row), [-1] * self.rows
        self.op_prev, self.op_writes_before = np.full(ops, -1), np.zeros(ops, np.int64)
        writes = [0] * self.rows
        for t in self.todo:
            for o in range(self.txn_lo[t], self.txn_lo[t + 1]):
                row = self.op_row[o]
                self.op_prev[o], self.op_writes_before[o] = last[row], writes[row]
                if self.op_write[o]:
                    last[row], writes[row] = o, writes[row] + 1
        self.row_last = np.array(last)

    def memory(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """A fresh memory and its sections by name."""
        ops = len(self.op_row)
        parts = [
            *(self.txn_lo, self.op_row, self.op_write, self.todo, self.op_prev),
            *(self.rows + np.arange(ops), np.full(ops, -1), np.full(ops, -1)),
            np.concatenate([self.values, np.full(ops, -1)]),
            np.full(self.count, -1),
        ]
        ends = len(SECTIONS) + np.cumsum([len(part) for part in parts])
        begins = [len(SECTIONS), *ends[:-1]]
        memory = np.concatenate([begins, *parts]).astype(np.int64)
        return memory, {name: memory[a:b] for name, a, b in zip(SECTIONS, begins, ends, strict=True)}

    def serial(self) -> tuple[np.ndarray, np.ndarray]:
        """Values and codes of running one after the other."""
        memory, parts = self.memory()
        code = np.full(self.count, -1)
        for t in self.todo:
            code[t] = direct(memory, t, 0)
        return parts["values"][: self.rows].copy(), code


class Run:
    """One run of a batch: `result` gives values and codes."""

    def __init__(self, batch: Batch, jit: bool, threads: int, body: Callable[..., int] | None = None) -> None:
        self.batch, self.jit, self.threads, self.body = batch, jit, threads, body
        self.memory, self.part = batch.memory()
        self.control = np.zeros(CONTROL_WORDS, np.int64)
        self.clock = np.zeros((threads, CLOCKS), np.int64)
        self.code = self.part["code"]
        self.before: Callable[[int], None] = lambda w: None

    def call(self, function: Callable[..., int]) -> tuple[Any, Any]:
        function = self.body or function
        function = function if function is versioned else in_stretches(function, self.jit)
        return (native(function).address, self.memory.ctypes.data) if self.jit else (function, self.memory)

    def on_all(self, kernel: Callable[..., None], *arguments: Any) -> None:
        def task(w: int) -> None:
            self.before(w)
            kernel(*arguments, self.control, self.clock, w)

        team(self.threads).run(task, self.control)

    def zeros(self, length: int) -> np.ndarray:
        return np.zeros(length, np.int64)

    def operations(self) -> tuple[np.ndarray, ...]:
        return self.part["todo"], self.part["txn_lo"], self.part["op_row"], self.part["op_write"]

    def requests(self) -> tuple[np.ndarray, np.ndarray]:
        """What transactions ask for: some rows twice, now and then to read at first and to write then."""
        random, lo, found = np.random.default_rng(1), [0], []
        for t in range(self.batch.count):
            for o in range(self.batch.txn_lo[t], self.batch.txn_lo[t + 1]):
                row, writes = self.batch.op_row[o] << 1, int(self.batch.op_write[o])
                found += [row] * int(random.integers(0, 3))
                found.append(row | writes)
            lo.append(len(found))
        return np.array(lo), np.array(found, np.int64)

    def last_conflicts(self, lo: np.ndarray, requests: np.ndarray, places: int) -> np.ndarray:
        """The last transaction that each may conflict with; rows share places, too."""
        last, before = self.zeros(places * asking.PLACE_WORDS), self.zeros(self.batch.count)
        nowhere = self.zeros(1)
        for t in range(self.batch.count):
            found = 0
            for request in requests[lo[t] : lo[t + 1]].tolist():
                _, found = asking.asked(nowhere, 0, last, found, t + 1, request >> 1, request & 1)
            before[t] = found - 1
        return before

    def locks(self, requests: int) -> tuple[np.ndarray, np.ndarray]:
        """Tickets, and four locks: most rows share theirs."""
        return self.zeros(requests), self.zeros(4 * LOCK_WORDS)

    def nolock(self) -> None:
        self.on_all(load("locks", self.jit).nolock_run, *self.call(direct), self.part["todo"])

    def lock(self, claim: int = 1) -> None:
        kernels, (lo, asked) = load("locks", self.jit), self.requests()
        arrays = self.part["todo"], lo, asked, *self.locks(len(asked))
        self.on_all(kernels.lock_run, *self.call(direct), *arrays, claim)

    def lock_by_four(self) -> None:
        self.lock(claim=4)

    def inflight(self, claim: int = 1, places: int = 4) -> None:
        """Four places: many rows of a claim share theirs, and of all transactions, too."""
        kernels, todo, (lo, asked) = load("inflight", self.jit), self.part["todo"], self.requests()
        before = self.last_conflicts(lo, asked, places)
        done = self.zeros(load("claims", self.jit).count_claims(len(todo), claim, self.threads) * LINE)
        own = self.zeros(self.threads * 4 * PLACE_WORDS).reshape(self.threads, -1)
        opened, waiting = np.full((self.threads, self.threads * OPEN), 77), np.full((self.threads, OPEN), 77)
        arrays = todo, lo, asked, before, claim, done, own, opened, waiting
        self.on_all(kernels.inflight_run, *self.call(direct), *arrays)

    def inflight_by_four(self) -> None:
        self.inflight(claim=4, places=256)

    def inflight_by_thirty_two(self) -> None:
        self.inflight(claim=32, places=256)

    def pat(self, partitions: int = 3) -> None:
        kernels, todo, (lo, asked) = load("locks", self.jit), self.part["todo"], self.requests()
        ticket, lock = self.locks(len(asked))
        entries = self.zeros(len(todo) + 1), self.zeros(len(asked)), self.zeros(len(asked))
        scratch = (self.zeros(partitions) for _ in range(2))
        kernels.pat_prepare(todo, lo, asked, len(lock), partitions, *entries, *scratch)
        arrays = todo, lo, asked, *entries, self.zeros(partitions * LINE), ticket, lock
        self.on_all(kernels.pat_run, *self.call(direct), *arrays)

    def mvlk(self) -> None:
        batch, v_code = self.batch, self.zeros(len(self.batch.todo))
        versions = [batch.op_writes_before, *(self.part[name] for name in ("op_slot", "op_src", "op_ver"))]
        guards = self.zeros(batch.rows), v_code
        self.on_all(load("mvlk", self.jit).mvlk_run, *self.call(versioned), *self.operations(), *versions, *guards)
        self.code[batch.todo] = v_code
        written = np.flatnonzero(batch.row_last >= 0)
        values = self.part["values"]
        values[written] = values[self.part["op_ver"][batch.row_last[written]]]

    def components(self, bins: int = 5) -> Packing:
        packing = Packing(self.batch, self.jit, bins)
        self.sheet = np.zeros((self.threads, len(self.batch.cost), 2), np.int64)
        arrays = packing.bin_lo, packing.bin_txn, self.batch.fn, self.sheet
        self.on_all(load("components", self.jit).components_run, *self.call(direct), *arrays)
        return packing

    def result(self) -> tuple[np.ndarray, np.ndarray]:
        return self.part["values"][: self.batch.rows], self.code


class Packing:
    """The components of a batch, in bins."""

    def __init__(self, batch: Batch, jit: bool, bins: int) -> None:
        kernels, count = load("components", jit), len(batch.todo)
        dirty = lambda length: np.full(length, 77)  # scratch is reused: kernels must not rely on what it holds
        self.component, self.size, self.weight = dirty(count), dirty(count), dirty(count)
        operations = batch.todo, batch.txn_lo, batch.op_row, batch.op_write
        out = self.component, self.size, self.weight
        scratch = dirty(batch.rows), dirty(batch.rows)
        found = kernels.find_components(*operations, batch.fn, batch.cost, *scratch, *out)
        self.count, self.heaviest, self.total = (int(number) for number in found)
        self.bin_weight, self.bin_lo, self.bin_txn = dirty(bins), dirty(bins + 1), dirty(count)
        scratch = dirty(bins * kernels.LIGHT_PART), dirty(self.count)
        kernels.pack(batch.todo, self.count, self.total, *out, *scratch, self.bin_weight, self.bin_lo, self.bin_txn)


SAFE = ("lock", "lock_by_four", "inflight", "inflight_by_four", "inflight_by_thirty_two", "pat", "mvlk", "components")


def check_equals_serial(strategy: str, batch: Batch, jit: bool, threads: int) -> None:
    run = Run(batch, jit, threads)
    getattr(run, strategy)()
    values, code = batch.serial()
    np.testing.assert_array_equal(run.result()[0], values)
    np.testing.assert_array_equal(run.result()[1], code)
    assert (run.clock >= 0).all()
    assert run.clock[:, USEFUL].sum() > 0 or len(batch.todo) == 0


@pytest.mark.parametrize("threads", [1, 2, 4, 8])
@pytest.mark.parametrize("strategy", SAFE)
class TestSerialEquivalence:
    def test_compiled(self, strategy: str, threads: int) -> None:
        for seed, rows in enumerate((1, 2, 3, 7, 20, 100, 1000, 5000)):
            check_equals_serial(strategy, Batch(seed, 1000, rows), True, threads)
            check_equals_serial(strategy, Batch(seed, 300, rows, share=0.5), True, threads)

    def test_plain(self, strategy: str, threads: int) -> None:
        for seed, rows in enumerate((1, 2, 5, 40)):
            check_equals_serial(strategy, Batch(seed, 25, rows, share=0.8), False, threads)


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("strategy", ["nolock", *SAFE])
def test_nothing_to_do_and_one_thread(strategy: str, jit: bool) -> None:
    check_equals_serial(strategy, Batch(0, 10, 4, share=0.0), jit, 1)
    check_equals_serial(strategy, Batch(0, 10, 4), jit, 1)


def calls_of_inflight(rows: list[int], first_ends: int, claim: int) -> list[list[int]]:
    """The transactions, each writing one row, that one thread runs by each call of generated code.

    The first claim is another thread's, and ends when this one has run `first_ends` transactions.
    """
    count, calls, kernels = len(rows), list[list[int]](), load("inflight", False)
    control, clock = np.zeros(CONTROL_WORDS, np.int64), np.zeros((1, CLOCKS), np.int64)
    done = np.zeros(load("claims", False).count_claims(count, claim, 1) * LINE, np.int64)
    control[NEXT * LINE] = 1

    def note(memory: np.ndarray, item: int, worker: int) -> int:
        first = int(item) >> STRETCH_BITS
        calls.append(list(range(first, first + int(item) % 2**STRETCH_BITS + 1)))
        if sum(map(len, calls)) >= first_ends:
            done[0] = 2**claim - 1
        return 0

    own, opened, waiting = (np.zeros((1, words), np.int64) for words in (64 * PLACE_WORDS, 2 * OPEN, OPEN))
    before = np.array([max((b for b in range(t) if rows[b] == rows[t]), default=-1) for t in range(count)])
    requests = np.arange(count + 1), np.array(rows) << 1 | 1, before
    arrays = *requests, claim, done, own, opened, waiting
    kernels.inflight_run(note, None, np.arange(count), *arrays, control, clock, 0)
    return calls


def order_of_inflight(rows: list[int], first_ends: int) -> list[int]:
    """The order in which they run, in claims of four."""
    calls = calls_of_inflight(rows, first_ends, 4)
    assert {len(call) for call in calls} == {1}
    return list(chain.from_iterable(calls))


def test_those_behind_one_that_waits_run_first() -> None:
    rows = [0, 1, 2, 3, 1, 5, 1, 6, *range(7, 39)]  # transactions 4 and 6 wait for 1, and 6 for 4
    for first_ends in (1, 2):
        assert order_of_inflight(rows, first_ends) == [5, 7, 4, 6, *range(8, 40)]
    assert order_of_inflight(rows, 12) == [5, 7, *range(8, 20), 4, 6, *range(20, 40)]


def test_of_long_claims_some_run_by_one_call() -> None:
    """A quarter of a claim at once: those behind must not wait for long. Not those that wait, nor any across them."""
    rows = [*range(45), 7, *range(46, 200)]  # transaction 45 waits for 7
    calls = calls_of_inflight(rows, 60, 32)
    assert calls[:6] == [list(range(*ends)) for ends in ((32, 40), (40, 45), (46, 54), (54, 62), (62, 64), (64, 72))]
    assert sorted(chain.from_iterable(calls)) == list(range(32, 200))
    assert max(map(len, calls)) == 8


def test_no_more_claims_are_open_than_there_is_room_for() -> None:
    waiting = [4 * claim for claim in range(1, 1 + OPEN)]  # of each claim, the first transaction waits
    rows = [1 if t in (1, *waiting) else 100 + t for t in range(60)]
    free = [t for t in range(4, 4 + 4 * OPEN) if t not in waiting]
    assert order_of_inflight(rows, len(free)) == [*free, *waiting, *range(4 + 4 * OPEN, 60)]


@pytest.mark.parametrize("partitions", [1, 2, 11, 64])
def test_partitions_of_any_number(partitions: int) -> None:
    batch = Batch(partitions, 1000, 50)
    run = Run(batch, True, 4)
    run.pat(partitions)
    np.testing.assert_array_equal(run.result()[0], batch.serial()[0])


@pytest.mark.parametrize("jit", [True, False])
def test_turns_of_partitions_count_the_transactions_that_touch_them(jit: bool) -> None:
    batch, ops = Batch(3, 60, 20, share=0.7), 5
    part_lo, part_id, part_turn = np.zeros(61, np.int64), np.zeros(400, np.int64), np.zeros(400, np.int64)
    scratch = np.full(ops, 9), np.full(ops, 9)
    entries = load("locks", jit).pat_prepare(
        batch.todo, batch.txn_lo, batch.op_row << 1, 32 * LOCK_WORDS, ops, part_lo, part_id, part_turn, *scratch
    )
    turns = [0] * ops
    for i, t in enumerate(batch.todo):
        mine = slice(part_lo[i], part_lo[i + 1])
        touched = {int(row) % ops for row in batch.op_row[batch.txn_lo[t] : batch.txn_lo[t + 1]]}
        assert sorted(part_id[mine]) == sorted(touched)
        for partition, turn in zip(part_id[mine], part_turn[mine], strict=True):
            assert turn == turns[partition]
            turns[partition] += 1
    assert entries == part_lo[len(batch.todo)] == sum(turns)


def contended(count: int) -> Batch:
    """All transactions write the one row."""
    batch = Batch(0, count, 1)
    batch.txn_lo, batch.op_row, batch.op_write = (
        np.arange(count + 1),
        np.zeros(count, np.int64),
        np.ones(count, np.int64),
    )
    batch._order()
    return batch


def test_without_locks_updates_get_lost() -> None:
    """Two transactions on one row: both read before either writes, so one update is lost."""
    batch, both_have_read = contended(2), threading.Barrier(2)

    def update(memory: np.ndarray, t: int, worker: int) -> int:
        value = memory[memory[VALUES]]
        both_have_read.wait(timeout=60)
        memory[memory[VALUES]] = value * 2 + t + 1
        return 0

    run, before = Run(batch, False, 2, update), int(batch.values[0])
    run.nolock()
    assert run.result()[0] in (before * 2 + 1, before * 2 + 2)


def count_together(memory: Any, t: int, worker: int) -> int:
    """Adds 1, and meets the other worker between reading and writing; the words behind the one row say who has read."""
    value, has_read = memory[memory[VALUES]], memory[VALUES] + 1
    memory[has_read + worker] = 1
    while memory[has_read + 1 - worker] != 1:
        sched_yield()
    memory[memory[VALUES]] = value + 1
    return 0


def test_without_locks_updates_get_lost_in_native_code() -> None:
    batch = contended(2000)
    run = Run(batch, True, 2, count_together)
    run.nolock()
    assert 0 < run.result()[0][0] - batch.values[0] < 2000


@pytest.mark.parametrize("strategy", ["nolock", *SAFE])
class TestFailures:
    def test_in_a_transaction_that_others_wait_for(self, strategy: str) -> None:
        def failing(memory: np.ndarray, item: int, worker: int) -> int:
            if item == 3:
                raise ZeroDivisionError("transaction 3")
            return 0

        run = Run(contended(40), False, 4, failing)
        with pytest.raises(ZeroDivisionError, match="transaction 3"):
            getattr(run, strategy)()
        assert run.code[3] == -1

    def test_in_a_thread_that_has_taken_work(self, strategy: str) -> None:
        """Native code can't raise, the Python around it can: the others wait for a transaction that never runs."""
        run, taken = Run(contended(5000), True, 4), threading.Event()

        def take_and_fail(w: int) -> None:
            if w == 2:
                run.control[NEXT * LINE] = 1
                taken.set()
                raise MemoryError("worker 2")
            taken.wait()

        run.before = take_and_fail
        with pytest.raises(MemoryError, match="worker 2"):
            getattr(run, strategy)()


def reference_components(batch: Batch) -> list[set[int]]:
    """By definition: transactions are joined by the rows that some transaction writes."""
    operations_of = {int(t): range(batch.txn_lo[t], batch.txn_lo[t + 1]) for t in batch.todo}
    written = {int(batch.op_row[o]) for own in operations_of.values() for o in own if batch.op_write[o]}
    groups: list[tuple[set[int], set[int]]] = []
    for t, own in operations_of.items():
        mine, touched = {t}, {int(batch.op_row[o]) for o in own} & written
        apart = []
        for group in groups:
            if group[1] & touched:
                mine, touched = mine | group[0], touched | group[1]
            else:
                apart.append(group)
        groups = [*apart, (mine, touched)]
    return [group[0] for group in groups]


@pytest.mark.parametrize("jit", [True, False])
@pytest.mark.parametrize("rows", [1, 30, 200, 2000])
def test_components_are_found_weighed_and_packed_whole(rows: int, jit: bool) -> None:
    for seed in range(8):
        batch, bins = Batch(seed, 150, rows, share=0.9), 1 + seed
        packing, expected = Packing(batch, jit, bins), reference_components(batch)
        cost = lambda members, batch=batch: int(sum(batch.cost[batch.fn[t]] for t in members))
        assert packing.count == len(expected)
        assert packing.heaviest == max(map(cost, expected))
        assert packing.total == cost(batch.todo) == packing.bin_weight.sum()
        group_of = {t: number for number, members in enumerate(expected) for t in members}
        seen: list[int] = []
        for b in range(bins):
            inside = packing.bin_txn[packing.bin_lo[b] : packing.bin_lo[b + 1]].tolist()
            assert packing.bin_weight[b] == cost(inside)
            while inside:
                members = sorted(expected[group_of[inside[0]]])
                assert inside[: len(members)] == members, "a component is whole, in order, in one bin"
                inside = inside[len(members) :]
                seen += members
        assert sorted(seen) == batch.todo.tolist()
        fair, portion = packing.total / bins, packing.total // (bins * 16) + 1
        assert packing.bin_weight.max() <= fair + max(packing.heaviest, 2 * portion)


def test_heavy_components_go_first_into_the_lightest_bin() -> None:
    batch = Batch(0, 5, 5)
    batch.txn_lo, batch.op_row, batch.op_write = np.arange(6), np.arange(5), np.ones(5, np.int64)
    batch.todo, batch.fn, batch.cost = np.arange(5), np.arange(5), np.array([3, 50, 3, 4, 30])
    packing = Packing(batch, True, 3)
    assert packing.bin_txn.tolist() == [1, 4, 0, 2, 3]
    assert packing.bin_weight.tolist() == [50, 30, 10]


def test_rows_that_are_only_read_join_nothing() -> None:
    batch = Batch(0, 4, 3)
    batch.txn_lo, batch.op_row = np.array([0, 2, 4, 5, 6]), np.array([0, 1, 0, 2, 0, 1])
    batch.op_write, batch.todo = np.array([0, 1, 0, 1, 0, 0]), np.arange(4)
    packing = Packing(batch, True, 1)
    assert packing.component.tolist() == [0, 1, 2, 0]
