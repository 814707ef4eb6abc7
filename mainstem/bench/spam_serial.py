"""Single-thread replays of the spam log: the engine's serial strategy, and the hand-written loop, each on one core.

Each runs in a process of its own that may use one core only, for everything: reading and decoding Parquet, the e-mail
scan, the rules, writing. What is compiled or loaded once is warmed up before the clock starts.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

from mainstem.apps import spam
from mainstem.bench import spam_loop
from mainstem.bench.spam_answers import Answer, answer, fresh, open_log, timed
from mainstem.errors import InputError

Way = Literal["serial engine", "hand-written loop"]
NAMES: dict[Way, str] = {"serial engine": "one core, serial engine", "hand-written loop": "one core, hand-written loop"}
WARM_UP_ROWS = 10_000


def serial_run(log: Path, out: Path, *, scan: bool = True, core: int | None = None) -> Answer:
    """`app.run(engine="serial")` on one core; all output columns go to `out`."""
    return _in_process("serial engine", log, out, scan, core)


def serial_loop(log: Path, out: Path, *, scan: bool = True, core: int | None = None) -> Answer:
    """The hand-written Numba loop on one core; `ts`, `seq` and `spam` per message go to `out`."""
    return _in_process("hand-written loop", log, out, scan, core)


def _in_process(way: Way, log: Path, out: Path, scan: bool, core: int | None) -> Answer:
    fresh(out)
    chosen = min(os.sched_getaffinity(0)) if core is None else core
    task = {"way": way, "log": str(log), "out": str(out), "scan": scan, "core": chosen}
    command = [sys.executable, "-m", "mainstem.bench.spam_serial", json.dumps(task)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise InputError(f"the single-core replay of {log} ({way}) failed:\n{done.stderr.strip()}")
    found = json.loads(done.stdout.splitlines()[-1])
    return answer(NAMES[way], found["seconds"], found["events"], out)


def pinned(way: Way, log: Path, out: Path, *, scan: bool, core: int) -> dict[str, float]:
    """Pins this process to a core and replays; gives `seconds` and `events`."""
    os.sched_setaffinity(0, {core})
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as scratch:
        small = Path(scratch) / "log"
        small.mkdir()
        head = next(pq.ParquetFile(open_log(log).files[0].path).iter_batches(WARM_UP_ROWS))
        pq.write_table(pa.Table.from_batches([head]), small / "part-0.parquet")
        _replay(way, small, Path(scratch) / "out", scan)
    with timed() as watch:
        events = _replay(way, log, out, scan)
    return {"seconds": watch.seconds, "events": events}


def _replay(way: Way, log: Path, out: Path, scan: bool) -> int:
    if way == "hand-written loop":
        return spam_loop.replay(log, out, scan=scan)
    app = spam.app if scan else spam.app_without_scan
    return int(app.run(str(log), engine="serial", threads=1, out=out).stats.events)


if __name__ == "__main__":
    asked = json.loads(sys.argv[1])
    timing = pinned(asked["way"], Path(asked["log"]), Path(asked["out"]), scan=asked["scan"], core=asked["core"])
    print(json.dumps(timing))
