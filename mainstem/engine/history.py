"""What transactions really did: which versions they read, made and installed, as columns.

A protocol that is asked to (`history=True`) fills one `History` per batch; `concatenate` makes them one. A history of
another system, or of a test, is written with `History.build()`. `mainstem.testing.check_history` says which isolation
level a history satisfies.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

import numpy as np

QUERY_SEQ = -1


def numbered_row(row: int) -> str:
    return f"row {row}"


@dataclass(frozen=True)
class History:
    """Transactions, their reads and their versions. Retried executions are not part of it.

    A *version* is an index into the `write_` columns. Installed versions of a row have the places 1, 2, … in the order
    in which they became the row's content; place 0 means: never installed.
    """

    txn_seq: np.ndarray  # int64: number of the event, -1 for a query
    txn_function: np.ndarray  # int64: index into `functions`
    txn_committed: np.ndarray  # bool
    read_txn: np.ndarray  # int64: who read
    read_version: np.ndarray  # int64: what; -1 - row for the version of that row before the history
    write_txn: np.ndarray  # int64: who made the version
    write_row: np.ndarray  # int64
    write_place: np.ndarray  # int64
    write_final: np.ndarray  # bool: false when its own transaction overwrote it (needed only if somebody read it)
    functions: tuple[str, ...] = ("transaction",)
    row_name: Callable[[int], str] = numbered_row  # for messages

    @property
    def transactions(self) -> int:
        return len(self.txn_seq)

    @property
    def reads(self) -> int:
        return len(self.read_txn)

    @property
    def versions(self) -> int:
        return len(self.write_txn)

    @staticmethod
    def build() -> HistoryBuilder:
        """A builder to which one tells what happened, step by step."""
        return HistoryBuilder()


def concatenate(batches: Sequence[History]) -> History:
    """Batches that ran one after the other, rows numbered alike, as one history.

    What a batch read from before itself is the newest version that the batches before it installed. Rows have the names
    that the first batch has for them.
    """
    if not batches:
        return History.build().done()
    rows = 1 + max(_largest_row(batch) for batch in batches)
    newest = np.full(rows, -1, np.int64)  # version of each row, -1: that before the history
    places = np.zeros(rows, np.int64)  # versions of each row that are installed so far
    functions = tuple(dict.fromkeys(name for batch in batches for name in batch.functions))
    parts: list[tuple[np.ndarray, ...]] = []
    transactions = versions = 0
    for batch in batches:
        read = batch.read_version + versions
        before = np.flatnonzero(batch.read_version < 0)
        row = -1 - batch.read_version[before]
        read[before] = np.where(newest[row] >= 0, newest[row], -1 - row)
        installed = batch.write_place > 0
        place = np.where(installed, batch.write_place + places[batch.write_row], 0)
        function = np.array([functions.index(name) for name in batch.functions], np.int64)[batch.txn_function]
        parts.append((function, batch.read_txn + transactions, read, batch.write_txn + transactions, place))
        last = np.flatnonzero(installed)
        last = last[np.argsort(place[last], kind="stable")]  # of several assignments to one row the last one stays
        newest[batch.write_row[last]] = last + versions
        places[batch.write_row[last]] = place[last]
        transactions += batch.transactions
        versions += batch.versions
    txn_function, read_txn, read_version, write_txn, write_place = map(np.concatenate, zip(*parts, strict=True))
    return History(
        txn_seq=np.concatenate([batch.txn_seq for batch in batches]),
        txn_function=txn_function,
        txn_committed=np.concatenate([batch.txn_committed for batch in batches]),
        read_txn=read_txn,
        read_version=read_version,
        write_txn=write_txn,
        write_row=np.concatenate([batch.write_row for batch in batches]),
        write_place=write_place,
        write_final=np.concatenate([batch.write_final for batch in batches]),
        functions=functions,
        row_name=batches[0].row_name,
    )


def _largest_row(history: History) -> int:
    """-1 for a history without rows."""
    written = int(history.write_row.max(initial=-1))
    return max(written, -1 - int(history.read_version.min(initial=0)))


@dataclass
class Transaction:
    """One transaction of a history that is being built: tell what it did, in the order in which it happened."""

    builder: HistoryBuilder
    number: int
    own: dict[Hashable, int] = field(default_factory=dict)  # its newest version of each row
    committed: bool | None = None

    def read(self, row: Hashable, *, of: Transaction | None = None) -> Transaction:
        """It read its own version of `row`, else the newest installed one; or the newest that `of` has made so far.

        `of=builder.start` stands for the version before the history.
        """
        self._must_be_open("read")
        builder = self.builder
        if of is None and row in self.own:
            version = self.own[row]
        elif of is None:
            version = builder.installed.get(row, builder.before(row))
        elif of is builder.start:
            version = builder.before(row)
        elif row in of.own:
            version = of.own[row]
        else:
            raise ValueError(f"{self} can't read {row!r} of {of}, which has not written it; call its write() first")
        builder.read_columns.append((self.number, version))
        return self

    def write(self, row: Hashable) -> Transaction:
        """It made a new version of `row`; one that it made before becomes intermediate."""
        self._must_be_open("write")
        if row in self.own:
            self.builder.final[self.own[row]] = False
        self.own[row] = len(self.builder.final)
        self.builder.write_columns.append((self.number, self.builder.row(row)))
        self.builder.place.append(0)
        self.builder.final.append(True)
        return self

    def install(self, row: Hashable) -> Transaction:
        """Its version of `row` became the row's content; only needed when rows become visible at different times."""
        builder = self.builder
        if row not in self.own:
            raise ValueError(f"{self} can't install {row!r}, which it has not written; call write() first")
        version = self.own[row]
        if builder.place[version]:
            raise ValueError(f"{self} has installed {row!r} already")
        builder.place[version] = builder.places[row] = builder.places.get(row, 0) + 1
        builder.installed[row] = version
        return self

    def commit(self, *rows: Hashable) -> Transaction:
        """It committed, and what it wrote is installed, if it was not before (only `rows`, when some are given)."""
        self._must_be_open("commit")
        for row in rows or self.own:
            if row not in self.own or not self.builder.place[self.own[row]]:
                self.install(row)  # which refuses a row that it has not written
        self.committed = True
        return self

    def abort(self) -> Transaction:
        self._must_be_open("abort")
        self.committed = False
        return self

    def _must_be_open(self, wanted: str) -> None:
        if self.committed is not None:
            raise ValueError(f"{self} can't {wanted}: it has {'committed' if self.committed else 'aborted'}")

    def __str__(self) -> str:
        seq, function = self.builder.begun[self.number] if self.number >= 0 else (0, "start")
        return f"query {self.number}" if seq == QUERY_SEQ else f"transaction {seq} ({function})"


