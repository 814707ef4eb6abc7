"""The checker finds each planted anomaly, names who took part, and nothing else; also among thousands of others."""

from __future__ import annotations

import dataclasses

import pytest
from planted_histories import PLANTED, Planted

from mainstem.engine.history import History, concatenate, numbered_row
from mainstem.testing import check_history
from mainstem.testing.histories import LEVELS, serial_history

STRONGEST = {"ATOMICITY": None, "G0": None, "G1a": "PL1", "G1b": "PL1", "G1c": "PL1", "G2": "PL2", "ORDER": "PL3"}
CASES = pytest.mark.parametrize("case", PLANTED.values(), ids=PLANTED)


@CASES
def test_exactly_the_planted_anomaly_is_found(case: Planted) -> None:
    report = check_history(case.history)
    assert report.kinds == {case.kind}
    assert {number for anomaly in report.found for number in anomaly.transactions} == case.transactions
    assert case.says in str(report)


@CASES
def test_levels_that_allow_it_hold_and_others_do_not(case: Planted) -> None:
    strongest = STRONGEST[case.kind]
    assert check_history(case.history).strongest == strongest
    permitting = LEVELS[: LEVELS.index(strongest) + 1] if strongest else ()
    assert tuple(level for level in LEVELS if check_history(case.history, level).ok) == permitting


@CASES
def test_it_is_found_among_many_clean_transactions(case: Planted) -> None:
    before, after = serial_history(2_000, 50, seed=1), serial_history(2_000, 50, seed=2)
    history = concatenate([before, moved(case.history, 2_000), other_rows(moved(after, 5_000))])
    report = check_history(history)
    assert report.kinds == {case.kind}
    found = {number - 2_000 for anomaly in report.found for number in anomaly.transactions}
    assert found == case.transactions


def moved(history: History, by: int) -> History:
    """The same with later events, and rows named by their numbers."""
    seq = history.txn_seq
    return dataclasses.replace(history, txn_seq=seq + by * (seq >= 0), row_name=numbered_row)


def other_rows(history: History) -> History:
    """Nothing that an aborted transaction may have left is read here: that would be another anomaly."""
    before = history.read_version < 0
    return dataclasses.replace(
        history, read_version=history.read_version - 100 * before, write_row=history.write_row + 100
    )


def test_every_kind_is_planted() -> None:
    assert {case.kind for case in PLANTED.values()} == set(STRONGEST)
    assert len(PLANTED) >= 16


def test_all_kinds_at_once_are_told_apart() -> None:
    history = concatenate([moved(case.history, 100 * number) for number, case in enumerate(PLANTED.values())])
    report = check_history(history)
    assert report.kinds == set(STRONGEST)
    assert not report.ok
    with pytest.raises(AssertionError, match="PL4 is broken"):
        report.raise_if_broken()


def test_reads_of_aborted_transactions_count_when_asked_for() -> None:
    builder = History.build()
    audit = builder.begin("audit").read("x")
    builder.begin("transfer").write("x").write("y").commit()
    audit.read("y").write("z").abort()
    history = builder.done()
    assert check_history(history).found == ()
    assert check_history(history, aborted=True).kinds == {"G2"}


def test_own_writes_may_be_read() -> None:
    builder = History.build()
    builder.begin().write("x").read("x").write("x").read("x").commit()
    builder.begin().write("x").read("x").abort()
    assert check_history(builder.done(), aborted=True).found == ()


def test_rows_may_have_large_numbers() -> None:
    history = moved(PLANTED["a_lost_update"].history, 0)
    far = dataclasses.replace(history, write_row=history.write_row + 10**15, read_version=history.read_version - 10**15)
    assert check_history(far).kinds == {"G2"}


def test_an_empty_history_holds() -> None:
    assert str(check_history(History.build().done())) == "PL4 holds: 0 transactions, no anomalies"


def test_many_witnesses_are_counted_and_a_few_are_told() -> None:
    builder = History.build()
    bad = builder.begin().write("x")
    for _ in range(1_000):
        builder.begin().read("x", of=bad).commit()
    bad.abort()
    report = check_history(builder.done(), "PL2")
    assert len(report.found) == 10
    assert "G1a × 1,000" in str(report)


def test_an_unknown_level_is_named() -> None:
    with pytest.raises(ValueError, match="level 'serializable' is not one of PL1, PL2, PL3, PL4"):
        check_history(History.build().done(), "serializable")
