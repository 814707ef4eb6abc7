"""How systems are measured: the same transfers from the same start, for about as long each, checked at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from mainstem.bench.bank_fit import fitting_count
from mainstem.bench.bank_workload import Workload, digest_of

SYNCED = "synced before the answer"
LATER = "synced later"
MEMORY = "in memory"
"""What a power cut takes: nothing that was answered; the last transfers; everything."""

_PROBE = 64  # transfers of the first run


@dataclass(frozen=True)
class Config:
    """One way to run the transfers on one system."""

    system: str
    way: str
    setting: str
    durable: str
    upper_bound: bool = False  # not a transaction per transfer: what the system could do at most

    def __str__(self) -> str:
        return f"{self.system}, {self.way}, {self.setting}"


@dataclass(frozen=True)
class Turn:
    """Seconds of one run, and the mean seconds that a transfer waited for its answer, where that is known."""

    seconds: float
    latency: float | None


class Peer(Protocol):
    """A configuration that is ready to run. It starts from `reset` and takes transfers in order, from 0 on."""

    @property
    def config(self) -> Config: ...

    @property
    def step(self) -> int:
        """Counts must be multiples of it: transfers that are under way at once."""

    def reset(self) -> None: ...

    def run(self, first: int, count: int) -> Turn: ...

    def balances(self) -> np.ndarray: ...


@dataclass
class PeerFigure:
    """What was measured of one configuration."""

    config: Config
    counts: list[int] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    digest: str = ""

    @property
    def rate(self) -> float:
        """Transfers per second of the fastest turn."""
        return max(count / turn.seconds for count, turn in zip(self.counts, self.turns, strict=True))

    @property
    def latency(self) -> float | None:
        """Of the turn with the shortest one."""
        known = [turn.latency for turn in self.turns if turn.latency is not None]
        return min(known, default=None)


def take_turn(peer: Peer, figure: PeerFigure, workload: Workload, seconds: float) -> None:
    """Runs for about `seconds`, after probes that find out how many transfers that are; all in one sequence."""
    peer.reset()
    done = 0

    def run(count: int) -> Turn:
        nonlocal done
        turn = peer.run(done, count)
        done += count
        return turn

    count = fitting_count(lambda count: run(count).seconds, _PROBE, seconds, step=peer.step)
    figure.turns.append(run(count))
    figure.counts.append(count)
    figure.digest = digest_of(peer.balances())
    expected = digest_of(workload.balances_after(done))
    if figure.digest != expected:
        figure.wrong.append(f"{peer.config} over {done:,} transfers ended in {figure.digest}, not in {expected}")
