"""The transfers on SQLite: Python's own module, a write-ahead log, one prepared statement per transfer."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from mainstem.bench.bank_peers import LATER, SYNCED, Config, Peer, Turn
from mainstem.bench.bank_workload import Workload

# Both rows in one statement: a transaction by itself, without BEGIN and COMMIT. The balance is looked up before either
# row changes, since the subquery does not depend on the row.
TRANSFER = """
UPDATE account SET balance = balance + CASE key WHEN ?1 THEN -?3 ELSE ?3 END
WHERE key IN (?1, ?2) AND (SELECT balance FROM account WHERE key = ?1) >= ?3
"""


class SqlitePeer:
    """One configuration: when the log is synced, and whether each transfer is a transaction."""

    step = 1

    def __init__(self, path: Path, workload: Workload, synchronous: str, *, at_once: bool = False) -> None:
        way = "all in one transaction" if at_once else "prepared statement"
        durable = SYNCED if synchronous == "FULL" else LATER
        setting = f"WAL, synchronous={synchronous}" + (", upper bound" if at_once else "")
        self.config = Config("SQLite", way, setting, durable, upper_bound=at_once)
        self._workload, self._at_once = workload, at_once
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute(f"PRAGMA synchronous={synchronous}")

    def reset(self) -> None:
        execute = self._database.execute
        execute("DROP TABLE IF EXISTS account")
        execute("CREATE TABLE account (key INTEGER PRIMARY KEY, balance INTEGER NOT NULL CHECK (balance >= 0))")
        execute("BEGIN")
        self._database.executemany("INSERT INTO account VALUES (?, ?)", enumerate(self._workload.start().tolist()))
        execute("COMMIT")
        execute("PRAGMA wal_checkpoint(TRUNCATE)")

    def run(self, first: int, count: int) -> Turn:
        made = self._workload.transfers(count, first)
        rows = list(zip(made.src.tolist(), made.dst.tolist(), made.amount.tolist(), strict=True))
        execute = self._database.execute
        started = time.perf_counter()
        if self._at_once:
            execute("BEGIN")
            self._database.executemany(TRANSFER, rows)
            execute("COMMIT")
        else:
            for row in rows:
                execute(TRANSFER, row)
        seconds = time.perf_counter() - started
        return Turn(seconds, None if self._at_once else seconds / count)

    def balances(self) -> np.ndarray:
        rows = self._database.execute("SELECT balance FROM account ORDER BY key").fetchall()
        return np.array(rows, np.int64).ravel()

    def close(self) -> None:
        self._database.close()


@contextmanager
def sqlite_peers(workload: Workload) -> Iterator[tuple[str, list[Peer]]]:
    """The version, and every configuration, each with its own file."""
    with tempfile.TemporaryDirectory(prefix="mainstem-bank-") as folder:
        path = Path(folder)
        peers = [
            SqlitePeer(path / "full", workload, "FULL"),
            SqlitePeer(path / "normal", workload, "NORMAL"),
            SqlitePeer(path / "at-once", workload, "FULL", at_once=True),
        ]
        try:
            yield sqlite3.sqlite_version, list(peers)
        finally:
            for peer in peers:
                peer.close()
