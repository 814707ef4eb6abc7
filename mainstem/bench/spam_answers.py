"""What every way to replay the spam log leaves: a Parquet file per task with the verdict on each message, and a digest.

The column `seq` is the position of the message in the log, so verdicts can be compared row by row, however they are cut
into files.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from mainstem.bench import fingerprint
from mainstem.bench.measure import Stopwatch
from mainstem.errors import InputError


@dataclass(frozen=True)
class Answer:
    """One replay of a log: how long it took, and what it found."""

    name: str
    seconds: float
    events: int
    messages: int
    spam: int
    digest: str  # of (seq, spam) of every message

    @property
    def events_per_second(self) -> float:
        return self.events / self.seconds


@dataclass(frozen=True)
class Error:
    """How far approximate verdicts are from the true ones."""

    spam_true: int
    spam_found: int
    wrong: float  # share of the messages with the wrong verdict

    @property
    def relative(self) -> float:
        """Difference of the number of spam messages, relative to the true one (the error of ReStream's figure 5)."""
        return abs(self.spam_found - self.spam_true) / max(1, self.spam_true)


@dataclass(frozen=True)
class LogFile:
    path: Path
    first_seq: int
    rows: int
    ts_first: int
    ts_last: int


@dataclass(frozen=True)
class SpamLog:
    """A log of the generator: sorted files that follow each other, so a row's place gives its `seq`."""

    folder: Path
    files: list[LogFile] = field(repr=False)

    @property
    def events(self) -> int:
        return sum(file.rows for file in self.files)

    def within(self, span: tuple[int, int]) -> list[LogFile]:
        """The files that can have events with `span[0] <= ts < span[1]`; at least one, for their columns."""
        found = [file for file in self.files if file.ts_first < span[1] and file.ts_last >= span[0]]
        return found or self.files[:1]

    def ranges(self, batch: int) -> list[tuple[int, int]]:
        """`[ts_from, ts_to)` of batches of about `batch` events each, from the mean rate of events."""
        count = max(1, round(self.events / batch))
        first, last = self.files[0].ts_first, self.files[-1].ts_last
        cuts = np.linspace(first, last + 1, count + 1).round().astype(np.int64).tolist()
        return list(itertools.pairwise(cuts))


def open_log(folder: Path) -> SpamLog:
    """The files of a log, from their footers."""
    files: list[LogFile] = []
    seq = 0
    for path in sorted(folder.glob("*.parquet")):
        footer = pq.read_metadata(path)
        if footer.num_rows == 0:
            continue
        first, last = (footer.row_group(i).column(0).statistics for i in (0, footer.num_row_groups - 1))
        files.append(LogFile(path, seq, footer.num_rows, first.min, last.max))
        seq += footer.num_rows
    if not files:
        raise InputError(f"{folder} holds no events: write a log there with mainstem.apps.spam.write_log")
    if any(later.ts_first < earlier.ts_last for earlier, later in itertools.pairwise(files)):
        raise InputError(f"the files of {folder} do not follow each other in time: the bench needs one sorted log")
    return SpamLog(folder, files)


@contextmanager
def timed() -> Iterator[Stopwatch]:
    """Wall time of the block; processor time would miss that of Spark's own processes."""
    watch = Stopwatch()
    start = time.perf_counter()
    yield watch
    watch.seconds = time.perf_counter() - start


def fresh(out: Path) -> None:
    """Refuses a folder that has files: batches append to it, so old verdicts would mix with new ones."""
    if out.is_dir() and any(out.iterdir()):
        raise InputError(f"{out} is not empty: give each replay a folder of its own")


def answer(name: str, seconds: float, events: int, out: Path) -> Answer:
    """Reads back what was written to `out`."""
    messages = spam = total = 0
    for seq, flag in _verdicts(out):
        messages += flag.size
        spam += int(flag.sum())
        ones = np.ones(flag.size, dtype=np.int64)
        total += fingerprint.of_columns(seq, 0 * ones, flag.astype(np.int64), ones)
    return Answer(name, seconds, events, messages, spam, fingerprint.text(total))


def error_against(truth: Path, out: Path) -> Error:
    """Compares the verdicts in `out` with the true ones in `truth`."""
    wanted, found = (_by_seq(folder) for folder in (truth, out))
    if not np.array_equal(wanted[0], found[0]):
        raise InputError(f"{out} and {truth} judge different messages: compare replays of the same log")
    return Error(int(wanted[1].sum()), int(found[1].sum()), float((wanted[1] != found[1]).mean()))


def _by_seq(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    parts = list(_verdicts(folder))
    seq, flag = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    order = np.argsort(seq, kind="stable")
    return seq[order], flag[order]


def _verdicts(folder: Path) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """(`seq`, `spam`) of the messages in all files; rows without a verdict are friendships."""
    for batch in ds.dataset(folder, format="parquet").to_batches(columns=["seq", "spam"]):
        table = pa.table(batch).drop_null()
        yield table["seq"].to_numpy(), table["spam"].to_numpy()
