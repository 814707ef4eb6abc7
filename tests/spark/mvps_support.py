"""Programs in several stages, and their logs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import cloudpickle

import mainstem as ms

# Derive functions travel to workers by value: workers do not have the tests' folder on their path.
cloudpickle.register_pickle_by_value(__import__(__name__))

mail = ms.App("mail")
"""Three stages by key, one after the other: senders, hosts, topics. Updates do not commute."""


@mail.event
class Message:
    sender: int
    host: str
    topic: int
    text: str | None


@mail.event
class Forget:
    sender: int


@mail.derive(Message, length=int)
def measure(batch):
    return {"length": pc.fill_null(pc.utf8_length(batch["text"]), 0).cast(pa.int64())}


@mail.table(key=int)
class Sender:
    sent: int = 0
    mark: int = 1


@mail.table(key=str)
class Host:
    heat: int = 0


@mail.table(key=int)
class Topic:
    score: int = 0
    last: str = ""


@mail.on(Message)
def receive(e):
    sender = Sender[e.sender]
    sender.sent += 1
    sender.mark = (sender.mark * 3 + e.length) % 1009
    host = Host[e.host]
    if sender.mark % 2 == 0:
        host.heat = (host.heat * 2 + sender.mark) % 997
    ms.require(sender.sent < 40, "too many messages")
    topic = Topic[e.topic]
    topic.score = (topic.score * 5 + host.heat) % 10007
    topic.last = e.host
    return {"heat": host.heat, "score": topic.score}


@mail.on(Forget)
def forget(e):
    ms.require(e.sender in Sender, "no such sender")
    sent = Sender[e.sender].sent
    del Sender[e.sender]
    return {"sent": sent}


def mail_log(rows: int = 900, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    forget = random.random(rows) < 0.04
    text = ["abcdefghi"[: k % 9] if k % 5 else None for k in random.integers(0, 100, rows)]
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, rows)),
            "event": pa.array(np.where(forget, "Forget", "Message")),
            "sender": random.integers(0, 12, rows),
            "host": pa.array([f"h{k}" for k in random.integers(0, 7, rows)], mask=forget),
            "topic": pa.array(random.integers(0, 9, rows), mask=forget),
            "text": pa.array(text, pa.string(), mask=forget),
        }
    )


market = ms.App("market")
"""Accounts and goods depend on each other in a circle; days depend on both, by key."""


@market.event
class Trade:
    buyer: int
    seller: int
    good: int
    day: int
    price: int


@market.table(key=int)
class Purse:
    money: int = 200

    @ms.check
    def solvent(row):
        return row.money >= 0


@market.table(key=int)
class Good:
    owner: int = -1
    price: int = 10


@market.table(key=int)
class Day:
    trades: int = 0
    volume: int = 0


@market.on(Trade)
def trade(e):
    good = Good[e.good]
    ms.require(good.owner == e.seller or good.owner == -1, "not the owner")
    Purse[e.buyer].money -= e.price
    Purse[e.seller].money += good.price
    good.price = (good.price + e.price) % 50 + Purse[e.buyer].money % 3
    good.owner = e.buyer
    return {"price": good.price}


@market.on(Trade)
def zz_tally(e):
    good = Good[e.good]
    ms.require(good.owner == e.buyer, "no trade")
    day = Day[e.day]
    day.trades += 1
    day.volume = (day.volume * 3 + good.price) % 10007
    return {"volume": day.volume}


def market_log(rows: int = 900, seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "ts": np.cumsum(random.integers(0, 2, rows)),
            "buyer": random.integers(0, 20, rows),
            "seller": random.integers(0, 20, rows),
            "good": random.integers(0, 15, rows),
            "day": np.arange(rows) // 60,
            "price": random.integers(0, 40, rows),
        }
    )


growth = ms.App("growth")
"""A counter that overflows somewhere in the middle of a log: the second table must not see that event."""


@growth.event
class Grow:
    key: int
    by: int


@growth.table(key=int)
class Size:
    value: int = 1


@growth.table(key=int)
class Seen:
    times: int = 0


@growth.on(Grow)
def grow(e):
    Seen[e.by].times += 1
    Size[e.key].value = Size[e.key].value * e.by
    return {"times": Seen[e.by].times}


def growth_log(rows: int = 400) -> pa.Table:
    random = np.random.default_rng(0)
    return pa.table({"ts": range(rows), "key": random.integers(0, 4, rows), "by": random.integers(1, 4, rows)})


answers = ms.App("answers")
"""An overflow that only the answer meets: the transaction must leave no trace in its tables."""


@answers.event
class Ask:
    key: int
    other: int
    factor: int


@answers.table(key=int)
class Left:
    times: int = 1


@answers.table(key=int)
class Right:
    times: int = 1


@answers.on(Ask)
def ask(e):
    Left[e.key].times += 1
    Right[e.other].times += 1
    return {"product": Left[e.key].times * Right[e.other].times * e.factor}


def answers_log(rows: int = 400) -> pa.Table:
    random = np.random.default_rng(0)
    factor = np.where(np.arange(rows) % 97 == 96, 2**62, 3)
    keys, others = random.integers(0, 9, rows), random.integers(0, 9, rows)
    return pa.table({"ts": range(rows), "key": keys, "other": others, "factor": factor})
