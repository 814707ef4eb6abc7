"""Logs of the spam app for the `replay` benchmark, made once and kept in a folder."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mainstem.apps import spam
from mainstem.apps.workloads.spam import ALPHA
from mainstem.bench.data import GENERATOR
from mainstem.replay.ranges import RANGE_ROWS

FILES_MIN = 4
HOT = 7  # the sender and IP address that many messages have
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


def hot_log(
    folder: Path, events: int, share: float, *, seed: int = 0, say: Callable[[str], None] = lambda line: None
) -> Path:
    """A spam log in which one sender and one IP address have a share of the messages; generated on the first call."""
    log = folder / f"spam-{events}-hot{share:g}-seed{seed}-v{GENERATOR}"
    if log.is_dir():
        return log
    source = spam_log(folder, events, seed=seed, say=say)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=folder))
    draw = np.random.default_rng(seed)
    try:
        for file in sorted(source.glob("*.parquet")):
            pq.write_table(_heated(pq.read_table(file), share, draw), partial / file.name, row_group_size=RANGE_ROWS)
        partial.rename(log)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return log


def _heated(rows: pa.Table, share: float, draw: np.random.Generator) -> pa.Table:
    hot = pc.and_(pa.array(draw.random(rows.num_rows) < share), pc.equal(rows["event"], "Message"))
    for name in ("sender", "ip"):
        values = pc.if_else(hot, pa.scalar(HOT, rows[name].type), rows[name])
        rows = rows.set_column(rows.schema.get_field_index(name), name, values)
    return rows


def read_through(log: Path) -> None:
    """Brings the files into the page cache, so that the first contender does not wait for the disk in place of all."""
    for path in sorted(log.glob("*.parquet")):
        with open(path, "rb") as file:
            while file.read(_READ_BYTES):
                pass
