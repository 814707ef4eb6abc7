"""The first transactions of a batch run on one thread while another one lays out the rest.

Laying out is work for one thread, and strategies wait for it. The serial kernel needs no operations: meanwhile it runs
as many events as that takes. Their results stand before all others start, so every strategy goes on from there.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from mainstem.engine.layout import Numbered
from mainstem.team import team

LEAST_SECONDS = 200e-6  # in less, waking a thread and taking turns with it costs as much as it wins
MOST_SHARE = 1 / 4  # of the events of a batch: costs may have changed
WAKING = 30e-6  # seconds until a thread that was asleep is at work
STEP = 2.0  # times more than before, at most: preparing a batch may have been interrupted


class Ahead:
    """Events that run beside everything else from `start` until `wait`; none without `run`."""

    def __init__(self, transactions: int = 0, run: Callable[[], None] | None = None) -> None:
        self.transactions = transactions
        self.started = time.perf_counter() + WAKING  # about when a thread would have
        self.seconds = 0.0  # that they took, once they have ended
        self.held_up = 0.0  # seconds, of preparing the others: it waited for these, or something came between
        self._run = run
        self._errand = None if run is None else team(2).errand(self._timed)

    def start(self) -> None:
        if self._errand is not None:
            self._errand.start()

    def _timed(self) -> None:
        run, self._run = self._run, None  # the batch's arrays must not live on with what it is called with
        assert run is not None
        self.started = time.perf_counter()
        run()
        self.seconds = time.perf_counter() - self.started

    def wait(self) -> None:
        """Returns when they have run. An interrupt may end it anywhere before that, and it is called again then."""
        if self._errand is not None:
            start = time.perf_counter()
            self._errand.wait()
            self._errand = None
            self.held_up += time.perf_counter() - start


@dataclass(frozen=True)
class Laid:
    """The transactions of a batch, but for those that have run already, or do so meanwhile."""

    numbered: Numbered
    first: int  # transactions before it are not laid out
    first_event: int
    ahead: Ahead

    @property
    def inflation(self) -> float:
        """Transactions that ran in the time of this batch, against those that are laid out."""
        left = len(self.numbered) - self.first
        return (left + self.ahead.transactions) / max(1, left)


class HeadStart:
    """How many events to run ahead, from what the last batch took."""

    def __init__(self) -> None:
        self._room = self._cost = 0.0  # seconds per transaction: until all is prepared, and of running it

    def events(self, events: int, transactions: int) -> int:
        room = self._room * transactions
        if room < LEAST_SECONDS or self._cost <= 0:
            return 0
        wanted = room / (self._cost * transactions / events)
        return int(min(wanted, MOST_SHARE * events))

    def learn_room(self, seconds: float, transactions: int) -> None:
        """Seconds that another thread had until a batch of so many was prepared."""
        room = max(0.0, seconds) / max(1, transactions)
        self._room = min(room, STEP * self._room) if self._room > 0 else room

    def learn_cost(self, seconds: float, transactions: int) -> None:
        self._cost = seconds / max(1, transactions)
