"""Transfers that keep the sum of all balances, readers that look at it, and what they saw.

Run as a program it is a crowd of readers: it reads jobs as JSON from stdin, one per line, has each done by four
processes at once, and prints what they saw.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

import mainstem as ms

ACCOUNTS = 12
TOTAL = sum(100 + key for key in range(ACCOUNTS))
READERS = 4
BATCH = 32

app = ms.App("bank")


@app.event
class Transfer:
    src: int
    dst: int
    amount: int


@app.table(key=int)
class Account:
    balance: int = 0
    version: int = 0  # how often it was written

    @ms.check
    def solvent(row):
        return row.balance >= 0


@app.on(Transfer)
def transfer(e):
    ms.require(e.src != e.dst, "to itself")
    Account[e.src].balance -= e.amount
    Account[e.dst].balance += e.amount
    Account[e.src].version += 1
    Account[e.dst].version += 1


def initial() -> dict[str, pa.Table]:
    keys = list(range(ACCOUNTS))
    return {"Account": pa.table({"key": keys, "balance": [100 + key for key in keys], "version": [0] * ACCOUNTS})}


def transfers(seed: int, stop: Path, limit: int) -> Iterator[Any]:
    """Random ones until a file appears."""
    rng = random.Random(seed)
    for ts in range(limit):
        if ts % BATCH == 0:
            time.sleep(0.01)  # leaves the cores to those who read
            if stop.exists():
                return
        yield Transfer(ts=ts, src=rng.randrange(ACCOUNTS), dst=rng.randrange(ACCOUNTS), amount=rng.randrange(40))


def read(path: str, reads: int) -> dict[str, Any]:
    """Look at the sum again and again, in three ways; and at the order of versions."""
    keys, wrong, epochs = list(range(ACCOUNTS)), [], set()
    with ms.open(path) as db:
        last = 0
        for number in range(reads):
            by_sql = db.sql("select sum(balance)::bigint total, count(*) n from Account").to_pylist()[0]
            by_key = sum(row["balance"] for row in db.get_many("Account", keys) if row is not None)
            epoch = db.epoch
            if (by_sql, by_key) != ({"total": TOTAL, "n": ACCOUNTS}, TOTAL) or epoch < last:
                wrong.append((number, by_sql, by_key, last, epoch))
            last = epoch
            epochs.add(epoch)
    return {"reads": reads, "wrong": wrong[:5], "epochs": len(epochs)}


def _crowd(job: dict[str, Any]) -> list[dict[str, Any]]:
    """One job, done by several processes at once. They are forked before this one has used anything with threads."""
    pipes = []
    for _ in range(READERS):
        there, here = os.pipe()
        if os.fork() == 0:
            with os.fdopen(here, "w") as sink:
                json.dump(read(**job), sink)
            os._exit(0)
        os.close(here)
        pipes.append(os.fdopen(there))
    answers = [json.loads(pipe.read()) for pipe in pipes]
    for pipe in pipes:
        pipe.close()
        os.wait()
    return answers


if __name__ == "__main__":
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_crowd(json.loads(line))), flush=True)
