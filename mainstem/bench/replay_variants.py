"""Several versions of a rule over one log: what do they cost in one replay, against a replay of one of them?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mainstem.bench.replay_spark import SparkProcess
from mainstem.bench.replay_ways import empty
from mainstem.bench.spam_answers import Answer


@dataclass
class Variants:
    """Replays of one log, with one variant and with `number` of them, scan on."""

    number: int
    alone: list[Answer] = field(default_factory=list)
    together: list[Answer] = field(default_factory=list)

    @property
    def cost(self) -> float:
        """Seconds of all variants in one replay over those of one variant."""
        return _best(self.together) / _best(self.alone)

    def over(self, replay: float) -> float:
        """The same over a replay that takes so many seconds."""
        return _best(self.together) / replay

    @property
    def checks(self) -> list[tuple[str, Answer]]:
        """In all of them is the rule of the app itself."""
        return [("one variant", a) for a in self.alone] + [(f"{self.number} variants", a) for a in self.together]


def _best(answers: list[Answer]) -> float:
    return min(answer.seconds for answer in answers)


def measure_variants(
    log: Path, number: int, spark: SparkProcess, scratch: Path, repeats: int, say: Callable[[str], None]
) -> Variants:
    """Turns are interleaved."""
    found = Variants(number)
    for turn in range(repeats + 1):
        for count, answers in ((1, found.alone), (number, found.together)):
            done = spark.replay("variants", log, empty(scratch / "out"), number=count)
            if turn:  # the first one is for warming up
                answers.append(done)
                say(f"variants in one replay: {count}, {done.seconds:.2f} s")
    return found


def variants_text(found: Variants, replay: float) -> str:
    return (
        f"{found.number} versions of the rule in one replay take {found.cost:.2f} × as long as one of them in stages, "
        f"and {found.over(replay):.2f} × as long as a replay with the plan that Mainstem chooses for one."
    )


def variants_json(found: Variants | None) -> dict[str, Any] | None:
    if found is None:
        return None
    seconds = {"alone": found.alone, "together": found.together}
    return {
        "number": found.number,
        "cost": found.cost,
        "seconds": {name: [answer.seconds for answer in answers] for name, answers in seconds.items()},
    }
