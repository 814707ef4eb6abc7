"""`auto`: picks a strategy for each batch from what batches are like and what strategies took so far.

A cheap program needs no plan: its time per transaction is known from the last batch, and below a fraction of a
microsecond no graph pays. Whether its batches overlap, or threads share them, is measured (`overlap.py`). Otherwise the
batch's properties go into the cost model (`model.py`, with figures measured on this machine), and every prediction is
corrected by how far it was off before. Candidates that are predicted to be about as good as the best are tried on a
batch or two; what they took decides.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from mainstem.engine.calibrate import known_costs
from mainstem.engine.experience import SURPRISE, TRIES, Memory
from mainstem.engine.kernels import load
from mainstem.engine.kernels import properties as places
from mainstem.engine.kernels.control import OWN
from mainstem.engine.layout import Batch, Numbered
from mainstem.engine.model import Costs, Properties, predict
from mainstem.engine.options import INFLIGHT, SAFE, SERIAL, Strategy
from mainstem.engine.overlap import Way, Ways
from mainstem.engine.parallel import ParallelExecutor
from mainstem.engine.pipeline import Staged
from mainstem.engine.result import BatchStats, Ran
from mainstem.engine.strategies import overlaps, uses_operations, uses_versions
from mainstem.engine.strategies.whole import find_components
from mainstem.gate import EventBatch
from mainstem.lang import Program
from mainstem.state import State
from mainstem.team import default_threads

CHEAP_SECONDS = 0.25e-6  # per transaction: below it no graph pays
SHARED_SECONDS = 0.05e-6  # per transaction: below it nothing parallel beats the serial kernel
# Of serial batches, before it is tried whether threads are faster: their code may have to be compiled for that.
SERIAL_FIRST_SECONDS = 0.5
SHORT_SECONDS = 100e-6  # per batch: threads do not start in less
OVERLAP_SECONDS = 80e-6  # of a serial batch: in less, starting another thread takes what it wins
START_SECONDS = 8e-6  # of calling the serial kernel
# Events of a batch that run serially to learn what a transaction costs; starting the kernel takes as long as many cheap
# ones, so those are sampled in larger pieces.
SAMPLE_EVENTS = (128, 256, 2_048)
SAMPLE_SECONDS = 100e-6
ASK_AGAIN = 32  # batches until figures of the machine, when they are missing, are looked for again
PARALLEL_UNCOMPILED = False  # tests turn it on
REPLAN = 16  # batches after which the plan is made anew
PLANNING_SHARE = 0.005  # of the time of batches, at most: plans for short ones last longer
DOUBTS = 6  # batches in a row: after so many, other work than what is known is how this strategy makes it look
# Learning from a batch takes some microseconds of Python: of short ones that run as planned, only each fourth is told.
LEARN_EACH, LEARN_SECONDS = 4, 5e-3
SURPRISES = 2  # batches in a row that took much more or less than expected; a single one is the machine's noise
DRIFT = 0.1  # change of a share (aborts, dependent operations) that asks for a new plan
TRIED = 0.04  # candidates expected to be so much slower than the best are still worth a try
GOOD_ENOUGH = 0.03  # above what no strategy can beat: trying others costs more batches than it could win
CANDIDATES = 3  # tried per plan, at most
# Batches that tries may take: at the start, and of all others. More only where the plan looks hopeless.
TRIES_FIRST, TRIES_SHARE = 12, 0.1
HOPELESS = 0.12  # so much slower than the best: one try is enough, unless the model has it so much faster
RIVAL_PLANS = 4  # the best of the others is tried again after so many plans
GAIN = 0.01  # what a change of strategy must promise
GAIN_AGAINST = 0.03  # the same where the model has it behind
GAIN_UNSEEN = 0.08  # the same when that strategy has not run in such batches


@dataclass
class Plan:
    """What to do until something changes."""

    best: Strategy
    properties: Properties
    seconds: dict[str, float]  # per operation, by label, as the model predicts it
    floor: float  # seconds per operation that no strategy can beat
    queue: list[Strategy]  # to be tried first
    age: int = 0
    compared: float = 0.0  # seconds per operation that were expected of the best when others were compared with it
    surprises: int = 0  # batches in a row that took much more or less than expected
    making: float = 0.0  # seconds that it took
    spent: float = 0.0  # seconds of its batches
    reasons: dict[str, str] = field(default_factory=dict)  # by label, as they were when it was chosen first

    @cached_property
    def about(self) -> str:
        return str(self.properties)

    @property
    def is_old(self) -> bool:
        return self.age >= REPLAN and self.making <= PLANNING_SHARE * self.spent


_memories: dict[tuple[str, int], Memory] = {}
_BY_LABEL = {strategy.label: strategy for strategy in SAFE}


class AutoExecutor(ParallelExecutor):
    """Chooses for every batch, and says why in its statistics."""

    def __init__(
        self, program: Program, state: State, *, threads: int | None = None, jit: bool = True, track: bool = False
    ) -> None:
        self._plan: Plan | None = None
        self._batches = self._tried = 0
        self._warm: set[str] = set()  # strategies that have run here
        self._doubts: dict[str, int] = {}  # by label: batches in a row of other work than what is known
        self._inflation: float | None = None  # time inside functions that run on versions, against `cost`
        self._ways, self._serial_seconds = Ways(), 0.0
        self._sharing = self._shared_last = False  # whether threads share the batch at hand, and the last that ended
        self._costs: Costs | None = None
        self._ask_again = 0
        self._at_once = min(threads or default_threads(), default_threads())  # threads that really run at the same time
        super().__init__(program, state, SERIAL, threads=threads, jit=jit, track=track)
        known = _memories.get((program.source, self.threads), Memory())
        self.memory = _memories[program.source, self.threads] = known.again()
        self._ops_each = float(np.mean([max(1, len(f.sites)) for f in program.functions]))
        writing = [[p for p in f.parts if any(mode == OWN for _, mode in p.sites)] for f in program.functions]
        self._splits = np.array([max(1, len(parts)) for parts in writing])

    def _choose_and_run(self, arrays: dict[str, Any], count: int) -> Ran:
        self._batches += 1
        first = self._sample(arrays, count) if self._at_once > 1 and self._cost_unknown() else 0
        if first and self._transactions_before(arrays, first) == count:  # events that are left have no functions
            return Ran("serial", "the batch was just enough to learn what a transaction costs")
        why_serial = self._why_serial(count)
        if why_serial is None and self._stays_serial():
            why_serial = self._why(SERIAL)
        if why_serial is not None:
            return self._serial(arrays, count, first, why_serial)
        return self._parallel(arrays, count, first)

    # -- serial -------------------------------------------------------------------------------------------------

    def _cost_unknown(self) -> bool:
        """Before the first batch; and before a new plan when versions made the work look like more than it is."""
        plan = self._plan
        if plan is None:
            return self._batches == 1
        return uses_versions(plan.best) and (plan.is_old or self._changed_much(plan))

    def _sample(self, arrays: dict[str, Any], count: int) -> int:
        """Runs the first events serially, more of them when they are cheap; gives how many."""
        events = len(arrays["kind"])
        done, found = 0, float("inf")
        for size in SAMPLE_EVENTS:
            end = min(done + size, max(1, events // 8))
            if end <= done or (done and found * size > SAMPLE_SECONDS):
                break
            found = min(found, self._timed_serially(arrays, count, done, end))
            done = end
        self.memory.begin_run(found)
        self._inflation = None
        return done

    def _timed_serially(self, arrays: dict[str, Any], count: int, first: int, end: int) -> float:
        """Runs some events serially; gives seconds per transaction."""
        start, listing = time.perf_counter(), self.operations.listing
        self._run_serially(arrays, first, end)
        # Keys that had to be listed are those of the whole batch.
        seconds = time.perf_counter() - start - START_SECONDS - (self.operations.listing - listing)
        return max(seconds, 0.0) / max(1.0, count * (end - first) / len(arrays["kind"]))

    def _why_serial(self, count: int) -> str | None:
        if (why := self._why_not_parallel(count)) is not None:
            return why
        cost = self.memory.cost
        assert cost is not None
        if self._costs is None and self._batches >= self._ask_again:
            self._costs = known_costs(self._at_once)
            self._ask_again = self._batches + ASK_AGAIN
        if self._costs is None:
            return "strategies have not been measured on this machine yet"
        if cost * count <= cost * count / self._at_once + self._least_own(self._ops_each * count):
            return f"{cost * count * 1e6:.0f} µs for the batch: starting threads and building a graph takes longer"
        return None

    def _least_own(self, operations: float) -> float:
        """Seconds that the cheapest strategy adds to the work of a batch."""
        assert self._costs is not None
        return min(fixed + each * operations for fixed, each in self._costs.values())

    def _why_not_parallel(self, count: int) -> str | None:
        """Reasons that hold whatever the strategies cost."""
        if self._at_once == 1:
            return "one thread" if self.threads == 1 else "one core"
        cost = self.memory.cost
        assert cost is not None
        if cost < CHEAP_SECONDS:
            return f"{cost * 1e9:.0f} ns per transaction: too little for a plan to pay"
        if cost * count < SHORT_SECONDS:
            return f"{cost * count * 1e6:.0f} µs for the batch: starting threads takes longer"
        if not self.jit and not PARALLEL_UNCOMPILED:
            return "uncompiled code holds Python's lock: threads would take turns"
        return None

    def _serial(self, arrays: dict[str, Any], count: int, first: int, why: str) -> Ran:
        cost = self._timed_serially(arrays, count, first, len(arrays["kind"]))
        self.memory.learn_cost(cost)
        if self._plan is not None:
            self._plan.spent += cost * count
            self.memory.learn_aborts(float(np.count_nonzero(arrays["code"][:count])) / count)
        return Ran("serial", why)

    # -- parallel -----------------------------------------------------------------------------------------------

    def _stays_serial(self) -> bool:
        """Whether the plan in force says so: then not even operations are needed."""
        plan = self._plan
        if plan is None or plan.best is not SERIAL or plan.queue or plan.is_old or self._changed_much(plan):
            return False
        plan.age += 1
        return True

    def _parallel(self, arrays: dict[str, Any], count: int, first_event: int) -> Ran:
        start = time.perf_counter()
        laid = self.lay_out(arrays, count, first_event)
        numbered, first = laid.numbered, laid.first
        planning = self._plan is None or self._plan.is_old or self._changed_much(self._plan, numbered)
        if planning:
            begin = time.perf_counter()
            self._plan = self._make_plan(numbered, arrays, first)
            self._plan.making = time.perf_counter() - begin
            start += self._plan.making  # planning is not the strategy's fault
            laid.ahead.held_up += self._plan.making
        assert self._plan is not None
        self._plan.age += 1
        strategy, why = self._next(self._plan)
        if strategy is SERIAL:
            self._wait_for_ahead(arrays)
            return self._serial(arrays, count, laid.first_event, why)
        ran = self.run_with(strategy, arrays, count, first_event, why, laid)
        operations = self._operations(strategy, self._plan.properties, numbered)
        taken = time.perf_counter() - start
        self._plan.spent += taken
        # Where batches overlap, one that is planned does not, and lays out operations that others do without.
        telling = not (planning and overlaps(strategy) and self._pipeline is not None)
        self._learn(strategy, ran, taken, operations * laid.inflation, telling)
        self.memory.learn_aborts(float(np.count_nonzero(arrays["code"][first:])) / (count - first))
        return ran

    def stage(self, batch: EventBatch, first_seq: int, before_new: Callable[[], None]) -> Staged | None:
        self._sharing = False
        staged = super().stage(batch, first_seq, before_new)
        if staged is not None:
            staged.shared = self._sharing
        return staged

    def stage_again(self, staged: Staged) -> Staged:
        again = super().stage_again(staged)
        again.shared = staged.shared
        return again

    def _strategy_ahead(self, count: int) -> tuple[Strategy, str] | None:
        """As the plan says, unless it has to be made anew, which needs what the last batch was like."""
        plan = self._plan
        if plan is None or plan.is_old or self._changed_much(plan) or (plan.best is SERIAL and not plan.queue):
            return self._serial_ahead(count)
        if not overlaps(self._upcoming(plan)):
            return None
        if count < plan.properties.transactions * (1 - SURPRISE) and self._why_serial(count) is not None:
            return self._serial_ahead(count)
        self._batches += 1
        plan.age += 1
        return self._next(plan)

    def _serial_ahead(self, count: int) -> tuple[Strategy, str] | None:
        """Batches that stay serial overlap, too, if the second thread has the time to start."""
        cost = self.memory.cost
        if not self.jit or self._at_once == 1 or not self._batches or cost is None or cost * count < OVERLAP_SECONDS:
            return None
        ways = self._open_ways(cost, count)
        way = self._ways.next(ways)
        if way is Way.ALONE:
            return None
        why = self._why_serial(count)
        if why is None and self._stays_serial():
            why = self._why(SERIAL)
        if why is None:
            return None
        self._batches += 1
        if way is Way.SHARED:
            self._sharing = True
            known = "measured to be" if self._ways.best(ways) is way else "tried, as it may be"
            return INFLIGHT, f"{cost * 1e9:.0f} ns per transaction: {known} faster than one thread"
        return SERIAL, why

    def _open_ways(self, cost: float, count: int) -> tuple[Way, ...]:
        """Threads share batches without a plan where plans do not pay."""
        serial = (Way.OVERLAPPING, Way.ALONE)
        if not SHARED_SECONDS <= cost < CHEAP_SECONDS or cost * count < SHORT_SECONDS:
            return serial
        return (*serial, Way.SHARED) if self._serial_seconds >= SERIAL_FIRST_SECONDS else serial

    def note_lap(self, stats: BatchStats, overlapped: bool, seconds: float) -> None:
        if stats.engine == SERIAL.label:
            self._serial_seconds += seconds
            self._ways.learn(Way.OVERLAPPING if overlapped else Way.ALONE, seconds, stats.transactions)
        elif overlapped and self._shared_last:
            self._ways.learn(Way.SHARED, seconds, stats.transactions)

    def _learn_staged(self, staged: Staged, ran: Ran, aborts: float) -> None:
        numbered = None if staged.work is None else staged.work.numbered
        plan = self._plan
        if numbered is None:
            self.memory.learn_cost(staged.seconds_threads / len(staged.arrays["code"]))
            taken = staged.seconds_threads
        else:
            taken = staged.seconds_construct / self._at_once + staged.seconds_threads / self.threads
        self._shared_last = staged.shared
        if staged.shared and numbered is not None:
            self._learn_shared(ran, len(numbered))
            return
        if plan is None:
            return
        plan.spent += taken
        as_planned = staged.strategy is plan.best and not plan.queue
        if as_planned and taken < LEARN_SECONDS and plan.age % LEARN_EACH:
            return
        self.memory.learn_aborts(aborts)
        if numbered is not None:
            operations = self._operations(staged.strategy, plan.properties, numbered)
            self._learn(staged.strategy, ran, taken, operations)

    def _learn_shared(self, ran: Ran, transactions: int) -> None:
        """A batch that threads shared without a plan. The first one loads code and touches memory."""
        if ran.engine in self._warm:
            self._learn_useful(ran, transactions, inflated=True)
        self._warm.add(ran.engine)

    def _operations(self, strategy: Strategy, usual: Properties, numbered: Numbered) -> float:
        """Those of the batch, or as many as its transactions usually have when nobody has counted them."""
        if uses_operations(strategy):
            return max(1, numbered.batch.ops)
        return usual.operations / usual.transactions * (len(numbered) - numbered.start)

    def _changed_much(self, plan: Plan, numbered: Numbered | None = None) -> bool:
        cost = self.memory.cost or plan.properties.cost
        return (
            plan.surprises >= SURPRISES
            or abs(cost / plan.properties.cost - 1) > SURPRISE
            or abs(self.memory.aborts - plan.properties.aborts) > DRIFT
            or (
                numbered is not None
                and uses_operations(plan.best)  # else they would be laid out for this only
                and abs(_dependent(numbered.batch) - plan.properties.dependent) > DRIFT
            )
        )

    def _make_plan(self, numbered: Numbered, arrays: dict[str, Any], first: int) -> Plan:
        found = self._properties(numbered, arrays, first)
        self.memory.begin_plan(found)
        self._costs = known_costs(self._at_once) or self._costs  # they may have been measured anew
        assert self._costs is not None
        predicted = {s: predict(s, found, self._costs, self._at_once) for s in (SERIAL, *SAFE)}
        seconds = {s.label: time / found.operations for s, time in predicted.items()}
        least = max(1 / self._at_once, found.path_parts) * found.work + self._least_own(found.operations)
        plan = Plan(SERIAL, found, seconds, least / found.operations, [])
        ranked = sorted(predicted, key=lambda s: self._expected(plan, s))
        plan.best = self._first(plan, ranked[0]) if self._plan is None else self._plan.best
        self._prefer_best(plan)
        plan.queue = self._to_try(plan, ranked)
        return plan

    def _to_try(self, plan: Plan, ranked: list[Strategy]) -> list[Strategy]:
        """Candidates that may be the best, as often as it takes; and the closest rival once more from time to time."""
        least = self._expected(plan, ranked[0])
        promising = least < self._expected(plan, plan.best) * (1 - HOPELESS)
        enough = self._tried > TRIES_FIRST + TRIES_SHARE * self._batches
        if self._good_enough(plan) or (enough and not promising):
            return []
        limit = least * (1 + TRIED)
        close = [s for s in ranked if s is not SERIAL and self._expected(plan, s) <= limit]
        new = [s for s in close if self.memory.tries(s.label) < TRIES][:CANDIDATES]
        if new:
            return [s for s in new for _ in range(self._tries_left(s))]
        rivals = [s for s in close if s is not plan.best][:1]
        return [s for s in rivals if self.memory.plans_since(s.label) >= RIVAL_PLANS]

    def _promises_more(self, plan: Plan, strategy: Strategy) -> bool:
        """Whether the model alone, without what was seen, would have it far ahead."""
        return plan.seconds[strategy.label] < self._expected(plan, plan.best) * (1 - HOPELESS)

    def _good_enough(self, plan: Plan) -> bool:
        """Whether the best one has run and comes close to what none can beat: looking on would not pay."""
        best = min(SAFE, key=lambda s: self._expected(plan, s))
        return best.label in self._warm and self._expected(plan, best) <= plan.floor * (1 + GOOD_ENOUGH)

    def _expected(self, plan: Plan, strategy: Strategy) -> float:
        """Seconds per operation: predicted, and corrected by experience."""
        return plan.seconds[strategy.label] * self.memory.factor(strategy.label)

    def _tries_left(self, strategy: Strategy) -> int:
        """The first batch of a strategy does not count."""
        return max(0, TRIES - self.memory.tries(strategy.label)) + (strategy.label not in self._warm)

    def _next(self, plan: Plan) -> tuple[Strategy, str]:
        strategy = self._upcoming(plan)
        if plan.queue:
            self._tried += 1
            return plan.queue.pop(0), f"tried: predicted to be about as fast as the best; {plan.about}"
        return strategy, self._why(strategy)

    def _upcoming(self, plan: Plan) -> Strategy:
        if plan.queue and self._good_enough(plan):
            plan.queue.clear()
        return plan.queue[0] if plan.queue else plan.best

    def _prefer_best(self, plan: Plan) -> None:
        """Among those that have run in such batches: how good others are is found out by trying them, a few at a time.
        What was seen in other batches counts when it promises much more."""
        for new in (False, True):
            others = [_BY_LABEL[label] for label in self.memory.known(tried=not new)]
            best = min((SERIAL, *others), key=lambda s: self._expected(plan, s))
            if self._is_better(plan, best, plan.best, GAIN_UNSEEN if new else GAIN):
                plan.best = best

    def _first(self, plan: Plan, expected: Strategy) -> Strategy:
        """What to begin with: what is expected to be the best after what was seen in other batches, or what the model
        likes best."""
        favourite = min((SERIAL, *SAFE), key=lambda s: plan.seconds[s.label])
        return expected if self._is_better(plan, expected, favourite, GAIN) else favourite

    def _is_better(self, plan: Plan, strategy: Strategy, than: Strategy, gain: float) -> bool:
        """Whether it promises that much more; against the model's word it has to be a little more than noise."""
        if plan.seconds[strategy.label] > plan.seconds[than.label]:
            gain = max(gain, GAIN_AGAINST)
        return self._expected(plan, strategy) < self._expected(plan, than) * (1 - gain)

    def _why(self, strategy: Strategy) -> str:
        plan = self._plan
        assert plan is not None
        if strategy.label not in plan.reasons:
            gain = self._expected(plan, SERIAL) / self._expected(plan, strategy)
            plan.reasons[strategy.label] = f"{gain:.2f} × serial expected; {plan.about}"
        return plan.reasons[strategy.label]

    def _learn(self, strategy: Strategy, ran: Ran, seconds: float, operations: float, telling: bool = True) -> None:
        """Corrects the prediction of this strategy, if its time is telling, and what is known about the program.

        What counts is the time against the work that was in the batch: transactions of one batch may be longer than
        those of another, and a machine that others use makes both slower alike.
        """
        plan, label = self._plan, strategy.label
        assert plan is not None
        if label not in self._warm:
            # The first batch of a strategy loads its code and touches memory: no measure of it.
            self._warm.add(label)
            return
        if not telling:
            self._learn_useful(ran, _transactions(plan, operations), uses_versions(strategy))
            return
        tries = self.memory.tries(label)
        self._learn_factor(plan, strategy, ran, seconds, operations)
        if strategy is not plan.best or self._expected(plan, strategy) > plan.compared * (1 + GAIN):
            self._prefer_best(plan)
            plan.compared = self._expected(plan, plan.best)
        if self._expected(plan, strategy) > self._expected(plan, plan.best) * (1 + HOPELESS):
            plan.queue = [s for s in plan.queue if s is not strategy]
            if tries < self.memory.tries(label) < TRIES and self._promises_more(plan, strategy):
                plan.queue.append(strategy)  # a single batch: that may have been the machine

    def _learn_factor(self, plan: Plan, strategy: Strategy, ran: Ran, seconds: float, operations: float) -> None:
        batch, label = plan.properties, strategy.label
        transactions = _transactions(plan, operations)
        seen = self._learn_useful(ran, transactions, uses_versions(strategy))
        cost = self.memory.cost or batch.cost
        self._doubts[label] = self._doubts.get(label, 0) + 1 if abs(seen / cost - 1) > SURPRISE else 0
        if 0 < self._doubts[label] <= DOUBTS:
            return  # other work than what is known: that says nothing about the strategy
        work = cost * transactions
        factor = float(seconds / max(work, 1e-9) / (plan.seconds[label] * batch.operations / batch.work))
        surprising = abs(factor / self.memory.factor(label) - 1) > SURPRISE
        plan.surprises = plan.surprises + 1 if surprising else 0
        self.memory.learn_time(label, factor)

    def _learn_useful(self, ran: Ran, transactions: float, inflated: bool = False) -> float:
        """What the functions took, also when threads ran them; gives it per transaction.

        On versions, they make copies, and parts of aborted transactions run in vain or again. Cheap ones that threads
        share wait for what others have in their caches. How much that adds is seen when serial ones have just told
        the cost.
        """
        seconds = _useful(ran) / max(1.0, transactions)
        if inflated and self.memory.cost is not None:
            if self._inflation is None:
                self._inflation = max(1.0, seconds / self.memory.cost)
                return self.memory.cost
            seconds /= self._inflation
        self.memory.learn_cost(seconds)
        return seconds

    def _properties(self, numbered: Numbered, arrays: dict[str, Any], first: int) -> Properties:
        batch = numbered.batch
        cost = max(self.memory.cost or 0.0, 1e-9)
        room = self.operations.scratch.array
        per_row = [room(f"auto {n}", batch.rows, np.int64) for n in ("wrote", "locked", "read", "part")]
        found = np.zeros(places.PLACES, np.int64)
        unit = np.full(len(self.program.functions), 1_000, np.int64)  # of work, per transaction
        load("properties", self.jit).measure(
            first, 2 * self.threads, batch.fn, unit, self._splits, batch.alias, batch.txn_lo, batch.op_row,
            batch.op_write, batch.op_prev, batch.rows, batch.row_writes, room("auto txn", batch.ops, np.int64),
            *per_row, found,
        )  # fmt: skip
        transactions = batch.transactions - first
        components = find_components(self._work(SERIAL, numbered, arrays, first))
        work = 1_000 * transactions
        splittable = float(np.mean(self._splits[batch.fn[first:]] > 1))
        return Properties(
            transactions=transactions, operations=max(1, batch.ops), cost=cost, aborts=self.memory.aborts,
            split=splittable - found[places.SHARED_PARTS] / transactions,
            dependent=found[places.DEPENDENT] / max(1, batch.ops), near=found[places.NEAR] / transactions,
            path_versions=found[places.PATH_VERSIONS] / work, path_locks=found[places.PATH_LOCKS] / work,
            path_parts=found[places.PATH_PARTS] / work, strata=int(found[places.HOTTEST]),
            heaviest=components.heaviest / components.total,
        )  # fmt: skip


def _transactions(plan: Plan, operations: float) -> float:
    """As many as have so many operations, if they are of the usual length."""
    return operations * plan.properties.transactions / plan.properties.operations


def _dependent(batch: Batch) -> float:
    """Share of operations that need a version made in this batch."""
    return float(np.count_nonzero(batch.op_prev[: batch.ops] >= 0)) / max(1, batch.ops)


def _useful(ran: Ran) -> float:
    """Seconds of all threads inside the functions."""
    assert ran.breakdown is not None
    return ran.breakdown.useful + ran.breakdown.abort
