"""A store with a bit of everything, a program to go on with, and what both should hold."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pyarrow as pa

import mainstem as ms
from mainstem.app import App
from mainstem.schema import Field, TableSchema, Type
from mainstem.store import Store, write_shard_file
from mainstem.store.background import Snapshotter
from mainstem.store.compact import Compactor
from mainstem.store.format import read_format
from mainstem.store.layout import Layout
from mainstem.store.recovery import recover

ACCOUNT = TableSchema("Account", (Type("int"),), True, (Field("balance", Type("int")), Field("owner", Type("str"))))
VISIT = TableSchema("Visit", (Type("str"), Type("int")), False, (Field("count", Type("int")),))
SCHEMAS = (ACCOUNT, VISIT)
EPOCHS = 23


def accounts(epoch: int) -> pa.Table:
    """The rows that an epoch changes: new ones, old ones, and one that goes. The first brings many."""
    keys = [*range(1000, 1400)] if epoch == 1 else [epoch, epoch % 5, 100 + epoch % 7]
    return pa.table(
        {"key": keys, "balance": [epoch * key for key in keys], "owner": [f"o{epoch}"] * len(keys),
         "_deleted": [key > 100 and epoch % 4 == 0 for key in keys]},
    )  # fmt: skip


def visits(epoch: int, shard: int) -> pa.Table:
    return pa.table({"key_0": [f"shard {shard}"] * 2, "key_1": [epoch % 3, epoch % 4], "count": [epoch, epoch + 1]})


def write_epochs(path: Path, first: int, last: int) -> None:
    """Commits of Account rows in the log and Visit rows in two shards; a shard starts anew now and then.

    Snapshots are left to `fold`, so that a test knows which there are.
    """
    with patch.object(Snapshotter, "wake"), Store.open(path, SCHEMAS, segment_commits=3) as store:
        for epoch in range(first, last + 1):
            shard = epoch % 2
            base = epoch < 3 or epoch % 8 == 0
            file = write_shard_file(path, shard, f"e{epoch}", {"Visit": visits(epoch, shard)}, base=base)
            store.commit({"Account": accounts(epoch)}, {"seq": 10 * epoch, "ts": 100 + epoch}, [file])


def fold(path: Path, upto: int, *, whole: bool) -> None:
    """What the background does, now: commits up to an epoch become a snapshot or an increment."""
    layout = Layout(path)
    stored = read_format(layout)
    found = recover(layout, stored.store, spares=True)
    found.cursor.close()
    compactor = Compactor(layout, stored, found.snapshots, found.increments, keep=2)
    assert compactor.fold(upto, whole=whole)


def make_directory(path: Path) -> Path:
    """Snapshots of 9 and 12, an increment up to 21, a log from 10 to 23, shard files."""
    write_epochs(path, 1, EPOCHS)
    for upto, whole in ((9, True), (12, True), (18, False), (21, False)):
        fold(path, upto, whole=whole)
    return path


def bank() -> App:
    app = ms.App("bank")

    @app.event
    class Transfer:
        source: int
        target: int
        amount: int

    @app.table(key=int)
    class Account:
        balance: int = 100

    @app.on(Transfer)
    def move(e):
        ms.require(Account[e.source].balance >= e.amount, "not enough")
        Account[e.source].balance -= e.amount
        Account[e.target].balance += e.amount
        return {"left": Account[e.source].balance}

    return app


def transfers(first: int, count: int) -> pa.Table:
    rows = range(first, first + count)
    return pa.table({"ts": list(rows), "source": [i % 7 for i in rows], "target": [i * 3 % 11 for i in rows],
                     "amount": [i * 13 % 60 for i in rows]})  # fmt: skip
