"""Queries in the process that writes; what they saw is checked as a history of transactions."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bank_driver as bank
import pytest

import mainstem as ms
from mainstem.engine.history import History, Transaction
from mainstem.testing import check_history

EVENTS = 1_500
KEYS = list(range(bank.ACCOUNTS))


def transfers() -> list[Any]:
    rng = random.Random(5)
    pick = lambda: rng.randrange(bank.ACCOUNTS)
    return [bank.Transfer(ts=ts, src=pick(), dst=pick(), amount=rng.randrange(40)) for ts in range(EVENTS)]


def history_of(events: list[Any], committed: list[bool], seen: list[list[int]]) -> History:
    """The transfers as they ran, and queries that found each account at a certain version (0: before the first)."""
    builder = History.build()
    writers: dict[int, list[Transaction]] = {key: [builder.start] for key in KEYS}
    for event, done in zip(events, committed, strict=True):
        transaction = builder.begin("transfer")
        for key in (event.src, event.dst):
            transaction.read(key)
        if not done:
            transaction.abort()
            continue
        for key in (event.src, event.dst):
            transaction.write(key)
            writers[key].append(transaction)
        transaction.commit()
    for versions in seen:
        query = builder.query()
        for key, version in zip(KEYS, versions, strict=True):
            query.read(key, of=writers[key][version])
        query.commit()
    return builder.done()


def slowly(events: list[Any], seen: list[list[int]]) -> Iterator[Any]:
    """Goes on when there were queries in between."""
    for number, event in enumerate(events):
        while number % bank.BATCH == 0 and number // bank.BATCH > len(seen):
            time.sleep(0.0005)
        yield event


@pytest.mark.parametrize("durability", ["sync", "batch"])
def test_queries_beside_a_run_are_serializable(tmp_path: Path, durability: str) -> None:
    events, seen = transfers(), []
    state = tmp_path / "bank"
    bank.app.run([], state=state, initial=bank.initial(), jit=False)
    results: list[Any] = []
    run = lambda: results.append(
        bank.app.run(slowly(events, seen), state=state, batch=bank.BATCH, durability=durability, jit=False)
    )
    writer = threading.Thread(target=run)
    writer.start()
    epochs = []
    with ms.open(state) as db:
        while writer.is_alive() or not epochs or epochs[-1] < db.epoch:
            rows = db.get_many("Account", KEYS) if len(seen) % 2 else db.table("Account").to_pylist()
            seen.append([row["version"] for row in rows if row is not None])
            epochs.append(db.epoch)
    writer.join()
    assert epochs == sorted(epochs)
    assert len({tuple(versions) for versions in seen}) > 3, "they saw the run go on"
    committed = [status == "committed" for status in results[0].outputs["status"].to_pylist()]
    history = history_of(events, committed, seen)
    report = check_history(history, level="PL4")
    assert report.ok, str(report)
    half, later = seen[0], seen[-1]
    torn = check_history(history_of(events, committed, [*seen, half[:6] + later[6:]]), level="PL4")
    assert not torn.ok, "a query that mixes two versions is found out"


def test_a_query_begun_after_an_acknowledged_commit_sees_it(tmp_path: Path) -> None:
    """Also when another database of the process, or another thread, asks."""
    state = tmp_path / "bank"
    bank.app.run([], state=state, initial=bank.initial(), jit=False)
    with ms.open(state) as one, ms.open(state) as two:
        for ts in range(20):
            bank.app.run([bank.Transfer(ts=ts, src=0, dst=1, amount=1)], state=state, jit=False)
            expected = {"balance": 99 - ts, "version": ts + 1}
            assert (one.get("Account", 0), two.get_many("Account", [0])) == (expected, [expected])
            assert one.sql("select version from Account where key = 0").to_pylist() == [{"version": ts + 1}]
