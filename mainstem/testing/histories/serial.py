"""Large serial histories, made as columns: a million transactions in about a second."""

from __future__ import annotations

import numpy as np

from mainstem.engine.history import History


def serial_history(
    transactions: int, rows: int, seed: int, *, operations: int = 4, writes: float = 0.5, shuffled: bool = False
) -> History:
    """Transactions that ran one after the other: in event order (PL4), or `shuffled`, in another one (PL3).

    Each touches up to `operations` random rows, reads all of them and writes that share of them.
    """
    random = np.random.default_rng(seed)
    event_of_turn = random.permutation(transactions) if shuffled else np.arange(transactions)
    touched = np.sort(random.integers(0, rows, (transactions, operations)), axis=1)
    fresh = np.ones(touched.shape, np.bool_)
    fresh[:, 1:] = touched[:, 1:] != touched[:, :-1]  # a row twice is touched once
    turn, column = np.nonzero(fresh)
    row = touched[turn, column]
    is_write = random.random(len(row)) < writes
    order = np.argsort(row, kind="stable")  # by row, then by turn
    turn, row, is_write = turn[order], row[order], is_write[order]
    made = np.cumsum(is_write)  # versions made up to and including each operation
    first = np.concatenate([[True], row[1:] != row[:-1]])
    before: np.ndarray = made - is_write  # versions of this and earlier rows before each operation
    before_row: np.ndarray = np.repeat(before[first], np.diff(np.append(np.flatnonzero(first), len(row))))
    return History(
        txn_seq=np.arange(transactions),
        txn_function=np.zeros(transactions, np.int64),
        txn_committed=np.ones(transactions, np.bool_),
        read_txn=event_of_turn[turn],
        read_version=np.where(before > before_row, before - 1, -1 - row),
        write_txn=event_of_turn[turn[is_write]],
        write_row=row[is_write],
        write_place=(made - before_row)[is_write],
        write_final=np.ones(np.count_nonzero(is_write), np.bool_),
    )
