"""Logs for the benchmarks, made once and kept in a folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mainstem.apps import ledger

GENERATOR = 1
"""Version of what the generators make; in the folder names, so that a change makes new data."""


def default_dir() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "mainstem" / "bench"


def ledger_log(folder: Path, events: int, seed: int, console: Console) -> Path:
    """The folder of a ledger log with so many events; generated on the first call."""
    log = folder / f"ledger-{events}-seed{seed}-v{GENERATOR}"
    if log.is_dir():
        return log
    folder.mkdir(parents=True, exist_ok=True)
    # Written beside and renamed, so that an interrupted run leaves no half log behind under the final name.
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    try:
        with _bar(console) as bar:
            task = bar.add_task(f"generating a log of {events:,} events", total=events)
            ledger.write_log(partial, events, seed=seed, progress=lambda done: bar.update(task, completed=done))
        partial.rename(log)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return log


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=console
    )
