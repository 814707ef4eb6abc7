"""A process that runs transfers at a steady rate on a durable directory, until its input ends.

    python -m mainstem.bench.bank_writer DIR ACCOUNTS SEED RATE PER_COMMIT

Writes a line when it has begun and one when it has ended: {"transfers": …, "seconds": …}.
"""

from __future__ import annotations

import json
import select
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

from mainstem.bench.bank_programs import transfers
from mainstem.bench.bank_scenario import account_rows
from mainstem.bench.bank_workload import Workload
from mainstem.bench.engines import batches_of
from mainstem.gate import EventBatch
from mainstem.store import DurableRun

_CHUNK = 100_000  # transfers made at a time


def write(path: Path, workload: Workload, rate: float, per_commit: int) -> None:
    program = transfers.program
    initial = {"Account": account_rows(workload)}
    with DurableRun(program, path, initial=initial, durability="batch", how={"engine": "serial"}) as run:
        stream = _batches(workload, per_commit)
        run.run(next(stream))  # compiles
        _say({"begun": True})
        started, done = time.perf_counter(), 0
        while not _ended():
            run.run(next(stream))
            done += per_commit
            time.sleep(max(0.0, started + done / rate - time.perf_counter()))
        _say({"transfers": run.seq, "seconds": time.perf_counter() - started})


def _batches(workload: Workload, size: int) -> Iterator[EventBatch]:
    for number in count():
        yield from batches_of(transfers.program, workload.transfers(_CHUNK, number * _CHUNK).events, size)


def _ended() -> bool:
    """Whether whoever started this process has closed its input, or is gone."""
    readable, _, _ = select.select([sys.stdin], [], [], 0)
    return bool(readable)


def _say(what: dict[str, float | bool]) -> None:
    print(json.dumps(what), flush=True)


if __name__ == "__main__":
    folder, accounts, seed, rate, per_commit = sys.argv[1:]
    write(Path(folder), Workload(int(accounts), seed=int(seed)), float(rate), int(per_commit))
