"""Writing histories down, and putting batches together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from mainstem.engine.history import History, concatenate, numbered_row
from mainstem.testing import check_history
from mainstem.testing.histories import scheduled_history


def test_what_a_builder_writes_down() -> None:
    builder = History.build()
    one, two = builder.begin("deposit"), builder.begin("audit")
    one.read("x").write("x")
    two.read("x")
    one.write("x").commit()
    two.read("x").write("y").abort()
    builder.query().read("x", of=builder.start).commit()
    history = builder.done()
    assert history.txn_seq.tolist() == [0, 1, -1]
    assert [history.functions[code] for code in history.txn_function] == ["deposit", "audit", "query"]
    assert history.txn_committed.tolist() == [True, False, True]
    assert history.read_txn.tolist() == [0, 1, 1, 2]
    assert history.read_version.tolist() == [-1, -1, 1, -1]
    assert history.write_txn.tolist() == [0, 0, 1]
    assert [history.row_name(row) for row in history.write_row] == ["x", "x", "y"]
    assert history.write_place.tolist() == [0, 1, 0]
    assert history.write_final.tolist() == [False, True, True]


def test_what_can_not_have_happened_is_refused() -> None:
    builder = History.build()
    one, two = builder.begin("deposit"), builder.begin("deposit")
    with pytest.raises(ValueError, match=r"can't read 'x' of transaction 1 \(deposit\), which has not written it"):
        one.read("x", of=two)
    with pytest.raises(ValueError, match="can't install 'x', which it has not written"):
        one.install("x")
    with pytest.raises(ValueError, match="can't install 'x', which it has not written"):
        one.commit("x")
    one.write("x").install("x")
    with pytest.raises(ValueError, match="has installed 'x' already"):
        one.install("x")
    one.commit()
    with pytest.raises(ValueError, match=r"transaction 0 \(deposit\) can't write: it has committed"):
        one.write("y")
    with pytest.raises(ValueError, match=r"transaction 1 \(deposit\) has no end"):
        builder.done()


def test_a_batch_reads_what_the_batches_before_it_installed() -> None:
    batches = []
    for _ in range(3):
        builder = History.build()
        builder.begin().read("x").write("x").commit()
        builder.begin().read("x").write("y").abort()
        builder.begin().read("y").write("x").commit()
        batches.append(builder.done())
    whole = concatenate(batches)
    assert whole.read_version.tolist() == [-1, 0, -2, 2, 3, -2, 5, 6, -2]
    assert whole.write_place.tolist() == [1, 0, 2, 3, 0, 4, 5, 0, 6]
    assert whole.write_txn.tolist() == [0, 1, 2, 3, 4, 5, 6, 7, 8]


def test_batches_one_after_the_other_keep_their_level() -> None:
    for seed in range(20):
        batches = [renumbered(scheduled_history("PL4", 20 * seed + at), 100 * at) for at in range(20)]
        whole = concatenate(batches)
        report = check_history(whole)
        assert report.found == (), f"seed {seed}: {report}"
        assert whole.transactions == sum(batch.transactions for batch in batches)


def renumbered(history: History, by: int) -> History:
    """The same with later events, and with the generator's own numbers of rows, which are the names here."""
    used = {history.row_name(row): row for row in (*history.write_row, *(-1 - history.read_version)) if row >= 0}
    number = np.full(len(used), -1, np.int64)
    number[list(used.values())] = [int(name) for name in used]
    before = history.read_version < 0
    row = number[np.where(before, -1 - history.read_version, 0)]
    return replace(
        history,
        txn_seq=np.where(history.txn_seq >= 0, history.txn_seq + by, history.txn_seq),
        read_version=np.where(before, -1 - row, history.read_version),
        write_row=number[history.write_row],
        row_name=numbered_row,
    )


def test_no_batches_are_an_empty_history() -> None:
    assert concatenate([]).transactions == 0
