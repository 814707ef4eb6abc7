"""The first transactions of a batch run on one thread while another one lays out the rest.

Laying out is work for one thread, and strategies wait for it. The serial kernel needs no operations: meanwhile it runs
as many events as that takes. Their results stand before all others start, so every strategy goes on from there.
"""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.engine.layout import Batch

LEAST_SECONDS = 300e-6  # of laying out: in less, waking a thread and taking turns with it costs as much as it wins
MOST_SHARE = 1 / 8  # of the events of a batch: costs may have changed
AIM = 0.9  # of the time of laying out, as nothing else goes on when the first events take longer


@dataclass(frozen=True)
class Laid:
    """Operations of a batch, but for the transactions that have run already."""

    batch: Batch
    first: int  # transactions before it have run
    first_event: int
    ahead: int = 0  # of those, transactions that ran meanwhile
    seconds: float = 0.0  # that they took

    @property
    def inflation(self) -> float:
        """Transactions that ran in the time of this batch, against those that are laid out."""
        left = self.batch.transactions - self.first
        return (left + self.ahead) / max(1, left)


class HeadStart:
    """How many events to run ahead, from what the last batch took."""

    def __init__(self) -> None:
        self._layout = self._cost = 0.0  # seconds per transaction

    def events(self, events: int, transactions: int) -> int:
        layout = self._layout * transactions
        if layout < LEAST_SECONDS or self._cost <= 0:
            return 0
        wanted = AIM * layout / (self._cost * transactions / events)
        return int(min(wanted, MOST_SHARE * events))

    def learn_layout(self, seconds: float, transactions: int) -> None:
        self._layout = seconds / max(1, transactions)

    def learn_cost(self, seconds: float, transactions: int) -> None:
        self._cost = seconds / max(1, transactions)
