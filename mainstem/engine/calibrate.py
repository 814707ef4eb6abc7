"""What strategies cost on this machine: measured once on a tiny program without work of its own, then kept on disk.

The figure of a strategy is the time per operation that it adds to the work itself: laying out, building, handing over,
waiting. It is measured with the strategies themselves, so it is right by construction on any machine. Measuring takes
less than a second, but on a new machine all strategies must be compiled first, which takes a minute: a process of its
own does both, and runs go on without it (`python -m mainstem.engine.calibrate`).

Who uses the machine meanwhile makes figures too high, by a factor of ten and more, and never too low. So plain loops
beside them tell whether the machine was left alone; if not, it is measured again later, and of all figures the lowest
are kept.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from mainstem.engine.model import Costs
from mainstem.engine.options import SAFE, Strategy
from mainstem.engine.parallel import ParallelExecutor
from mainstem.engine.scaling import plain_scaling
from mainstem.gate import Columns, EventBatch
from mainstem.gate.batch import constant_kind, fresh, identity
from mainstem.jit import cache_folder
from mainstem.lang import Bound, Program, Spec, Table, build
from mainstem.schema import EventSchema, Field, TableSchema, Type
from mainstem.state import State
from mainstem.team import default_threads

TRANSACTIONS, ROWS, OPS_EACH = 4_096, 50_000, 2
ROUNDS, REPEATS = 3, 4  # a slow moment of the machine hits one round of a strategy, not all its figures
STARTS_MOST = 3  # of measuring, per process
SMALL = 64  # transactions of a batch that shows what starting a strategy costs
QUIET = 0.9  # of what threads could do: plain loops that do as much were left alone
BUSY_TURNS = 5  # that a machine is measured which is never left alone
RETRY_SECONDS = 60.0  # until that is tried again by the same process

Cell = Table(TableSchema("Cell", (Type("int"),), True, (Field("value", Type("int"), 0),)))


def _step(e):  # type: ignore[no-untyped-def]
    Cell[e.a].value += e.x
    Cell[e.b].value -= e.x


@dataclass(frozen=True)
class Figures:
    """What was measured on this machine so far."""

    seconds: dict[str, tuple[float, float]]  # by label: the fastest run of a small batch, and of a large one
    quiet: bool  # whether nobody else used the machine, once
    turns: int  # how often it was measured

    @property
    def doubtful(self) -> bool:
        return not self.quiet and self.turns < BUSY_TURNS

    @property
    def costs(self) -> Costs:
        return {label: _costs(*pair) for label, pair in self.seconds.items()}

    def joined(self, other: Figures) -> Figures:
        lowest = {}
        for label, (small, large) in self.seconds.items():
            others = other.seconds.get(label, (small, large))
            lowest[label] = (min(small, others[0]), min(large, others[1]))
        return Figures(lowest, self.quiet or other.quiet, self.turns + other.turns)


def known_costs(threads: int) -> Costs | None:
    """Kept figures of this machine and number of threads. When there are none yet, or the machine was not left alone,
    has them measured meanwhile."""
    found = _read(_path(threads))
    if found is None or found.doubtful:
        _measure_meanwhile(threads)
    return None if found is None else found.costs


def calibrate(threads: int) -> Costs:
    """Measures now, and keeps the figures, or those from before that are lower."""
    found, kept, path = measure(list(SAFE), threads), _read(_path(threads)), _path(threads)
    if kept is not None:
        found = found.joined(kept)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(asdict(found)))
    os.replace(temporary, path)
    return found.costs


_started: dict[int, list[subprocess.Popen[bytes]]] = {}
_started_at: dict[int, float] = {}


def _measure_meanwhile(threads: int) -> None:
    """Unless it is on its way. What died is begun again, a few times; what ended, too, if it is asked for again after
    some time. The lock sees to once per machine.

    `MAINSTEM_CALIBRATE=0` forbids it: then `auto` makes no plan until somebody calls `calibrate`.
    """
    started = _started.setdefault(threads, [])
    under_way = bool(started) and _goes_on(started[-1], threads)
    if under_way or len(started) == STARTS_MOST or os.environ.get("MAINSTEM_CALIBRATE") == "0":
        return
    command = [sys.executable, "-m", "mainstem.engine.calibrate", str(threads)]
    package = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    with contextlib.suppress(OSError):
        child = subprocess.Popen(
            command,
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        started.append(child)
        _started_at[threads] = time.monotonic()


def _goes_on(child: subprocess.Popen[bytes], threads: int) -> bool:
    """Whether it is at it, or has ended so well that there is nothing to repeat yet."""
    ended = child.poll()
    return ended is None or (ended == 0 and time.monotonic() < _started_at[threads] + RETRY_SECONDS)


def _path(threads: int) -> Path:
    return cache_folder() / f"calibration-{os.cpu_count()}-{threads}.json"


def measure(strategies: list[Strategy], threads: int) -> Figures:
    program = _program()
    large, small = _batch(TRANSACTIONS), _batch(SMALL)
    executor = ParallelExecutor(program, _state(program), strategies[0], threads=threads)
    best: dict[tuple[str, int], float] = {}
    scaling = 0.0
    for _ in range(ROUNDS):
        for strategy in strategies:
            executor.strategy = strategy
            for batch in (small, large):
                place = (strategy.label, len(batch))
                best[place] = min(best.get(place, float("inf")), _best(executor, batch))
        scaling = max(scaling, plain_scaling(threads))
    seconds = {s.label: (best[s.label, SMALL], best[s.label, TRANSACTIONS]) for s in strategies}
    return Figures(seconds, scaling >= QUIET * threads, 1)


def _costs(small: float, large: float) -> tuple[float, float]:
    """Seconds per batch and per operation, from those of a small and of a large batch."""
    per_op = max(0.0, large - small) / ((TRANSACTIONS - SMALL) * OPS_EACH)
    return max(0.0, small - SMALL * OPS_EACH * per_op), per_op


def _best(executor: ParallelExecutor, batch: EventBatch) -> float:
    """The fastest of some runs: the others were disturbed."""
    times = []
    for _ in range(REPEATS + 1):  # the first one compiles and touches memory
        start = time.perf_counter()
        stats = executor.run(batch, 0).stats
        times.append(min(stats.seconds_run, time.perf_counter() - start))
    return min(times[1:])


def _program() -> Program:
    event = EventSchema("Step", tuple(Field(name, Type("int")) for name in ("a", "b", "x")))
    return build(Spec("calibration", (event,), (Cell,), (Bound("Step", "step", _step),)))


def _state(program: Program) -> State:
    return State({t.name: t for t in program.tables})


def _batch(count: int) -> EventBatch:
    random = np.random.default_rng(0)
    columns = {name: pa.array(random.integers(0, ROWS, count)) for name in ("a", "b", "x")}
    ts = fresh(count, np.int64)
    ts[:] = np.arange(count)
    return EventBatch(constant_kind(0, count), ts, [Columns(identity(count), columns)], (count,))


def _read(path: Path) -> Figures | None:
    """None where there is no file, or none for all strategies."""
    try:
        kept = json.loads(path.read_text())
        pairs = {label: (float(small), float(large)) for label, (small, large) in kept["seconds"].items()}
        figures = Figures(pairs, bool(kept["quiet"]), int(kept["turns"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError):  # torn, or of another form
        return None
    return figures if set(pairs) >= {s.label for s in SAFE} else None


def _main(threads: int) -> None:
    with open(cache_folder() / "calibration.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be at it, perhaps for another number of threads
        kept = _read(_path(threads))
        if kept is None or kept.doubtful:
            calibrate(threads)


if __name__ == "__main__":
    _main(int(sys.argv[1]) if len(sys.argv) > 1 else default_threads())
