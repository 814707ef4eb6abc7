"""The contenders of the `replay` benchmark, and their turns over the same files."""

from __future__ import annotations

import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from mainstem.bench import spam_plain
from mainstem.bench.replay_spark import SparkProcess
from mainstem.bench.spam_answers import Answer

Replay = Callable[[Path, Path, bool], Answer]
"""(log, folder for outputs, whether the e-mail scan is on)"""


class Role(Enum):
    """What a contender is compared as."""

    AUTO = "what a user gets who names no plan: the targets are about it"
    STAGED = "Mainstem in stages, on some number of cores"
    FUSED = "Mainstem in one task"
    SERIAL = "one thread on one core, without Spark"
    EXACT = "Spark without Mainstem, exact"
    APPROXIMATE = "Spark without Mainstem, approximate"


@dataclass(frozen=True)
class Way:
    name: str
    role: Role
    cores: int
    replay: Replay

    @property
    def exact(self) -> bool:
        return self.role is not Role.APPROXIMATE


@dataclass
class Runs:
    """One contender's turns with the scan on or off."""

    way: Way
    scan: bool
    answers: list[Answer] = field(default_factory=list)

    @property
    def best(self) -> float:
        """Events per second of the fastest turn."""
        return max(answer.events_per_second for answer in self.answers)

    @property
    def median(self) -> float:
        return self.answers[0].events / statistics.median(answer.seconds for answer in self.answers)


def ways_of(sessions: Mapping[int, SparkProcess], alternatives: bool) -> list[Way]:
    """All contenders; those on Spark use the session with the most cores, and staged replay each of them."""
    cores = max(sessions)
    most = sessions[cores]
    ways = [
        Way(f"Mainstem, {cores_text(cores)}", Role.AUTO, cores, _on(most, "auto")),
        *(
            Way(f"Mainstem mvps, {cores_text(n)}", Role.STAGED, n, _on(sessions[n], "mvps"))
            for n in sorted(sessions, reverse=True)
        ),
        Way("Mainstem fused, one task", Role.FUSED, cores, _on(most, "fused")),
        Way("one core, app.run serial", Role.SERIAL, 1, run_serial),
        Way("one core, hand-written loop", Role.SERIAL, 1, loop),
    ]
    if alternatives:
        ways += [
            Way("Spark, single batch", Role.EXACT, cores, _on(most, "single_batch")),
            Way("Spark, SQL windows", Role.EXACT, cores, _on(most, "sql_windows")),
            Way("Spark, micro-batches", Role.APPROXIMATE, cores, _on(most, "micro_batches")),
        ]
    return ways


def take_turns(
    ways: Sequence[Way], log: Path, short_log: Path, scratch: Path, repeats: int, say: Callable[[str], None]
) -> list[Runs]:
    """Every contender with the scan on and off, then all again, …: a slow minute of the machine hits all of them.

    Before each turn the contender replays a short log, which is not counted: others had theirs for minutes, in which
    Spark ended its idle workers.
    """
    runs = [Runs(way, scan) for scan in (True, False) for way in ways]
    for turn in range(1, repeats + 1):
        for own in runs:
            once(own.way.replay, short_log, scratch, own.scan)
            own.answers.append(once(own.way.replay, log, scratch, own.scan))
            found = own.answers[-1]
            rate = f"{found.seconds:.1f} s, {found.events_per_second / 1e6:.2f} M events/s"
            say(f"turn {turn} of {repeats}, {scan_text(own.scan)}: {own.way.name}: {rate}")
    return runs


def once(replay: Replay, log: Path, scratch: Path, scan: bool) -> Answer:
    """One replay whose outputs are dropped."""
    out = empty(scratch / "out")
    try:
        return replay(log, out, scan)
    finally:
        shutil.rmtree(out, ignore_errors=True)


def empty(out: Path) -> Path:
    shutil.rmtree(out, ignore_errors=True)
    return out


def run_serial(log: Path, out: Path, scan: bool) -> Answer:
    return spam_plain.serial_run(log, out, scan=scan)


def loop(log: Path, out: Path, scan: bool) -> Answer:
    """Shares nothing with the engine but the scan: what it finds is taken as true."""
    return spam_plain.serial_loop(log, out, scan=scan)


def scan_text(scan: bool) -> str:
    return "scan on" if scan else "scan off"


def cores_text(cores: int) -> str:
    return "1 core" if cores == 1 else f"{cores} cores"


def _on(spark: SparkProcess, call: str) -> Replay:
    return lambda log, out, scan: spark.replay(call, log, out, scan=scan)
