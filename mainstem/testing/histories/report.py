"""What a check of a history found, and what each level makes of it."""

from __future__ import annotations

from dataclasses import dataclass

from mainstem.lang.program import LEVELS

_AT_ALL_LEVELS = ("ATOMICITY", "G0")
_DIRTY = ("G1a", "G1b", "G1c")
FORBIDDEN = {  # by level, the weakest first, as in LEVELS
    "PL1": _AT_ALL_LEVELS,
    "PL2": (*_AT_ALL_LEVELS, *_DIRTY),
    "PL3": (*_AT_ALL_LEVELS, *_DIRTY, "G2"),
    "PL4": (*_AT_ALL_LEVELS, *_DIRTY, "G2", "ORDER"),
}


@dataclass(frozen=True)
class Anomaly:
    """One thing that the strictest level forbids."""

    kind: str  # ATOMICITY, G0, G1a, G1b, G1c, G2 or ORDER
    witness: str  # what happened, in words
    transactions: tuple[int, ...]  # those that take part: indices into the history's transactions

    def __str__(self) -> str:
        return f"{self.kind}: " + self.witness.replace("\n", "\n    ")


@dataclass(frozen=True)
class Report:
    """What `check_history` found."""

    level: str
    transactions: int
    found: tuple[Anomaly, ...]  # everything, whether the level forbids it or not; a few witnesses of each kind
    counts: dict[str, int]  # how many versions (ATOMICITY), reads (G1a, G1b) or edges (others) show each kind

    @property
    def kinds(self) -> frozenset[str]:
        return frozenset(anomaly.kind for anomaly in self.found)

    @property
    def forbidden(self) -> tuple[Anomaly, ...]:
        """What was found and the level forbids."""
        return tuple(anomaly for anomaly in self.found if anomaly.kind in FORBIDDEN[self.level])

    @property
    def ok(self) -> bool:
        return not self.forbidden

    @property
    def strongest(self) -> str | None:
        """The strongest level that the history satisfies; None: not even PL1."""
        satisfied = [level for level in LEVELS if self.kinds.isdisjoint(FORBIDDEN[level])]
        return satisfied[-1] if satisfied else None

    def raise_if_broken(self) -> None:
        """For tests: an AssertionError with all forbidden anomalies."""
        if not self.ok:
            raise AssertionError(str(self))

    def __str__(self) -> str:
        counted = ", ".join(f"{kind} × {self.counts[kind]:,}" for kind in FORBIDDEN["PL4"] if kind in self.kinds)
        head = f"{self.level} {'holds' if self.ok else 'is broken'}: {self.transactions:,} transactions"
        return "\n".join([f"{head}, {counted or 'no anomalies'}", *(f"  {anomaly}" for anomaly in self.forbidden)])


def check_level(level: str) -> None:
    if level not in LEVELS:
        raise ValueError(f"level {level!r} is not one of {', '.join(LEVELS)}")
