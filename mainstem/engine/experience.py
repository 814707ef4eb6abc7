"""What `auto` knows about a program: what its transactions cost, and how long strategies took against the model.

Figures of a shared machine are noisy in one direction: a run may take longer by chance, never shorter. So the better of
two tries counts, good news is believed sooner than bad news, and a cost that jumps up has to be seen several times.
"""

from __future__ import annotations

import math
import statistics
from dataclasses import dataclass, field, replace

from mainstem.engine.model import Properties
from mainstem.engine.options import SERIAL

TRIES = 2  # of a candidate, the better one counts; only then its times are averaged
SURPRISE = 0.3  # relative change of cost or time that matters at once, when it is seen again
SAMPLED = 0.15  # the same for a sample of events that ran serially: what threads lose to each other is not in it
CONFIRMED = 3  # batches in a row that must say so before a cost is believed to have risen that much
LEARNING = 0.4  # weight of the newest figure in running averages
BETTER, WORSE = 0.5, 0.25  # the same for news of which only the bad ones may be noise
REMEMBERED = 0.9  # power of a factor that is left after each plan in which its strategy did not run
REGIME = 8  # costs and sizes that differ by such a factor are different worlds
DOUBT = 0.5  # kinds of batches that would say that nothing is off
UNKNOWN = (1.0, 1.0)  # beside known factors: one strategy that was far off says little about the others
STEPS = 4  # shares between 0 and 1 that are told apart


@dataclass
class Known:
    """One strategy in one kind of batch."""

    factor: float  # measured by predicted time
    tries: int = 0  # 0: the figure is from another kind of batch
    tried_in: int = 0  # number of the plan

    def learn(self, factor: float, plan: int) -> None:
        if self.tries == 0:
            self.factor = min(factor, math.sqrt(self.factor * factor))  # bad news count half, against other batches
        elif self.tries < TRIES:
            self.factor = min(self.factor, factor)
        else:
            weight = BETTER if factor < self.factor else WORSE
            self.factor = (1 - weight) * self.factor + weight * factor
        self.tries += 1
        self.tried_in = plan


@dataclass
class Memory:
    """From batch to batch of one executor. `again` is for the next one of the same program in this process.

    What strategies took is shared by all of them, also by those that run at the same time, each in batches of another
    kind: so nothing iterates over a dict that another thread may be adding to.
    """

    cost: float | None = None  # seconds per transaction
    aborts: float = 0.0
    plans: int = 0
    strategies: dict[str, Known] = field(default_factory=dict)  # in batches of the kind at hand
    _kinds: dict[tuple[int, ...], dict[str, Known]] = field(default_factory=dict)
    _risen: list[float] = field(default_factory=list)  # costs that were too high to be believed at once
    _usual: float | None = None  # asked for many times per batch; None: to be found anew

    def again(self) -> Memory:
        """For another executor: it starts from what this one knows, and turns to other batches by itself."""
        return replace(self, _risen=[], _usual=None)

    def begin_plan(self, batch: Properties) -> None:
        """Turns to what is known about batches of this kind. One that is new begins with what the others were like."""
        for known in list(self.strategies.values()):
            if known.tried_in < self.plans:  # the machine may have been busy then
                known.factor **= REMEMBERED
        self._usual = None
        self.plans += 1
        kind = _kind(batch)
        if kind not in self._kinds:
            self._kinds[kind] = {label: Known(off) for label, off in self._elsewhere().items()}
        self.strategies = self._kinds[kind]
        self._usual = None

    def _elsewhere(self) -> dict[str, float]:
        """By label: how far a strategy was off, against the others, in the kinds of batches in which it ran.

        A figure of one kind is mostly believed in others; what many kinds agree on is no noise, and need not be tried
        again and again. Whether the machine was busy hits all strategies alike and says nothing about the next batch.
        """
        found: dict[str, list[float]] = {}
        for kind in list(self._kinds.values()):
            ran = {label: known.factor for label, known in list(kind.items()) if known.tries}
            usual = statistics.median(ran.values()) if ran else 1.0
            for label, factor in ran.items():
                found.setdefault(label, []).append(math.log(factor / usual))
        return {label: math.exp(sum(offs) / (len(offs) + DOUBT)) for label, offs in found.items()}

    def learn_cost(self, seconds: float) -> None:
        if self.cost is None:
            self.cost = seconds
        elif seconds <= self.cost * (1 + SURPRISE):
            weight = BETTER if seconds < self.cost else WORSE
            self.cost = (1 - weight) * self.cost + weight * seconds
            self._risen.clear()
        else:
            self._risen.append(seconds)
            if len(self._risen) >= CONFIRMED:
                self.cost = min(self._risen)
                self._risen.clear()

    def begin_run(self, sampled: float) -> None:
        """Other data may cost something else: what a new run says first is right, within what a sample can tell."""
        if self.cost is None or abs(sampled - self.cost) > SAMPLED * self.cost:
            self.cost = sampled
        self._risen.clear()

    def learn_aborts(self, share: float) -> None:
        self.aborts = (1 - LEARNING) * self.aborts + LEARNING * share

    def learn_time(self, label: str, factor: float) -> None:
        self.strategies.setdefault(label, Known(factor)).learn(factor, self.plans)
        self._usual = None

    def factor(self, label: str) -> float:
        """How far off predictions are; of a strategy that has not run yet, as far as the others. `cost` is what the
        serial kernel takes, so that is never off."""
        if label in self.strategies:
            return self.strategies[label].factor
        return 1.0 if label == SERIAL.label else self._usual_factor()

    def _usual_factor(self) -> float:
        if self._usual is None:
            self._usual = statistics.median([*UNKNOWN, *(known.factor for known in list(self.strategies.values()))])
        return self._usual

    def known(self, tried: bool) -> list[str]:
        """Strategies that have run in batches like these; or those that have run in others only."""
        return [label for label, known in list(self.strategies.items()) if tried == (known.tries > 0)]

    def tries(self, label: str) -> int:
        return self.strategies[label].tries if label in self.strategies else 0

    def plans_since(self, label: str) -> int:
        """Plans that were made since the strategy ran last."""
        return self.plans - self.strategies[label].tried_in if label in self.strategies else self.plans


def _kind(batch: Properties) -> tuple[int, ...]:
    """Batches that are alike in all that makes one strategy better than another."""
    sizes = (batch.cost * 1e9, batch.transactions)
    shares = (batch.dependent, batch.near, batch.heaviest, batch.path_locks, batch.aborts)
    return (*(round(math.log(max(1.0, size), REGIME)) for size in sizes), *(round(STEPS * share) for share in shares))
