"""Limits to parallelism (ReStream, section 5.4): critical paths and events per second over the power law's exponent.

The smaller α, the more events belong to a few users and IP addresses, and the longer is the chain of accesses in a
batch that have to wait for each other. Here a batch is an epoch of a staged replay, and a host
is a core with its shard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mainstem.apps import spam
from mainstem.bench.replay_logs import read_through
from mainstem.bench.replay_spark import SparkProcess
from mainstem.bench.replay_ways import cores_text, empty, loop, once
from mainstem.bench.spam_answers import Answer, open_log
from mainstem.gate import EventBatch, open_events
from mainstem.lang.dataflow import dataflow
from mainstem.replay.critical import paths_by_size
from mainstem.replay.model import Model, Point, fit

PAPER_BATCH = 10_000  # events per host in ReStream's figure 7
EPOCHS = (1, 4)  # a log is replayed in so many epochs, so that batches of different sizes are fitted


@dataclass(frozen=True)
class Alpha:
    """What was found for one exponent."""

    alpha: float
    events: int
    paths: dict[int, float]  # average critical path by events of a batch
    points: list[Point]
    checks: list[tuple[str, Answer]]  # replays of this log that must agree; the first is a serial one

    @property
    def one_thread(self) -> float:
        return self.checks[0][1].events_per_second


def measure(
    logs: Mapping[float, Path], sessions: Mapping[int, SparkProcess], scratch: Path, repeats: int,
    say: Callable[[str], None],
) -> list[Alpha]:  # fmt: skip
    """Replays of each log on each number of cores, and the critical paths of its batches. All without the e-mail scan:
    what runs beside the chain would hide it."""
    found = []
    for alpha, log in logs.items():
        say(f"α {alpha:g}: critical paths")
        batch = _whole(log)
        batches = [size for size in (len(batch) // n for n in EPOCHS) if size >= max(sessions)]
        paths = _paths(batch, [*batches, *(PAPER_BATCH * cores for cores in sessions)])
        say(f"α {alpha:g}: replays")
        found.append(_replayed(alpha, log, sessions, scratch, repeats, batches, paths))
    return found


def _whole(log: Path) -> EventBatch:
    """All events of a log as one batch."""
    program = spam.app_without_scan.program
    events = open_log(log).events
    stream, _ = open_events(str(log), program.events, batch_size=events, columns=program.used_columns)
    return next(stream)


def _paths(batch: EventBatch, sizes: Sequence[int]) -> dict[int, float]:
    usable = sorted({size for size in sizes if size <= len(batch)})
    by_size = paths_by_size(dataflow(spam.app_without_scan.spec), batch, usable)
    return {size: sum(paths) / len(paths) for size, paths in by_size.items()}


def _replayed(
    alpha: float, log: Path, sessions: Mapping[int, SparkProcess], scratch: Path, repeats: int,
    batches: Sequence[int], paths: Mapping[int, float],
) -> Alpha:  # fmt: skip
    read_through(log)
    serial = once(loop, log, scratch, False)
    checks = [(f"α {alpha:g}, hand-written loop", serial)]
    seconds: dict[tuple[int, int], list[float]] = {}
    for _ in range(repeats):
        for size in batches:
            for cores, session in sessions.items():
                done = session.replay("mvps", log, empty(scratch / "out"), scan=False, epoch_rows=size)
                seconds.setdefault((cores, size), []).append(done.seconds)
                checks.append((f"α {alpha:g}, mvps on {cores_text(cores)}, batches of {size:,}", done))
    points = [
        Point(cores, size // cores, paths[size], serial.events / min(taken)) for (cores, size), taken in seconds.items()
    ]
    return Alpha(alpha, serial.events, dict(paths), points, checks)


def fitted(alphas: Sequence[Alpha]) -> Model | None:
    """Equation 1, fitted to all points; it is about more than one host."""
    points = [point for alpha in alphas for point in alpha.points]
    return fit(points) if any(point.hosts > 1 for point in points) else None
