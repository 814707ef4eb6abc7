"""`auto`: picks a strategy for each batch from what batches are like and what strategies took so far.

A cheap program never leaves the serial kernel: its time per transaction is known from the last batch, and below a
fraction of a microsecond no graph pays. Otherwise the batch's properties go into the cost model (`model.py`, with
figures measured on this machine), and every prediction is corrected by how far it was off before. Candidates that are
predicted to be about as good as the best are tried on a batch or two; what they took decides.
"""

from __future__ import annotations

import math
import statistics
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mainstem.engine.calibrate import known_costs
from mainstem.engine.kernels import load
from mainstem.engine.kernels import properties as places
from mainstem.engine.kernels.control import OWN
from mainstem.engine.layout import Batch
from mainstem.engine.model import Costs, Properties, predict
from mainstem.engine.options import SAFE, SERIAL, Strategy
from mainstem.engine.parallel import ParallelExecutor
from mainstem.engine.result import Ran
from mainstem.engine.strategies.whole import find_components
from mainstem.lang import Program
from mainstem.state import State
from mainstem.team import default_threads

CHEAP_SECONDS = 0.25e-6  # per transaction: below it nothing parallel beats the serial kernel
SHORT_SECONDS = 100e-6  # per batch: threads do not start in less
START_SECONDS = 8e-6  # of calling the serial kernel
# Events of the first batch, and of one in RESAMPLE while batches run in parallel, that run serially to learn what a
# transaction costs; starting the kernel takes as long as many cheap ones, so those are sampled in larger pieces.
SAMPLE_EVENTS = (32, 256, 2_048)
SAMPLE_SECONDS = 100e-6
RESAMPLE = 32
PARALLEL_UNCOMPILED = False  # tests turn it on
REPLAN = 16  # batches after which the plan is made anew
SURPRISE = 0.3  # relative change of cost or time that asks for a new plan at once
SURPRISES = 2  # batches in a row; a single one is the machine's noise
TRIED = 0.07  # candidates predicted to be so much slower than the best are still worth a try
TRIES = 1  # of a candidate before its own times are believed
GAIN = 0.02  # what a change of strategy must promise
REGIME = 8  # costs and sizes that differ by such a factor are different worlds
LEARNING = 0.4  # weight of the newest figure in running averages
BETTER, WORSE = 0.7, 0.2  # the same for times of strategies
REMEMBERED = 0.9  # power of a factor that is left when plans are made anew


@dataclass
class Memory:
    """What is known about a program, from batch to batch and from run to run in this process."""

    cost: float | None = None  # seconds per transaction, serially
    aborts: float = 0.0
    factors: dict[str, float] = field(default_factory=dict)  # measured by predicted time, per strategy
    tries: dict[str, int] = field(default_factory=dict)
    _regimes: dict[tuple[int, int], tuple[dict[str, float], dict[str, int]]] = field(default_factory=dict)

    def enter(self, cost: float, transactions: int) -> None:
        """Experience with small batches of dear transactions says little about large ones of cheap ones."""
        regime = (round(math.log(cost * 1e9, REGIME)), round(math.log(transactions, REGIME)))
        self.factors, self.tries = self._regimes.setdefault(regime, ({}, {}))

    def learn_cost(self, seconds: float) -> None:
        self.cost = seconds if self.cost is None else (1 - LEARNING) * self.cost + LEARNING * seconds

    def learn_time(self, label: str, factor: float) -> None:
        """A machine makes runs slower by chance, never faster: better news are believed at once, worse ones slowly."""
        known = self.factors.get(label, factor)
        weight = BETTER if factor < known else WORSE
        self.factors[label] = (1 - weight) * known + weight * factor
        self.tries[label] = self.tries.get(label, 0) + 1

    def forget_some(self, used: str) -> None:
        """What a strategy took long ago counts less and less, so that it gets another chance."""
        for label in self.factors:
            if label != used:
                self.factors[label] **= REMEMBERED

    def factor(self, label: str) -> float:
        """How far off predictions are; of a strategy that has not run yet, as far as the others."""
        if label in self.factors:
            return self.factors[label]
        return statistics.median(self.factors.values()) if self.factors and label != "serial" else 1.0


@dataclass
class Plan:
    """What to do until something changes."""

    best: Strategy
    properties: Properties
    seconds: dict[str, float]  # per transaction, by label, as the model predicts it
    queue: list[Strategy]  # to be tried first
    age: int = 0
    surprises: int = 0  # batches in a row that took much more or less than expected


_memories: dict[tuple[str, int], Memory] = {}