class HistoryBuilder:
    """Writes a history down as a schedule: every call happens after the ones before it."""

    def __init__(self) -> None:
        self.start = Transaction(self, -1)
        self.begun: list[tuple[int, str]] = []  # seq and function
        self.transactions: list[Transaction] = []
        self.read_columns: list[tuple[int, int]] = []
        self.write_columns: list[tuple[int, int]] = []
        self.place: list[int] = []
        self.final: list[bool] = []
        self.rows: dict[Hashable, int] = {}
        self.installed: dict[Hashable, int] = {}  # newest installed version
        self.places: dict[Hashable, int] = {}

    def begin(self, function: str = "transaction", *, seq: int | None = None) -> Transaction:
        """A transaction starts; `seq` is the number of its event, by default one more than the largest so far."""
        chosen = 1 + max((seq for seq, _ in self.begun), default=-1) if seq is None else seq
        self.begun.append((chosen, function))
        self.transactions.append(Transaction(self, len(self.transactions)))
        return self.transactions[-1]

    def query(self) -> Transaction:
        """A read-only transaction without a place among the events starts."""
        return self.begin("query", seq=QUERY_SEQ)

    def row(self, name: Hashable) -> int:
        """The number of a row."""
        return self.rows.setdefault(name, len(self.rows))

    def before(self, name: Hashable) -> int:
        """How a read of the version before the history is written down."""
        return -1 - self.row(name)

    def done(self) -> History:
        for transaction in self.transactions:
            if transaction.committed is None:
                raise ValueError(f"{transaction} has no end: call its commit() or abort()")
        functions = tuple(dict.fromkeys(function for _, function in self.begun))
        names = tuple(map(str, self.rows))
        reads = np.array(self.read_columns, np.int64).reshape(-1, 2)
        writes = np.array(self.write_columns, np.int64).reshape(-1, 2)
        return History(
            txn_seq=np.array([seq for seq, _ in self.begun], np.int64),
            txn_function=np.array([functions.index(function) for _, function in self.begun], np.int64),
            txn_committed=np.array([transaction.committed for transaction in self.transactions], np.bool_),
            read_txn=reads[:, 0].copy(),
            read_version=reads[:, 1].copy(),
            write_txn=writes[:, 0].copy(),
            write_row=writes[:, 1].copy(),
            write_place=np.array(self.place, np.int64),
            write_final=np.array(self.final, np.bool_),
            functions=functions,
            row_name=names.__getitem__,
        )
