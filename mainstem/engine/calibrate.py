"""What strategies cost on this machine: measured once on a tiny program without work of its own, then kept on disk.

The figure of a strategy is the time per operation that it adds to the work itself: laying out, building, handing over,
waiting. It is measured with the strategies themselves, so it is right by construction on any machine. Measuring takes
less than a second, but on a new machine all strategies must be compiled first, which takes a minute: a process of its
own does both, and runs go on without it (`python -m mainstem.engine.calibrate`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from mainstem.engine.model import Costs
from mainstem.engine.options import SAFE, Strategy
from mainstem.engine.parallel import ParallelExecutor
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

Cell = Table(TableSchema("Cell", (Type("int"),), True, (Field("value", Type("int"), 0),)))


def _step(e):  # type: ignore[no-untyped-def]
    Cell[e.a].value += e.x
    Cell[e.b].value -= e.x


def known_costs(threads: int) -> Costs | None:
    """Kept figures of this machine and number of threads. When there are none yet, has them measured meanwhile."""
    found = _read(_path(threads))
    if _complete(found):
        return found
    _measure_meanwhile(threads)
    return None


def calibrate(threads: int) -> Costs:
    """Measures now, and keeps the figures."""
    found = measure(list(SAFE), threads)
    path = _path(threads)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(found))
    os.replace(temporary, path)
    return found


_started: dict[int, list[subprocess.Popen[bytes]]] = {}


def _measure_meanwhile(threads: int) -> None:
    """Unless it is on its way. What died is begun again, a few times; the lock sees to once per machine.

    `MAINSTEM_CALIBRATE=0` forbids it: then `auto` makes no plan until somebody calls `calibrate`.
    """
    started = _started.setdefault(threads, [])
    under_way = bool(started) and started[-1].poll() is None
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


def _path(threads: int) -> Path:
    return cache_folder() / f"calibration-{os.cpu_count()}-{threads}.json"


def measure(strategies: list[Strategy], threads: int) -> Costs:
    program = _program()
    large, small = _batch(TRANSACTIONS), _batch(SMALL)
    executor = ParallelExecutor(program, _state(program), strategies[0], threads=threads)
    best: dict[tuple[str, int], float] = {}
    for _ in range(ROUNDS):
        for strategy in strategies:
            executor.strategy = strategy
            for batch in (small, large):
                place = (strategy.label, len(batch))
                best[place] = min(best.get(place, float("inf")), _best(executor, batch))
    return {s.label: _costs(best[s.label, SMALL], best[s.label, TRANSACTIONS]) for s in strategies}


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


def _complete(found: Costs) -> bool:
    return set(found) >= {s.label for s in SAFE}


def _read(path: Path) -> Costs:
    try:
        return {label: (float(a), float(b)) for label, (a, b) in json.loads(path.read_text()).items()}
    except (OSError, ValueError):
        return {}


def _main(threads: int) -> None:
    with open(cache_folder() / "calibration.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another process may be at it, perhaps for another number of threads
        if not _complete(_read(_path(threads))):
            calibrate(threads)


if __name__ == "__main__":
    _main(int(sys.argv[1]) if len(sys.argv) > 1 else default_threads())
