"""Runs writers in forked children and kills them: reads jobs as JSON from stdin, prints how each child ended.

A job is a directory, a seed, and the crashes of one writer after the other: `[[step, count], …]`. The last epoch that a
writer took for durable stands in the file `durable` of the directory.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import crash_plan

from mainstem.store import crash

Job = tuple[str, int, list[tuple[str, int]]]


def durable(folder: Path) -> int:
    """What the last writer has told."""
    return int((folder / "durable").read_text() or 0)


def _serve(jobs: Iterable[Job]) -> Iterator[list[int]]:
    """The wait status of one forked writer per crash."""
    for directory, seed, crashes in jobs:
        yield [_status(Path(directory), seed, step, count) for step, count in crashes]


def _status(folder: Path, seed: int, step: str, count: int) -> int:
    pid = os.fork()
    if pid == 0:
        os.environ[crash.VARIABLE] = f"{step}:{count}"
        importlib.reload(crash)  # reads the variable, as a new process would
        crash_plan.no_syncs()
        note = os.open(folder / "durable", os.O_WRONLY | os.O_CREAT)
        crash_plan.run(crash_plan.plan_of(seed), folder, lambda epoch: os.pwrite(note, b"%d" % epoch, 0) and None)
        os._exit(0)
    return os.waitpid(pid, 0)[1]


if __name__ == "__main__":
    print(json.dumps(list(_serve(json.load(sys.stdin)))))
