"""The order of the installed versions of every row; refuses a history that contradicts itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mainstem.engine.history import QUERY_SEQ, History
from mainstem.errors import HistoryError

_TXN_COLUMNS = ("txn_seq", "txn_function", "txn_committed")
_READ_COLUMNS = ("read_txn", "read_version")
_WRITE_COLUMNS = ("write_txn", "write_row", "write_place", "write_final")


@dataclass(frozen=True)
class Versions:
    """Which version follows which. Only final versions of committed transactions take part."""

    consecutive: tuple[np.ndarray, np.ndarray]  # versions, and the next version of the same row
    current: np.ndarray  # per version, whether it takes part; a false one more at the end
    follower: np.ndarray  # per version the next one, -1: none; a -1 more at the end
    first: np.ndarray  # per row, as numbered by `used_rows`, its first version; -1: none
    used_rows: np.ndarray | None  # rows in ascending order; None: rows are their own numbers

    def are_current(self, version: np.ndarray) -> np.ndarray:
        """Whether each was the content of its row at some time, and rightly so."""
        return self.current[np.where(version >= 0, version, -1)]

    def next_of(self, version: np.ndarray) -> np.ndarray:
        """The version that replaced each, -1: none; a negative version stands for that of a row before the history."""
        row = np.maximum(-1 - version, 0)
        if self.used_rows is not None:
            row = np.minimum(np.searchsorted(self.used_rows, row), len(self.used_rows) - 1)
        return np.where(version >= 0, self.follower[np.maximum(version, -1)], self.first[row])


def order_versions(history: History) -> Versions:
    """The versions of a history in their order; raises HistoryError when there is none."""
    _check_columns(history)
    row, rows, used_rows = _dense_rows(history)
    chain = _installed(history, row, rows)
    chain = chain[history.txn_committed[history.write_txn[chain]] & history.write_final[chain]]
    current = np.zeros(history.versions + 1, np.bool_)
    current[chain] = True
    same_row = row[chain[1:]] == row[chain[:-1]]
    earlier, later = chain[:-1][same_row], chain[1:][same_row]
    _check_one_each(history, earlier, later)
    follower = np.full(history.versions + 1, -1, np.int64)
    follower[earlier] = later
    first = np.full(rows, -1, np.int64)
    starts = np.concatenate([[True], ~same_row]) if len(chain) else np.zeros(0, np.bool_)
    first[row[chain[starts]]] = chain[starts]
    return Versions((earlier, later), current, follower, first, used_rows)


def _dense_rows(history: History) -> tuple[np.ndarray, int, np.ndarray | None]:
    """Row numbers for arrays: those of the history when they are small enough, else positions among the used ones."""
    before = -1 - history.read_version[history.read_version < 0]
    rows = 1 + max(int(history.write_row.max(initial=0)), int(before.max(initial=0)))
    if rows <= 1_000 + 4 * (history.versions + history.reads):
        return history.write_row, rows, None
    used = np.unique(np.concatenate([history.write_row, before]))
    return np.searchsorted(used, history.write_row), len(used), used


def _installed(history: History, row: np.ndarray, rows: int) -> np.ndarray:
    """All installed versions, by row and place."""
    installed = np.flatnonzero(history.write_place > 0)
    row, place = row[installed], history.write_place[installed]
    count = np.bincount(row, minlength=rows)
    beyond = np.flatnonzero(place > count[row])
    if len(beyond):
        _raise_gap(history, int(history.write_row[installed[beyond[0]]]))
    position = (np.cumsum(count) - count)[row] + place - 1
    chain = np.full(len(installed), -1, np.int64)
    chain[position] = installed
    twice = np.flatnonzero(chain[position] != installed)
    if len(twice):
        one, other = (int(version) for version in (installed[twice[0]], chain[position[twice[0]]]))
        name, taken = history.row_name(int(history.write_row[one])), int(history.write_place[one])
        raise HistoryError(
            f"versions {one} and {other} both have place {taken} of {name}: "
            "number the installed versions of a row 1, 2, …"
        )
    return chain


def _raise_gap(history: History, row: int) -> None:
    places = np.unique(history.write_place[(history.write_row == row) & (history.write_place > 0)])
    missing = next(place for place, found in enumerate([*places, 0], start=1) if place != found)
    raise HistoryError(
        f"{history.row_name(row)} has an installed version with place {places[-1]} and none with place {missing}: "
        "number the installed versions of a row 1, 2, …"
    )


def _check_one_each(history: History, earlier: np.ndarray, later: np.ndarray) -> None:
    twice = np.flatnonzero(history.write_txn[earlier] == history.write_txn[later])
    if len(twice):
        one, other = int(earlier[twice[0]]), int(later[twice[0]])
        raise HistoryError(
            f"versions {one} and {other} of {history.row_name(int(history.write_row[one]))} are both final versions of "
            f"transaction {history.write_txn[one]}: mark the overwritten one with write_final = False and place 0"
        )


def _check_columns(history: History) -> None:
    for columns in (_TXN_COLUMNS, _READ_COLUMNS, _WRITE_COLUMNS):
        lengths = {name: len(getattr(history, name)) for name in columns}
        if len(set(lengths.values())) > 1:
            raise HistoryError(f"columns of one kind must have one length, and here are {lengths}")
    for name in ("txn_committed", "write_final"):
        if getattr(history, name).dtype != np.bool_:
            raise HistoryError(f"{name} must be an array of bool, not of {getattr(history, name).dtype}")
    transactions, no_limit = history.transactions, np.iinfo(np.int64).max
    _check_range(history, "txn_seq", QUERY_SEQ, no_limit, "the number of an event, or -1 for a query")
    _check_range(history, "txn_function", 0, len(history.functions), "an index into functions")
    _check_range(history, "read_txn", 0, transactions, "the index of a transaction")
    _check_range(history, "read_version", -no_limit, history.versions, "the index of a version, or -1 - row")
    _check_range(history, "write_txn", 0, transactions, "the index of a transaction")
    _check_range(history, "write_row", 0, no_limit, "the number of a row")
    _check_range(history, "write_place", 0, no_limit, "a place from 1 on, or 0 for a version that was never installed")
    of_query = np.flatnonzero(history.txn_seq[history.write_txn] == QUERY_SEQ)
    if len(of_query):
        raise HistoryError(
            f"write_txn[{of_query[0]}] is transaction {history.write_txn[of_query[0]]}, which is a query (txn_seq -1): "
            "give a transaction that writes the number of its event"
        )


def _check_range(history: History, name: str, low: int, high: int, meaning: str) -> None:
    column: np.ndarray = getattr(history, name)
    outside = np.flatnonzero((column < low) | (column >= high))
    if len(outside):
        raise HistoryError(f"{name}[{outside[0]}] is {column[outside[0]]}, which is not {meaning}")
