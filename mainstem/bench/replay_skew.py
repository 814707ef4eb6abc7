"""One key that many events have: staged replay with hot keys split over tasks, and with each of them in one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rich.table import Table

from mainstem.bench.replay_logs import read_through
from mainstem.bench.replay_spark import SparkProcess
from mainstem.bench.replay_ways import empty
from mainstem.bench.report import short
from mainstem.bench.spam_answers import Answer
from mainstem.replay.hot import Balance


@dataclass
class Skew:
    """Replays of one log in so many shards, split or not."""

    share: float  # of the messages, that one sender and IP address have
    shards: int
    split: bool
    answers: list[Answer] = field(default_factory=list)
    balance: list[Balance] = field(default_factory=list)
    hot_keys: list[str] = field(default_factory=list)

    @property
    def best(self) -> float:
        return max(answer.events_per_second for answer in self.answers)

    @property
    def checks(self) -> list[tuple[str, Answer]]:
        how = "split" if self.split else "not split"
        return [(f"hot share {self.share:g}, {self.shards} shards, {how}", answer) for answer in self.answers]

    @property
    def fullest(self) -> str:
        """Of all accesses of a wave, those that its fullest task had."""
        return ", ".join(f"{one.tables}: {one.actual:.0%}" for one in self.balance)


def measure_skew(
    log: Path, share: float, spark: SparkProcess, shards: Sequence[int], scratch: Path, repeats: int,
    say: Callable[[str], None],
) -> list[Skew]:  # fmt: skip
    """Turns are interleaved. Without the e-mail scan: it would hide what tasks wait for."""
    read_through(log)
    found = [Skew(share, count, split) for count in shards for split in (False, True)]
    for turn in range(repeats + 1):
        for one in found:
            done = spark.replay(
                "mvps", log, empty(scratch / "out"), scan=False, partitions=one.shards, split=one.split
            )  # fmt: skip
            if turn:  # the first one is for warming up
                one.answers.append(done)
                one.balance, one.hot_keys = spark.balance, spark.hot_keys
                say(f"{one.checks[0][0]}: {done.seconds:.2f} s, {one.fullest}")
    return found


def skew_table(found: Sequence[Skew], events: int) -> Table:
    """A row per log and number of shards: not split, split."""
    table = Table(title=f"A hot sender and IP address, {events:,} events, scan off", title_justify="left")
    headings = ("hot share", "shards", "fullest task, not split", "split", "ev/s, not split", "split", "×", "digest")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    for alone, split in zip(found[::2], found[1::2], strict=True):
        table.add_row(
            f"{alone.share:.0%}", str(alone.shards), alone.fullest, split.fullest, short(alone.best), short(split.best),
            f"{split.best / alone.best:.2f}", split.answers[0].digest,
        )  # fmt: skip
    return table


def hot_keys_of(found: Sequence[Skew]) -> Iterator[str]:
    for one in found:
        if one.split and one.hot_keys:
            yield f"Hot share {one.share:.0%}, {one.shards} shards: {'; '.join(one.hot_keys)}."


def skew_json(skew: Skew) -> dict[str, Any]:
    return {**asdict(skew), "events_per_s_best": skew.best}