class AutoExecutor(ParallelExecutor):
    """Chooses for every batch, and says why in its statistics."""

    def __init__(
        self, program: Program, state: State, *, threads: int | None = None, jit: bool = True, track: bool = False
    ) -> None:
        self._plan: Plan | None = None
        self._batches = 0
        self._ran_serially = False  # the last batch
        self._warm: set[str] = set()  # strategies that have run here
        self._costs: Costs | None = None
        self._ask_again = 0
        self._at_once = min(threads or default_threads(), default_threads())  # threads that really run at the same time
        super().__init__(program, state, SERIAL, threads=threads, jit=jit, track=track)
        self.memory = _memories.setdefault((program.source, self.threads), Memory())
        self._ops_each = float(np.mean([max(1, len(f.sites)) for f in program.functions]))
        writing = [[p for p in f.parts if any(mode == OWN for _, mode in p.sites)] for f in program.functions]
        self._splits = np.array([max(1, len(parts)) for parts in writing])

    def _execute(self, arrays: dict[str, Any], count: int) -> Ran:
        if count == 0:
            return super()._execute(arrays, count)
        self._batches += 1
        first = self._sample(arrays, count) if self._wants_sample() else 0
        if first == len(arrays["kind"]):
            return Ran("serial", "the batch was just enough to learn what a transaction costs")
        why_serial = self._why_serial(count)
        if why_serial is None and self._stays_serial():
            why_serial = self._why(SERIAL)
        if why_serial is not None:
            return self._serial(arrays, count, first, why_serial)
        return self._parallel(arrays, count, first)

    # -- serial -------------------------------------------------------------------------------------------------

    def _wants_sample(self) -> bool:
        """A batch that runs serially as a whole is the best sample there is."""
        if self._at_once == 1:
            return False
        return self.memory.cost is None or (self._batches % RESAMPLE == 0 and not self._ran_serially)

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
        self.memory.learn_cost(found)
        return done

    def _timed_serially(self, arrays: dict[str, Any], count: int, first: int, end: int) -> float:
        """Runs some events serially; gives seconds per transaction."""
        start = time.perf_counter()
        self._run_serially(arrays, first, end)
        seconds = time.perf_counter() - start - START_SECONDS
        return max(seconds, 0.0) / max(1.0, count * (end - first) / len(arrays["kind"]))

    def _why_serial(self, count: int) -> str | None:
        if (why := self._why_not_parallel(count)) is not None:
            return why
        cost = self.memory.cost
        assert cost is not None
        if self._costs is None and self._batches >= self._ask_again:
            self._costs = known_costs(self._at_once)
            self._ask_again = self._batches + RESAMPLE
        if self._costs is None:
            return "strategies are being measured on this machine, once"
        floor = min(fixed + each * self._ops_each * count for fixed, each in self._costs.values())
        if cost * count <= cost * count / self._at_once + floor:
            return f"{cost * count * 1e6:.0f} µs for the batch: starting threads and building a graph takes longer"
        return None

    def _why_not_parallel(self, count: int) -> str | None:
        """Reasons that hold whatever the strategies cost."""
        if self._at_once == 1:
            return "one thread" if self.threads == 1 else "one core"
        cost = self.memory.cost
        assert cost is not None
        if cost < CHEAP_SECONDS:
            return f"{cost * 1e9:.0f} ns per transaction: less than any other strategy adds"
        if cost * count < SHORT_SECONDS:
            return f"{cost * count * 1e6:.0f} µs for the batch: starting threads takes longer"
        if not self.jit and not PARALLEL_UNCOMPILED:
            return "uncompiled code holds Python's lock: threads would take turns"
        return None

    def _serial(self, arrays: dict[str, Any], count: int, first: int, why: str) -> Ran:
        cost = self._timed_serially(arrays, count, first, len(arrays["kind"]))
        self.memory.learn_cost(cost)
        self._ran_serially = True
        return Ran("serial", why)

    # -- parallel -----------------------------------------------------------------------------------------------

    def _stays_serial(self) -> bool:
        """Whether the plan in force says so: then not even operations are needed."""
        plan = self._plan
        if plan is None or plan.best is not SERIAL or plan.queue or plan.age >= REPLAN or self._changed_much(plan):
            return False
        plan.age += 1
        return True

    def _parallel(self, arrays: dict[str, Any], count: int, first_event: int) -> Ran:
        first = self._transactions_before(arrays, first_event)
        start = time.perf_counter()
        batch = self.layout.batch(arrays, count, self.operations.scratch, first)
        if self._plan is None or self._plan.age >= REPLAN or self._changed_much(self._plan):
            self._plan = self._make_plan(batch, arrays, first)
            start = time.perf_counter()  # planning is not the strategy's fault
        self._plan.age += 1
        strategy, why = self._next(self._plan)
        if strategy is SERIAL:
            return self._serial(arrays, count, first_event, why)
        ran = self.run_with(strategy, arrays, count, first, why, batch)
        self._ran_serially = False
        self._learn(strategy, ran, time.perf_counter() - start, count - first)
        aborted = float(np.count_nonzero(arrays["code"][first:])) / (count - first)
        self.memory.aborts = (1 - LEARNING) * self.memory.aborts + LEARNING * aborted
        return ran

    def _transactions_before(self, arrays: dict[str, Any], event: int) -> int:
        return int(self._functions_of_kind[arrays["kind"][:event]].sum())

    def _changed_much(self, plan: Plan) -> bool:
        cost = self.memory.cost or plan.properties.cost
        return (
            plan.surprises >= SURPRISES
            or abs(cost / plan.properties.cost - 1) > SURPRISE
            or abs(self.memory.aborts - plan.properties.aborts) > SURPRISE / 3
        )

    def _make_plan(self, batch: Batch, arrays: dict[str, Any], first: int) -> Plan:
        found = self._properties(batch, arrays, first)
        self.memory.enter(found.cost, found.transactions)
        if self._plan is not None:
            self.memory.forget_some(self._plan.best.label)
        assert self._costs is not None
        predicted = {s: predict(s, found, self._costs, self._at_once) for s in (SERIAL, *SAFE)}
        plan = Plan(SERIAL, found, {s.label: seconds / found.transactions for s, seconds in predicted.items()}, [])
        ranked = sorted(predicted, key=lambda s: self._expected(plan, s))
        plan.best = ranked[0] if self._plan is None else self._plan.best
        limit = self._expected(plan, ranked[0]) * (1 + TRIED)
        close = [s for s in ranked if s is not SERIAL and self._expected(plan, s) <= limit]
        plan.queue = [s for s in close for _ in range(self._tries_left(s))]
        return plan

    def _expected(self, plan: Plan, strategy: Strategy) -> float:
        """Seconds per transaction: predicted, and corrected by experience."""
        return plan.seconds[strategy.label] * self.memory.factor(strategy.label)

    def _tries_left(self, strategy: Strategy) -> int:
        """The first batch of a strategy does not count."""
        return max(0, TRIES - self.memory.tries.get(strategy.label, 0)) + (strategy.label not in self._warm)

    def _next(self, plan: Plan) -> tuple[Strategy, str]:
        if plan.queue:
            return plan.queue.pop(0), f"tried: predicted to be about as fast as the best; {plan.properties}"
        best = min((SERIAL, *SAFE), key=lambda s: self._expected(plan, s))
        if self._expected(plan, best) < self._expected(plan, plan.best) * (1 - GAIN):
            plan.best = best
        return plan.best, self._why(plan.best)

    def _why(self, strategy: Strategy) -> str:
        assert self._plan is not None
        gain = self._expected(self._plan, SERIAL) / self._expected(self._plan, strategy)
        return f"{gain:.2f} × serial expected; {self._plan.properties}"

    def _learn(self, strategy: Strategy, ran: Ran, seconds: float, transactions: int) -> None:
        """Corrects the prediction of this strategy, and what is known about the program."""
        plan, label = self._plan, strategy.label
        assert plan is not None
        if label not in self._warm:
            # The first batch of a strategy loads its code and touches memory: no measure of it.
            self._warm.add(label)
            return
        each = seconds / transactions
        surprising = abs(each / self._expected(plan, strategy) - 1) > SURPRISE
        plan.surprises = plan.surprises + 1 if surprising else 0
        self.memory.learn_time(label, each / plan.seconds[label])
        self._learn_useful(ran, transactions)

    def _learn_useful(self, ran: Ran, transactions: int) -> None:
        """Threads that share a machine take longer for the same work, so only good news counts."""
        assert ran.breakdown is not None
        useful = (ran.breakdown.useful + ran.breakdown.abort) / max(1, transactions)
        if self.memory.cost is not None and useful < self.memory.cost:
            self.memory.learn_cost(useful)

    def _properties(self, batch: Batch, arrays: dict[str, Any], first: int) -> Properties:
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
        components = find_components(self._work(SERIAL, batch, arrays, self._scratch_code(batch), first))
        work = 1_000 * transactions
        splittable = float(np.mean(self._splits[batch.fn[first:]] > 1))
        return Properties(
            transactions=transactions, operations=batch.ops, cost=cost, aborts=self.memory.aborts,
            split=splittable - found[places.SHARED_PARTS] / transactions,
            dependent=found[places.DEPENDENT] / max(1, batch.ops), near=found[places.NEAR] / transactions,
            path_versions=found[places.PATH_VERSIONS] / work, path_locks=found[places.PATH_LOCKS] / work,
            path_parts=found[places.PATH_PARTS] / work, strata=int(found[places.HOTTEST]),
            heaviest=components.heaviest / components.total, components=components.number,
        )  # fmt: skip

    def _scratch_code(self, batch: Batch) -> np.ndarray:
        return self.operations.scratch.array("code", batch.transactions, np.int64)
