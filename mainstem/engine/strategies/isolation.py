"""Protocols: which versions a transaction reads is decided while it runs, as its isolation level permits."""

from __future__ import annotations

from typing import Any

import numpy as np

from mainstem.engine.kernels import load
from mainstem.engine.kernels.control import LINE
from mainstem.engine.work import Work, operations_of
from mainstem.lang.program import LEVELS
from mainstem.state import words
from mainstem.team import Crew


def run_locked(work: Work, team: Crew) -> None:
    """The protocol with locks, at the level of the strategy."""
    level, b = _prepared(work)
    bound, run, ticket = work.versioned(), load("locked", work.jit).locked_run, work.room("ticket", work.batch.ops)
    retries = work.zeros("retries", team.threads * LINE)
    team.run(
        lambda w: run(
            bound.function, bound.context, level, work.todo, b, ticket, work.v_code, retries, work.control, work.clock,
            w,
        ),
        work.control,
    )  # fmt: skip
    _finish(work, b, retries)


def run_stamped(work: Work, team: Crew) -> None:
    """The protocol with timestamps, at the level of the strategy."""
    level, b = _prepared(work)
    kernels, bound = load("stamped", work.jit), work.versioned()
    retries = work.zeros("retries", team.threads * LINE)
    shared = (work.v_code, retries, work.control, work.clock)
    if level == len(LEVELS):
        team.run(
            lambda w: kernels.stamped_in_order(bound.function, bound.context, work.todo, b, *shared, w), work.control
        )
    else:
        order, active = work.room("order", work.batch.ops), work.room("active", team.threads * LINE)
        active[:] = kernels.NEVER
        team.run(
            lambda w: kernels.stamped_run(
                bound.function, bound.context, level, work.todo, b, order, active, *shared, w
            ),
            work.control,
        )
    _finish(work, b, retries)


def _prepared(work: Work) -> tuple[int, Any]:
    """The level as a number, and what transactions know of each other at the start: nothing."""
    batch, ops, rows = work.batch, work.batch.ops, load("rows", work.jit)
    assert work.versions is not None
    level = 1 + LEVELS.index(work.strategy.isolation)
    row = work.zeros("row", batch.rows * LINE)
    row[rows.TOP :: LINE] = -1
    if work.name:  # one of several works
        row[rows.TOP :: LINE] = rows.OTHERS
        row[batch.op_row[operations_of(work)] * LINE + rows.TOP] = -1
    prev = work.own("op_prev", ops)
    prev[:] = -1  # also of operations of other works
    if level == 1:
        _fill_slots(work)
    records = work.versions.records
    b = rows.Accesses(
        batch.txn_lo, batch.op_row, batch.op_write, work.op_slot, work.op_ver, prev, work.room("below", ops),
        work.zeros("stamp", ops), work.zeros("place", ops), work.room("read", ops), work.room("seen", ops),
        row, batch.row_table,
        np.array([array.__array_interface__["data"][0] for array in records], np.int64),
        np.array([array.dtype.itemsize for array in records], np.int64),
        int(work.strategy.record and level == 1),
    )  # fmt: skip
    return level, b


def _fill_slots(work: Work) -> None:
    """Who reads a version that is not installed may come before anything is in it: then it finds the row as it was."""
    batch, versions = work.batch, work.versions
    assert versions is not None
    for i, records in enumerate(versions.records):
        load("rows", work.jit).fill_slots(
            i, batch.ops, batch.op_row, batch.op_write, versions.op_slot, batch.row_table, batch.row_base,
            words(records),
        )  # fmt: skip


def _finish(work: Work, b: Any, retries: np.ndarray) -> None:
    """Tells `install` which version of each row is the newest."""
    load("rows", work.jit).newest(work.batch.rows, b.row, work.batch.row_last)
    work.retries = int(retries.sum())
    work.accesses = b
