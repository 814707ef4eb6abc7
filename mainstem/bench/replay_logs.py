"""Logs of the spam app for the `replay` benchmark, made once and kept in a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from mainstem.apps import spam
from mainstem.apps.workloads.spam import ALPHA
from mainstem.bench.data import GENERATOR

FILES_MIN = 4
FILE_EVENTS = 2_500_000  # so that no file of a long log is larger than some hundred megabytes
_READ_BYTES = 1 << 24


def spam_log(
    folder: Path, events: int, *, alpha: float = ALPHA, seed: int = 0, say: Callable[[str], None] = lambda line: None
) -> Path:
    """The folder of a spam log with so many events; generated on the first call, file by file."""
    log = folder / f"spam-{events}-alpha{alpha:g}-seed{seed}-v{GENERATOR}"
    if log.is_dir():
        return log
    say(f"generating a spam log of {events:,} events, α {alpha:g}")
    folder.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that an interrupted run leaves no half log behind under the final name.
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    try:
        spam.write_log(partial, events, files=max(FILES_MIN, -(-events // FILE_EVENTS)), alpha=alpha, seed=seed)
        partial.rename(log)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return log


def read_through(log: Path) -> None:
    """Brings the files into the page cache, so that the first contender does not wait for the disk in place of all."""
    for path in sorted(log.glob("*.parquet")):
        with open(path, "rb") as file:
            while file.read(_READ_BYTES):
                pass
