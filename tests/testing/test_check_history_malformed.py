"""A history that contradicts itself is refused, with the column and the place."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from mainstem.engine.history import History
from mainstem.errors import HistoryError
from mainstem.testing import check_history


def small_history() -> History:
    builder = History.build()
    builder.begin("deposit").read("x").write("x").commit()
    builder.begin("deposit").read("x").write("x").write("y").commit()
    builder.query().read("x").commit()
    return builder.done()


def changed(column: str, place: int, value: int) -> dict[str, Any]:
    values = getattr(small_history(), column).copy()
    values[place] = value
    return {column: values}


MALFORMED: dict[str, tuple[dict[str, Any], str]] = {  # what is changed in the small history, and what is said
    "unknown version": (changed("read_version", 1, 3), r"read_version\[1\] is 3, which is not the index of a version"),
    "unknown reader": (changed("read_txn", 0, 9), r"read_txn\[0\] is 9, which is not the index of a transaction"),
    "unknown writer": (changed("write_txn", 2, -1), r"write_txn\[2\] is -1"),
    "unknown function": (changed("txn_function", 1, 2), r"txn_function\[1\] is 2, which is not an index"),
    "no such event": (changed("txn_seq", 0, -2), r"txn_seq\[0\] is -2"),
    "negative row": (changed("write_row", 0, -1), r"write_row\[0\] is -1"),
    "negative place": (changed("write_place", 0, -1), r"write_place\[0\] is -1"),
    "one place twice": (changed("write_place", 0, 2), r"versions 0 and 1 both have place 2 of x"),
    "a gap": (changed("write_place", 1, 3), r"x has an installed version with place 3 and none with place 2"),
    "a gap at the start": (changed("write_place", 2, 2), r"y has an installed version with place 2 and none with"),
    "two final versions": (changed("write_txn", 0, 1), r"versions 0 and 1 of x are both final versions of tr"),
    "a query that wrote": (changed("write_txn", 2, 2), r"write_txn\[2\] is transaction 2, which is a query"),
    "columns of different lengths": ({"read_txn": np.zeros(1, np.int64)}, r"'read_txn': 1, 'read_version': 3"),
    "numbers for booleans": ({"txn_committed": np.ones(3, np.int64)}, "txn_committed must be an array of bool, not"),
}


def test_the_history_before_the_change_is_clean() -> None:
    assert check_history(small_history()).found == ()


@pytest.mark.parametrize(("change", "message"), MALFORMED.values(), ids=MALFORMED)
def test_contradictions_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(HistoryError, match=message):
        check_history(dataclasses.replace(small_history(), **change))
